"""Counters of the zero-skip engine, counted on arrays in the hardware's own order (docs/zero-skip.md, section 5).

They depend on the coefficients and on sizes only, never on the images: a layer is counted once, when it is compiled.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from bfpga.engines.zero_skip.arithmetic import IMAGE_DEPTH, ZeroSkipConfig, ZeroSkipShape
from bfpga.engines.zero_skip.order import ordered_entries, shift_changes, stalls
from bfpga.formats.arrays import Int64Array, IntArray


@dataclass(frozen=True)
class ZeroSkipCounters:
    """What a layer costs. ZS R51; total_cycles: sum of max(compute, load) over all loads, without the parts below.

    first_load_cycles: nothing is computed before the first tile is there. ``cycles``: the whole layer (ZS Z9).
    """

    tiles: int
    tile_loads: int
    load_words: int
    coef_entries: int
    coef_skipped: int
    mac_rows: int
    macs: int
    compute_cycles: int
    load_cycles: int
    out_cycles: int
    total_cycles: int
    hazard_stalls: int
    shift_changes: int
    acc_words: int
    tile_buffer_words: int
    first_load_cycles: int

    @property
    def cycles(self) -> int:
        """Clocks of the layer: the first load, every image with its pipeline, outputs that nothing hides."""
        return self.first_load_cycles + self.total_cycles + IMAGE_DEPTH * self.tile_loads + self.out_cycles

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True)
class Extents:
    """Tiles along one axis: output cells of each, and the cells of the image that its buffer holds."""

    outputs: Int64Array
    valid: Int64Array


def extents(outputs: int, tile: int, kernel: int, stride: int, pad: int, size: int) -> Extents:
    """Tiles of up to ``tile`` outputs, the last one smaller; loads are clipped to the image. ZS Z2, Z4."""
    first = np.arange(0, outputs, tile, dtype=np.int64)
    count = np.minimum(tile, outputs - first)
    begin = first * stride - pad
    end = begin + (count - 1) * stride + kernel
    return Extents(count, np.maximum(0, np.minimum(end, size) - np.maximum(begin, 0)))


def load_clocks(config: ZeroSkipConfig, rows: int, columns: int) -> int:
    """Clocks in which so many cells reach the tile buffer: a beat a clock, of ``row_banks`` rows at most. ZS Z8."""
    cells, beat = rows * columns, config.beat_cells
    first = np.arange(0, cells, beat)
    last = np.minimum(first + beat, cells) - 1
    touched = last // max(columns, 1) - first // max(columns, 1) + 1
    return int((-(-touched // config.row_banks)).sum())


@dataclass(frozen=True)
class _Positions:
    """Tile positions of one pass in raster order: sizes of their outputs, cells and clocks of their loads. (tiles,)"""

    height: Int64Array
    width: Int64Array
    cells: Int64Array
    load: Int64Array


def _positions(config: ZeroSkipConfig, shape: ZeroSkipShape) -> _Positions:
    down = extents(
        shape.output_height, config.tile_height, shape.kernel_height, shape.stride_y, shape.pad_top, shape.height
    )
    across = extents(
        shape.output_width, config.tile_width, shape.kernel_width, shape.stride_x, shape.pad_left, shape.width
    )
    height, width = (grid.reshape(-1) for grid in np.meshgrid(down.outputs, across.outputs, indexing="ij"))
    rows, columns = (grid.reshape(-1) for grid in np.meshgrid(down.valid, across.valid, indexing="ij"))
    clocks = {size: load_clocks(config, *size) for size in set(zip(rows.tolist(), columns.tolist(), strict=True))}
    load = np.array([clocks[size] for size in zip(rows.tolist(), columns.tolist(), strict=True)], np.int64)
    return _Positions(height, width, rows * columns, load)


def accumulator_words(config: ZeroSkipConfig, shape: ZeroSkipShape) -> int:
    """Sums that must be stored: of a tile, or with ``image_outer`` of the whole plane. ZS Z5, R26, R38."""
    if config.nest == "image_outer":
        return config.kernels_in_flight * shape.output_height * shape.output_width
    return config.kernels_in_flight * config.tile_height * config.tile_width


def tile_buffer_words(config: ZeroSkipConfig, shape: ZeroSkipShape) -> int:
    """Cells of one tile with its halo: every image cell once. ZS Z5, R33."""
    rows = (config.tile_height - 1) * shape.stride_y + shape.kernel_height
    return rows * ((config.tile_width - 1) * shape.stride_x + shape.kernel_width)


def count_layer(config: ZeroSkipConfig, shape: ZeroSkipShape, coefficients: IntArray) -> ZeroSkipCounters:
    """Counters of C[image][kernel][ky][kx] on images of the layer's size. ZS 6.1."""
    shape.check(config, coefficients)
    entries = ordered_entries(coefficients, config.kernels_in_flight, config.order, config.skip_zero)
    counts, positions = entries.counts, _positions(config, shape)
    loaded = counts > 0 if config.skip_empty else np.ones_like(counts, bool)
    loads, tiles, total = int(loaded.sum()), len(positions.height), int(counts.sum())
    compute_cycles = hazard_stalls = total_cycles = out_cycles = 0
    group_sizes = np.minimum(
        config.kernels_in_flight, shape.kernels - np.arange(entries.groups) * config.kernels_in_flight
    )
    # Positions with the same sizes cost the same.
    kinds = np.stack([positions.height, positions.width, positions.load], axis=1)
    for (height, width, load), repeats in zip(*np.unique(kinds, axis=0, return_counts=True), strict=True):
        steps = int(config.steps(height, width))
        waiting = stalls(entries, steps, config.dependence_latency)
        compute = counts * steps + waiting
        both = np.maximum(compute, load) if config.double_buffer else compute + load
        compute_cycles += int(repeats * compute.sum())
        hazard_stalls += int(repeats * waiting.sum())
        total_cycles += int(repeats * both[loaded].sum())
        out_cycles += int(repeats * (-(-group_sizes * height * width * config.output_bytes // config.bus_bytes)).sum())
    positions_of_kernels = shape.images * shape.kernels * shape.kernel_height * shape.kernel_width
    return ZeroSkipCounters(
        tiles=tiles * entries.groups,
        tile_loads=tiles * loads,
        load_words=int(positions.cells.sum()) * loads,
        coef_entries=total * tiles,
        coef_skipped=(positions_of_kernels - total) * tiles,
        mac_rows=total * int(positions.height.sum()),
        macs=total * int((positions.height * positions.width).sum()),
        compute_cycles=compute_cycles,
        load_cycles=int(positions.load.sum()) * loads,
        out_cycles=out_cycles,
        total_cycles=total_cycles,
        hazard_stalls=hazard_stalls,
        shift_changes=shift_changes(entries) * tiles,
        acc_words=accumulator_words(config, shape),
        tile_buffer_words=tile_buffer_words(config, shape),
        first_load_cycles=int(positions.load[0]) if loads else 0,
    )


def predicted_cycles(config: ZeroSkipConfig, shape: ZeroSkipShape, coefficients: IntArray) -> int:
    """Clocks of the layer, for the choice of an engine. ZS R53."""
    return count_layer(config, shape, coefficients).cycles
