"""Constraints between the numbers of a kernel with a tile."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.arrays.zero_skip_tile import tile_array
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.finding import Finding
from bfpga.engines.sparse_cluster.constraints import MOST_KERNEL, run_findings, unit_findings
from bfpga.engines.zero_skip_tile.tile_words import EntryShape


def tile_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a tile in the place of the array."""
    yield from unit_findings(config, "a tile")
    array = tile_array(config.array)
    kernel, rows, columns = array.kernel, array.rows, array.columns
    if not 1 <= kernel <= MOST_KERNEL:
        return
    tile = f"is [{rows}, {columns}]"
    if array.parallel % kernel:
        yield Finding("rows_parallel", f"is {array.parallel}; must be a multiple of kernel = {kernel}")
    if rows % array.parallel:
        yield Finding("tile", f"{tile}; its rows must be a multiple of rows_parallel = {array.parallel}")
    if columns % kernel:
        yield Finding("tile", f"{tile}; its columns must be a multiple of kernel = {kernel}")
    if min(rows, columns) < 2 * kernel - 1:
        sums = 2 * kernel - 1
        yield Finding("tile", f"{tile}; a map of {kernel} x {kernel} cells has {sums} rows and columns of sums")
    entry = EntryShape.of(config)
    if entry.plain_from > entry.word_cells:
        text = f"are {config.lanes}; {config.rows} rows of them have no room for an entry of {entry.cells} weights"
        yield Finding("lanes", text)
    yield from run_findings(config, "tile", f"[{rows}, {columns}]")
