"""What our synthesis of a point's code says of its clock, which is a model: every loop is in time, or which are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bfpga.accelerator.boards import Board
from bfpga.accelerator.clocks import clock_setting
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.estimate.hardware import HardwareFigures
from bfpga.explore.figures import Point
from bfpga.synthesis.driver import synthesize
from bfpga.synthesis.kept import packaged_figures

MODELLED, MISSED, NOT_MODELLED = "modelled", "missed", "not modelled"
#: Synthesises an accelerator without counting its cells.
Synthesis = Callable[[Accelerator], HardwareFigures]


def uncounted(accelerator: Accelerator) -> HardwareFigures:
    """Intervals and slack of the loops, as `bfpga synthesize --no-count`; ToolError without its packages."""
    return synthesize(accelerator, count=False)


def verdict(figures: HardwareFigures | None) -> tuple[str, str]:
    """What figures of a synthesis say of the clock, and why it is missed; without figures it is not modelled."""
    if figures is None:
        return NOT_MODELLED, ""
    slow = [f"{loop.name} begins every {loop.interval} clocks" for loop in figures.loops if loop.is_slow]
    slow += [f"{loop.name} misses the clock by {-loop.slack:.2f} ns" for loop in figures.loops if loop.slack < 0]
    return MISSED if slow else MODELLED, "; ".join(dict.fromkeys(slow))


def modelled(point: Point, synthesis: Synthesis = uncounted) -> Point:
    """The point with what a synthesis says of its clock; of a ready accelerator the package may have it."""
    accelerator = point.candidate.loaded()
    known = packaged_figures(accelerator) if point.candidate.origin else None
    clock, missed = verdict(known or synthesis(accelerator))
    return replace(point, clock=clock, missed=missed)


def usual_clock(board: Board) -> float:
    """MHz that a synthesis finds in time for the fastest ready accelerator of a board, as its PLL makes it.

    Those of static exponents alone are left out: what most points have beside these does not hold their clocks. Of a
    board without such figures the fastest of its ready accelerators, without any the board's usual clock.
    """
    found = [one for one in map(load_accelerator, accelerator_names()) if one.board == board]
    ready = [one for one in found if not one.config.static_exponents] or found
    sure = [one for one in ready if verdict(packaged_figures(one))[0] == MODELLED]
    asked = max((one.clock_mhz for one in sure or ready), default=board.clock_default)
    return clock_setting(board.processing_system, asked).actual_mhz


def slower(point: Point, clocks: Sequence[float], synthesis: Synthesis = uncounted) -> dict[str, Any] | None:
    """The point's place in the space at the fastest slower clock that a synthesis finds in time; None without one.

    clocks: from slow to fast.
    """
    below = [clock for clock in clocks if clock < point.candidate.described.get("clock_mhz", 0)]
    found = None
    while below:
        middle = len(below) // 2
        described = {**point.candidate.described, "clock_mhz": below[middle]}
        tried = replace(point, candidate=replace(point.candidate, described=described))
        if modelled(tried, synthesis).clock == MODELLED:
            found, below = below[middle], below[middle + 1 :]
        else:
            below = below[:middle]
    return None if found is None else {**point.values, "clock_mhz": found}
