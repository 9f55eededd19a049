"""shift_multiplier.hpp against the numpy unit and the vectors, with native integers and with ap_int."""

from __future__ import annotations

import ctypes
import functools
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import BUILDS, compiler, library
from shift_cases import DECODE, PRODUCTS, SEQUENCES, vector_format

from bfpga.devices import toolchain
from bfpga.devices.csim import Integers
from bfpga.engines.array.shift_unit import LATENCY, ShiftPipeline, ShiftUnit, ShiftUnitConfig, multiply
from bfpga.formats.logarithmic import with_mode_bit
from bfpga.formats.shift_format import ShiftFormat, SignMode, WeightMode, ZeroCode, ZeroScope
from bfpga.vendor.render import library_directory

_MODES: dict[int, Any] = {0: ("two_hot", "pow2"), 1: ("two_hot",), 2: ("pow2",)}


@dataclass(frozen=True)
class CppFormat:
    """One format of the list in tests/cpp/shift.cpp, as its parameters tell."""

    number: int
    config: ShiftUnitConfig
    repeats: bool  # it differs from an earlier one in what the numpy unit does not tell apart
    word_bits: int
    term_bits: int
    sum_bits: int

    @property
    def format(self) -> ShiftFormat:
        return self.config.format

    def modes(self) -> list[WeightMode]:
        return [mode for mode in WeightMode if self.config.built(mode)]


@functools.cache
def cpp_formats(integers: Integers = "native") -> list[CppFormat]:
    """All formats of the list."""
    formats: list[CppFormat] = []
    configs: set[ShiftUnitConfig] = set()
    values = (ctypes.c_int32 * 16)()
    while library("shift", integers).unit_shift_format(len(formats), values) == 0:
        xw, xs, ew, d, base, zero, sign, signed, scope, modes, runtime_d, in_word, acc, word, term, total = values
        fmt = ShiftFormat(
            xw, bool(xs), ew, d, base, get_args(ZeroCode)[zero], get_args(SignMode)[sign], bool(signed),
            get_args(ZeroScope)[scope],
        )  # fmt: skip
        config = ShiftUnitConfig(
            fmt, _MODES[modes], "word" if in_word else "register", bool(runtime_d), acc_width=acc, acc_overflow="wrap"
        )
        formats.append(CppFormat(len(formats), config, config in configs, word, term, total))
        configs.add(config)
    return formats


def find(integers: Integers, **wanted: Any) -> CppFormat:
    """The first format of the list with these parameters of the unit or of its format."""
    for each in cpp_formats(integers):
        if all(getattr(each.config, name, getattr(each.format, name, None)) == value for name, value in wanted.items()):
            return each
    raise AssertionError(f"tests/cpp/shift.cpp has no format with {wanted}")


def pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def cpp_products(
    integers: Integers, each: CppFormat, mode: WeightMode, x: npt.ArrayLike, words: npt.ArrayLike, d: int | None = None
) -> npt.NDArray[np.int64]:
    """A, B, C and the two signed products (5, activations, words)."""
    operand, word = np.array(x, np.int32), np.array(words, np.int32)
    result = np.empty((operand.size, word.size, 5), np.int64)
    distance = each.format.d if d is None else d
    arguments = (int(mode), distance, operand.size, pointer(operand), word.size, pointer(word), pointer(result))
    assert library("shift", integers).unit_shift_products(each.number, *arguments) == 0
    return np.moveaxis(result, 2, 0)


def numpy_products(
    each: CppFormat, mode: WeightMode, x: npt.ArrayLike, words: npt.ArrayLike, d: int | None = None
) -> npt.NDArray[np.int64]:
    """The same by the numpy unit."""
    products = multiply(each.config.layer_format(d), np.asarray(x)[:, None], words, mode)
    return np.stack(np.broadcast_arrays(products.a, products.b, products.c, *products.signed(mode)))


def cpp_sequence(
    integers: Integers, number: int, initial: int, beats: list[tuple[int, int, int, int, int]]
) -> npt.NDArray[np.int64]:
    """q0, q1 and their sum after each clock (beats + 3, 3). beats: (mode, d, clear, x, word)."""
    columns = [np.array(column, np.int32) for column in zip(*beats, strict=True)]
    result = np.empty((len(beats) + LATENCY, 3), np.int64)
    pointers = (*(pointer(column) for column in columns), ctypes.c_int64(initial), pointer(result))
    assert library("shift", integers).unit_shift_sequence(number, len(beats), *pointers) == 0
    return result


SWEPT = [(ew, d) for ew in (1, 2, 3, 4) for d in (0, 1, 4)]
#: The formats at the beginning of the list, in its order.
EXHAUSTIVE: dict[Integers, list[tuple[int, int, str]]] = {
    "native": [(ew, d, zero) for ew, d in SWEPT for zero in get_args(ZeroCode)],
    "ap_int": [*((ew, d, "none") for ew, d in SWEPT), *((3, 0, zero) for zero in get_args(ZeroCode)[1:])],
}


@pytest.mark.parametrize(
    ("integers", "exp_width", "d", "zero_code"),
    [(integers, *each) for integers in BUILDS for each in EXHAUSTIVE[integers]],
)
def test_every_word_times_every_activation(integers: Integers, exp_width: int, d: int, zero_code: str) -> None:
    """SM R7-R9, SM R11-R13, SM R21: all words, all activations of 8 bits, both modes"""
    each = find(integers, exp_width=exp_width, d=d, zero_code=zero_code)
    assert each.word_bits == each.format.word_bits
    x, words = np.arange(-128, 128), np.arange(1 << each.word_bits)
    for mode in WeightMode:
        np.testing.assert_array_equal(
            cpp_products(integers, each, mode, x, words), numpy_products(each, mode, x, words)
        )


#: The formats of the list after the exhaustive ones, by their names there.
SPECIAL = [
    "FourBitWord", "FarTerm", "Unsigned", "BaseFour", "AbsoluteSigns", "AbsoluteNative", "PositiveWeights",
    "PositiveFlag", "ZeroEverywhere", "ZeroInPow2", "DistanceRegister", "TwoHotOnly", "Pow2Only", "ModeInWord",
    "SecondDisabled", "Narrow", "TooNarrow", "NarrowerThanProducts", "Widest", "Narrowest", "WideSum", "WideProduct",
]  # fmt: skip


def special(name: str, integers: Integers = "native") -> CppFormat:
    """A format by its name in tests/cpp/shift.cpp."""
    formats = cpp_formats(integers)
    assert len(formats) == len(EXHAUSTIVE[integers]) + len(SPECIAL)
    return formats[len(EXHAUSTIVE[integers]) + SPECIAL.index(name)]


def activations(rng: random.Random, fmt: ShiftFormat, count: int) -> list[int]:
    """The extremes, and random ones."""
    return [fmt.x_min, fmt.x_max, 0, 1, *(rng.randint(fmt.x_min, fmt.x_max) for _ in range(count))]


def layer_distances(each: CppFormat) -> list[int]:
    return list(range(each.format.d + 1)) if each.config.runtime_d else [each.format.d]


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("integers", BUILDS)
def test_products_of_other_builds(integers: Integers, name: str) -> None:
    """SM R1, SM R6, SM R9, SM R10, SM R14, SM R16: other widths, bases, signs, scopes of the zero code, run-time d"""
    each, rng = special(name, integers), random.Random(name)
    x = activations(rng, each.format, 20)
    words = np.arange(1 << each.format.word_bits)
    for mode in each.modes():
        for d in layer_distances(each):
            ours = cpp_products(integers, each, mode, x, words, d)
            np.testing.assert_array_equal(ours, numpy_products(each, mode, x, words, d))


@pytest.mark.parametrize("name", [*SPECIAL, "exhaustive"])
def test_widths_are_those_of_the_format(name: str) -> None:
    """SM R2, SM R4, SM R7, SM R8, SM R11: registers of both sides have the same widths, and no product leaves them"""
    for each in [special(name)] if name in SPECIAL else cpp_formats()[: len(EXHAUSTIVE["native"])]:
        assert each.word_bits == each.config.word_bits
        assert (each.term_bits, each.sum_bits) == (each.format.term_bits, each.format.sum_bits)
        words = np.arange(1 << each.format.word_bits)
        for mode in each.modes():
            a, b, c, _, _ = numpy_products(each, mode, [each.format.x_min, each.format.x_max], words)
            for product, bits in ((a, each.term_bits), (b, each.sum_bits), (c, each.term_bits)):
                assert -(1 << (bits - 1)) <= product.min() <= product.max() < 1 << (bits - 1)


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case["id"])
def test_product_vectors(case: dict[str, Any], integers: Integers) -> None:
    """SM R1, SM R7-R9, SM R11-R14, SM R21"""
    each = find(integers, format=vector_format(case["format"]))
    two_hot, pow2 = case["two_hot"], case["pow2"]
    found = cpp_products(integers, each, WeightMode.TWO_HOT, [case["x"]], [case["word"]]).reshape(-1)
    assert found.tolist() == [two_hot["A"], two_hot["B"], two_hot["C"], two_hot["product"], 0]
    found = cpp_products(integers, each, WeightMode.POW2, [case["x"]], [case["word"]]).reshape(-1)
    assert [found[0], found[2], *found[3:]] == [pow2["A"], pow2["C"], *pow2["products"]]


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("table", DECODE, ids=lambda table: str(vector_format(table["format"])))
def test_decoding_vectors(table: dict[str, Any], integers: Integers) -> None:
    """SM R2, SM R5, SM R36: every word, as the product with one"""
    each, words = find(integers, format=vector_format(table["format"])), [code["code"] for code in table["codes"]]
    two_hot = cpp_products(integers, each, WeightMode.TWO_HOT, [1], words)
    assert two_hot[3].reshape(-1).tolist() == [code["two_hot"] for code in table["codes"]]
    pow2 = cpp_products(integers, each, WeightMode.POW2, [1], words)
    assert pow2[3:, 0].T.tolist() == [code["pow2"] for code in table["codes"]]


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence["id"])
def test_sequence_vectors(sequence: dict[str, Any], integers: Integers) -> None:
    """SM R3, SM R17, SM R18, SM R20, SM R22, SM R23, SM R26, SM R27: the state after each beat, in its third clock"""
    each, beats = find(integers, format=vector_format(sequence["format"]), accumulator_bits=32), sequence["beats"]
    found = cpp_sequence(
        integers, each.number, sequence["init"], [(b["cfg"], each.format.d, 0, b["x"], b["word"]) for b in beats]
    )
    assert found[LATENCY - 1 : -1, :2].tolist() == [beat["acc"] for beat in beats]
    assert found[-1].tolist() == [*sequence["final"], sequence["sum"]]


@pytest.mark.parametrize("integers", BUILDS)
def test_worst_case_needs_23_bits(integers: Integers) -> None:
    """SM R24: 64 times the largest product fit 23 bits and wrap in 22, as the numpy unit says"""
    [worst] = [sequence for sequence in SEQUENCES if sequence["id"] == "worst_case"]
    beats = [(beat["cfg"], 0, 0, beat["x"], beat["word"]) for beat in worst["beats"]]
    narrow, too_narrow = (special(name, integers) for name in ("Narrow", "TooNarrow"))
    assert narrow.config.accumulator_bits == 23 == narrow.format.accumulator_bits(64)
    assert cpp_sequence(integers, narrow.number, 0, beats)[-1, 0] == worst["final"][0] == 1 << 21
    assert cpp_sequence(integers, too_narrow.number, 0, beats)[-1, 0] == -(1 << 21)


def random_beats(rng: random.Random, each: CppFormat, count: int) -> list[tuple[int, int, int, int, int]]:
    """Layers of random modes and distances that follow each other without a gap, and some dot products inside."""
    beats: list[tuple[int, int, int, int, int]] = []
    while len(beats) < count:
        mode, d = rng.choice(each.modes()), rng.choice(layer_distances(each))
        for _ in range(rng.randint(1, 12)):
            word, x = rng.getrandbits(each.format.word_bits), rng.choice(activations(rng, each.format, 4))
            beats.append((int(mode), d, int(rng.random() < 0.1), x, word))
    return beats


def numpy_clocks(each: CppFormat, initial: int, beats: list[tuple[int, int, int, int, int]]) -> list[list[int]]:
    """q0, q1 and their sum after each clock of the numpy pipeline."""
    values = {name: getattr(each.config, name) for name in each.config.__dataclass_fields__}
    unit = ShiftUnit(ShiftUnitConfig(**{**values, "acc_init": initial}))
    pipeline, states = ShiftPipeline(unit), []
    for n in range(len(beats) + LATENCY):
        accepted = None
        if n < len(beats):
            mode, d, clear, x, word = beats[n]
            if each.config.mode_scope == "register":
                unit.mode = WeightMode(mode)
            if each.config.runtime_d:
                unit.d = d
            accepted = unit.accept(x, scoped_word(each, mode, word), bool(clear))
        pipeline.clock(accepted)
        states.append([*unit.accumulators, sum(unit.accumulators)])
    return states


def scoped_word(each: CppFormat, mode: int, word: int) -> int:
    """The word with its mode bit, if the build reads the mode there."""
    return int(with_mode_bit(word, each.format, WeightMode(mode))) if each.config.mode_scope == "word" else word


@pytest.mark.parametrize(
    ("integers", "name"),
    [(integers, name) for integers in BUILDS for name in (*SPECIAL, *range(0, len(EXHAUSTIVE[integers]), 5))],
)
def test_random_sequences_clock_by_clock(integers: Integers, name: str | int) -> None:
    """SM R3, SM R4, SM R10, SM R16, SM R20, SM R22-R24, SM R27-R30: mode switches and clears, every clock"""
    each = special(name, integers) if isinstance(name, str) else cpp_formats(integers)[name]
    rng = random.Random(str(name))
    initial = rng.choice((0, rng.randint(-100, 100)))
    beats = random_beats(rng, each, 150)
    words = [(mode, d, clear, x, scoped_word(each, mode, word)) for mode, d, clear, x, word in beats]
    assert cpp_sequence(integers, each.number, initial, words).tolist() == numpy_clocks(each, initial, beats)


@pytest.mark.parametrize("integers", BUILDS)
def test_a_beat_is_in_the_accumulators_after_its_third_clock(integers: Integers) -> None:
    """SM R29"""
    states = cpp_sequence(integers, find(integers, d=0, exp_width=3, zero_code="none").number, 7, [(0, 0, 0, 5, 0x31)])
    assert LATENCY == 3
    assert states[:, 0].tolist() == [7, 7, 57, 57]


@pytest.mark.parametrize("integers", BUILDS)
def test_routing_alternatives_give_equal_results(integers: Integers) -> None:
    """SM R19: a zero for accumulator 1, or accumulator 1 disabled"""
    twin = special("SecondDisabled", integers)
    selected = next(each for each in cpp_formats(integers) if each.config == twin.config)
    assert twin.repeats
    assert selected.number != twin.number
    beats = random_beats(random.Random(5), twin, 400)
    found = [cpp_sequence(integers, each.number, 9, beats) for each in (selected, twin)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("integers", BUILDS)
def test_mode_of_the_register_and_mode_of_the_word_give_equal_results(integers: Integers) -> None:
    """SM R4"""
    in_word = special("ModeInWord", integers)
    register = find(integers, format=in_word.format, mode_scope="register", accumulator_bits=32)
    beats = random_beats(random.Random(6), register, 400)
    # The register of the other build holds the wrong mode: it must not be looked at.
    tagged = [(1 - mode, d, clear, x, scoped_word(in_word, mode, word)) for mode, d, clear, x, word in beats]
    np.testing.assert_array_equal(
        cpp_sequence(integers, register.number, 0, beats), cpp_sequence(integers, in_word.number, 0, tagged)
    )


ILLEGAL = {
    "x_width = 17": "activations have 2 to 16 bits",
    "exp_width = 5": "exponents have 1 to 4 bits",
    "d = 16": "term 1 is shifted by 0 to 15 places",
    "base_log2 = 3": "the base of the exponents is 2 or 4",
    "weight_signed = false": "cannot mean zero in a build without sign bits",
    "accumulator_bits = 64": "accumulators have 2 to 63 bits",
}


@pytest.mark.parametrize("assignment", ILLEGAL)
def test_illegal_numbers_do_not_compile_and_say_why(assignment: str, tmp_path: Path) -> None:
    """SM R1, SM R6, SM R14"""
    kind = "bool" if "false" in assignment else "int"
    source = tmp_path / "unit.cpp"
    source.write_text(
        '#include "bfpga/array/shift_multiplier.hpp"\n'
        f"struct Illegal : bfpga::ShiftDefaults {{ static constexpr {kind} {assignment}; }};\n"
        "template struct bfpga::ShiftTypes<Illegal>;\n"
    )
    flags = [*toolchain.WARNINGS, "-fsyntax-only", "-DBFPGA_NATIVE_INTEGERS", "-I", str(library_directory())]
    result = subprocess.run([compiler(), *flags, str(source)], capture_output=True, text=True, check=False)
    assert ILLEGAL[assignment] in result.stderr
