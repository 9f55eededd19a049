"""Formats of fixed point: conversion of wide results, positions, real numbers (FP 2.1)."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import load_vectors, shift

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.fixed_point import (
    FixedPointFormat,
    FixedTensor,
    convert,
    fixed_point_tensor,
    output_position,
)

VECTORS = load_vectors("fixed_point_primitives.json")["convert"]
ROUNDINGS = ("trunc", "tozero", "half_up", "half_away", "rne")


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_conversion_vectors(case: dict[str, Any]) -> None:
    """FP R12, FP R48"""
    fmt = FixedPointFormat(case["OW"], 32, case["round"], case["sat"])
    result = convert([case["v"]], case["shift"], fmt)
    assert (result.mantissa.tolist(), result.saturated) == ([case["out"]], int(case["saturated"]))


@given(
    values=st.lists(st.integers(-(1 << 47), (1 << 47) - 1), min_size=1, max_size=20),
    distance=st.integers(-8, 31),
    width=st.integers(4, 16),
    rounding=st.sampled_from(ROUNDINGS),
    saturation=st.sampled_from(("full", "sym", "wrap")),
)
def test_conversion_is_exact_rounding_then_saturation(
    values: list[int], distance: int, width: int, rounding: Any, saturation: Any
) -> None:
    """FP R12: fractions and Python integers as reference; the count is that of changed values"""
    result = convert(values, distance, FixedPointFormat(width, 48, rounding, saturation))
    rounded = [shift(value, distance, rounding) for value in values]
    high = (1 << width - 1) - 1
    low = -high if saturation == "sym" else -high - 1
    if saturation == "wrap":
        expected = [(number + high + 1) % (1 << width) - high - 1 for number in rounded]
    else:
        expected = [min(max(number, low), high) for number in rounded]
    assert result.mantissa.tolist() == expected
    assert result.saturated == sum(number != kept for number, kept in zip(rounded, expected, strict=True))


def test_every_channel_may_have_a_shift_of_its_own() -> None:
    """FP 2.1 (granularity channel), FP R12"""
    result = convert([[100, 100, 3], [-40, 4000, -3]], [2, 4, -3], FixedPointFormat())
    assert result.mantissa.tolist() == [[25, 6, 24], [-10, 127, -24]]
    assert (result.mantissa.dtype, result.saturated) == (np.int8, 1)


def test_stochastic_rounding_is_right_on_average() -> None:
    """FP 2.1: one of both neighbours, each as often as it is near; exact numbers stay, left shifts too"""
    generator = np.random.default_rng(3)
    fmt = FixedPointFormat(rounding="stochastic")
    result = convert(np.full(20000, 37), 3, fmt, generator).mantissa
    assert set(result.tolist()) == {4, 5}
    assert abs(float(result.mean()) - 37 / 8) < 0.02
    assert convert([32, 3, 9000], [3, -2, 1], fmt, generator).mantissa.tolist() == [4, 12, 127]
    with pytest.raises(ValueError, match="generator"):
        convert([1], 1, fmt)


def test_values_are_mantissas_without_their_fraction_bits() -> None:
    """FP 2.1: value = m * 2**-p, p negative and beyond the width too"""
    for position in (-32, -3, 0, 5, 47):
        tensor = FixedTensor(np.array([1, -128, 77], np.int8), np.int64(position))
        expected = [Fraction(m) / Fraction(2) ** position for m in (1, -128, 77)]
        assert [Fraction(value) for value in tensor.values.tolist()] == expected


def test_channels_of_different_positions_are_aligned_without_loss() -> None:
    """FP 2.1 (granularity channel)"""
    tensor = FixedTensor(np.array([[127, -3], [-128, 5]]), np.array([2, 6]))
    aligned = tensor.aligned()
    assert aligned.position == 6
    assert aligned.mantissa.tolist() == [[127 * 16, -3], [-128 * 16, 5]]
    assert (aligned.values == tensor.values).all()
    assert tensor.values.tolist() == [[127 / 4, -3 / 64], [-32, 5 / 64]]


def test_a_right_shift_drops_fraction_bits() -> None:
    """FP 2.1: p_out = p_acc - s; the value changes by the rounding only"""
    rng = random.Random(1)
    for _ in range(200):
        wide, p_acc, distance = rng.randint(-(1 << 20), 1 << 20), rng.randint(-4, 20), rng.randint(13, 20)
        position = int(output_position(p_acc, distance))
        narrow = int(convert([wide], distance, FixedPointFormat(16)).mantissa[0])
        error = Fraction(narrow) / Fraction(2) ** position - Fraction(wide) / Fraction(2) ** p_acc
        assert abs(error) <= Fraction(1, 2) / Fraction(2) ** position


@pytest.mark.parametrize(("values", "mantissas", "position"), [
    ([1.0, -0.5], [64, -32], 6),
    ([100.0, 3.3], [100, 3], 0),
    ([300.0], [75], -2),
    ([0.0, 0.0], [0, 0], 0),
    ([1e-30], [0], 47),
])  # fmt: skip
def test_real_numbers_take_the_largest_position_that_holds_them(
    values: list[float], mantissas: list[int], position: int
) -> None:
    """FP 2.1"""
    tensor = fixed_point_tensor(values)
    assert (tensor.mantissa.tolist(), int(tensor.position)) == (mantissas, position)


def test_weights_are_symmetric() -> None:
    """FP 2.1: packed products need it"""
    assert fixed_point_tensor([-1.0], saturation="sym", position=7).mantissa.tolist() == [-127]
    assert fixed_point_tensor([-1.0], position=7).mantissa.tolist() == [-128]


@pytest.mark.parametrize(("arguments", "message"), [
    ({"out_width": 3}, "out_width is 3; a whole number from 4 to 16"),
    ({"out_width": 17}, "out_width is 17"),
    ({"out_width": 8.0}, "out_width is 8.0"),
    ({"acc_width": 15}, "acc_width is 15; a whole number from 16 to 48"),
    ({"acc_width": 49}, "acc_width is 49"),
    ({"rounding": "nearest"}, "rounding is 'nearest'; one of trunc, tozero, half_up, half_away, rne, stochastic"),
    ({"saturation": "clip"}, "saturation is 'clip'; one of sym, full, wrap"),
])  # fmt: skip
def test_widths_and_modes_that_are_not_allowed_are_refused(arguments: dict[str, Any], message: str) -> None:
    """FP 2.1"""
    with pytest.raises(ConfigurationError, match=message):
        FixedPointFormat(**arguments)


def test_positions_that_no_register_holds_are_refused() -> None:
    """FP 2.1: -32..47"""
    for position in (-33, 48):
        with pytest.raises(DataError, match=f"position {position} is outside -32..47"):
            FixedTensor(np.zeros(3, np.int8), np.int64(position))
        with pytest.raises(ConfigurationError, match=f"position is {position}"):
            fixed_point_tensor([1.0], position=position)
    with pytest.raises(DataError, match="do not belong"):
        FixedTensor(np.zeros((2, 3), np.int8), np.zeros(2, np.int64))
