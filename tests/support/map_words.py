"""Words that a sparse cluster is fed with: a map, its cells, the limits of its pieces; and the grid that leaves.

Numbers of a word stand in the order of the fields in ``processes/sparse_cluster/map_beats.hpp``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from unit_words import UnitNumbers, blocks_of

from bfpga.engines.sparse_cluster.partition.geometry import (
    NO_PADDING,
    CutGeometry,
    Padding,
    Rectangle,
    shared_halo_geometry,
)
from bfpga.engines.sparse_cluster.partition.moves import Capacity
from bfpga.formats.arrays import Int64Array, IntArray

#: Numbers of a word with the limits of a piece.
LIMITS = 16


def unit_capacity(numbers: UnitNumbers) -> Capacity:
    """What a unit accumulates, wherever a piece begins: blocks are counted from the map's origin (R155)."""
    rows, columns = numbers.kernel
    return Capacity(numbers.words, (2 * rows - 1, 2 * columns - 1), numbers.kernel)


def map_word(
    rows: int, columns: int, channels: int, kernels: int, numbers: UnitNumbers, keeps: bool = False
) -> IntArray:
    """A map (1, 8) with its kernels in flight. keeps: the pieces are those of the map before."""
    grid = blocks_of(Rectangle(0, 0, rows, columns), numbers)
    return np.array(
        [[rows, columns, -(-channels // numbers.lanes), kernels - 1, grid.rows, grid.columns, keeps, False]], np.int32
    )


def stop_map() -> IntArray:
    """The word (1, 8) that ends a start."""
    return np.array([[0] * 7 + [1]], np.int32)


def map_cells(image: IntArray, numbers: UnitNumbers) -> IntArray:
    """Cells (words * rows * columns, lanes) of an image (rows, columns, channels): a raster for each channel word."""
    rows, columns, channels = image.shape
    words = -(-channels // numbers.lanes)
    padded = np.zeros((rows, columns, words * numbers.lanes), np.int32)
    padded[..., :channels] = image
    return padded.reshape(rows, columns, words, numbers.lanes).transpose(2, 0, 1, 3).reshape(-1, numbers.lanes)


def overlap_add_limits(pieces: Sequence[Rectangle], numbers: UnitNumbers, units: int, sharers: int = 1) -> IntArray:
    """Limits (units, 16) of pieces that share no cell: all of their sums are taken (R30).

    sharers: units of a piece, which take its cells with values in turn.
    """
    rows, columns = numbers.kernel
    pieces = [piece for piece in pieces for _ in range(sharers)]
    taken = [Rectangle(p.row0, p.column0, p.row1 + rows - 1, p.column1 + columns - 1) for p in pieces]
    return _limits(pieces, taken, numbers, units, sharers)


def halo_limits(
    outputs: Sequence[Rectangle],
    geometry: CutGeometry,
    kernel: tuple[int, int],
    numbers: UnitNumbers,
    units: int,
    padding: Padding = NO_PADDING,
    stride: tuple[int, int] = (1, 1),
) -> IntArray:
    """Limits (units, 16) of pieces that own outputs: sums of these are taken, from cells that others have too (R29)."""
    pieces = [geometry.stored(each) for each in outputs]
    first = kernel[0] - 1 - padding.top, kernel[1] - 1 - padding.left
    taken = [
        Rectangle(
            max(0, owned.row0 * stride[0] + first[0]),
            max(0, owned.column0 * stride[1] + first[1]),
            max(0, (owned.row1 - 1) * stride[0] + first[0] + 1),
            max(0, (owned.column1 - 1) * stride[1] + first[1] + 1),
        )
        for owned in outputs
    ]
    return _limits(pieces, taken, numbers, units)


def shared_halo_limits(
    pieces: Sequence[Rectangle],
    shape: tuple[int, int],
    kernel: tuple[int, int],
    numbers: UnitNumbers,
    units: int,
    sharers: int = 1,
) -> IntArray:
    """Limits (units, 16) of pieces of a map of ``shape`` that own outputs, as the partition of a kernel has them (R29).

    pieces: between limits, which are lines of the map. sharers: units of a piece, which take its cells in turn.
    """
    geometry = shared_halo_geometry(*shape, kernel)
    below = (kernel[0] - 1) // 2, (kernel[1] - 1) // 2
    ends = shape[0] + numbers.kernel[0] - 1, shape[1] + numbers.kernel[1] - 1
    pieces = [piece for piece in pieces for _ in range(sharers)]
    taken = [
        Rectangle(
            piece.row0 + below[0] * (piece.row0 > 0),
            piece.column0 + below[1] * (piece.column0 > 0),
            piece.row1 + below[0] if piece.row1 < shape[0] else ends[0],
            piece.column1 + below[1] if piece.column1 < shape[1] else ends[1],
        )
        for piece in pieces
    ]
    stored = [geometry.stored(piece) if piece.area else piece for piece in pieces]
    return _limits(stored, taken, numbers, units, sharers)


def _limits(
    pieces: Sequence[Rectangle], taken: Sequence[Rectangle], numbers: UnitNumbers, units: int, sharers: int = 1
) -> IntArray:
    words = np.zeros((units, LIMITS), np.int32)
    for unit, (piece, own) in enumerate(zip(pieces, taken, strict=True)):
        if piece.rows > 0 and piece.columns > 0:
            blocks = blocks_of(piece, numbers)
            ends = blocks.row + blocks.rows, blocks.column + blocks.columns
            turns = unit % sharers, sharers - 1
            words[unit] = [*piece, blocks.row, blocks.column, *ends, *own, blocks.count - 1, *turns, 1]
    return words


def whole_grid(
    sums: Int64Array, rows: int, columns: int, kernels: int, kernel: tuple[int, int], numbers: UnitNumbers
) -> Int64Array:
    """The full grid (kernels, rows + kernel rows - 1, columns + kernel columns - 1) of a map.

    sums: (blocks * kernels, cells) as they left the collector.
    """
    grid = blocks_of(Rectangle(0, 0, rows, columns), numbers)
    cells = sums.reshape(grid.rows, grid.columns, kernels, *numbers.kernel).transpose(2, 0, 3, 1, 4)
    whole = cells.reshape(kernels, grid.rows * numbers.kernel[0], grid.columns * numbers.kernel[1])
    return whole[:, : rows + kernel[0] - 1, : columns + kernel[1] - 1]
