"""Collector and rules of the kernel: exponents from the bits of a layer's results (docs/kernel-positions.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from array_layers import gemm, image, vector
from array_programs import Place, empty
from array_programs import Program as Handmade
from effort import drawn, each_once, some_of
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import SMALL, KernelPair
from position_cases import DETERMINE, case_values, expected_shift, wide_values
from position_programs import (
    POSITIONS,
    compiled,
    convolution,
    dynamic,
    emulated,
    everywhere,
    histograms,
    on_plain_integers,
    one_convolution,
    samples,
    scheduled,
)

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Function, LeadRule, Operation, Policy
from bfpga.contract.program import ArrayNode, BlockTensor, PolicySpec, Program, Window
from bfpga.devices.base import DeviceResult
from bfpga.formats.block_format import Status
from bfpga.formats.position_rules import PositionRule

RULES = st.builds(
    PositionRule, rule=st.sampled_from(["max", "rate", "lsb", "window"]), rate_log2=st.integers(0, 14),
    margin=st.sampled_from([0, 0, 1, 2, 15]), shift_min=st.just(-8), shift_max=st.just(31),
)  # fmt: skip


def spec_of(rule: PositionRule, **fields: Any) -> PolicySpec:
    return dynamic(rule=rule.rule, rate=rule.rate_log2, margin=rule.margin, **fields)


def values_program(
    values: list[int], policy: PolicySpec, config: KernelConfig = POSITIONS, products: bool = True, **fields: Any
) -> tuple[Program, dict[str, np.ndarray]]:
    """A layer whose accumulators with their biases are the given values, in units of 1: one channel for each.

    products: a part of each value is a sum of products, as far as mantissas reach; else all of it is bias.
    """
    rng, count = np.random.default_rng(len(values)), len(values)
    x = np.array([5, -128, 127, 33])
    high = (1 << config.bias_bits - 1) - 1
    weights = rng.integers(-127, 128, (count, 4)) if products else np.zeros((count, 4), int)
    rest = np.array(values) - weights @ x
    weights[(rest > high) | (rest < -high - 1)] = 0
    bias = (np.array(values) - weights @ x).astype(np.int32)
    node = gemm(weights, inputs=("t0",), policy=policy, bias=bias, **fields)
    program = scheduled(config, [vector("t0", 4, 0), vector("y", count)], [node])
    return program, {"t0": x[None].astype(np.float32)}


def exponent(result: DeviceResult, name: str = "y") -> int:
    return int(result.tensors[name].exponent[0])


# Rules


def found_at_once(margin: int) -> PolicySpec:
    return dynamic(rule="lead", margin=margin)


def learned(policy: Policy, margin: int, **fields: Any) -> PolicySpec:
    window = {Policy.ROLLING_MAX: 1, Policy.STATISTICS: 4}.get(policy, 0)
    return PolicySpec(policy, window=window, factor=12, margin=margin, **fields)


@pytest.mark.parametrize("policy", [found_at_once, partial(learned, Policy.STATISTICS)])
def test_a_margin_is_head_room_with_the_rule_lead_too(policy: Callable[[int], PolicySpec]) -> None:
    """FP R17: without a collector, which most accelerators do not have; of zeros there is no lead to raise."""
    plain = replace(POSITIONS, position_bins=0)
    without, raised = (one_convolution(policy(margin), plain, size=(9, 4)) for margin in (0, 3))
    one = samples(without, 1)["t0"]
    inputs = {"t0": np.repeat(one, 4, axis=0)}
    exponents = [everywhere(program, inputs).tensors["y"].exponent for program in (without, raised)]
    assert np.array_equal(exponents[0] + 3, exponents[1])
    zeros, _ = values_program([0] * 5, policy(3), plain, products=False)
    result = everywhere(zeros, {"t0": np.zeros((1, 4), np.float32)})
    assert exponent(result) == plain.format.exponent_min


@pytest.mark.parametrize("case", [case for case in DETERMINE if case["cfg"]["smax"] == 31], ids=lambda case: case["id"])
def test_vectors_of_rules_through_the_kernel(case: dict[str, Any]) -> None:
    """FP R10, R12, R17, R48: fixed_point_determine.json as accumulators of a layer; one unit is 2**0."""
    cfg = case["cfg"]
    policy = dynamic(rule=cfg["rule"], rate=cfg["rate_log2"], margin=cfg["margin"])
    program, inputs = values_program(case_values(case), policy)
    result = everywhere(program, inputs)
    assert exponent(result) == case["shift"]
    if "out" in case:
        assert result.tensors["y"].mantissa.reshape(-1).tolist() == case["out"]
    assert result.counters.overflows == case["saturated"]


@settings(deadline=None, max_examples=drawn(60))
@given(wide_values(31, min_size=1, max_size=40), RULES, st.booleans())
def test_rules_choose_the_shift_of_the_specification(values: list[int], rule: PositionRule, products: bool) -> None:
    """FP R10, R17, R48: rules as sentences, found by trying shifts, without row exponents."""
    program, inputs = values_program(values, spec_of(rule), products=products)
    expected = expected_shift(values, rule, 8)
    assert exponent(emulated(program, inputs)) == expected
    assert exponent(on_plain_integers(program, inputs)) == expected


@settings(deadline=None, max_examples=drawn(30))
@given(wide_values(31, min_size=1, max_size=25), RULES)
def test_the_compiled_kernel_chooses_the_shift_of_the_specification(values: list[int], rule: PositionRule) -> None:
    """FP R7, R10, R14, R17, R48."""
    program, inputs = values_program(values, spec_of(rule))
    assert exponent(compiled(program, inputs)) == expected_shift(values, rule, 8)


@pytest.mark.parametrize(
    ("values", "rule", "shift"),
    [
        ([0, 0], "max", 0),
        ([-1, -1, 0], "rate", 0),
        ([-1], "lsb", 0),
        ([-1], "window", 0),
        ([-128], "max", 0),
        ([-129], "max", 1),
        ([128], "max", 1),
        ([-(1 << 20)], "max", 13),
        ([1 << 20], "max", 14),
        ([-(1 << 31)], "max", 24),
        ([(1 << 31) - 1, -(1 << 31)], "rate", 24),
        ([1 << 20], "lsb", 20),
        ([-(1 << 20)], "lsb", 20),
        ([1 << 20, 3], "lsb", 0),
        ([1 << 20, 3], "window", 14),
        ([1 << 7, 1 << 3], "window", 3),
        ([1], "max", -6),
        ([1], "rate", -6),
        ([-2], "rate", -6),
    ],
)  # fmt: skip
def test_rules_at_the_ends_of_twos_complement(values: list[int], rule: str, shift: int) -> None:
    """FP 2.2, 2.3, R17: -1 and 0 have no position, -2^k needs a bit less than 2^k."""
    program, inputs = values_program(values, dynamic(rule=rule))
    assert exponent(everywhere(program, inputs)) == shift


def test_values_beyond_the_bins_count_in_the_first_or_the_last_one() -> None:
    """FP R17: what lies above the last bin is as good as its top; what lies below the first one does not saturate."""
    values = [100] * 63 + [100_000]
    shifts = {}
    for base in (-200, -60, -20, -16, -8, 0, 4, 8, 40, 300):
        program, inputs = values_program(values, dynamic(rate=4, base=base))
        shifts[base] = exponent(everywhere(program, inputs))
    assert {shifts[base] for base in (-16, -8, 0, 4)} == {0}  # 100 has position 6; one in 16 may saturate
    assert {shifts[base] for base in (-200, -60)} == {10}  # all in the last bin: as rule max
    assert shifts[8] == 2  # nothing below position 8 can be told apart
    assert {shifts[base] for base in (40, 300)} == {10}


@pytest.mark.parametrize("bins", some_of([8, 11, 64], 8))
def test_any_number_of_bins_gives_the_bits_of_plain_integers(bins: int) -> None:
    """FP R17, R48."""
    config = replace(POSITIONS, position_bins=bins, accumulator_bits=33 if bins == 8 else 48)
    for base in (-12, 0, 9):
        program = one_convolution(dynamic(rate=3, base=base), config, size=(5, 4))
        everywhere(program, samples(program), kernel=bins != 11)


# What is collected


@pytest.mark.parametrize("products", [True, False])
def test_a_kernel_tells_what_its_collector_has_counted(products: bool) -> None:
    """FP R49, R10, R14: value by value, in Python's integers; the next layer's and sample's begin anew."""
    values = [0, -1, 1, -2, 3, 3, -4, 127, -128, 128, 1000, -70_000, (1 << 31) - 1, -(1 << 31)] + [9] * 300
    positions = Counter((v ^ v >> 63).bit_length() - 1 for v in values)
    del positions[-1]  # 0 and -1
    for rule in ("max", "rate", "lsb", "window"):
        program, inputs = values_program(values, dynamic(rule=rule), products=products)
        twice = {"t0": np.repeat(inputs["t0"], 2, axis=0)}
        for run in (compiled(program, twice), on_plain_integers(program, twice)):
            told = histograms(run)["layer"]
            assert told.values == 2 * len(values)
            assert told.counts == {position: 2 * count for position, count in positions.items()}
            assert told.without_bit == 4
    assert histograms(compiled(program, twice, trace=False)) == {}



FAR_APART = np.array([-30, 4, 0, -3, 9, -30, 1, 1, 0], np.int32)
#: Layers whose results are more than their sums: functions in every unit, and rows with exponents of their own.
RESULTS: list[dict[str, Any]] = [
    {"function": Function.RELU},
    {"function": Function.CLIP, "function_argument": 6, "function_exponent": 0},
    {"function": Function.HARD_SWISH, "weight_exponents": FAR_APART, "function_first": True},
    {"bias": None},
    {"weight_exponents": FAR_APART},
]


@pytest.mark.parametrize(("fields", "rule"), each_once(RESULTS, ["max", "rate", "lsb", "window"]))
def test_statistics_are_of_results_before_they_are_narrow(fields: dict[str, Any], rule: str) -> None:
    """FP R8, R10: after bias and function, with the exponents of the rows."""
    program = one_convolution(dynamic(rule=rule, rate=3, base=-12), size=(5, 4), **fields)
    everywhere(program, samples(program))


@pytest.mark.parametrize("kind", ["max", "sum"])
def test_maxima_and_sums_are_collected_too(kind: str) -> None:
    """FP R3, R10."""
    pooled = Window(2, 2, 2, 2, output_height=3, output_width=3)
    window = pooled if kind == "max" else Window(output_height=6, output_width=6)
    inputs = ("t0",) if kind == "max" else ("t0", "t0")
    for rule in ("max", "rate", "lsb"):
        node = ArrayNode("y", kind, inputs, "y", 7, window, policy=dynamic(rule=rule, rate=2, base=-5))
        size = window.output_height, window.output_width
        program = scheduled(POSITIONS, [image("t0", 6, 6, 7), image("y", *size, 7)], [node])
        everywhere(program, samples(program))


def test_each_layer_begins_with_an_empty_collector() -> None:
    """FP R15: two layers in a row, the first one large; and two samples in a row."""
    tensors = [image("t0", 6, 5, 4), image("a", 6, 5, 6), image("y", 6, 5, 3)]
    large = convolution(dynamic(rule="max"), "t0", "a", 4, 6, (6, 5), bias=np.full(6, 1 << 30, np.int32))
    little = convolution(
        dynamic(rule="max"), "a", "y", 6, 3, (6, 5), weight_exponents=np.full(3, -30, np.int32), bias=None
    )
    program = scheduled(POSITIONS, tensors, [large, little])
    result = everywhere(program, samples(program))
    assert (result.tensors["y"].exponent < result.tensors["a"].exponent - 10).all()


# Passes by hand


def add_passes(
    program: Handmade, x: Place, y: Place, phases: list[Flag], layer: dict[str, int], **fields: int
) -> None:
    """GEMMs over the whole of x, one for each set of flags."""
    bits = layer["flags"]
    for flags in phases:
        values = layer | {"flags": bits | flags, "policy": Policy.MAX, "policy_slot": 1} | fields
        program.compute(Operation.GEMM, x, y, **values)


RULED = {"lead_rule": LeadRule.RATE, "position_rate": 4, "position_base": -4, "bias_exponent": -6}
WHOLE = Flag.FIRST | Flag.LAST


def ruled_program(phases: list[Flag], preload: bool = False, **fields: int) -> tuple[Handmade, Place, Place]:
    program = Handmade(SMALL)
    x, y = program.tensor(3, 4, 4), program.tensor(3, 4, 6)
    weights = np.random.default_rng(7).integers(-127, 128, (6, 1, 1, 4))
    program.load("x", x)
    if preload:
        program.load("y", y)
    layer = program.weights(weights, np.arange(6) * 50, np.array([0, -1, 2, 0, 0, -3]))
    add_passes(program, x, y, phases, layer, **RULED | fields)
    program.store("y", y)
    return program, x, y


def place_values(x: Place, scale: int = 1, seed: int = 0) -> BlockTensor:
    rng = np.random.default_rng(seed)
    values = rng.integers(-127, 128, (1, x.height, x.width, x.channels)) // scale
    return BlockTensor(values.astype(np.int32), np.array([-5], np.int32))


def test_a_measuring_pass_writes_no_result() -> None:
    """FP R13: the converter is bypassed; memory and exponent register keep what they held."""
    program, x, y = ruled_program([Flag.MEASURE | Flag.FIRST], preload=True)
    before = place_values(y, seed=5)
    tensors = {"x": place_values(x), "y": BlockTensor(before.mantissa.copy(), before.exponent.copy())}
    KernelPair(SMALL).run(program, tensors)
    np.testing.assert_array_equal(tensors["y"].mantissa, before.mantissa)
    assert tensors["y"].exponent == before.exponent


def test_a_main_pass_leaves_the_statistics_unchanged() -> None:
    """FP R11: what little values have shown holds for any number of main passes over large ones."""
    pair, found = KernelPair(SMALL), []
    for passes in (1, 3):
        program = Handmade(SMALL)
        little, large, y = program.tensor(3, 4, 4), program.tensor(3, 4, 4), program.tensor(3, 4, 6)
        program.load("little", little)
        program.load("large", large)
        layer = program.weights(np.random.default_rng(7).integers(-127, 128, (6, 1, 1, 4)))
        add_passes(program, little, y, [Flag.MEASURE | Flag.FIRST], layer, **RULED)
        add_passes(program, large, y, [WHOLE] * passes, layer, **RULED)
        program.store("y", y)
        tensors = {"little": place_values(little, 64), "large": place_values(large), "y": empty(y)}
        pair.run(program, tensors)
        found.append(tensors["y"])
    assert found[0].exponent == found[1].exponent
    np.testing.assert_array_equal(found[0].mantissa, found[1].mantissa)


@pytest.mark.parametrize(("rule", "policy"), each_once(list(LeadRule), [Policy.ROLLING_MAX, Policy.FEEDBACK]))
def test_policies_learn_what_a_rule_makes_of_the_main_pass(rule: LeadRule, policy: Policy) -> None:
    """FP R21: over starts of different scales, measured once."""
    fields = {"lead_rule": rule, "policy": policy, "policy_window": 1, "policy_factor": 2}
    first, x, y = ruled_program([Flag.MEASURE | Flag.FIRST, WHOLE], **fields)
    later, _, _ = ruled_program([WHOLE], **fields)
    pair, exponents = KernelPair(SMALL), []
    for number, scale in enumerate((1, 1, 16, 16, 2, 1)):
        tensors = {"x": place_values(x, scale, number), "y": empty(y)}
        pair.run(later if number else first, tensors)
        exponents.append(int(tensors["y"].exponent[0]))
    assert len(set(exponents)) > 1 or rule == LeadRule.LSB  # odd values have their lowest bit at the unit


@pytest.mark.parametrize(("row", "status"), [(60, Status.EXPONENT_HIGH), (-60, Status.EXPONENT_LOW)])
def test_exponents_beyond_the_format_are_limited_with_a_status_bit(row: int, status: Status) -> None:
    """FP R17, R49; BFP R24: the rule's exponent is brought into the format's range."""
    config = replace(POSITIONS, format=replace(POSITIONS.format, exponent_bits=5))
    node = convolution(dynamic(rule="max"), size=(5, 4), weight_exponents=np.full(9, row, np.int32), bias=None)
    program = scheduled(config, [image("t0", 5, 4, 5, -3), image("y", 5, 4, 9)], [node])
    result = everywhere(program, samples(program), kernel=False)
    assert result.counters.status & status
    assert set(result.tensors["y"].exponent.tolist()) == {15 if row > 0 else -16}


def test_the_expected_position_is_only_a_label() -> None:
    """FP R18, R19: what stands in the exponent's field while results are measured changes no bit."""
    found = []
    for guess in (-20, 0, 13):
        program = one_convolution(dynamic(rate=4, base=-6, exponent=guess), size=(5, 4))
        found.append(everywhere(program, samples(program), kernel=False).tensors["y"])
    for tensor in found[1:]:
        np.testing.assert_array_equal(tensor.mantissa, found[0].mantissa)
        np.testing.assert_array_equal(tensor.exponent, found[0].exponent)


@pytest.mark.parametrize(
    ("rounding", "saturation"), each_once(["trunc", "tozero", "half_up", "half_away", "rne"], ["sym", "full", "wrap"])
)
def test_results_are_those_of_the_chosen_exponent_in_every_format(rounding: str, saturation: str) -> None:
    """FP R12: shift, rounding, saturation and its count."""
    form = replace(POSITIONS.format, rounding=rounding, saturation=saturation)  # type: ignore[arg-type]
    program = one_convolution(dynamic(rate=2, base=-6), replace(POSITIONS, format=form), size=(5, 4))
    result = everywhere(program, samples(program), kernel=False)
    assert result.counters.overflows > 0
