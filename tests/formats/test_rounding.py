"""Shifting, rounding, saturating (BFP R9, R16, R22): vectorised code against exact integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import clamp, leading_position, saturate, shift

from bfpga.formats import rounding

MODES = ["trunc", "tozero", "half_up", "half_away", "rne"]
BELOW_2_62 = st.integers(-(2**62) + 1, 2**62 - 1)
FEW_BITS = st.builds(lambda v, s: v >> s, BELOW_2_62, st.integers(0, 61))


@pytest.mark.parametrize("mode", MODES)
def test_shift_rounds_every_small_value_at_every_amount(mode: str) -> None:
    """R22"""
    values = np.arange(-520, 521)
    amounts = np.arange(-6, 14)
    result = rounding.shift_round(values[:, None], amounts, mode)  # type: ignore[arg-type]
    assert result.tolist() == [[shift(int(v), int(s), mode) for s in amounts] for v in values]


@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=drawn(60))
@given(values=st.lists(st.one_of(BELOW_2_62, FEW_BITS), min_size=1, max_size=8), amount=st.integers(0, 300))
def test_right_shift_is_exact_for_any_amount(mode: str, values: list[int], amount: int) -> None:
    """R16, R22"""
    result = rounding.shift_round(values, amount, mode)  # type: ignore[arg-type]
    assert result.tolist() == [shift(value, amount, mode) for value in values]


@pytest.mark.parametrize("amount", [61, 62, 63, 64, 65, 1000])
@pytest.mark.parametrize("mode", MODES)
def test_right_shift_rounds_the_largest_values_beyond_the_word(mode: str, amount: int) -> None:
    """R16"""
    values = [2**61, 2**61 + 1, 2**62 - 1, -(2**61), -(2**61) - 1, -(2**62) + 1, 1, -1, 0]
    result = rounding.shift_round(values, amount, mode)  # type: ignore[arg-type]
    assert result.tolist() == [shift(value, amount, mode) for value in values]


@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=drawn(80))
@given(
    values=st.lists(st.one_of(BELOW_2_62, FEW_BITS), min_size=1, max_size=6),
    amounts=st.lists(st.integers(-200, 200), min_size=1, max_size=6),
    bits=st.integers(2, 60),
)
def test_saturating_shift_never_overflows(mode: str, values: list[int], amounts: list[int], bits: int) -> None:
    """R9, R16"""
    half = 1 << (bits - 1)
    columns = np.array(amounts)[:, None]
    result, changed = rounding.shift_saturate(values, columns, mode, -half, half - 1)  # type: ignore[arg-type]
    exact = [[shift(value, amount, mode) for value in values] for amount in amounts]
    assert result.tolist() == [[clamp(value, bits) for value in row] for row in exact]
    assert changed.tolist() == [[clamp(value, bits) != value for value in row] for row in exact]


@pytest.mark.parametrize("saturation", ["sym", "full", "wrap"])
@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=drawn(60))
@given(
    values=st.lists(st.one_of(FEW_BITS, st.integers(-300, 300)), min_size=1, max_size=6),
    amounts=st.lists(st.integers(-80, 80), min_size=1, max_size=4),
    bits=st.integers(4, 18),
)
def test_shift_to_bits_saturates_as_the_requantiser(
    mode: str, saturation: str, values: list[int], amounts: list[int], bits: int
) -> None:
    """R16, R22"""
    columns = np.array(amounts)[:, None]
    result, changed = rounding.shift_to_bits(values, columns, bits, mode, saturation)  # type: ignore[arg-type]
    exact = [[saturate(shift(value, amount, mode), bits, saturation) for value in values] for amount in amounts]
    assert result.tolist() == [[value for value, _ in row] for row in exact]
    assert changed.tolist() == [[flag for _, flag in row] for row in exact]


@pytest.mark.parametrize("saturation", ["sym", "full", "wrap"])
@pytest.mark.parametrize("bits", [4, 8, 16, 18])
def test_saturation_keeps_what_fits_and_flags_the_rest(bits: int, saturation: str) -> None:
    """R22, BFP 2.1"""
    edge = 1 << (bits - 1)
    values = [v + d for v in (-3 * edge, -2 * edge, -edge, 0, edge, 2 * edge, 3 * edge) for d in (-1, 0, 1)]
    result, changed = rounding.saturate(values, bits, saturation)  # type: ignore[arg-type]
    exact = [saturate(value, bits, saturation) for value in values]
    assert list(zip(result.tolist(), changed.tolist(), strict=True)) == exact


def test_logarithms_are_exact_around_every_power_of_two() -> None:
    """BFP equation 3: no float logarithm, also where float64 has no such integer."""
    values = sorted({v for p in range(63) for v in ((1 << p) - 1, 1 << p, (1 << p) + 1) if 0 < v < 2**63})
    assert rounding.floor_log2(values).tolist() == [v.bit_length() - 1 for v in values]
    assert rounding.ceil_log2(values).tolist() == [leading_position(Fraction(v), "ceil") for v in values]


@settings(deadline=None, max_examples=drawn(100))
@given(st.integers(0, 2**120))
def test_integer_root_is_the_floor_of_the_root(value: int) -> None:
    """R27"""
    root = rounding.integer_sqrt(value)
    assert root * root <= value < (root + 1) ** 2


def test_stochastic_rounding_is_right_on_average() -> None:
    """BFP 2.2: stochastic rounding on the host."""
    values = np.full(20000, -11)
    result = rounding.shift_round(values, 3, "stochastic", np.random.default_rng(7))
    assert set(result.tolist()) == {-2, -1}
    assert abs(result.mean() + 11 / 8) < 0.02
    assert rounding.shift_round([16, -8], 3, "stochastic", np.random.default_rng(1)).tolist() == [2, -1]
    with pytest.raises(ValueError, match="generator"):
        rounding.shift_round([1], 1, "stochastic")
