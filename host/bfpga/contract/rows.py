"""The numbers of the process `rows`: widths, tables and limits, declared once for numpy and C++.

The process takes whole rows of a tensor, the channels of a pixel or token: Softmax, normalizations, products of two
tensors. Its operations in integers are in ``engines/rows/arithmetic.py``. All widths are those of 8-bit mantissas. Only
the standard library and numpy are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from enum import IntEnum
from functools import cache

from bfpga.formats.arrays import IntArray

#: Bits of a mantissa, which is symmetric: no row has the lowest number.
MANTISSA_BITS = 8
#: Channels of a row at most: sums of as many squares and exponentials have their bits.
LARGEST_ROW = 1024
#: Fraction bits of the first product, (reference - x) * scale + offset.
POSITION = 18
#: Bits of its scale, without a sign.
SCALE_BITS = 24
#: Fraction bits of a normalized number, which is the first product without its lowest bits.
NORMAL_FRACTION = 14
#: Fraction bits of the mean of a row.
MEAN_FRACTION = 14
#: Bits of 1 / channels as a number in [1, 2).
INVERSE_BITS = 24
#: Fraction bits of channels**2 * variance, which epsilon's share needs.
VARIANCE_FRACTION = 6
#: Bits that epsilon's share may have; a larger one, beside which the deviation hardly counts, is their largest number.
SHARE_BITS = 46
#: Points of the table of powers of two, as index bits; bits of a point.
POWER_INDEX, POWER_BITS = 8, 12
#: Fraction bits of an exponential in a sum, and of one in the second product.
SUM_FRACTION, KEPT_FRACTION = 18, 14
#: Points of the tables of 1/x and of 1/sqrt(x), as index bits; bits of a point.
ROOT_INDEX, ROOT_BITS = 8, 12
#: log2(e) with the fraction bits that fill a scale.
LOG2_E_FRACTION = SCALE_BITS - 1
#: Bits of the factor of a channel in the second product, with its sign.
GAIN_BITS = 16
#: Bits that the second product drops: results are accumulators, which the output stage rounds.
DROPPED = 12
#: Bits of a result; the exponent of those of Softmax.
RESULT_BITS = 24
SOFTMAX_EXPONENT = -22
#: Where the leading one of a sum makes 1/sum a point of the table, as the second product takes it, and where it is at
#: least: the largest element of a row is 2**0.
FACTOR_POSITION = -SOFTMAX_EXPONENT - ROOT_BITS + DROPPED + SUM_FRACTION - KEPT_FRACTION
LEAST_POSITION = SUM_FRACTION - 1
#: Bits of epsilon's share as a number without a sign, beside its exponent.
EPSILON_BITS = 16
#: Bits of the beats between the two loops of the process (processes/rows/beats.hpp): totals and factors of a column.
TOTAL_BEAT_BITS = MANTISSA_BITS + SUM_FRACTION + 2 * LARGEST_ROW.bit_length() - 1
FACTOR_BEAT_BITS = MANTISSA_BITS + 2 * SCALE_BITS + 3 + ROOT_BITS + FACTOR_POSITION - LEAST_POSITION + 1


class RowOperation(IntEnum):
    """What the process does with rows."""

    NONE = 0
    SOFTMAX = 1
    LAYER_NORM = 2
    RMS_NORM = 3
    PRODUCT = 4

    @property
    def normalizes(self) -> bool:
        """Whether rows are divided by their deviation."""
        return self in (RowOperation.LAYER_NORM, RowOperation.RMS_NORM)

    @property
    def passes(self) -> int:
        """Times that a row is read."""
        return {RowOperation.SOFTMAX: 3, RowOperation.PRODUCT: 1}.get(self, 2)


@dataclass
class RowWork:
    """What a layer does with the rows of a tensor: numbers of its descriptor, and the scales of channels.

    epsilon: mantissa and exponent of epsilon's share. exponent: of the accumulators; of a product, added to those of
    its operands. gains: (channels,) of a normalization.
    """

    operation: RowOperation
    epsilon: tuple[int, int] = (0, 0)
    exponent: int = 0
    gains: IntArray | None = None


def _points(function: Callable[[Decimal], Decimal], index_bits: int, count: int, middle: bool) -> tuple[int, ...]:
    """The values of a function at ``count`` places n / 2**index_bits, or half a step behind each, rounded."""
    with localcontext(Context(prec=40)):
        places = [(Decimal(n) + (Decimal("0.5") if middle else 0)) / (1 << index_bits) for n in range(count)]
        return tuple(int(function(place).quantize(Decimal(1), ROUND_HALF_EVEN)) for place in places)


@cache
def power_table() -> tuple[int, ...]:
    """2**-f, a little smaller by one factor, so that 2**0 needs no bit of its own."""
    largest = (1 << POWER_BITS) - 1
    return _points(lambda f: largest * (-f * Decimal(2).ln()).exp(), POWER_INDEX, 1 << POWER_INDEX, False)


@cache
def root_table() -> tuple[int, ...]:
    """1/sqrt(m) of m in [1, 2), then in [2, 4): both by the bits behind the leading one of m."""
    half = ROOT_INDEX - 1
    one = 1 << ROOT_BITS
    low = _points(lambda f: one / (1 + f).sqrt(), half, 1 << half, True)
    high = _points(lambda f: one / (2 * (1 + f)).sqrt(), half, 1 << half, True)
    return low + high


@cache
def reciprocal_table() -> tuple[int, ...]:
    """1/m of m in [1, 2) by the bits behind its leading one."""
    return _points(lambda f: (1 << ROOT_BITS) / (1 + f), ROOT_INDEX, 1 << ROOT_INDEX, True)


@cache
def log2_e() -> int:
    """log2(e) as a scale of the first product."""
    with localcontext(Context(prec=40)):
        return int((Decimal(1 << LOG2_E_FRACTION) / Decimal(2).ln()).quantize(Decimal(1), ROUND_HALF_EVEN))
