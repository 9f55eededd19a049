"""numeric.hpp, types.hpp and multiplier.hpp against exact integers: native integers, ap_int and those of clang."""

from __future__ import annotations

import ctypes
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cpp_units import BUILDS, library
from reference import leading_position, load_vectors, packed_dot, reference_mantissa, vector_format
from reference import shift as exact_shift

from bfpga.devices.csim import Integers
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.rounding import shift_to_bits

KINDS: tuple[Integers, ...] = (*BUILDS, "exact")
ROUNDINGS = ("trunc", "tozero", "half_up", "half_away", "rne")
SATURATIONS = ("sym", "full", "wrap")
#: Mantissa bits of an instantiation -> accumulator bits.
WIDTHS: dict[Integers, dict[int, int]] = {
    "native": {4: 10, 7: 20, 8: 58, 12: 48, 16: 58, 18: 58},
    "ap_int": {4: 10, 8: 58, 16: 58},
    "exact": {4: 10, 8: 58, 16: 58},
}
INSTANTIATIONS = [(integers, bits) for integers in KINDS for bits in WIDTHS[integers]]


#: The vectors' examples at the distances of the tiles.
PACKED = [case for case in load_vectors("bfp_dsp_packing.json")["examples"] if case["shift"] in (17, 18)]


class _Cases(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("value", "distance", "result", "overflow", "underflow")),
    )


def integers_of(rng: random.Random, bits: int, count: int) -> list[int]:
    """Signed integers of ``bits`` bits: all magnitudes, beside powers of two, and the extremes."""
    largest = (1 << (bits - 1)) - 1
    numbers = [0, 1, -1, largest, -largest, -largest - 1]
    while len(numbers) < count:
        size = rng.randrange(bits)
        number = rng.getrandbits(size) if rng.random() < 0.6 else (1 << size) + rng.randint(-1, 1)
        numbers.append(max(-largest - 1, min(largest, rng.choice((1, -1)) * number)))
    return numbers


def requantize(
    integers: Integers, fmt: BlockFormat, values: Any, distances: Any
) -> tuple[list[int], list[bool], list[bool]]:
    """Mantissas, overflows and underflows the C++ requantizer makes of values * 2**-distances."""
    value = np.ascontiguousarray(values, np.int64)
    distance = np.ascontiguousarray(distances, np.int32)
    result, overflow, underflow = np.empty(value.size, np.int64), *np.empty((2, value.size), np.uint8)
    arrays = (value, distance, result, overflow, underflow)
    cases = _Cases(value.size, *(array.ctypes.data for array in arrays))
    modes = ROUNDINGS.index(fmt.rounding), SATURATIONS.index(fmt.saturation)
    assert library("arithmetic", integers).unit_requantize(fmt.mantissa_bits, *modes, ctypes.byref(cases)) == 0
    return result.tolist(), (overflow != 0).tolist(), (underflow != 0).tolist()


@pytest.mark.parametrize("saturation", SATURATIONS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("integers", "bits"), INSTANTIATIONS)
def test_requantizer_equals_exact_arithmetic(integers: Integers, bits: int, rounding: Any, saturation: Any) -> None:
    """R16, R17, R22: any value, any distance."""
    rng, fmt = random.Random(bits), BlockFormat(bits, 8, rounding, saturation)
    values = integers_of(rng, WIDTHS[integers][bits], 150)
    distances = [rng.choice((rng.randint(-20, 70), rng.randint(-8, 60), rng.randint(-9999, 9999))) for _ in values]
    expected = [
        reference_mantissa(Fraction(v), max(-99, min(99, s)), fmt) for v, s in zip(values, distances, strict=True)
    ]
    assert list(zip(*requantize(integers, fmt, values, distances), strict=True)) == expected


@pytest.mark.parametrize("saturation", SATURATIONS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("integers", KINDS)
def test_requantizer_is_exact_for_every_value_of_ten_bits(integers: Integers, rounding: Any, saturation: Any) -> None:
    """R16, R22: exhaustive"""
    fmt = BlockFormat(4, 8, rounding, saturation)
    values, distances = (grid.ravel() for grid in np.meshgrid(np.arange(-512, 512), np.arange(-8, 14)))
    mantissa, changed = shift_to_bits(values, distances, 4, rounding, saturation)
    result, overflow, underflow = requantize(integers, fmt, values, distances)
    assert (result, overflow) == (mantissa.tolist(), changed.tolist())
    assert underflow == ((mantissa == 0) & (values != 0) & ~changed).tolist()


@pytest.mark.parametrize("integers", KINDS)
@pytest.mark.parametrize("case", load_vectors("bfp_encode.json")["cases"], ids=lambda case: case["id"])
def test_encoding_vectors(case: dict[str, Any], integers: Integers) -> None:
    """R16, R17, R22: the numbers of the vectors, each as an integer of the accumulator with an exponent."""
    fmt, expected = vector_format(case["format"]), case["expect"]
    numbers = [math.frexp(float.fromhex(x)) for x in case["x_hex"]]
    values = [int(fraction * 2**53) for fraction, _ in numbers]
    distances = [expected["e"] - (power - 53) for _, power in numbers]
    mantissa, overflow, underflow = requantize(integers, fmt, values, distances)
    assert mantissa == expected["m"]
    assert (sum(overflow), sum(underflow)) == (expected["overflow"], expected["underflow"])


def test_shifter_and_detector_in_stages_equal_the_machines() -> None:
    """R22: what is synthesized against what a native simulation executes, every shift amount"""
    values = np.array(integers_of(random.Random(1), 63, 20000), np.int64)
    values[:256] = np.arange(-128, 128)
    arguments = values.ctypes.data_as(ctypes.c_void_p), len(values)
    arithmetic = library("arithmetic", "native")
    assert arithmetic.unit_shift_differences(*arguments) == 0
    assert arithmetic.unit_lead_differences(*arguments) == 0


@pytest.mark.parametrize("log", ["floor", "ceil"])
@pytest.mark.parametrize("integers", KINDS)
def test_position_of_the_largest_magnitude(integers: Integers, log: str) -> None:
    """R24: from collected bits, without comparing values"""
    rng = random.Random(2)
    blocks = [integers_of(rng, 48, 40)[skip : skip + rng.randint(0, 6)] for skip in range(40) for _ in range(8)]
    blocks += [[4, -4], [4, 3], [1], [-1, 0], [0, 0], []]
    for block in blocks:
        largest = max((abs(value) for value in block), default=0)
        expected = leading_position(Fraction(largest), log) if largest else -1
        values = np.array(block, np.int64)
        position = library("arithmetic", integers).unit_largest_position(
            int(log == "ceil"), values.ctypes.data_as(ctypes.c_void_p), len(values)
        )
        assert position == expected, block


@pytest.mark.parametrize("integers", KINDS)
def test_square_root_is_exact(integers: Integers) -> None:
    """R27: squares, their neighbours, and 82-bit numbers"""
    rng = random.Random(3)
    roots = [0, 1, 2, (1 << 41) - 1, *(rng.getrandbits(rng.randint(1, 41)) for _ in range(100))]
    values = [root * root + step for root in roots for step in (-1, 0, 1) if root * root + step >= 0]
    values += [(1 << 82) - 1, *(rng.getrandbits(82) for _ in range(100))]
    high = np.array([value >> 64 for value in values], np.uint64)
    low = np.array([value & ((1 << 64) - 1) for value in values], np.uint64)
    result = np.empty(len(values), np.uint64)
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (high, low, result))
    library("arithmetic", integers).unit_integer_sqrt(*pointers, len(values))
    assert result.tolist() == [math.isqrt(value) for value in values]


@pytest.mark.parametrize("integers", KINDS)
def test_fields_of_wide_words_are_independent(integers: Integers) -> None:
    """R60"""
    values = np.array(integers_of(random.Random(4), 32, 64)[:32], np.int64)
    assert library("arithmetic", integers).unit_field_differences(values.ctypes.data_as(ctypes.c_void_p), 32) == 0


@pytest.mark.parametrize(("shift", "operand_bits"), [(17, 25), (18, 27)])
def test_packed_product_is_exact_for_every_operand(shift: int, operand_bits: int) -> None:
    """BFP 7: all 255 x 255 pairs of symmetric weights times all 256 activations; operands fit the multiplier"""
    multiplier = library("multiplier", "native")
    multiplier.unit_packed_wrong.restype = ctypes.c_int64
    assert multiplier.unit_packed_wrong(shift, operand_bits, 1) == 0
    # The proof can fail: half the operand does not hold both weights.
    assert multiplier.unit_packed_wrong(shift, shift + 6, 64) > 0


@pytest.mark.parametrize("integers", KINDS)
@pytest.mark.parametrize(("shift", "operand_bits"), [(17, 25), (18, 27)])
def test_packed_operand_has_the_width_of_one_multiplier(integers: Integers, shift: int, operand_bits: int) -> None:
    """BFP 7: one bit more and a synthesis takes two slices of DSP48E1 (25 x 18) or DSP48E2 (27 x 18)"""
    assert library("multiplier", integers).unit_operand_bits(shift) <= operand_bits


@pytest.mark.parametrize("integers", KINDS)
@pytest.mark.parametrize("shift", [17, 18])
def test_every_sum_of_the_longest_chain_comes_apart(integers: Integers, shift: int) -> None:
    """BFP 7: with exact products and exact sums of them, chains of any length up to the limit are exact"""
    multiplier = library("multiplier", integers)
    multiplier.unit_stuck_sums.restype = ctypes.c_int64
    assert multiplier.unit_stuck_sums(shift) == 0


@pytest.mark.parametrize("integers", KINDS)
def test_plain_product_is_exact_for_every_pair(integers: Integers) -> None:
    """R1: all 65536 pairs of 8 bits"""
    multiplier = library("multiplier", integers)
    multiplier.unit_wrong_products.restype = ctypes.c_int64
    assert multiplier.unit_wrong_products() == 0


@pytest.mark.parametrize(("shift", "operand_bits"), [(18, 27)])
def test_packed_product_with_ap_int(shift: int, operand_bits: int) -> None:
    """BFP 7: all pairs of weights, activations at the ends and in the middle"""
    multiplier = library("multiplier", "ap_int")
    multiplier.unit_packed_wrong.restype = ctypes.c_int64
    assert multiplier.unit_packed_wrong(shift, operand_bits, 85) == 0


def packed_sum(integers: Integers, shift: int, terms: list[tuple[int, int, int]]) -> tuple[int, int]:
    """Sums of w1*x and w0*x by the C++ tile; terms: (w1, w0, x)."""
    lanes = 4 if shift == 17 else 8
    padded = terms + [(0, 0, 0)] * (lanes - len(terms))
    columns = [np.array(column, np.int8) for column in zip(*padded, strict=True)]
    sums = np.empty(2, np.int32)
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (*columns, sums))
    library("multiplier", integers).unit_packed_sum(shift, *pointers)
    return int(sums[0]), int(sums[1])


@pytest.mark.parametrize(("shift", "terms"), [(17, 4), (18, 8)])
@pytest.mark.parametrize("integers", KINDS)
def test_packed_sums_are_exact_to_the_limit_of_terms(integers: Integers, shift: int, terms: int) -> None:
    """BFP 7: the low field holds the largest sum, so every sum; all signs of extremes, and random ones"""
    assert terms * 127 * 128 < 1 << (shift - 1) < (terms + 1) * 127 * 128
    rng = random.Random(shift)
    extremes = [(w1, w0, x) for w1 in (-127, 127) for w0 in (-127, 127) for x in (-128, 127)]
    chains = [[term] * terms for term in extremes]
    chains += [[rng.choice(extremes) for _ in range(terms)] for _ in range(200)]
    chains += [
        [(rng.randint(-127, 127), rng.randint(-127, 127), rng.randint(-128, 127)) for _ in range(terms)]
        for _ in range(200)
    ]
    for chain in chains:
        expected = sum(w1 * x for w1, _, x in chain), sum(w0 * x for _, w0, x in chain)
        assert packed_sum(integers, shift, chain) == expected == packed_dot(chain, shift)


@pytest.mark.parametrize("integers", KINDS)
@pytest.mark.parametrize("case", PACKED, ids=lambda case: f"{case['dsp']}_{case['shift']}")
def test_packing_vectors(case: dict[str, Any], integers: Integers) -> None:
    """BFP 7"""
    terms = [tuple(term) for term in case["terms_list"]]
    assert packed_sum(integers, case["shift"], terms) == (case["hi"], case["lo"])


@pytest.mark.parametrize("bits", [8, 18])
@pytest.mark.parametrize("integers", KINDS)
def test_sums_of_products_are_exact(integers: Integers, bits: int) -> None:
    """R1, R59"""
    rng, tile = random.Random(bits), library("multiplier", integers)
    tile.unit_dot.restype = ctypes.c_int64
    for _ in range(200):
        x, w = (integers_of(rng, bits, 12) for _ in range(2))
        x, w = rng.sample(x, 4), rng.sample(w, 4)
        start = rng.randint(-(1 << 25), 1 << 25)
        pointers = (np.array(array, np.int32).ctypes.data_as(ctypes.c_void_p) for array in (x, w))
        assert tile.unit_dot(bits, ctypes.c_int64(start), *pointers) == start + sum(map(int.__mul__, x, w))


def test_reference_shift_agrees_with_the_requantizer_of_a_wide_mantissa() -> None:
    """R9: rounding alone, without saturation"""
    rng = random.Random(5)
    values, distances = integers_of(rng, 17, 300), [rng.randint(0, 20) for _ in range(300)]
    for rounding in ROUNDINGS:
        fmt = BlockFormat(18, 8, rounding, "full")  # type: ignore[arg-type]
        expected = [exact_shift(v, s, rounding) for v, s in zip(values, distances, strict=True)]
        assert requantize("native", fmt, values, distances)[0] == expected
