"""The numpy shift multiplier unit: vectors, exhaustive products, sequences, builds, register levels."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from shift_cases import DECODE, PRODUCTS, SEQUENCES, reference_values, vector_format
from shift_strategies import shift_formats

from bfpga.engines.array.shift_unit import (
    INITIATION_INTERVAL,
    LATENCY,
    Beat,
    ShiftPipeline,
    ShiftUnit,
    ShiftUnitConfig,
    cycles,
    dot,
    multiply,
    run,
)
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.logarithmic import join_fields, with_mode_bit
from bfpga.formats.shift_format import ShiftFormat, WeightMode, ZeroCode

TWO_HOT, POW2 = WeightMode
#: Accumulators that no test of this file fills by accident.
WIDE = ShiftUnitConfig(acc_width=63, terms=1 << 20)


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case["id"])
def test_product_vectors(case: dict[str, Any]) -> None:
    """SM R1, SM R7-R9, SM R11-R14, SM R17, SM R21, SM R34: A, B, C and the signed results"""
    fmt = vector_format(case["format"])
    for mode, name in ((TWO_HOT, "two_hot"), (POW2, "pow2")):
        expected, products = case[name], multiply(fmt, case["x"], case["word"], mode)
        assert (int(products.a), int(products.c)) == (expected["A"], expected["C"])
        results = ShiftUnit(ShiftUnitConfig(fmt, accumulate=False))
        results.mode = mode
        found = results.beat(case["x"], case["word"])
        assert results.beat(case["x"], case["word"]) == found  # nothing accumulates
        if mode == TWO_HOT:
            assert int(products.b) == expected["B"]
            assert found == (expected["product"], 0)
        else:
            assert found == tuple(expected["products"])


@pytest.mark.parametrize("case", [case for case in PRODUCTS if case["format"]["D"] > 0], ids=lambda case: case["id"])
def test_product_vectors_with_the_distance_in_a_register(case: dict[str, Any]) -> None:
    """SM R10: the same results when D is written at run time"""
    unit = ShiftUnit(ShiftUnitConfig(replace(vector_format(case["format"]), d=15), runtime_d=True, accumulate=False))
    unit.d = case["format"]["D"]
    assert unit.beat(case["x"], case["word"]) == (case["two_hot"]["product"], 0)
    unit.mode = POW2
    assert unit.beat(case["x"], case["word"]) == tuple(case["pow2"]["products"])


@pytest.mark.parametrize("exp_width", [1, 2, 3, 4])
@pytest.mark.parametrize("d", [0, 1, 4])
@pytest.mark.parametrize("zero_code", get_args(ZeroCode))
def test_every_word_times_every_activation(exp_width: int, d: int, zero_code: ZeroCode) -> None:
    """SM R11-R13, SM R34: shifts and adders give weight times activation, for all of both"""
    fmt = ShiftFormat(exp_width=exp_width, d=d, zero_code=zero_code)
    words, x = np.arange(1 << fmt.word_bits), np.arange(-128, 128)[:, None]
    weights, pairs = zip(*(reference_values(fmt, word) for word in words.tolist()), strict=True)
    a, c = np.array(pairs).T
    product0, product1 = multiply(fmt, x, words, TWO_HOT).signed(TWO_HOT)
    np.testing.assert_array_equal(product0, x * np.array(weights))
    assert not product1.any()
    product0, product1 = multiply(fmt, x, words, POW2).signed(POW2)
    np.testing.assert_array_equal(product0, x * a)
    np.testing.assert_array_equal(product1, x * c)


@given(fmt=shift_formats(), data=st.data())
def test_products_of_any_format_are_weight_times_activation(fmt: ShiftFormat, data: st.DataObject) -> None:
    """SM R1, SM R6, SM R9, SM R14, SM R16: any width, base, sign mode, signed or not, in builds of one mode"""
    word = data.draw(st.integers(0, (1 << fmt.word_bits) - 1))
    x = data.draw(st.integers(fmt.x_min, fmt.x_max))
    two_hot, (a, c) = reference_values(fmt, word)
    assert ShiftUnit(ShiftUnitConfig(fmt, modes=("two_hot",), accumulate=False)).beat(x, word) == (x * two_hot, 0)
    assert ShiftUnit(ShiftUnitConfig(fmt, modes=("pow2",), accumulate=False)).beat(x, word) == (x * a, x * c)


@pytest.mark.parametrize("table", DECODE, ids=lambda table: str(vector_format(table["format"])))
def test_decoding_vectors_as_products_with_one(table: dict[str, Any]) -> None:
    """SM R2, SM R5"""
    fmt, words = vector_format(table["format"]), [code["code"] for code in table["codes"]]
    assert multiply(fmt, 1, words, TWO_HOT).signed(TWO_HOT)[0].tolist() == [code["two_hot"] for code in table["codes"]]
    pairs = np.stack(multiply(fmt, 1, words, POW2).signed(POW2), axis=1)
    assert pairs.tolist() == [code["pow2"] for code in table["codes"]]


@pytest.mark.parametrize("scope", ["register", "word"])
@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence["id"])
def test_sequence_vectors(sequence: dict[str, Any], scope: Any) -> None:
    """SM R3, SM R4, SM R17, SM R18, SM R20, SM R22, SM R23, SM R25-R27: both builds, the state after every beat"""
    fmt = vector_format(sequence["format"])
    unit = ShiftUnit(ShiftUnitConfig(fmt, mode_scope=scope, acc_init=sequence["init"], final_add=True))
    for beat in sequence["beats"]:
        mode, word = WeightMode(beat["cfg"]), beat["word"]
        if scope == "register":
            unit.mode = mode
        else:
            word = int(with_mode_bit(word, fmt, mode))
        assert list(unit.beat(beat["x"], word)) == beat["acc"]
    assert list(unit.accumulators) == sequence["final"]
    assert sum(unit.accumulators) == sequence["sum"]
    # The final adder is one of power-of-two mode: two-hot products are in accumulator 0 alone.
    assert unit.result() == (sequence["sum"] if sequence["beats"][-1]["cfg"] else sequence["final"][0])


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence["id"])
def test_sequence_vectors_at_once(sequence: dict[str, Any]) -> None:
    """SM R34: the vectorised sequence"""
    config = ShiftUnitConfig(vector_format(sequence["format"]), acc_init=sequence["init"])
    modes, x, words = ([beat[key] for beat in sequence["beats"]] for key in ("cfg", "x", "word"))
    assert run(config, modes, x, words).tolist() == [beat["acc"] for beat in sequence["beats"]]


def random_sequence(rng: random.Random, fmt: ShiftFormat, count: int) -> list[Beat]:
    beats: list[Beat] = []
    while len(beats) < count:
        mode = WeightMode(rng.randrange(2))
        beats += [
            Beat(rng.randint(fmt.x_min, fmt.x_max), rng.getrandbits(fmt.word_bits), mode, fmt.d, rng.random() < 0.1)
            for _ in range(rng.randint(1, 9))
        ]
    return beats


@settings(max_examples=40)
@given(fmt=shift_formats(), seed=st.integers(0, 1 << 30), width=st.integers(2, 63), initial=st.integers(-2, 1))
def test_all_three_models_agree(fmt: ShiftFormat, seed: int, width: int, initial: int) -> None:
    """SM R22, SM R24, SM R27-R30, SM R34: beat by beat, clock by clock, all at once, with accumulators that wrap"""
    config = ShiftUnitConfig(fmt, acc_width=width, acc_init=initial, acc_overflow="wrap")
    beats = random_sequence(random.Random(seed), fmt, 40)
    columns = [[getattr(beat, name) for beat in beats] for name in ("mode", "x", "word", "clear")]
    expected = run(config, *columns).tolist()
    unit, clocked = ShiftUnit(config), ShiftUnit(config)
    pipeline, states, clocks = ShiftPipeline(clocked), [], []
    for beat in beats:
        unit.mode = beat.mode
        states.append(list(unit.beat(beat.x, beat.word, beat.clear)))
    for accepted in [*beats, *[None] * (LATENCY - 1)]:
        pipeline.clock(accepted)
        clocks.append(list(clocked.accumulators))
    assert states == expected
    assert clocks[LATENCY - 1 :] == expected


def exact_accumulators(config: ShiftUnitConfig, beats: list[Beat]) -> list[int]:
    """Accumulators after beats by the sentences of SM R20, R22, R27 and R28, in Python's integers."""
    sums, last = [config.acc_init, config.acc_init], None
    for beat in beats:
        if beat.clear or (last is not None and beat.mode != last):
            sums = [config.acc_init, config.acc_init]
        last = beat.mode
        two_hot, (a, c) = reference_values(config.format, beat.word)
        sums[0] += beat.x * (two_hot if beat.mode == TWO_HOT else a)
        sums[1] += beat.x * c if beat.mode == POW2 else 0
    return sums


@settings(max_examples=40)
@given(fmt=shift_formats(), seed=st.integers(0, 1 << 30), initial=st.integers(-1000, 1000))
def test_sequences_equal_exact_sums(fmt: ShiftFormat, seed: int, initial: int) -> None:
    """SM R20, SM R22, SM R23, SM R25, SM R27, SM R28"""
    try:
        config = ShiftUnitConfig(fmt, acc_width=None, terms=40, acc_init=initial, acc_overflow="refuse")
    except ConfigurationError:  # the widest products leave no room for 40 of them in 63 bits (SM R24)
        reject()
    beats = random_sequence(random.Random(seed), fmt, 25)
    columns = [[getattr(beat, name) for beat in beats] for name in ("mode", "x", "word", "clear")]
    assert run(config, *columns)[-1].tolist() == exact_accumulators(config, beats)


def test_clear_begins_a_new_dot_product() -> None:
    """SM R28: two dot products back to back"""
    unit = ShiftUnit(ShiftUnitConfig(ShiftFormat(d=0), acc_init=3))
    assert unit.beat(5, 0x31, clear=True) == (53, 3)
    assert unit.beat(5, 0x31) == (103, 3)
    assert unit.beat(5, 0x31, clear=True) == (53, 3)


def test_the_first_beat_is_no_change_of_mode() -> None:
    """SM R27: after power-up the last mode is undefined"""
    unit = ShiftUnit(ShiftUnitConfig(ShiftFormat(d=0, zero_code="none"), acc_init=-4))
    for mode in WeightMode:
        unit.reset()
        unit.mode = mode
        unit.beat(1, 0)
        assert unit.accumulators == ((-2, -4) if mode == TWO_HOT else (-3, -3))


def test_three_register_levels_and_a_beat_every_clock() -> None:
    """SM R29, SM R31"""
    unit = ShiftUnit(ShiftUnitConfig(ShiftFormat(d=0)))
    pipeline = ShiftPipeline(unit)
    seen = []
    for beat in [unit.accept(5, 0x31), unit.accept(1, 0x60), None, None]:
        pipeline.clock(beat)
        seen.append(unit.accumulators[0])
    assert seen == [0, 0, 50, 115]
    assert (LATENCY, INITIATION_INTERVAL) == (3, 1)


def test_products_in_flight_keep_their_mode_and_distance() -> None:
    """SM R10, SM R30: the registers change while beats of the layer before are in the pipeline"""
    unit = ShiftUnit(ShiftUnitConfig(ShiftFormat(d=4), runtime_d=True))
    pipeline = ShiftPipeline(unit)
    pipeline.clock(unit.accept(3, 0x21))
    unit.mode, unit.d = POW2, 0
    pipeline.clock(unit.accept(3, 0x21))
    pipeline.clock()
    assert unit.accumulators == (3 * (4 + (2 << 4)), 0)
    pipeline.clock()
    assert unit.accumulators == (3 * 4, 3 * 2)


def test_throughput_of_the_modes() -> None:
    """SM R31: one product a unit and clock, or two"""
    for units, products in ((16, 1 << 20), (64, 1 << 20)):
        assert cycles(products, units, TWO_HOT) == 2 * cycles(products, units, POW2) == products // units
    assert (cycles(33, 16, TWO_HOT), cycles(33, 16, POW2), cycles(0, 16, POW2)) == (3, 2, 0)


def test_dot_products_equal_matrix_products() -> None:
    """SM R26, SM R32, SM R34: one x for many units, in both modes, with the final adder and without"""
    rng, fmt = np.random.default_rng(3), ShiftFormat(d=4)
    x, words = rng.integers(-128, 128, (7, 1, 100)), rng.integers(0, 256, (5, 100))
    weights = np.array([[reference_values(fmt, word) for word in row] for row in words.tolist()], object)
    two_hot, pairs = weights[..., 0].astype(np.int64), np.array(weights[..., 1].tolist())
    config = ShiftUnitConfig(fmt)
    np.testing.assert_array_equal(dot(config, TWO_HOT, x, words), x[:, 0] @ two_hot.T)
    both = dot(config, POW2, x, words)
    np.testing.assert_array_equal(both, np.stack([x[:, 0] @ pairs[..., k].T for k in (0, 1)], axis=-1))
    added = dot(replace(config, final_add=True), POW2, x, words)
    np.testing.assert_array_equal(added, both.sum(axis=-1))


def test_final_adder_gives_two_hot_products_with_absolute_signs() -> None:
    """SM R26: x * (w_A + w_C)"""
    absolute = ShiftUnitConfig(ShiftFormat(d=0, sign_mode="absolute", zero_code="none"), final_add=True)
    words, x = np.arange(256)[:, None], np.full((1, 1), -77)
    np.testing.assert_array_equal(dot(absolute, POW2, x, words), dot(absolute, TWO_HOT, x, words))


@pytest.mark.parametrize(
    ("exp_width", "d", "bits"), [(3, 0, 27), (3, 4, 30), (3, 8, 34), (1, 2, None), (2, 4, None), (4, 0, None)]
)
def test_width_of_the_accumulators(exp_width: int, d: int, bits: int | None) -> None:
    """SM R24: the figures of SM for 1024 terms; the width holds the extremes and one bit less does not"""
    fmt = ShiftFormat(exp_width=exp_width, d=d)
    needed = ShiftUnitConfig(fmt, acc_width=None).accumulator_bits
    assert bits in (None, needed)
    e = fmt.exp_max
    largest = int(join_fields((1 << exp_width) | e, e, fmt))  # -(2^e + 2^(e+d)), times -128
    x, words = np.full(1024, -128), np.full(1024, largest)
    extreme = 1024 * 128 * ((1 << e) + (1 << (e + d)))
    assert dot(ShiftUnitConfig(fmt, acc_width=None), TWO_HOT, x, words) == extreme
    narrow = ShiftUnitConfig(fmt, acc_width=needed - 1, acc_overflow="wrap")
    assert dot(narrow, TWO_HOT, x, words) == extreme - (1 << (needed - 1))
    assert ShiftUnitConfig(fmt, modes=("pow2",), acc_width=None).accumulator_bits == 19 + e


def test_worst_case_vector_needs_23_bits() -> None:
    """SM R24: 64 terms; a smaller width is refused unless wrapping is wanted"""
    assert ShiftUnitConfig(ShiftFormat(), terms=64, acc_width=23).needed_bits == 23
    with pytest.raises(ConfigurationError, match=r"64 terms need accumulators of 23 bits, acc_width is 22; .* wrap"):
        ShiftUnitConfig(ShiftFormat(), terms=64, acc_width=22)
    assert ShiftUnitConfig(ShiftFormat(), terms=64, acc_width=22, acc_overflow="wrap").accumulator_bits == 22


def test_more_terms_than_the_accumulators_are_made_for() -> None:
    """SM R24"""
    config = ShiftUnitConfig(ShiftFormat(), terms=4, acc_width=None)
    unit, message = ShiftUnit(config), "a dot product has 5 terms or more, the accumulators are made for 4"
    for _ in range(4):
        unit.beat(1, 0)
    with pytest.raises(DataError, match=message):
        unit.beat(1, 0)
    with pytest.raises(DataError, match=message):
        dot(config, TWO_HOT, np.zeros(5, int), np.zeros(5, int))
    with pytest.raises(DataError, match=message):
        run(config, np.zeros(9, int), 1, 1, [0, 0, 0, 0, 1, 0, 0, 0, 0])
    assert run(config, np.zeros(8, int), 1, 1, [0, 0, 0, 0, 1, 0, 0, 0]).shape == (8, 2)
    assert run(config, [], [], []).shape == (0, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": ()}, r"modes is \[\], it must be two_hot, pow2 or both"),
        ({"modes": ("pow2", "pow2")}, "it must be two_hot, pow2 or both"),
        ({"modes": ("pow3",)}, "it must be two_hot, pow2 or both"),
        ({"mode_scope": "layer"}, "mode_scope is 'layer', it must be register or word"),
        ({"acc_overflow": "clip"}, "acc_overflow is 'clip', it must be refuse or wrap"),
        ({"terms": 0}, "terms is 0, a dot product has one at least"),
        ({"acc_width": 1}, "accumulators of 1 bits; 2 to 63 are possible"),
        ({"acc_width": 64}, "accumulators of 64 bits; 2 to 63 are possible"),
        ({"acc_init": 1 << 31}, "acc_init 2147483648 does not fit accumulators of 32 bits"),
        ({"format": ShiftFormat(d=15)}, "1024 terms need accumulators of 41 bits, acc_width is 32"),
    ],
)
def test_builds_that_contradict_themselves_are_refused(options: dict[str, Any], message: str) -> None:
    """SM R16, SM R24"""
    with pytest.raises(ConfigurationError, match=message):
        ShiftUnitConfig(**options)


def test_operands_without_a_place_are_refused() -> None:
    """SM R1, SM R2"""
    config = ShiftUnitConfig(ShiftFormat())
    unit = ShiftUnit(config)
    for x, word, message in ((128, 0, "-128 to 127"), (-129, 0, "-128 to 127"), (0, 256, "8 bits"), (0, -1, "8 bits")):
        with pytest.raises(DataError, match=message):
            unit.beat(x, word)
        with pytest.raises(DataError, match=message):
            dot(config, TWO_HOT, [x], [word])
    with pytest.raises(DataError, match="activations are whole numbers, the data is float64"):
        dot(config, TWO_HOT, [0.5], [1])
    with pytest.raises(DataError, match="weight words are whole numbers, the data is float64"):
        dot(config, TWO_HOT, [1], [0.5])
    assert unit.accumulators == (0, 0)


def test_modes_and_distances_that_are_not_built_are_refused() -> None:
    """SM R10, SM R16"""
    config = ShiftUnitConfig(modes=("pow2",))
    unit = ShiftUnit(config)
    assert unit.mode == POW2
    with pytest.raises(ConfigurationError, match="mode two_hot is not built"):
        unit.mode = TWO_HOT
    with pytest.raises(ConfigurationError, match="mode two_hot is not built"):
        dot(config, TWO_HOT, [1], [1])
    with pytest.raises(ConfigurationError, match="mode two_hot is not built"):
        run(config, [1, 0], [1, 1], [1, 1])
    in_word = ShiftUnit(ShiftUnitConfig(modes=("two_hot",), mode_scope="word"))
    with pytest.raises(ConfigurationError, match="mode pow2 is not built"):
        in_word.beat(1, 256)
    with pytest.raises(ConfigurationError, match="d is 0 in this build, a layer cannot have 2"):
        unit.d = 2
    with pytest.raises(ConfigurationError, match="d is 5, this build shifts by 0 to 4"):
        ShiftUnit(ShiftUnitConfig(ShiftFormat(d=4), runtime_d=True)).d = 5
    with pytest.raises(ConfigurationError, match="the pipeline ends in accumulators"):
        ShiftPipeline(ShiftUnit(ShiftUnitConfig(accumulate=False)))
