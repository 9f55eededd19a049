"""What a synthesis says of the processes of a sparse cluster, at the clock of the ZCU104's accelerators."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cpp_units import SOURCES, rendered_headers
from effort import some_of
from kept_synthesis import kept
from stated_distances import late_writes

from bfpga.contract.arrays.sparse_cluster import SparseCluster

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.accelerator.clocks import WIRE_PERCENT, wire_percent
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.delays import technology_of
from bfpga.synthesis.frontend.kernel import analyse_files
from bfpga.synthesis.frontend.loops import OUTSIDE
from bfpga.synthesis.memories import memories_area
from bfpga.synthesis.netlist.implement import Implementation, implement
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.synthesis.schedule_types import Schedule
from bfpga.vendor.render import kernel_sources

SLOW = pytest.mark.slow
PART = "xczu7ev-ffvc1156-2-e"
PERIOD = 1000 / 187.5
#: The build of a ZCU104: 4 channels a word, 3 x 3 kernels, 8 in flight, 64 blocks of a piece.
BUILD = "using Config = ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16>;"

UNIT = f"""\
#include "bfpga/processes/sparse_cluster/data_stationary.hpp"
#include "cluster_build.hpp"
{BUILD}
void bfpga_unit(bfpga::stream<bfpga::wire_t<bfpga::PieceBeat<Config>>>& pieces,
                bfpga::stream<bfpga::wire_t<bfpga::StepBeat<Config>>>& steps,
                bfpga::stream<bfpga::wire_t<bfpga::BlockBeat<Config>>>& sums,
                bfpga::stream<bfpga::int_t<32>>& reports) {{
    static bfpga::DataStationaryProcess<Config> unit;
    unit.run(pieces, steps, sums, reports);
}}
"""


def scheduled(top: str, percent: int = WIRE_PERCENT) -> list[tuple[LoopBody, Schedule]]:
    """The pipelined loops of a top function and their schedules, which write memories in time for their next read.
    percent: of the clock, for wires."""
    rendered = {f"include/{path}": text for path, text in rendered_headers(SparseCluster()).items()}
    builds = ("cluster_build.hpp", "cluster_kernel_config.hpp")
    own = {"src/top.cpp": top, **{f"src/{name}": (SOURCES / name).read_text() for name in builds}}
    loops = analyse_files(kernel_sources({**rendered, **own}), "src/top.cpp", cache=kept()).loops
    clock = Clock(PERIOD, PERIOD * percent / 100)
    found = [(body, schedule_loop(body, PART, clock)) for body in loops if body.name != OUTSIDE]
    assert {body.name: late for body, schedule in found if (late := late_writes(body, schedule))} == {}
    return found


def mapped(loops: Sequence[tuple[LoopBody, Schedule]]) -> list[Implementation]:
    """Loops as hardware, by one Yosys, whose start takes longer than half of a loop."""
    pytest.importorskip("pyosys", reason="the synthesis extra is not installed")
    found = implement(loops, "xcup", kept(), processes=1)
    assert all(made.path is not None and made.path.delay < PERIOD for made in found)
    return found


def test_a_unit_of_variant_e_takes_a_step_a_clock() -> None:
    """SC R115, SC R116, SC 7.1: II 1 with slack, a multiplier and a block memory for each bank, and the distance that
    sums and steps are promised."""
    loops = scheduled(UNIT)
    assert [(body.name, schedule.interval) for body, schedule in loops] == [("Sums_Clear", 1), ("Unit", 1)]
    assert all(schedule.slack >= 0 for _, schedule in loops)
    assert memories_area([loops[1][0]], technology_of(PART)).bram18 == 9
    (made,) = mapped([loops[1]])
    assert made.logic.dsp == 9
    assert made.logic.lut < 1100


@SLOW
@pytest.mark.parametrize(("multiplier", "blocks"), [("LaneDspPacked", 5), ("LaneLut", 0)])
def test_multipliers_of_other_kinds(multiplier: str, blocks: int) -> None:
    """SC R73: two products in a DSP block, or none, at the same interval and clock."""
    loops = scheduled(UNIT.replace("16>;", f"16, 1, bfpga::{multiplier}>;"))
    assert [schedule.interval for _, schedule in loops] == [1, 1]
    (made,) = mapped([loops[1]])
    assert made.logic.dsp == blocks


#: Paths through selections of cells and banks need the share for wires of `post` on these devices.
WIRES_OF_CHAINS = 46
INDEXED = """\
#include "bfpga/processes/sparse_cluster/indexed.hpp"
#include "bfpga/processes/sparse_cluster/tile_gather.hpp"
#include "cluster_build.hpp"
using Config = IndexedBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 72>, 4>;
"""
GATHER = f"""{INDEXED}
void bfpga_gather(bfpga::stream<bfpga::wire_t<bfpga::PieceBeat<Config>>>& pieces,
                  bfpga::stream<bfpga::wire_t<bfpga::TileBeat<Config>>>& tiles) {{
    static bfpga::TileGather<Config> gather;
    gather.run(pieces, tiles);
}}
"""
INDEXED_UNIT = f"""{INDEXED}
void bfpga_unit(bfpga::stream<bfpga::wire_t<bfpga::TileBeat<Config>>>& tiles,
                bfpga::stream<bfpga::wire_t<bfpga::StepBeat<Config>>>& steps,
                bfpga::stream<bfpga::wire_t<bfpga::BlockBeat<Config>>>& sums,
                bfpga::stream<bfpga::int_t<32>>& reports) {{
    static bfpga::IndexedProcess<Config> unit;
    unit.run(tiles, steps, sums, reports);
}}
"""


@SLOW
def test_a_unit_of_variant_b_takes_a_round_a_clock() -> None:
    """SC R92, SC R93, SC R97: II 1 with slack, a multiplier a lane, a block memory a bank, the promised distances."""
    loops = scheduled(INDEXED_UNIT, WIRES_OF_CHAINS)
    assert [(body.name, schedule.interval) for body, schedule in loops] == [("Sums_Clear", 1), ("Unit", 1)]
    assert all(schedule.slack >= 0 for _, schedule in loops)
    assert memories_area([loops[1][0]], technology_of(PART)).bram18 == 9
    (made,) = mapped([loops[1]])
    assert made.logic.dsp == 4
    assert made.logic.lut < 1100


@SLOW
def test_micro_tiles_are_gathered_a_cell_a_clock() -> None:
    """SC R49, SC R80: II 1 with slack while a set of memories is loaded and the other one leaves."""
    loops = scheduled(GATHER, WIRES_OF_CHAINS)
    assert [(body.name, schedule.interval) for body, schedule in loops] == [("Cells_Clear", 1), ("Gather", 1)]
    assert all(schedule.slack >= 0 for _, schedule in loops)
    (made,) = mapped([loops[1]])
    assert made.logic.dsp == 0


SHIFT_WINDOW = f"""\
#include "bfpga/processes/sparse_cluster/shift_window.hpp"
#include "bfpga/processes/sparse_cluster/tile_gather.hpp"
#include "cluster_build.hpp"
{BUILD}
using Tile = bfpga::WholeTileBeat<Config>;
"""
TILE_GATHER = f"""{SHIFT_WINDOW}
void bfpga_gather(bfpga::stream<bfpga::wire_t<bfpga::PieceBeat<Config>>>& pieces,
                  bfpga::stream<bfpga::wire_t<Tile>>& tiles) {{
    static bfpga::TileGather<Config, Tile> gather;
    gather.run(pieces, tiles);
}}
"""
SHIFT_WINDOW_UNIT = f"""{SHIFT_WINDOW}
void bfpga_unit(bfpga::stream<bfpga::wire_t<Tile>>& tiles,
                bfpga::stream<bfpga::wire_t<bfpga::StepBeat<Config>>>& steps,
                bfpga::stream<bfpga::wire_t<bfpga::BlockBeat<Config>>>& sums,
                bfpga::stream<bfpga::int_t<32>>& reports) {{
    static bfpga::ShiftWindowProcess<Config> unit;
    unit.run(tiles, steps, sums, reports);
}}
"""


@SLOW
def test_a_unit_of_variant_a_takes_a_tap_a_clock() -> None:
    """SC R83, SC R84, SC R86, SC R87: II 1 with slack though sums move each clock; a multiplier a cell of a tile, a
    block memory a bank, the promised distances."""
    loops = scheduled(SHIFT_WINDOW_UNIT)
    assert [(body.name, schedule.interval) for body, schedule in loops] == [("Sums_Clear", 1), ("Unit", 1)]
    assert all(schedule.slack >= 0 for _, schedule in loops)
    assert memories_area([loops[1][0]], technology_of(PART)).bram18 == 9
    (made,) = mapped([loops[1]])
    assert made.logic.dsp == 9
    assert made.logic.lut < 2100


UNITS = 4
AROUND = {
    "distributor": (
        "PieceDistributor", "MapBeat maps, LimitsBeat limits, MapCellBeat cells, words cuts, words told", "PieceBeat",
        "Cells",
    ),
    "broadcast": ("StepBroadcast", "StepBeat steps", "StepBeat", "Steps"),
    "collector": ("BlockCollector", "MapBeat maps, LimitsBeat limits, BlockBeat blocks", "BlockBeat", "Blocks"),
}  # fmt: skip


def top_around(header: str, units: int) -> str:
    """A top function of a process that has a stream for each unit."""
    process, own, beat, _ = AROUND[header]
    streams = [each.split() for each in own.split(", ")] + [[beat, f"unit_{u}"] for u in range(units)]
    words = {kind: f"bfpga::wire_t<bfpga::{kind}<Config>>" for kind, _ in streams} | {"words": "bfpga::int_t<32>"}
    ports = ", ".join(f"bfpga::stream<{words[kind]}>& {name}" for kind, name in streams)
    run = "run_telling" if "told" in own else "run"
    return (
        f'#include "bfpga/processes/sparse_cluster/{header}.hpp"\n#include "cluster_build.hpp"\n'
        f"{BUILD.replace('16>', f'16, {units}>')}\nvoid bfpga_{header}({ports}) {{\n"
        f"    static bfpga::{process}<Config> process;\n"
        f"    process.{run}({', '.join(name for _, name in streams)});\n}}\n"
    )


@pytest.mark.parametrize("header", some_of(AROUND, "distributor"))
def test_a_process_around_the_units_takes_a_word_a_clock(header: str) -> None:
    """SC R62: a cell, a step, a block of sums each clock; no path of the mapped netlist above the clock."""
    loops = scheduled(top_around(header, UNITS))
    assert [(body.name, schedule.interval) for body, schedule in loops] == [(AROUND[header][3], 1)]
    assert all(schedule.slack >= 0 for _, schedule in loops)
    (made,) = mapped(loops)
    assert made.logic.dsp == 0


PARTITION = """\
#include "bfpga/processes/sparse_cluster/partition.hpp"
#include "cluster_build.hpp"
using Config = GridBuild<ClusterBuild<4, 3, 3, 8, 8, 32, 8, 64, 16>, 4, 4, 64, 22>;
void bfpga_partition(bfpga::stream<bfpga::int_t<32>>& numbers,
                     bfpga::stream<bfpga::wire_t<bfpga::MapCellBeat<Config>>>& cells,
                     bfpga::stream<bfpga::wire_t<bfpga::LimitsBeat<Config>>>& limits,
                     bfpga::stream<bfpga::wire_t<bfpga::LimitsBeat<Config>>>& grid_limits,
                     bfpga::stream<bfpga::int_t<32>>& reports) {
    static bfpga::PartitionProcess<Config> partition;
    partition.run(numbers, cells, limits, grid_limits, reports);
}
"""


@SLOW
def test_the_partition_weighs_a_piece_a_clock() -> None:
    """SC R23, SC R36: cells are counted, pieces weighed and candidates compared, one a clock each."""
    loops = scheduled(PARTITION, WIRES_OF_CHAINS)
    assert {body.name: schedule.interval for body, schedule in loops} == dict.fromkeys(
        ("Count", "Loads", "Limits_Send", "Terms"), 1
    )
    assert all(schedule.slack >= 0 for _, schedule in loops)
    assert len(mapped(loops)) == len(loops)


#: The kernel of a ZCU104: 16 columns, 4 channels a word, 16 kernels in flight, 4 x 4 units; room for 256 blocks.
KERNEL = "using Config = ClusterKernel<16, 4, 16, 4, 4, 3, 64, 256, 64, 8, 8, 32, bfpga::LaneDspPacked>;"
#: Process -> class, header, streams, loops; the look-up tables that it takes at most.
IN_KERNEL = {
    "array": (
        "CellFeeder<Config>", "cell_feeder",
        "command_t commands, OperandBeat<Config> operands, bool windows, PartitionBeat<C> partitions, "
        "MapCellBeat<C> counted, MapBeat<C> maps, MapBeat<C> grid_maps, MapCellBeat<C> cells, KernelsBeat<C> kernels, "
        "OutputsBeat<C> outputs",
        ["Feed"], 1000,
    ),
    "step_maker": (
        "StepMaker<Config>", "step_maker", "KernelsBeat<C> kernels, WeightBeat<Config> words, StepBeat<C> steps",
        ["Make"], 1800,
    ),
    "grid_sums": (
        "GridSums<Config>", "grid_sums", "OutputsBeat<C> outputs, BlockBeat<C> blocks, SumBeat<Config> sums", ["Grid"],
        2500,
    ),
    "partition": (
        "PartitionProcess<C>", "partition",
        "PartitionBeat<C> maps, MapCellBeat<C> cells, LimitsBeat<C> limits, LimitsBeat<C> grid_limits, "
        "command_t cuts",
        ["Words_Count", "Loads", "Terms", "Limits_Send"], 1300,
    ),
}  # fmt: skip


#: The same kernel with units of variant B, of four lanes.
INDEXED_KERNEL = KERNEL.replace("Packed>", "Packed, 4>")
#: Of a kernel with such units alone; the maker of steps is another one there.
IN_INDEXED_KERNEL = {
    "step_maker": (*IN_KERNEL["step_maker"][:4], 3700),
    "gather_0": (
        "TileGather<C>", "tile_gather", "PieceBeat<C> pieces, TileBeat<C> tiles", ["Cells_Clear", "Gather"], 800,
    ),
    "unit_0": (
        "IndexedProcess<C>", "indexed", "TileBeat<C> tiles, StepBeat<C> steps, BlockBeat<C> sums",
        ["Sums_Clear", "Unit"], 1300,
    ),
}  # fmt: skip


def stream_of(kind: str) -> str:
    """The type of a stream of beats, of words of commands or of truths."""
    return f"bfpga::stream<bfpga::wire_t<bfpga::{kind}>>" if kind.endswith(">") else f"bfpga::stream<{kind}>"


def top_in_kernel(name: str, process_row: tuple[str, str, str, list[str], int], kernel: str = KERNEL) -> str:
    """A top function of a process of a kernel with a cluster."""
    process, header, own, _, _ = process_row
    streams = [each.split() for each in own.replace("command_t", "bfpga::command_t").split(", ")]
    ports = ", ".join(f"{stream_of(kind)}& {stream}" for kind, stream in streams)
    return (
        f'#include "bfpga/processes/sparse_cluster/layer.hpp"\n#include "bfpga/processes/sparse_cluster/{header}.hpp"\n'
        f'#include "cluster_kernel_config.hpp"\n{kernel}\nusing C = bfpga::ClusterConfig<Config>;\n'
        f"void bfpga_{name}({ports}) {{\n    static bfpga::{process} process;\n"
        f"    process.run({', '.join(stream for _, stream in streams)});\n}}\n"
    )


#: The same kernel with units of variant C, and of D.
PACKED_KERNELS = {
    variant: KERNEL.replace("Packed>", f"Packed, 4, 2, {adds}>") for variant, adds in (("C", "false"), ("D", "true"))
}
#: Of a kernel with such units alone.
IN_PACKED_KERNEL = {
    "step_maker": (*IN_KERNEL["step_maker"][:4], 3000),
    "unit_0": (
        "PackedProcess<C>", "packed", "TileBeat<C> tiles, StepBeat<C> steps, RoundBeat<C> rounds", ["Unit"], 500,
    ),
    "merge_0": (
        "MergeProcess<C>", "merge", "RoundBeat<C> rounds, BlockBeat<C> sums", ["Sums_Clear", "Merge"], 1800,
    ),
}  # fmt: skip


#: The same kernel with units of variant A, and what it alone has; steps are made as for those of E.
SHIFT_KERNEL = KERNEL.replace("Packed>", "Packed, 0, 1, false, true>")
IN_SHIFT_KERNEL = {
    "step_maker": IN_KERNEL["step_maker"],
    "gather_0": (
        "TileGather<C, bfpga::WholeTileBeat<C>>",
        "whole_tile.hpp\"\n#include \"bfpga/processes/sparse_cluster/tile_gather",
        "PieceBeat<C> pieces, WholeTileBeat<C> tiles", ["Cells_Clear", "Gather"], 500,
    ),
    "unit_0": (
        "ShiftWindowProcess<C>", "shift_window", "WholeTileBeat<C> tiles, StepBeat<C> steps, BlockBeat<C> sums",
        ["Sums_Clear", "Unit"], 2100,
    ),
}  # fmt: skip


@SLOW
@pytest.mark.parametrize("name", IN_SHIFT_KERNEL)
def test_the_processes_of_variant_a_in_a_kernel_take_a_tap_a_clock(name: str) -> None:
    """SC R83, SC R84, SC R86, SC R87, SC 7.1: whole micro-tiles, and taps of walks, one a clock each, with 16
    kernels in flight."""
    row = IN_SHIFT_KERNEL[name]
    loops = scheduled(top_in_kernel(name, row, SHIFT_KERNEL), wire_percent("zynqmp", name))
    assert {body.name: schedule.interval for body, schedule in loops} == dict.fromkeys(row[3], 1)
    assert all(schedule.slack >= 0 for _, schedule in loops)
    if name not in ("step_maker", "gather_0"):
        assert memories_area([loops[1][0]], technology_of(PART)).bram18 == 18
    for made in mapped(loops):
        assert made.logic.lut < row[4]


@pytest.mark.parametrize("name", some_of(IN_KERNEL))
def test_the_processes_of_a_kernel_take_a_word_a_clock(name: str) -> None:
    """SC R36, SC R62, SC 7.1: cells, steps and pixels leave one a clock; memories keep the distance that they are
    promised."""
    loops = scheduled(top_in_kernel(name, IN_KERNEL[name]), WIRES_OF_CHAINS if name == "partition" else WIRE_PERCENT)
    assert {body.name: schedule.interval for body, schedule in loops} == dict.fromkeys(IN_KERNEL[name][3], 1)
    assert all(schedule.slack >= 0 for _, schedule in loops)
    for made in mapped(loops):
        assert made.logic.lut < IN_KERNEL[name][4]


#: The same kernel, whose pieces own outputs.
HALO_KERNEL = KERNEL.replace("Packed>", "Packed, 0, 1, false, false, true>")


def test_the_partition_with_a_halo_weighs_a_piece_a_clock() -> None:
    """SC R23, SC R29: strips on both sides of a limit lie apart, which takes a stage more and no clock."""
    row = IN_KERNEL["partition"]
    loops = scheduled(top_in_kernel("partition", row, HALO_KERNEL), WIRES_OF_CHAINS)
    assert {body.name: schedule.interval for body, schedule in loops} == dict.fromkeys(row[3], 1)
    assert all(schedule.slack >= 0 for _, schedule in loops)


def test_a_collector_of_pieces_that_share_no_cell_compares_no_limits() -> None:
    """SC R30, SC R62: with overlap-add every sum of a unit is taken, so the adders are all that stands in its path."""
    halo = top_around("collector", UNITS)
    apart = halo.replace("using Config = ", "struct Config : ").replace(
        f"16, {UNITS}>;", f"16, {UNITS}> {{ static constexpr bool halo = false; }};"
    )
    assert apart != halo
    ((masked, _),) = scheduled(halo)
    ((body, schedule),) = scheduled(apart)
    assert (schedule.interval, schedule.slack >= 0) == (1, True)
    assert len(body.operations) < len(masked.operations)


@pytest.mark.parametrize("name", some_of(IN_INDEXED_KERNEL))
def test_the_processes_of_variant_b_in_a_kernel_take_a_word_a_clock(name: str) -> None:
    """SC R92, SC R93, SC R97, SC 7.1: steps of one weight, micro-tiles and rounds, one a clock each, with 16 kernels in
    flight; 144 steps of a channel lie in block memory. SC R49, SC R80: a set of memories is loaded while the other one
    leaves."""
    row = IN_INDEXED_KERNEL[name]
    loops = scheduled(top_in_kernel(name, row, INDEXED_KERNEL), wire_percent("zynqmp", name))
    assert {body.name: schedule.interval for body, schedule in loops} == dict.fromkeys(row[3], 1)
    assert all(schedule.slack >= 0 for _, schedule in loops)
    if name not in ("step_maker", "gather_0"):
        assert memories_area([loops[1][0]], technology_of(PART)).bram18 == 21
    for made in mapped(loops):
        assert made.logic.lut < row[4]


@SLOW
@pytest.mark.parametrize(
    ("name", "variant"), [("unit_0", "C"), ("merge_0", "D"), ("step_maker", "C"), ("merge_0", "C"), ("unit_0", "D")]
)
def test_the_processes_of_variants_c_and_d_in_a_kernel_take_a_round_a_clock(name: str, variant: str) -> None:
    """SC R99, SC R102, SC R107, SC 7.1: two weights a step, rounds that enter or wait, one a clock each; sums keep the
    distance that they are promised though what waits leaves a clock later."""
    row = IN_PACKED_KERNEL[name]
    loops = scheduled(top_in_kernel(name, row, PACKED_KERNELS[variant]), wire_percent("zynqmp", name))
    assert {body.name: schedule.interval for body, schedule in loops} == dict.fromkeys(row[3], 1)
    assert all(schedule.slack >= 0 for _, schedule in loops)
    if name == "merge_0":
        assert memories_area([loops[1][0]], technology_of(PART)).bram18 == 18
    for made in mapped(loops):
        assert made.logic.lut < row[4]
