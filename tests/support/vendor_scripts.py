"""Scripts of the vendor's tools for tests: rendered once, and broken in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from process_designs import TINY, ZYNQ7

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import on_board
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.build_scripts import ScriptPaths, render_scripts

PATHS = ScriptPaths(sources=Path("/build/kernel"), build=Path("/build"))


@cache
def design(accelerator: str = ZYNQ7, board: str | None = None) -> BlockDesign:
    """The block design of a ready accelerator, on its own board or on another."""
    found = load_accelerator(accelerator)
    return block_design(found if board is None else on_board(found, load_board(board)))


@cache
def scripts(accelerator: str = ZYNQ7, board: str | None = None) -> Mapping[str, str]:
    """Its scripts."""
    return render_scripts(design(accelerator, board), PATHS, 4)


def small_accelerator(board: str) -> Accelerator:
    """An array so small that every board holds it."""
    accelerator, target = load_accelerator(TINY), load_board(board)
    clock = min(max(accelerator.clock_mhz, target.clock_min), target.clock_max)
    systolic = replace(accelerator.systolic, dsp=target.dsp_kind)
    return on_board(replace(accelerator, systolic=systolic, clock_mhz=clock), target)


@dataclass(frozen=True)
class Mutation:
    """``old`` in ``script`` becomes ``new``: the rule that must find it, in the line that holds ``at``.

    ``at`` None: something is gone, so the finding stands at what misses it, or at the end.
    """

    name: str
    script: str
    old: str
    new: str
    rule: str
    at: str | None = None
    accelerator: str = ZYNQ7

    def apply(self) -> dict[str, str]:
        """The scripts with this one mistake."""
        good = scripts(self.accelerator)
        assert self.old in good[self.script], f"{self.name}: {self.old!r} is not in {self.script}"
        return dict(good) | {self.script: good[self.script].replace(self.old, self.new, 1)}

    def line(self) -> int | None:
        """Line of ``at`` in the broken script."""
        if self.at is None:
            return None
        lines = self.apply()[self.script].splitlines()
        return next(number for number, line in enumerate(lines, 1) if self.at in line)


def whole_lines(text: str, *holding: str) -> str:
    """The first line that holds all of these, with its line feed."""
    return next(line for line in text.splitlines(keepends=True) if all(part in line for part in holding))
