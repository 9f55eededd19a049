"""What a synthesis says of the loop of the skip array (issue 16, item 1)."""

from __future__ import annotations

import pytest
from cpp_units import SOURCES, rendered_headers
from kept_synthesis import kept
from stated_distances import late_writes

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.delays import technology_of
from bfpga.synthesis.frontend.kernel import analyse_files
from bfpga.synthesis.memories import memories_area
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.vendor.render import kernel_sources

PART = "xc7z020clg400-1"
GROUPS = 1

_TOP = """\
#include "bfpga/kernel/storage.hpp"
#include "bfpga/processes/skip_array/skip_array.hpp"
#include "skip_config.hpp"
using Config = SkipArray<1, 2, 12, 4, 256, 8, 8, 24, 128>;
using Entries = bfpga::stream<bfpga::wire_t<bfpga::Entry<Config>>>;
void bfpga_array(bfpga::stream<bfpga::wire_t<bfpga::OperandBeat<Config>>>& operands,
                 bfpga::stream<bfpga::wire_t<bfpga::SumBeat<Config>>>& sums, bfpga::stream<bool>& windows,
                 Entries& entries) {
    static bfpga::SkipArrayProcess<Config, bfpga::VitisStorage> array;
    array.run(operands, sums, windows, entries);
}
"""


def test_the_loop_reaches_its_interval_at_125_mhz() -> None:
    """An entry a clock and group; a word is there when it is read, 8 iterations after its write; each pair of
    lanes has its sums in the accumulator of a DSP block; windows take 3 BRAM36 a group and the sums of two passes 4."""
    rendered = {f"include/{path}": text for path, text in rendered_headers().items()}
    own = {"src/array.cpp": _TOP, "src/skip_config.hpp": (SOURCES / "skip_config.hpp").read_text()}
    loop, *_ = analyse_files(kernel_sources({**rendered, **own}), "src/array.cpp", cache=kept()).loops
    schedule = schedule_loop(loop, PART, Clock.default(8.0))
    assert (loop.name, loop.stated_interval, schedule.interval) == ("Skip", 1, 1)
    assert schedule.slack >= 0
    assert len(schedule.accumulators) == GROUPS * 12
    assert {waiver.distance for memory in loop.memories for waiver in memory.waivers} == {8}
    assert late_writes(loop, schedule) == {}
    assert memories_area([loop], technology_of(PART)).bram18 == 2 * (3 * GROUPS + 4)


_SPARSE_TOP = """\
#include "bfpga/kernel/storage.hpp"
#include "bfpga/processes/skip_array/sparse_array.hpp"
#include "sparse_config.hpp"
using Config = SparseArray<3, 2, 4, 16, 16, 2, 8, 8, 24>;
void bfpga_array(bfpga::stream<bfpga::wire_t<bfpga::OperandBeat<Config>>>& operands,
                 bfpga::stream<bfpga::wire_t<bfpga::WeightBeat<Config>>>& weight_words,
                 bfpga::stream<bfpga::wire_t<bfpga::SumBeat<Config>>>& sums, bfpga::stream<bool>& windows) {
    static bfpga::SparseArrayProcess<Config, bfpga::VitisStorage> array;
    array.run(operands, weight_words, sums, windows);
}
"""


def test_the_loop_over_activations_reaches_its_interval_at_125_mhz() -> None:
    """Sums are read early in the pipeline and written late: 12 iterations are between, whatever rows the array has."""
    rendered = {f"include/{path}": text for path, text in rendered_headers().items()}
    own = {"src/array.cpp": _SPARSE_TOP, "src/sparse_config.hpp": (SOURCES / "sparse_config.hpp").read_text()}
    loop, *_ = analyse_files(kernel_sources({**rendered, **own}), "src/array.cpp", cache=kept()).loops
    schedule = schedule_loop(loop, PART, Clock.default(8.0))
    assert (loop.name, loop.stated_interval, schedule.interval) == ("Sparse", 1, 1)
    stated = {memory.name.split("[")[0]: waiver.distance for memory in loop.memories for waiver in memory.waivers}
    assert stated == {"queues_.cell_": 8, "weights_.cell_": 8, "sums_.cell_": 12}
    assert late_writes(loop, schedule) == {}
