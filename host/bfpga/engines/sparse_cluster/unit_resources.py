"""Resources of a sparse cluster in the place of the array, process by process; `bfpga synthesize` counts a kernel.

Look-up tables and flip-flops are those of single processes with 3 x 3 kernels and words of 4 channels, as synthesized
(docs/sparse-cluster.md, section 8), scaled by the cells of a kernel or by units; memories follow from their sizes.
"""

from __future__ import annotations

from bfpga.contract.arrays.sparse_cluster import (
    BROADCAST,
    COLLECTOR,
    DISTRIBUTOR,
    GRID_SUMS,
    PARTITION,
    STEP_MAKER,
    SparseCluster,
    cluster_array,
    map_array,
)
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.resource_units import Resources, half_blocks

#: Tables, flip-flops of each cell of a kernel in a unit whose products share DSP blocks.
UNIT_CELL = 107, 135
#: The same of a unit of variant A, of each cell of a kernel; of what gathers its micro-tiles.
SHIFT_CELL, WHOLE_TILE_CELL = (246, 264), (138, 42)
#: The same of a unit of variant B, of each of its lanes; of what gathers micro-tiles, of each value of a group.
INDEXED_UNIT, INDEXED_LANE = (625, 581), (139, 102)
GATHER_UNIT, GATHER_LANE = (1173, 377), (71, 41)
#: Of a unit of variants C and D with its steps; of what adds its products, and more of that where D adds two of a cell.
PACKED_UNIT, PACKED_LANE = (1019, 369), (78, 40)
MERGE_UNIT, MERGE_LANE, PAIR_ADDERS = (420, 841), (250, 54), (310, 18)
#: The makers of their steps; steps of a unit beyond which these are in block memory.
TAP_STEPS_CELLS, PAIR_STEPS_CELLS, TABLE_WORDS = (3980, 2520), (3475, 1965), 1024
#: Of each unit in the process that deals out cells, that gives steps on, that adds sums.
DISTRIBUTOR_UNIT, BROADCAST_UNIT, COLLECTOR_UNIT = (120, 173), (1, 5), (733, 749)
#: More of that where pieces own outputs; and of the process that cuts maps.
COLLECTOR_HALO, PARTITION_HALO = (192, 71), (265, 277)
#: Of the others, and DSP blocks: of the squares of work, of a walk over cells.
PARTITION_CELLS, STEP_MAKER_CELLS, GRID_SUMS_CELLS = (2190, 1620), (2215, 1386), (2260, 2223)
PARTITION_DSP, FEEDER_DSP = 10, 2
#: Tables and flip-flops of the process of the cells without its registers for the words of a beat.
FEEDER_CELLS = 500, 780
#: Copies of the table of work, one for each corner of a rectangle, and bits of a sum of it.
WORK_COPIES, WORK_BITS = 4, 24
#: Parts of the memory of a map's sums: one fills while the other one leaves.
GRID_SETS = 2


def cluster_resources(config: KernelConfig) -> dict[str, Resources]:
    """Resources of every process of a cluster but that of the cells, which is the array's."""
    array = cluster_array(config.array)
    units, cells, bits = array.units, array.taps, config.accumulator_bits
    sums = cells * half_blocks(array.words * config.rows, bits)
    table = WORK_COPIES * half_blocks(array.map_lines * array.map_lines, WORK_BITS)
    maker = TAP_STEPS_CELLS if array.lists_taps else STEP_MAKER_CELLS
    maker = PAIR_STEPS_CELLS if array.merges_products else maker
    each = SHIFT_CELL if array.shifts_window else UNIT_CELL
    unit = _indexed_unit(config, array, sums) if array.lists_taps else _unit(cells, sums, each)
    gather = _of_lanes(GATHER_UNIT, GATHER_LANE, array.block_values)
    gather = _of_lanes((0, 0), WHOLE_TILE_CELL, cells) if array.shifts_window else gather
    merge = _of_lanes(MERGE_UNIT, MERGE_LANE, array.lanes) + Resources(0, -(-sums // 2))
    adders = Resources(0, 0, *PAIR_ADDERS) if array.variant == "D" else Resources()
    cut = Resources(0, 0, *PARTITION_HALO) if array.has_halo else Resources()
    owned = shared(COLLECTOR_HALO, units) if array.has_halo else Resources()
    return {
        PARTITION: Resources(PARTITION_DSP, -(-table // 2), *PARTITION_CELLS) + cut,
        DISTRIBUTOR: shared(DISTRIBUTOR_UNIT, units),
        STEP_MAKER: Resources(lut=maker[0], ff=maker[1]),
        BROADCAST: shared(BROADCAST_UNIT, units),
        COLLECTOR: shared(COLLECTOR_UNIT, units) + owned,
        GRID_SUMS: grid_sums(config),
        **dict.fromkeys(array.unit_names, unit),
        **dict.fromkeys(array.gathers, gather),
        **dict.fromkeys(array.merges, merge + adders),
    }


def grid_sums(config: KernelConfig) -> Resources:
    """The process with the sums of whole maps."""
    array = map_array(config.array)
    grid = array.taps * half_blocks(GRID_SETS * array.blocks * config.rows, config.accumulator_bits)
    return Resources(0, -(-grid // 2), *GRID_SUMS_CELLS)


def _unit(cells: int, sums: int, each: tuple[int, int]) -> Resources:
    """A unit of variant A or E; sums: halves of block memories; each: tables and flip-flops of a cell."""
    return Resources((cells + 1) // 2, -(-sums // 2), each[0] * cells, each[1] * cells)


def _indexed_unit(config: KernelConfig, array: SparseCluster, sums: int) -> Resources:
    """A unit of variant B, C or D; its steps are in block memory where they are many. Sums of C and D are elsewhere."""
    steps = 1 << (array.step_lists * max(config.rows, array.step_distance) - 1).bit_length()
    words = 2 * config.lanes * steps
    phase = (array.kernel - 1).bit_length() + 1
    bits = array.step_weights * (config.weight_bits + 2 * phase) + (config.rows - 1).bit_length() + 2
    table = half_blocks(words, bits) if words > TABLE_WORDS else 0
    blocks = array.step_weights * ((array.block_values + 1) // 2)
    if array.merges_products:
        return _of_lanes(PACKED_UNIT, PACKED_LANE, array.lanes) + Resources(blocks, -(-table // 2))
    return _of_lanes(INDEXED_UNIT, INDEXED_LANE, array.lanes) + Resources(blocks, -(-(sums + table) // 2))


def _of_lanes(unit: tuple[int, int], lane: tuple[int, int], lanes: int) -> Resources:
    return Resources(lut=unit[0] + lane[0] * lanes, ff=unit[1] + lane[1] * lanes)


def cells_logic(config: KernelConfig) -> Resources:
    """The process that takes words of all columns and gives cells one by one."""
    word = config.lanes * config.format.mantissa_bits
    lut, ff = FEEDER_CELLS
    return Resources(FEEDER_DSP, 0, lut + config.columns * word, ff + 4 * config.columns * word)


def shared(unit: tuple[int, int], units: int) -> Resources:
    return Resources(lut=unit[0] * units, ff=unit[1] * units)
