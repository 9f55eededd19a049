"""How many outputs are measured as a network learns: fewer and fewer, for its results vary less (FP R31, R32)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from typing import Literal, get_args

import numpy as np

from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import IntArray
from bfpga.formats.fixed_point import require_choice
from bfpga.formats.wide_statistics import nsb_positions

#: What a share follows: how many iterations were finished, what they reached, how far their results spread.
Measure = Literal["iteration", "accuracy", "spread"]
#: Largest distance of rows that are measured.
LARGEST_PERIOD = 64


@dataclass(frozen=True)
class Progress:
    """What is known when an iteration begins: its number, from 0; accuracy and spread once they have been measured."""

    iteration: int = 0
    accuracy: float | None = None
    spread: int | None = None

    def after(self, accuracy: float | None = None, spread: int | None = None) -> Progress:
        """When this iteration is finished; what it did not measure stays what it was."""
        known = {name: value for name, value in (("accuracy", accuracy), ("spread", spread)) if value is not None}
        return replace(self, iteration=self.iteration + 1, **known)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SampleSchedule:
    """Every how manieth row is measured, by a table: ``periods[i]`` up to below ``boundaries[i]``, the last one beyond.

    The default is the specification's example: 100, 50, 25 and 12.5 % of the outputs, from iterations 0, 100, 300 and
    1000 on. ``ConfigurationError`` for a table that does not answer.
    """

    boundaries: tuple[float, ...] = (100, 300, 1000)
    periods: tuple[int, ...] = (1, 2, 4, 8)
    by: Measure = "iteration"

    def __post_init__(self) -> None:
        require_choice("schedule.by", self.by, get_args(Measure))
        if len(self.periods) != len(self.boundaries) + 1:
            raise ConfigurationError(
                f"the schedule has {len(self.periods)} periods for {len(self.boundaries)} boundaries; one more is "
                "needed"
            )
        ascending = all(first < second for first, second in pairwise(self.boundaries))
        if not ascending or not all(map(isfinite, self.boundaries)):
            raise ConfigurationError(f"boundaries of the schedule are {list(self.boundaries)}; they must ascend")
        for period in self.periods:
            if not (isinstance(period, int) and 1 <= period <= LARGEST_PERIOD):
                raise ConfigurationError(f"period {period!r} of the schedule is not between 1 and {LARGEST_PERIOD}")

    def period(self, progress: Progress) -> int:
        """Every how manieth row is measured now; the most of them as long as what the share follows is not known."""
        value: float | None = getattr(progress, self.by)
        return min(self.periods) if value is None else self.periods[bisect_right(self.boundaries, value)]


def spread(mantissa: IntArray) -> int:
    """Bits from the median to the largest of the results' highest bits; 0 where there are none but 0 and -1. FP R32.

    A sample misses the largest results the easier the further they are from the usual ones.
    """
    positions = nsb_positions(np.asarray(mantissa, np.int64))
    counted = np.sort(positions[positions >= 0], axis=None)
    return int(counted[-1] - counted[len(counted) // 2]) if counted.size else 0
