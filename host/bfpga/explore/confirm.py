"""What the synthesis of a point's code says of its clock: every loop reaches its interval, or which do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.estimate.hardware import HardwareFigures
from bfpga.explore.figures import Point
from bfpga.synthesis.driver import synthesize

CONFIRMED, MISSED = "confirmed", "missed"
#: Synthesises an accelerator without counting its cells.
Synthesis = Callable[[Accelerator], HardwareFigures]


def uncounted(accelerator: Accelerator) -> HardwareFigures:
    """Intervals and slack of the loops, as `bfpga synthesize --no-count`; ToolError without its packages."""
    return synthesize(accelerator, count=False)


def confirmed(point: Point, synthesis: Synthesis = uncounted) -> Point:
    """The point with what a synthesis says of its clock."""
    origin = point.candidate.origin
    figures = synthesis(load_accelerator(origin) if origin else point.candidate.accelerator())
    slow = [f"{loop.name} begins every {loop.interval} clocks" for loop in figures.loops if loop.is_slow]
    slow += [f"{loop.name} misses the clock by {-loop.slack:.2f} ns" for loop in figures.loops if loop.slack < 0]
    return replace(point, clock=MISSED if slow else CONFIRMED, missed="; ".join(dict.fromkeys(slow)))


def slower(point: Point, clocks: Sequence[float], synthesis: Synthesis = uncounted) -> dict[str, Any] | None:
    """The point's place in the space at the fastest of the slower clocks that a synthesis confirms; None without one.

    clocks: from slow to fast.
    """
    below = [clock for clock in clocks if clock < point.candidate.described.get("clock_mhz", 0)]
    found = None
    while below:
        middle = len(below) // 2
        described = {**point.candidate.described, "clock_mhz": below[middle]}
        tried = replace(point, candidate=replace(point.candidate, described=described))
        if confirmed(tried, synthesis).clock == CONFIRMED:
            found, below = below[middle], below[middle + 1 :]
        else:
            below = below[:middle]
    return None if found is None else {**point.values, "clock_mhz": found}
