"""quad_multiplier.hpp against a DSP block in exact integers: a multiplier of 25 x 18 bits, and a sum of 48 bits."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import BUILDS, library

from bfpga.devices.csim import Integers

KINDS: tuple[Integers, ...] = (*BUILDS, "exact")
#: Inputs of a DSP48E1's multiplier and its output, in bits; a DSP48E2 has two more of the first.
A_BITS, B_BITS, P_BITS = 25, 18, 48
#: Sums of one number each side: of rows 0 and 1, then of columns 0 and 1 within each.
FIELDS = tuple(itertools.product((0, 1), repeat=2))

Integer = npt.NDArray[np.int64]


class _Cases(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("weight", "pixel", "weights", "pixels", "total", "sums")),
    )


@dataclass
class Chain:
    """What the C++ makes of operands: factors of each block of a chain, the last one's sum, accumulators behind it."""

    weights: Integer
    pixels: Integer
    total: Integer
    sums: npt.NDArray[np.int32]


def chain(integers: Integers, bits: int, weight: Integer, pixel: Integer, before: Integer) -> Chain:
    """bits: of pixels. weight, pixel: (cases, lanes, 2), low and high. before: (cases, 4), of each accumulator."""
    count, lanes, _ = weight.shape
    given = [np.ascontiguousarray(array, np.int8) for array in (weight, pixel)]
    made = Chain(
        np.zeros((count, lanes), np.int64), np.zeros((count, lanes), np.int64), np.zeros(count, np.int64),
        before.astype(np.int32),
    )  # fmt: skip
    arrays = (*given, made.weights, made.pixels, made.total, made.sums)
    cases = _Cases(count, *(array.ctypes.data for array in arrays))
    assert library("multiplier", integers).unit_quad_sums(bits, lanes, ctypes.byref(cases)) == 0
    return made


def wrapped(number: int, bits: int) -> int:
    """The lowest bits of a number, as a signed one: what a register of so many bits holds."""
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def blocks(factors: list[tuple[int, int]]) -> int:
    """The sum that leaves a chain of DSP blocks, of what their inputs and outputs keep."""
    total = 0
    for a, b in factors:
        total = wrapped(total + wrapped(a, A_BITS) * wrapped(b, B_BITS), P_BITS)
    return total


def check(integers: Integers, weight: Integer, pixel: Integer, bits: int = 4) -> None:
    """The chain's sum is that of DSP blocks with the same factors; its fields are the four sums of products."""
    before = np.random.default_rng(len(weight)).integers(-(1 << 18), 1 << 18, (len(weight), 4))
    made = chain(integers, bits, weight, pixel, before)
    sums = [(weight[:, :, row] * pixel[:, :, column]).sum(axis=1) for row, column in FIELDS]
    assert np.array_equal(made.sums, before + np.stack(sums, axis=1))
    for a, b, total in zip(made.weights.tolist(), made.pixels.tolist(), made.total.tolist(), strict=True):
        assert total == blocks(list(zip(a, b, strict=True)))


def every(values: tuple[int, ...] | range) -> tuple[Integer, Integer]:
    """All pairs of weights with all pairs of pixels, (cases, 2) each."""
    operands = np.array(list(itertools.product(values, repeat=4)), np.int64)
    return operands[:, :2], operands[:, 2:]


@pytest.mark.parametrize("integers", KINDS)
def test_four_products_are_exact_for_every_operand(integers: Integers) -> None:
    """All 16 x 16 pairs of weights times all pairs of pixels."""
    weight, pixel = every(range(-8, 8))
    assert len(weight) == 65536
    check(integers, weight[:, None], pixel[:, None])


@pytest.mark.parametrize("lanes", range(2, 8))
@pytest.mark.parametrize("integers", KINDS)
def test_sums_of_four_products_are_exact_to_the_limit_of_terms(integers: Integers, lanes: int) -> None:
    """All extremes along a chain, extremes that change from block to block, and any operands."""
    weight, pixel = (np.repeat(side[:, None], lanes, axis=1) for side in every((-8, -7, 0, 7)))
    check(integers, weight, pixel)
    rng = np.random.default_rng(lanes)
    ends = rng.choice([-8, 7], (2, 1000, lanes, 2))
    check(integers, ends[0], ends[1])
    drawn = rng.integers(-8, 8, (2, 4000, lanes, 2))
    check(integers, drawn[0], drawn[1])


@pytest.mark.parametrize("integers", KINDS)
def test_pixels_of_five_bits_are_exact_for_every_operand(integers: Integers) -> None:
    """All symmetric weights of 4 bits times all pairs of 32 pixels; then chains of all extremes, up to four lanes."""
    weights, pixels = (list(itertools.product(values, repeat=2)) for values in (range(-7, 8), range(-16, 16)))
    both = np.array([(*w, *x) for w in weights for x in pixels], np.int64)
    assert len(both) == 15 * 15 * 32 * 32
    check(integers, both[:, None, :2], both[:, None, 2:], bits=5)
    ends = np.array([(*w, *x) for w in every_pair(-7, 7) for x in every_pair(-16, 15)], np.int64)
    rng = np.random.default_rng(5)
    for lanes in (2, 3, 4):
        along = np.repeat(ends[:, None], lanes, axis=1)
        check(integers, along[..., :2], along[..., 2:], bits=5)
        drawn = rng.integers(-7, 8, (4000, lanes, 2)), rng.integers(-16, 16, (4000, lanes, 2))
        check(integers, *drawn, bits=5)


def every_pair(low: int, high: int) -> list[tuple[int, int]]:
    return [(one, other) for one in (low, high) for other in (low, high)]


def test_a_longer_chain_would_not_come_apart() -> None:
    """The limit is not a choice: eight products of -8 and -8 are 2^9, one more than a field of 10 bits holds."""
    limit = 1 << 9
    assert 7 * 64 < limit <= 8 * 64
    a, b = -8 + (-8 << 20), -8 + (-8 << 10)
    assert wrapped(blocks([(a, b)] * 7), 10) == 7 * 64
    assert wrapped(blocks([(a, b)] * 8), 10) == -limit
