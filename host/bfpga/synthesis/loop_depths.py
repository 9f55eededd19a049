"""How many stages the pipelined loops of an accelerator have, as they are scheduled for its device and clock."""

from __future__ import annotations

from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.estimate.hardware import HardwareFigures
from bfpga.synthesis.kept import kept_figures


def loop_depths(accelerator: Accelerator, cache: Path) -> dict[str, int]:
    """Stages by ``process.Loop``: iterations from the one that begins to the one that ends in the same cycle.

    From the figures that there are, in the package or in ``cache``; else the loops are scheduled, which takes as long
    as ``bfpga synthesize --no-count``. ModuleNotFoundError without the packages for that, ToolError without a clang.
    """
    return _stages(kept_figures(accelerator, cache) or _scheduled(accelerator, cache))


def _scheduled(accelerator: Accelerator, cache: Path) -> HardwareFigures:
    from bfpga.synthesis.driver import synthesize

    return synthesize(accelerator, count=False, cache=cache / "netlists")


def _stages(figures: HardwareFigures) -> dict[str, int]:
    found: dict[str, int] = {}
    for loop in figures.loops:
        name = f"{loop.ip}.{loop.name}"
        found[name] = max(found.get(name, 0), -(-loop.depth // loop.interval))
    return found
