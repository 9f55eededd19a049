"""Resources of the processes of a tile, as synthesized (docs/zero-skip.md), scaled by its lanes and memories."""

from __future__ import annotations

from bfpga.contract.arrays.sparse_cluster import GRID_SUMS
from bfpga.contract.arrays.zero_skip_tile import STEP_READER, TILE, tile_array
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.resource_units import Resources, half_blocks
from bfpga.engines.sparse_cluster.unit_resources import grid_sums, shared

#: Of each lane of a tile, and of each memory of its cells: of a bank of rows and a column.
TILE_LANE, TILE_CELLS = (78, 30), (40, 10)
#: Of the process that reads its steps, of each weight of a word.
READER_CELL = 18, 20


def tile_resources(config: KernelConfig) -> dict[str, Resources]:
    """Of every process but that of the cells, which is the array's."""
    array = tile_array(config.array)
    lanes = array.unit_products
    sums = half_blocks(array.rows // array.parallel * config.rows, lanes * config.accumulator_bits)
    memories = array.parallel * (array.columns - array.kernel + 1)
    lut, ff = (TILE_LANE[kind] * lanes + TILE_CELLS[kind] * memories for kind in range(2))
    return {
        STEP_READER: shared(READER_CELL, config.rows * config.lanes),
        TILE: Resources((lanes + 1) // 2, -(-sums // 2), lut, ff),
        GRID_SUMS: grid_sums(config),
    }
