"""The loops of the process of rows at the clock of pynq_z2_dense."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_units import SOURCES, rendered_headers
from kept_synthesis import kept

from bfpga.vendor.render import kernel_sources

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.frontend import kernel
from bfpga.synthesis.frontend.loops import OUTSIDE
from bfpga.synthesis.schedule import Clock, schedule_loop

PART = "xc7z020clg400-1"
CLOCK = Clock(8.0, 0.27 * 8.0)
HEAD = """\
#include "bfpga/processes/rows/PROCESS.hpp"
#include "row_build.hpp"
using Config = RowBuild<12, 4, 24>;
using bfpga::stream;
using bfpga::wire_t;
using Commands = stream<bfpga::command_t>;
using Totals = stream<wire_t<bfpga::RowTotalBeat>>;
using Factors = stream<wire_t<bfpga::RowFactorBeat>>;
"""
TOPS = {
    "row_process": """
void rows(Commands& row_commands, stream<wire_t<bfpga::RowWords<Config>>>& operands,
          stream<wire_t<bfpga::RowGainBeat>>& gains, Totals& totals, Factors& factors,
          stream<wire_t<bfpga::SumBeat<Config>>>& sums) {
    static bfpga::RowProcess<Config> process;
    process.run(row_commands, operands, gains, totals, factors, sums);
}
""",
    "factor_process": """
void row_factors(Commands& factor_commands, Commands& exponents, Totals& totals, Factors& factors) {
    static bfpga::FactorProcess<Config> process;
    process.run(factor_commands, exponents, totals, factors);
}
""",
}
#: The loops of each process that are not outside, the one that works last.
LOOPS = {"row_process": ["Rows_Fetch", "RowLanes"], "factor_process": ["Factors_Fetch", "Align", "RowFactors"]}


@pytest.mark.parametrize("process", TOPS)
def test_loops_begin_every_cycle_of_eight_nanoseconds(process: str) -> None:
    """With what the board keeps free for wires, a lane of 12 columns, or half a row's factors, a cycle."""
    headers = {f"include/{path}": text for path, text in rendered_headers().items()}
    top = f"src/{process}.cpp"
    own = {"src/row_build.hpp": (SOURCES / "row_build.hpp").read_text(), top: HEAD.replace("PROCESS", process)}
    own[top] += TOPS[process]
    loops = kernel.analyse_files(kernel_sources(headers | own), top, cache=Path(kept())).loops
    schedules = {loop.name: schedule_loop(loop, PART, CLOCK) for loop in loops if loop.name != OUTSIDE}
    assert list(schedules) == LOOPS[process]
    assert [(name, made.interval) for name, made in schedules.items() if made.interval > 1 or made.slack < 0] == []
