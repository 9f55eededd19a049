"""The loops of the process of rows at the clock of pynq_z2_dense."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import each_once, some_of
from kept_synthesis import kept

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from row_tops import PROCESSES, row_sources

from bfpga.accelerator.loader import load_accelerator
from bfpga.synthesis.frontend import kernel
from bfpga.synthesis.frontend.loops import OUTSIDE
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.vendor.render import kernel_sources, render_kernel

PART = "xc7z020clg400-1"
CLOCK = Clock(8.0, 0.27 * 8.0)
#: The loops of each process, the one that works last.
LOOPS = {"row_process": ["Rows_Fetch", "RowLanes"], "factor_process": ["Factors_Fetch", "Align", "RowFactors"]}
#: Columns and lanes: all of pynq_z2_dense, a part of them; others.
SIZES = [(12, 4), (1, 1), (3, 2)]


@pytest.mark.parametrize(("size", "process"), each_once(SIZES, PROCESSES))
def test_loops_begin_every_cycle_of_eight_nanoseconds(size: tuple[int, int], process: str) -> None:
    """With what the board keeps free for wires: a lane of every column, or half a row's factors, a cycle."""
    loops = kernel.analyse_files(*row_sources(process, *size), cache=kept()).loops
    schedules = {loop.name: schedule_loop(loop, PART, CLOCK) for loop in loops if loop.name != OUTSIDE}
    assert list(schedules) == LOOPS[process]
    assert [(name, made.interval) for name, made in schedules.items() if made.interval > 1 or made.slack < 0] == []


@pytest.mark.parametrize(
    "ip", some_of(("sequencer", "scratchpad", "weights", "post", "rows", "row_factors"), "rows")
)
def test_loops_around_it_begin_every_cycle_too(ip: str) -> None:
    """Of pynq_z2_dense with a process of rows of all of its columns."""
    config = load_accelerator("pynq_z2_dense").config
    files = kernel_sources(render_kernel("rows", "0" * 8, replace(config, row_columns=config.columns)))
    loops = kernel.analyse_files(files, f"src/{ip}.cpp", cache=kept()).loops
    schedules = {loop.name: schedule_loop(loop, PART, CLOCK) for loop in loops if loop.name != OUTSIDE}
    assert [(name, made.interval) for name, made in schedules.items() if made.interval > 1 or made.slack < 0] == []
