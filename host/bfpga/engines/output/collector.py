"""Statistics of wide results and the exponent they choose: the kernel's collector (docs/kernel-positions.md).

Arrays of results are (samples, pixels, channels); every sample is collected alone. Positions are absolute: nsb or lsb
of a result plus its exponent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfpga.contract.descriptor import LeadRule
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray
from bfpga.formats.position_rules import SHIFTS
from bfpga.formats.wide_statistics import lsb_positions, nsb_positions

#: Shifts from the accumulators' grid that a rule may choose (FP 2.3).
SMALLEST_SHIFT, LARGEST_SHIFT = SHIFTS
#: No position yet: below and above all others.
_NONE_YET, _NO_END = -(1 << 31), 1 << 31
#: Counts of a kernel.
_COUNT_MASK = (1 << 32) - 1


class Collected(NamedTuple):
    """What the collector has seen of each sample; every array is (samples,), ``bins`` (samples, bins).

    top is below all positions if nothing was counted in a bin; low is above all if every value was zero.
    """

    values: Int64Array
    bins: Int64Array
    base: Int64Array
    top: Int64Array
    low: Int64Array
    unit_low: Int64Array
    unit_high: Int64Array


def collect(v: Int64Array, e3: IntArray, row_exponents: Int64Array, base: Int64Array, bins: int) -> Collected:
    """The collector's state after all values v * 2**e3 of each sample. FP R10, R14, R15.

    v: (samples, pixels, channels); e3 broadcasts to it; row_exponents: exponents of the rows that left,
    (samples, channels) or (samples, 1); base: position of bin 0 (samples,).
    """
    samples = len(v)
    highest = nsb_positions(v)
    counted, position = highest >= 0, highest + e3
    return Collected(
        np.full(samples, v.shape[1] * v.shape[2], np.int64),
        _histogram(position - base.reshape(-1, 1, 1), counted, bins),
        base,
        np.where(counted, position, _NONE_YET).max(axis=(1, 2), initial=_NONE_YET),
        np.where(v != 0, lsb_positions(v) + e3, _NO_END).min(axis=(1, 2), initial=_NO_END),
        row_exponents.min(axis=1),
        row_exponents.max(axis=1),
    )


@dataclass(frozen=True)
class PositionHistogram:
    """What collectors counted of samples together, bin by bin as in the kernel. FP R49.

    values: results that were measured. counts: those whose highest bit is at a position, absolute: the bit plus the
    exponent of the result; the lowest bin of a sample has what is smaller too, the highest what is larger. The others
    are 0 or -1.
    """

    values: int
    counts: Mapping[int, int]

    def __add__(self, other: PositionHistogram) -> PositionHistogram:
        positions = sorted({*self.counts, *other.counts})
        counts = {position: self.counts.get(position, 0) + other.counts.get(position, 0) for position in positions}
        return PositionHistogram(self.values + other.values, counts)

    @property
    def without_bit(self) -> int:
        """Results that are 0 or -1 and have no position."""
        return self.values - sum(self.counts.values())


def histogram_of(seen: Collected) -> PositionHistogram:
    """The collector's histogram, all samples together."""
    positions = seen.base.reshape(-1, 1) + np.arange(seen.bins.shape[1])
    found, place = np.unique(positions, return_inverse=True)
    counts = np.bincount(place.reshape(-1), seen.bins.reshape(-1), len(found)).astype(np.int64)
    known = {int(position): int(count) for position, count in zip(found, counts, strict=True) if count}
    return PositionHistogram(int(seen.values.sum()), known)


def told_words(bins: int) -> int:
    """Words that a kernel tells of its collector: the bins, the number of values, the position of bin 0. FP R49."""
    return bins + 2


def histogram_of_words(words: Sequence[int]) -> PositionHistogram:
    """The histogram of what a kernel has told; counts are numbers of 32 bits without a sign."""
    *counts, base = words
    *bins, values = (count & _COUNT_MASK for count in counts)
    return PositionHistogram(values, {base + place: count for place, count in enumerate(bins) if count})


def _histogram(index: Int64Array, counted: BoolArray, bins: int) -> Int64Array:
    samples = len(index)
    place = np.clip(index, 0, bins - 1) + bins * np.arange(samples).reshape(-1, 1, 1)
    return np.bincount(place[counted], minlength=samples * bins).reshape(samples, bins)


def rule_exponent(seen: Collected, rule: int, rate: int, margin: int, mantissa_bits: int) -> Int64Array:
    """The exponent a rule finds for each sample (samples,), before the format's limits. FP 2.3, R17."""
    fits = mantissa_bits - 2
    highest = seen.top - fits
    if rule == LeadRule.RATE:
        floor = np.minimum(highest, seen.unit_low - min(fits, -SMALLEST_SHIFT))
        found = np.maximum(_rate_reach(seen, rate) - fits, floor)
    elif rule == LeadRule.LSB:
        found = seen.low
    elif rule == LeadRule.WINDOW:
        found = np.where(seen.low >= highest, seen.low, highest)
    else:
        found = highest
    limited = np.clip(found + margin, seen.unit_low + SMALLEST_SHIFT, seen.unit_high + LARGEST_SHIFT)
    return np.where(seen.top == _NONE_YET, seen.unit_high, limited)


def _rate_reach(seen: Collected, rate: int) -> Int64Array:
    """Smallest position that no more than one of 2**rate values exceeds."""
    last = seen.bins.shape[1] - 1
    above = seen.bins[:, ::-1].cumsum(axis=1)[:, ::-1] - seen.bins
    smallest = np.argmax(above << rate <= seen.values.reshape(-1, 1), axis=1)
    return np.where(smallest == last, seen.top, np.minimum(seen.base + smallest, seen.top))
