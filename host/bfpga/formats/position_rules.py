"""From statistics of wide results to the shift that makes them narrow (FP 2.3).

``max``: nothing saturates but what the rounding carries over the edge and, in a symmetric format, the most negative
number, which becomes the one above it. ``rate``: at most one value in 2**rate_log2 saturates. ``lsb``: no low bit is
lost. ``window``: no low bit is lost if everything fits, else ``max``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array
from bfpga.formats.fixed_point import require_choice, require_range
from bfpga.formats.wide_statistics import StatisticsKind, WideStatistics

Rule = Literal["max", "rate", "lsb", "window"]
#: Exponents of a rate (a register of five bits) and bits of head room (four).
RATES = (0, 31)
MARGINS = (0, 15)
#: Shifts of the converter.
SHIFTS = (-8, 31)


@dataclass(frozen=True)
class PositionRule:
    """How a shift follows from statistics; ``ConfigurationError`` for numbers out of range. FP 2.3, R17.

    rate_log2: r of the rule ``rate``. margin: added to the shift of any rule, head room for what a sample did not show.
    shift_min, shift_max: the shift is clamped to them.
    """

    rule: Rule = "rate"
    rate_log2: int = 12
    margin: int = 0
    shift_min: int = SHIFTS[0]
    shift_max: int = SHIFTS[1]

    def __post_init__(self) -> None:
        require_choice("rule", self.rule, get_args(Rule))
        require_range("rate_log2", self.rate_log2, RATES)
        require_range("margin", self.margin, MARGINS)
        require_range("shift_max", self.shift_max, SHIFTS)
        require_range("shift_min", self.shift_min, (SHIFTS[0], self.shift_max))

    def check(self, kind: StatisticsKind) -> None:
        """``ConfigurationError`` if statistics of this kind do not hold what the rule looks at. FP 7."""
        if self.rule == "rate" and kind.nsb == "maximum":
            raise ConfigurationError("rule is rate, but statistics.nsb is maximum; histogram or coarse is needed")
        if self.rule in ("lsb", "window") and kind.lsb == "none":
            raise ConfigurationError(f"rule is {self.rule}, but statistics.lsb is none; minimum or histogram is needed")

    def clamp(self, shift: Int64Array) -> Int64Array:
        """Shifts within the rule's limits."""
        return np.clip(shift, self.shift_min, self.shift_max)


def select_shift(statistics: WideStatistics, rule: PositionRule, out_width: int) -> Int64Array:
    """Right shift of the converter to ``out_width`` bits: one, or one for each channel. FP R17.

    Nothing but 0 and -1 (or no value at all) gives 0. ``ConfigurationError`` if the statistics do not serve the rule.
    """
    rule.check(statistics.kind)
    largest = statistics.nsb_max - (out_width - 2)
    if rule.rule == "max":
        shift = largest
    elif rule.rule == "rate":
        tolerated = tolerated_position(statistics, rule.rate_log2) - (out_width - 2)
        shift = np.minimum(largest, np.maximum(tolerated, rule.shift_min))
    else:
        lowest = np.maximum(statistics.lsb_min, 0)
        shift = lowest if rule.rule == "lsb" else np.maximum(lowest, largest)
    return np.where(statistics.nsb_max < 0, 0, rule.clamp(shift + rule.margin))


def tolerated_position(statistics: WideStatistics, rate_log2: int) -> Int64Array:
    """Smallest position k >= 0 with at most count / 2**rate_log2 values above it. FP 2.3.

    A coarse histogram has the counts above its lowest position only: below the largest position minus 8 it does not
    look, so the result is at least that.
    """
    # Index j: values at positions above j.
    above = statistics.nsb_histogram[..., :1:-1].cumsum(axis=-1)
    allowed = (statistics.count >> rate_log2)[..., None]
    position = (above > allowed).sum(axis=-1)
    return np.maximum(position, statistics.nsb_max - statistics.kind.kept_positions)
