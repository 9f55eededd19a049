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
from bfpga.vendor.tcl_check import Finding, check_scripts

JOBS = 4
PATHS = ScriptPaths(sources=Path("/build/kernel"), build=Path("/build"))


@cache
def design(accelerator: str = ZYNQ7, board: str | None = None) -> BlockDesign:
    """The block design of a ready accelerator, on its own board or on another."""
    found = load_accelerator(accelerator)
    return block_design(found if board is None else on_board(found, load_board(board)))


@cache
def scripts(accelerator: str = ZYNQ7, board: str | None = None) -> Mapping[str, str]:
    """Its scripts."""
    return render_scripts(design(accelerator, board), PATHS, JOBS)


def small_accelerator(board: str) -> Accelerator:
    """An array so small that every board holds it."""
    accelerator, target = load_accelerator(TINY), load_board(board)
    clock = min(max(accelerator.clock_mhz, target.clock_min), target.clock_max)
    systolic = replace(accelerator.config, dsp=target.dsp_kind)
    return on_board(replace(accelerator, config=systolic, clock_mhz=clock), target)


@dataclass(frozen=True)
class Mutation:
    """``old`` in ``script`` becomes ``new``: a mistake that must be found there, or in the line that holds ``at``."""

    name: str
    script: str
    old: str
    new: str
    at: str = ""
    accelerator: str = ZYNQ7

    @property
    def broken(self) -> str:
        """The script with this one mistake."""
        good = scripts(self.accelerator)[self.script]
        assert self.old in good, f"{self.name}: {self.old!r} is not in {self.script}"
        return good.replace(self.old, self.new, 1)

    @cache  # noqa: B019 - kept for the whole run
    def findings(self) -> list[Finding]:
        return check_scripts(design(self.accelerator), {self.script: self.broken}, PATHS, JOBS)

    def lines(self) -> range:
        """Where it may be found: in the line of ``at``, else in the first that differs or in one beside it."""
        lines = self.broken.split("\n")
        if self.at:
            line = next(n for n, text in enumerate(lines, 1) if self.at in text)
            return range(line, line + 1)
        good = scripts(self.accelerator)[self.script].split("\n")
        line = next(n for n, pair in enumerate(zip(good, lines, strict=False), 1) if pair[0] != pair[1])
        return range(line - 1, line + 2)


def whole_lines(text: str, *holding: str) -> str:
    """The first line that holds all of these, with its line feed."""
    return next(line for line in text.splitlines(keepends=True) if all(part in line for part in holding))
