"""Softmax, normalizations and products of rows in integers: what every device computes, bit for bit.

Rows are mantissas (rows, channels) of ``MANTISSA_BITS`` bits, symmetric, with one exponent or one a row (rows, 1).
Results are accumulators of ``RESULT_BITS`` bits with an exponent, as sums of products are: the output stage adds a
bias, applies a function and rounds them to mantissas. `>>` is an arithmetic shift, so it floors.
Rounded to mantissas of an output, of which half a step is lost, Softmax is within 0.95 steps of floating point and
normalizations within 0.85, if the output's exponent has a number as large as their largest scale; products are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bfpga.contract.rows import (
    DROPPED,
    FACTOR_POSITION,
    INVERSE_BITS,
    KEPT_FRACTION,
    LEAST_POSITION,
    LOG2_E_FRACTION,
    MEAN_FRACTION,
    NORMAL_FRACTION,
    POSITION,
    POWER_BITS,
    POWER_INDEX,
    ROOT_BITS,
    ROOT_INDEX,
    SCALE_BITS,
    SHARE_BITS,
    SOFTMAX_EXPONENT,
    SUM_FRACTION,
    VARIANCE_FRACTION,
    RowOperation,
    log2_e,
    power_table,
    reciprocal_table,
    root_table,
)
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.formats.arrays import Int64Array
from bfpga.formats.rounding import floor_log2, shift_round, shift_saturate

#: The largest shift of an exponential, which leaves nothing of it.
_ALL = 31
#: Fraction bits that the mean times 1/deviation has more than the first product, where 1/deviation is not shifted.
_MEAN_DROPPED = MEAN_FRACTION + ROOT_BITS - SCALE_BITS


class RowResults(NamedTuple):
    """Accumulators (rows, channels), and their exponent, or one a row (rows, 1)."""

    accumulators: Int64Array
    exponent: npt.NDArray[np.int64]


def softmax(x: npt.ArrayLike, exponent: npt.ArrayLike) -> RowResults:
    """e**x over the sum of its row."""
    numbers = np.asarray(x, np.int64)
    powers = exponentials(numbers, power_scale(exponent))
    factor = reciprocal(powers.sum(axis=1, keepdims=True))
    results = ((powers >> (SUM_FRACTION - KEPT_FRACTION)) * factor) >> DROPPED
    return RowResults(results, np.asarray(SOFTMAX_EXPONENT, np.int64))


def normalized(x: npt.ArrayLike, exponent: npt.ArrayLike, settings: RowSettings, gains: Gains) -> RowResults:
    """(x - mean) / sqrt(variance + epsilon) times a scale for each channel; RMS_NORM takes 0 for the mean."""
    numbers = np.asarray(x, np.int64)
    squares = (numbers * numbers).sum(axis=1, keepdims=True)
    scale, offset = deviation(numbers.sum(axis=1, keepdims=True), squares, exponent, settings)
    normal = (offset - numbers * scale) >> (POSITION - NORMAL_FRACTION)
    return RowResults((normal * gains.mantissa) >> DROPPED, np.asarray(gains.exponent, np.int64))


def products(x: npt.ArrayLike, y: npt.ArrayLike, exponents: npt.ArrayLike) -> RowResults:
    """x times y element by element, exact; exponents: the sum of both."""
    return RowResults(np.asarray(x, np.int64) * np.asarray(y, np.int64), np.asarray(exponents, np.int64))


def power_scale(exponent: npt.ArrayLike) -> Int64Array:
    """log2(e) * 2**exponent as a scale of the first product."""
    distance = LOG2_E_FRACTION - POSITION - np.asarray(exponent, np.int64)
    scale, _ = shift_saturate(log2_e(), distance, "trunc", 0, (1 << SCALE_BITS) - 1)
    return scale


def exponentials(x: Int64Array, scale: Int64Array) -> Int64Array:
    """2**``SUM_FRACTION`` times e**(x - largest of its row), up to a factor near 1 that a row shares."""
    binary = ((x.max(axis=1, keepdims=True) - x) * scale) >> (POSITION - POWER_INDEX)
    points: Int64Array = np.asarray(power_table(), np.int64)[binary & ((1 << POWER_INDEX) - 1)]
    powers: Int64Array = (points << (SUM_FRACTION - POWER_BITS)) >> np.minimum(binary >> POWER_INDEX, _ALL)
    return powers


def reciprocal(total: Int64Array) -> Int64Array:
    """1 / total as a factor of the second product."""
    lead = floor_log2(total)
    point = _behind(reciprocal_table(), total, lead, ROOT_INDEX)
    return (point << (FACTOR_POSITION - LEAST_POSITION)) >> (lead - LEAST_POSITION)


def deviation(
    sums: Int64Array, squares: Int64Array, exponent: npt.ArrayLike, settings: RowSettings
) -> tuple[Int64Array, Int64Array]:
    """Scale and offset of the first product: 1/deviation over channels / 2**magnitude, and the mean times it.

    sums, squares: of the rows (rows, 1).
    """
    sums = sums * (settings.operation == RowOperation.LAYER_NORM)
    difference = settings.channels * squares - sums * sums
    spread = np.maximum((difference << VARIANCE_FRACTION) + _share(exponent, settings), 1)
    lead = floor_log2(spread)
    odd, half = (lead - VARIANCE_FRACTION) & 1, (lead - VARIANCE_FRACTION) >> 1
    root = _behind(root_table(), spread, lead, ROOT_INDEX - 1, odd << (ROOT_INDEX - 1))
    right = np.maximum(half - settings.magnitude + SCALE_BITS - POSITION, 0)
    offset = shift_round(_mean(sums, settings) * root, right + _MEAN_DROPPED, "half_up")
    return (root << (SCALE_BITS - ROOT_BITS)) >> right, offset


def _share(exponent: npt.ArrayLike, settings: RowSettings) -> Int64Array:
    """Epsilon's share of channels**2 * variance, in units of the mantissas."""
    mantissa, own = settings.epsilon
    share, _ = shift_saturate(mantissa, 2 * np.asarray(exponent, np.int64) - own, "trunc", 0, (1 << SHARE_BITS) - 1)
    return share


def _mean(sums: Int64Array, settings: RowSettings) -> Int64Array:
    """The mean with ``MEAN_FRACTION`` fraction bits, half up."""
    drop = settings.magnitude + INVERSE_BITS - 1 - MEAN_FRACTION
    return shift_round(sums * settings.inverse, drop, "half_up")


def _behind(
    table: tuple[int, ...], value: Int64Array, lead: Int64Array, bits: int, first: Int64Array | int = 0
) -> Int64Array:
    """Points of a table by the bits behind the leading one, from place ``first`` on."""
    place = np.where(lead >= bits, value >> np.maximum(lead - bits, 0), value << np.maximum(bits - lead, 0))
    found: Int64Array = np.asarray(table, np.int64)[first + (place & ((1 << bits) - 1))]
    return found
