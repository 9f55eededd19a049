"""Statistics of wide results, taken before any narrowing: where their highest and lowest bits are (FP 2.2).

``nsb`` is the index of the highest bit that differs from the sign, ``lsb`` that of the lowest set bit; -1 if there is
none. Bin 0 of a histogram counts the values without one, bin i + 1 those at position i. A value fits ``width`` bits
after a right shift by s exactly when nsb <= s + width - 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import Int64Array
from bfpga.formats.fixed_point import ACC_WIDTHS, require_choice, require_range
from bfpga.formats.rounding import floor_log2

#: What is kept of the highest bits: all counts, those of the uppermost positions, or the largest position alone.
NsbKind = Literal["histogram", "coarse", "maximum"]
#: What is kept of the lowest bits.
LsbKind = Literal["none", "minimum", "histogram"]
#: Positions that a coarse histogram counts: the largest one seen and those below it (FP 7).
COARSE_POSITIONS = 8


def nsb_positions(values: npt.ArrayLike) -> Int64Array:
    """Index of the highest bit that differs from the sign bit; -1 for 0 and -1. FP R10."""
    numbers = np.asarray(values, np.int64)
    differing = numbers ^ (numbers >> 63)
    return np.where(differing > 0, floor_log2(np.maximum(differing, 1)), -1)


def lsb_positions(values: npt.ArrayLike) -> Int64Array:
    """Index of the lowest set bit; -1 for 0. FP R10."""
    numbers = np.asarray(values, np.int64)
    return floor_log2((numbers & -numbers) << 1 | (numbers == 0)) - 1


@dataclass(frozen=True)
class StatisticsKind:
    """What a collector of results of ``acc_width`` bits (16..48) keeps; ``ConfigurationError`` for others. FP 2.2, 7.

    The rule ``rate`` needs a histogram or a coarse one; ``lsb`` and ``window`` need the lowest bits.
    """

    acc_width: int = 32
    nsb: NsbKind = "histogram"
    lsb: LsbKind = "none"

    def __post_init__(self) -> None:
        require_range("acc_width", self.acc_width, ACC_WIDTHS)
        require_choice("statistics.nsb", self.nsb, get_args(NsbKind))
        require_choice("statistics.lsb", self.lsb, get_args(LsbKind))

    @property
    def bins(self) -> int:
        return self.acc_width + 1

    @property
    def kept_positions(self) -> int:
        """Positions counted, from the largest one seen downwards."""
        return {"histogram": self.bins, "coarse": COARSE_POSITIONS, "maximum": 0}[self.nsb]


@dataclass(frozen=True)
class WideStatistics:
    """What is known of wide results; fields are scalars, or have one entry for each channel. FP R10, R14, R49.

    nsb_max, lsb_min: -1 if no value has such a bit (lsb_min also if it is not collected). Histograms: (..., acc_width
    + 1) counts; a coarse one is zero below its positions and in bin 0. What the kind does not keep is zero.
    """

    kind: StatisticsKind
    count: Int64Array
    nsb_max: Int64Array
    lsb_min: Int64Array
    nsb_histogram: Int64Array
    lsb_histogram: Int64Array

    @property
    def total(self) -> int:
        """Values seen, of all channels."""
        return int(self.count.sum())


def cleared(kind: StatisticsKind, channels: int | None = None) -> WideStatistics:
    """The storage before the first value; channels: one set for each. FP R15."""
    groups = () if channels is None else (channels,)
    none = np.full(groups, -1, np.int64)
    empty = np.zeros((*groups, kind.bins), np.int64)
    return WideStatistics(kind, np.zeros(groups, np.int64), none, none, empty, empty)


def _histogram(positions: Int64Array, bins: int) -> Int64Array:
    """Counts of positions (values, groups) -> (groups, bins), in one pass over all of them."""
    groups = positions.shape[1]
    index = positions + 1 + bins * np.arange(groups)
    return np.bincount(index.ravel(), minlength=groups * bins).astype(np.int64).reshape(groups, bins)


def _largest_position(histogram: Int64Array) -> Int64Array:
    """Largest position with a count, -1 without one."""
    bins = histogram.shape[-1]
    occupied = histogram[..., ::-1] > 0
    occupied[..., -1] = True  # bin 0 is position -1, whether it is occupied or not
    positions: Int64Array = bins - 2 - occupied.argmax(axis=-1)
    return positions


def _smallest_position(histogram: Int64Array) -> Int64Array:
    """Smallest position of bit 0 and above with a count, -1 without one."""
    occupied = histogram[..., 1:] > 0
    return np.where(occupied.any(axis=-1), occupied.argmax(axis=-1), -1)


def _kept(histogram: Int64Array, nsb_max: Int64Array, kind: StatisticsKind) -> Int64Array:
    """The histogram without what the kind does not count."""
    if kind.nsb == "histogram":
        return histogram
    positions = np.arange(-1, kind.acc_width)
    counted = (positions > (nsb_max - kind.kept_positions)[..., None]) & (positions >= 0)
    return np.where(counted, histogram, 0)


def collect(wide: npt.ArrayLike, kind: StatisticsKind, *, per_channel: bool = False) -> WideStatistics:
    """Statistics of wide results (..., channels), of all together or of each channel. FP R10, R14.

    ``DataError`` if one needs more than ``acc_width`` bits: wide results are exact (FP R8).
    """
    values = np.asarray(wide, np.int64)
    values = values.reshape(-1, values.shape[-1] if per_channel else 1)
    require_exact(values, kind.acc_width)
    nsb = _histogram(nsb_positions(values), kind.bins)
    nsb_max = _largest_position(nsb)
    lsb = np.zeros_like(nsb) if kind.lsb == "none" else _histogram(lsb_positions(values), kind.bins)
    groups = values.shape[1:] if per_channel else ()
    return WideStatistics(
        kind,
        np.full(groups, len(values), np.int64),
        nsb_max.reshape(groups),
        _smallest_position(lsb).reshape(groups),
        _kept(nsb, nsb_max, kind).reshape(*groups, kind.bins),
        (lsb if kind.lsb == "histogram" else np.zeros_like(lsb)).reshape(*groups, kind.bins),
    )


def require_exact(wide: npt.ArrayLike, acc_width: int) -> None:
    """``DataError`` if a wide result does not fit: statistics and results would be those of other numbers. FP R8."""
    values = np.asarray(wide)
    largest = int(nsb_positions([values.max(initial=0), values.min(initial=0)]).max())
    if largest + 2 > acc_width:
        raise DataError(f"a wide result needs {largest + 2} bits, acc_width is {acc_width}: choose a larger one")


def merge(first: WideStatistics, second: WideStatistics) -> WideStatistics:
    """Statistics of both sets of values, in any order and grouping the same. FP R14.

    ``ConfigurationError`` for statistics of different kinds.
    """
    if first.kind != second.kind:
        raise ConfigurationError(f"statistics of {first.kind} and of {second.kind} cannot be merged; collect one kind")
    nsb_max = np.maximum(first.nsb_max, second.nsb_max)
    return WideStatistics(
        first.kind,
        first.count + second.count,
        nsb_max,
        _smaller(first.lsb_min, second.lsb_min),
        _kept(first.nsb_histogram + second.nsb_histogram, nsb_max, first.kind),
        first.lsb_histogram + second.lsb_histogram,
    )


def _smaller(first: Int64Array, second: Int64Array) -> Int64Array:
    """The smaller position, where -1 is none."""
    return np.where((first < 0) | (second < 0), np.maximum(first, second), np.minimum(first, second))
