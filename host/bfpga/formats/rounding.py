"""Shifting, rounding and saturating of integers: the one block every number format and every engine uses (BFP R22).

Everything is exact on int64 arrays and vectorised. The hardware has five rounding modes, the host ``stochastic`` too.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from bfpga.formats.arrays import BoolArray, Int64Array
from bfpga.formats.block_format import Rounding, Saturation

#: The rounding modes of the hardware and the host's stochastic rounding.
HostRounding = Rounding | Literal["stochastic"]

#: A right shift of more bits than this rounds like a shift of this many (values stay below 2**62).
_LARGEST_SHIFT = 63


def _rounding_offset(
    values: Int64Array, amount: Int64Array, rounding: HostRounding, generator: np.random.Generator | None
) -> Int64Array:
    """What is added before an arithmetic right shift by ``amount`` so that the shift rounds as wanted."""
    if rounding == "tozero":
        return np.where(values < 0, ~(np.int64(-1) << amount), 0)
    if rounding == "stochastic":
        if generator is None:
            raise ValueError("stochastic rounding needs a random generator")
        shape = np.broadcast_shapes(values.shape, amount.shape)
        return generator.integers(0, np.int64(1) << np.minimum(amount, _LARGEST_SHIFT - 1), shape)
    shifted = (amount > 0).astype(np.int64)
    half = shifted << np.maximum(amount - 1, 0)
    if rounding == "half_up":
        return np.asarray(half)
    if rounding == "half_away":
        return np.asarray(half - ((values < 0) & shifted))
    # Half to even: the result's lowest bit decides a tie.
    offset = (values >> amount) & shifted
    offset += half - shifted
    return offset


def _shift_right(
    values: Int64Array, amount: Int64Array, rounding: HostRounding, generator: np.random.Generator | None
) -> Int64Array:
    """values * 2**-amount for amounts in 0..63, rounded."""
    if rounding == "trunc":
        return values >> amount
    offset = _rounding_offset(values, amount, rounding, generator)
    if offset.shape != np.broadcast_shapes(values.shape, amount.shape):
        return (values + offset) >> amount
    offset += values  # in place: large arrays cost more to allocate than to add
    offset >>= amount
    return offset


def shift_round(
    values: npt.ArrayLike,
    shift: npt.ArrayLike,
    rounding: HostRounding,
    generator: np.random.Generator | None = None,
) -> Int64Array:
    """``shift(v, s)`` of the data path: values * 2**-shift, rounded to integers.

    values: integers below 2**62 in magnitude; shift: broadcastable, right if positive (any size), left if negative (the
    result must be representable). Stochastic rounding needs ``generator`` and shifts by up to 62. BFP R9, R16, R22.
    """
    numbers = np.asarray(values, np.int64)
    amount = np.asarray(shift, np.int64)
    if amount.max(initial=0) > 0:
        numbers = _shift_right(numbers, np.clip(amount, 0, _LARGEST_SHIFT), rounding, generator)
    if amount.min(initial=0) < 0:
        numbers = numbers << np.clip(-amount, 0, _LARGEST_SHIFT)
    return np.broadcast_to(numbers, np.broadcast_shapes(numbers.shape, amount.shape))


def shift_saturate(
    values: npt.ArrayLike, shift: npt.ArrayLike, rounding: Rounding, low: int, high: int
) -> tuple[Int64Array, BoolArray]:
    """``shift_round`` clamped to [low, high] (low <= 0 <= high): the values and the mask of those that were clamped.

    Left shifts of any amount are correct: what would leave the range is found before it is shifted. BFP R9, R16.
    """
    amount = np.asarray(shift, np.int64)
    if amount.min(initial=0) >= 0:
        rounded = shift_round(values, amount, rounding)
        if rounded.max(initial=low) <= high and rounded.min(initial=high) >= low:
            return rounded, np.zeros(rounded.shape, np.bool_)
        clamped = np.clip(rounded, low, high)
        return clamped, clamped != rounded
    rounded = shift_round(values, np.maximum(amount, 0), rounding)
    left = np.clip(-amount, 0, _LARGEST_SHIFT)
    above = rounded > np.int64(high) >> left
    below = rounded < -(np.int64(-low) >> left)
    result = np.where(above | below, 0, rounded) << left
    return np.where(above, high, np.where(below, low, result)), above | below


def mantissa_range(bits: int, mode: Saturation) -> tuple[int, int]:
    """Smallest and largest mantissa of ``bits`` bits: symmetric for ``sym``, two's complement otherwise (BFP 2.1)."""
    high = (1 << (bits - 1)) - 1
    return (-high if mode == "sym" else -high - 1), high


def wrap(values: Int64Array, bits: int) -> Int64Array:
    """The lowest ``bits`` bits read as two's complement."""
    half = np.int64(1 << (bits - 1))
    return ((values + half) & np.int64((1 << bits) - 1)) - half


def saturate(values: npt.ArrayLike, bits: int, mode: Saturation) -> tuple[Int64Array, BoolArray]:
    """Integers brought into ``bits`` bits (clamped, or wrapped), and the mask of those that changed. BFP R22."""
    numbers = np.asarray(values, np.int64)
    result = wrap(numbers, bits) if mode == "wrap" else np.clip(numbers, *mantissa_range(bits, mode))
    return result, result != numbers


def shift_to_bits(
    values: npt.ArrayLike, shift: npt.ArrayLike, bits: int, rounding: Rounding, mode: Saturation
) -> tuple[Int64Array, BoolArray]:
    """``saturate(shift(values, shift))`` without overflow for any shift: the requantiser of BFP R16."""
    result, changed = shift_saturate(values, shift, rounding, *mantissa_range(bits, mode))
    if mode == "wrap" and changed.any():
        # Bits above 63 are lost by the left shift, but the wrapped result keeps the low ones only.
        result = wrap(shift_round(values, shift, rounding), bits)
    return result, changed


def floor_log2(values: npt.ArrayLike) -> Int64Array:
    """floor(log2 v) of positive int64 values, exact. BFP equation 3."""
    numbers = np.asarray(values, np.int64)
    position = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    # Above 2**53 the conversion may have rounded up to the next power of two.
    position -= numbers >> position == 0
    return position


def ceil_log2(values: npt.ArrayLike) -> Int64Array:
    """ceil(log2 v) of positive int64 values, exact."""
    numbers = np.asarray(values, np.int64)
    position = floor_log2(numbers)
    position += numbers & (numbers - 1) != 0
    return position


def integer_sqrt(value: int) -> int:
    """floor(sqrt(value)) of a Python integer. BFP R27."""
    return math.isqrt(value)
