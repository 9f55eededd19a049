"""How large a sample has to be as a network is trained: a table over iterations, accuracy or spread (FP R31, R32).

Results vary less as a network learns, so fewer of them say where the position belongs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from bfpga.engines.positions.sampling import SampleFraction
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import IntArray
from bfpga.formats.fixed_point import require_choice

Measure = Literal["iteration", "accuracy", "spread"]
MEASURES: tuple[Measure, ...] = get_args(Measure)


@dataclass(frozen=True)
class Progress:
    """Where the training stands.

    iteration: iterations that were run. accuracy: measured share of right answers, 0..1; spread: that of a layer's
    results in bits (``histogram_spread``); None of both if nothing was measured yet.
    """

    iteration: int = 0
    accuracy: float | None = None
    spread: float | None = None


@dataclass(frozen=True)
class SampleSchedule:
    """Sample of each group of a measure. FP R31, R32.

    limits: ascending; a group begins at its limit. fractions: one for each group, the first one below all limits.
    ``ConfigurationError`` for other limits, or another number of fractions.
    """

    measure: Measure
    limits: tuple[float, ...]
    fractions: tuple[SampleFraction, ...]

    def __post_init__(self) -> None:
        require_choice("schedule.measure", self.measure, MEASURES)
        if any(before >= limit for before, limit in pairwise(self.limits)) or not all(map(math.isfinite, self.limits)):
            raise ConfigurationError(f"schedule.limits are {list(self.limits)}; ascending numbers are needed")
        if len(self.fractions) != len(self.limits) + 1:
            raise ConfigurationError(
                f"schedule.fractions are {len(self.fractions)}; {len(self.limits)} limits make {len(self.limits) + 1} "
                "groups, each with one fraction"
            )

    @classmethod
    def parse(cls, measure: Measure, limits: Sequence[float], fractions: Sequence[str]) -> SampleSchedule:
        """A schedule with fractions like `1/8`."""
        return cls(measure, tuple(limits), tuple(SampleFraction.parse(text) for text in fractions))

    def fraction(self, progress: Progress) -> SampleFraction:
        """The sample for the next pass; the largest one as long as the measure is not known. FP R31, R32."""
        value: float | None = getattr(progress, self.measure)
        if value is None or math.isnan(value):
            return max(self.fractions, key=lambda fraction: fraction.value)
        return self.fractions[bisect_right(self.limits, value)]


#: The specification's groups of iterations.
BY_ITERATION = SampleSchedule.parse("iteration", (100, 300, 1000), ("8/8", "4/8", "2/8", "1/8"))
#: Our groups: half of the sample for every step of the accuracy.
BY_ACCURACY = SampleSchedule.parse("accuracy", (0.5, 0.8, 0.95), ("8/8", "4/8", "2/8", "1/8"))
#: Our groups: at the spread of normal numbers (2 bits) a sample of 1/8 finds the shift of all data; heavy tails need
#: more of it (docs/dynamic-positions.md).
BY_SPREAD = SampleSchedule.parse("spread", (3, 4, 5), ("1/8", "2/8", "4/8", "8/8"))


def histogram_spread(histogram: IntArray) -> int | None:
    """Bits between the largest and the median magnitude of results. FP R32.

    histogram: (bins,) counts of the highest bit that differs from the sign; bin 0 counts results without one, which
    have no magnitude. None if there is no other result.
    """
    counts = np.asarray(histogram, np.int64)[1:]
    total = int(counts.sum())
    if total == 0:
        return None
    median = int(np.searchsorted(2 * counts.cumsum(), total))
    return int(np.flatnonzero(counts)[-1]) - median
