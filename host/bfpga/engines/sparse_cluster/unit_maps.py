"""Maps of a sparse cluster in the place of the array: what of its input an operation reads, and what units hold of it.

An operation reads the cells that its outputs need as one map, cut into pieces for the units; with halo a piece has the
cells that its outputs need besides. Along an axis on which kernels have one line, a map has the lines of the stride
alone: its outputs are those of a stride of one. Pieces of the grid may be
joined: there are fewer then, and the units of each take its values in turn. Sums of the whole map, its full grid, lie
in blocks of kernel rows x kernel columns cells (SC E3, E4).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bfpga.contract.arrays.sparse_cluster import cluster_array, map_array
from bfpga.contract.arrays.zero_skip_tile import tile_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, TensorSpec, Tile, Window
from bfpga.engines.sparse_cluster.kernel_parts import MOST_WORDS, AxisParts, KernelParts, kernel_parts
from bfpga.formats.arrays import BoolArray

#: Bits of the numbers that count a map's work, with their sign (`work_bits` of processes/sparse_cluster/layer.hpp).
WORK_BITS = 24
#: Pieces of the grid, down and across, that are one.
Joined = tuple[int, int]
#: Rows and columns of a kernel.
Kernel = tuple[int, int]
#: Every unit has a piece of its own.
APART: Joined = (1, 1)


class MapLines(NamedTuple):
    """Lines of the input that outputs need along an axis: the first one, how many; zeros before them.

    size: lines of the map: those that are read or, of a kernel in parts, all that one part meets, with zeros.
    step: from a line that is read to the next one.
    """

    first: int
    read: int
    pad: int
    size: int
    step: int


class MapPart(NamedTuple):
    """Cells of the input that outputs need, by rows and columns."""

    down: MapLines
    across: MapLines

    @property
    def rows(self) -> int:
        """Rows of the map."""
        return self.down.size

    @property
    def columns(self) -> int:
        """Columns of the map."""
        return self.across.size


def map_part(window: Window, tile: Tile, height: int, width: int, config: KernelConfig) -> MapPart:
    """The map of a tile; height, width: of the input."""
    parts = kernel_parts(window, config)
    x0, x1 = tile.columns(window.output_width)
    top, left = tile.y0 * window.stride_y - window.pad_top, x0 * window.stride_x - window.pad_left
    step_y, step_x = tile.step * window.stride_y, window.stride_x
    down, across = (tile.rows - 1) * step_y, (x1 - x0 - 1) * step_x
    reach_y = (window.kernel_height - 1) * window.dilation_y + 1
    reach_x = (window.kernel_width - 1) * window.dilation_x + 1
    return MapPart(
        _lines(top, down, reach_y, height, parts.down, _line_step(parts.down, step_y)),
        _lines(left, across, reach_x, width, parts.across, _line_step(parts.across, step_x)),
    )


def _line_step(parts: AxisParts, stride: int) -> int:
    """From a line of a map to the next one: nothing reads what lies between where kernels have one line."""
    return stride if parts.number == parts.size == 1 else 1


def _lines(start: int, apart: int, reach: int, lines: int, parts: AxisParts, step: int) -> MapLines:
    """Lines of windows of ``reach`` lines, the first one at ``start``, the last one so far ``apart`` from it."""
    first = max(start, 0)
    read = max(0, -(-(min(start + apart + reach, lines) - first) // step))
    return MapLines(first, read, first - start, apart + parts.size if parts.number > 1 else read, step)


def cells_of_map(part: MapPart, image: BoolArray, parts: KernelParts, config: KernelConfig) -> BoolArray:
    """The map (..., rows, columns, channels) of an image (..., height, width, channels).

    Of a kernel in parts channels in whole words, part for part.
    """
    (row, read_rows, top, _, step_y), (column, read_columns, left, _, step_x) = part
    last_row, last_column = row + read_rows * step_y, column + read_columns * step_x
    read = image[..., row:last_row:step_y, column:last_column:step_x, :]
    if parts.number == 1:
        return read
    top, left = top * (parts.down.number > 1), left * (parts.across.number > 1)
    last = (parts.down.number - 1) * parts.down.step, (parts.across.number - 1) * parts.across.step
    words = -(-image.shape[-1] // config.lanes) * config.lanes
    lines = top + read_rows + last[0] + part.rows, left + read_columns + last[1] + part.columns
    whole = np.zeros((*image.shape[:-3], *lines, words), np.bool_)
    whole[..., top : top + read_rows, left : left + read_columns, : image.shape[-1]] = read
    views = [
        whole[..., y : y + part.rows, x : x + part.columns, :]
        for y in range(0, last[0] + 1, parts.down.step)
        for x in range(0, last[1] + 1, parts.across.step)
    ]
    cells: BoolArray = np.concatenate(views, axis=-1)
    return cells


def grid_blocks(rows: int, columns: int, config: KernelConfig) -> int:
    """Blocks of the full grid of a map."""
    kernel = map_array(config.array).kernel
    return ((rows + kernel - 2) // kernel + 1) * ((columns + kernel - 2) // kernel + 1)


def piece_blocks(rows: int, columns: int, config: KernelConfig) -> int:
    """Blocks of a piece of rows x columns cells, wherever it begins in a block."""
    kernel = map_array(config.array).kernel
    return ((rows + 2 * kernel - 3) // kernel + 1) * ((columns + 2 * kernel - 3) // kernel + 1)


def joined_grid(joined: Joined, config: KernelConfig) -> tuple[int, int]:
    """Bands, and pieces of each, into which maps are cut."""
    rows, columns = map_array(config.array).grid
    return rows // joined[0], columns // joined[1]


def kernel_of(window: Window, config: KernelConfig) -> Kernel:
    """Rows and columns of a window's kernel, of each of its parts if it comes in parts."""
    down, across = kernel_parts(window, config)
    return down.size, across.size


def equal_piece(
    rows: int, columns: int, kernel: Kernel, config: KernelConfig, joined: Joined = APART
) -> tuple[int, int]:
    """Rows and columns of the largest piece of a map that is cut into equal ones, with its halo if it has one."""
    bands, across = joined_grid(joined, config)
    return _largest_part(rows, bands, kernel[0], config), _largest_part(columns, across, kernel[1], config)


def _largest_part(lines: int, parts: int, kernel: int, config: KernelConfig) -> int:
    """Most lines of a piece along one axis."""
    if not map_array(config.array).has_halo:
        return -(-lines // parts)
    limits = [part * lines // parts for part in range(parts + 1)]
    return max(
        min(last + (kernel - 1) // 2, lines) - max(first - kernel // 2, 0)
        for first, last in pairwise(limits)
        if first < last
    )


def pieces_fit(rows: int, columns: int, kernel: Kernel, config: KernelConfig, joined: Joined = APART) -> bool:
    """Whether a unit holds the sums of the largest piece of a map that is cut into equal ones."""
    piece = equal_piece(rows, columns, kernel, config, joined)
    return piece_blocks(*piece, config) <= cluster_array(config.array).words


def possible_joins(config: KernelConfig) -> list[Joined]:
    """How many pieces of the grid may be one, none first. Units of A to D need all values of a micro-tile."""
    array = map_array(config.array)
    if array.indexes_products:
        return [APART]
    down, across = map(_divisors, array.grid)
    return sorted(((rows, columns) for rows in down for columns in across), key=lambda join: join[0] * join[1])


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def joined_pieces(rows: int, columns: int, node: ArrayNode, config: KernelConfig) -> Joined:
    """Pieces of the grid that are one of a layer's map: those of the layer, if units hold the sums of such pieces."""
    if not config.array.cuts_maps:
        return APART
    fits = pieces_fit(rows, columns, kernel_of(node.window, config), config, node.joined_pieces)
    return node.joined_pieces if fits else APART


def cluster_fits(rows: int, columns: int, kernel: Kernel, config: KernelConfig) -> bool:
    """Whether a map has room: its lines, the sums of equal pieces in their units, those of its full grid."""
    array = cluster_array(config.array)
    if max(rows, columns) > array.map_lines or grid_blocks(rows, columns, config) > array.map_blocks:
        return False
    return pieces_fit(rows, columns, kernel, config)


def map_fits(rows: int, columns: int, kernel: Kernel, config: KernelConfig) -> bool:
    """Whether a map has room in the array."""
    if config.array.cuts_maps:
        return cluster_fits(rows, columns, kernel, config)
    return tile_array(config.array).holds_map(rows, columns)


def allowed_moves(rows: int, columns: int, node: ArrayNode, config: KernelConfig) -> int:
    """How often limits of a map's pieces may move: the layer counts its maps, there are several pieces, each has a
    line, and the blocks of kernels read the same channels."""
    if not node.counts_maps:
        return 0
    bands, across = joined_grid(joined_pieces(rows, columns, node, config), config)
    moves = bands * across > 1 and rows >= bands and columns >= across and node.groups == 1
    return map_array(config.array).most_moves * moves


def imbalance_tolerance(rows: int, columns: int, channels: int, config: KernelConfig, joined: Joined = APART) -> int:
    """The threshold of the work of two pieces, in counts: points are of the nominal area of a piece (SC 9, I2).

    channels: in whole words of them.
    """
    words = -(-channels // config.lanes)
    bands, across = joined_grid(joined, config)
    return rows * columns * words * config.lanes * cluster_array(config.array).threshold // (100 * bands * across)


def fitting_parts(node: ArrayNode, spec: TensorSpec, tile: Tile, config: KernelConfig) -> list[Tile]:
    """The tile in as few parts as have maps with room; spec: of the input."""
    window = node.window
    if tile.rows == 1:
        tile = replace(tile, y1=tile.y0 + 1, step=1)
    stride, most = tile.step * window.stride_y, map_array(config.array).kernel
    if stride > most and tile.rows > 1 and _line_step(kernel_parts(window, config).down, stride) == 1:
        rows = [replace(tile, y0=y, y1=y + 1, step=1) for y in range(tile.y0, tile.y1, tile.step)]
        return [part for row in rows for part in fitting_parts(node, spec, row, config)]
    x0, x1 = tile.columns(window.output_width)
    columns = x1 - x0
    cuts = sorted(
        ((down, across) for down in range(1, tile.rows + 1) for across in range(1, columns + 1)),
        key=lambda cut: (cut[0] * cut[1], cut[1]),
    )
    for down, across in cuts:
        height, width = -(-tile.rows // down) * tile.step, -(-columns // across)
        parts = [
            _part(tile, (y, min(y + height, tile.y1)), (x, min(x + width, x1)), (x0, x1))
            for y in range(tile.y0, tile.y1, height)
            for x in range(x0, x1, width)
        ]
        if all(_fits(window, part, spec, config) for part in parts):
            return parts
    raise AssertionError("a map of one output has room")


def _part(tile: Tile, rows: tuple[int, int], columns: tuple[int, int], whole: tuple[int, int]) -> Tile:
    x0, x1 = (tile.x0, tile.x1) if columns == whole else columns
    return replace(tile, y0=rows[0], y1=rows[1], x0=x0, x1=x1)


def _fits(window: Window, tile: Tile, spec: TensorSpec, config: KernelConfig) -> bool:
    part = map_part(window, tile, spec.height, spec.width, config)
    words = -(-spec.channels // config.lanes) * kernel_parts(window, config).number
    counted = not config.array.cuts_maps or part.rows * part.columns * words * config.lanes < 1 << (WORK_BITS - 1)
    return counted and map_fits(part.rows, part.columns, kernel_of(window, config), config)


def refusal(window: Window, height: int, width: int, words: int, config: KernelConfig) -> str:
    """Why a cluster does not compute products over windows of such an input; nothing if it does.

    words: of channels that a block of output channels reads.
    """
    most, parts = map_array(config.array).kernel, kernel_parts(window, config)
    if words * parts.number > MOST_WORDS:
        many = f"{words} words of channels" + (f" in {parts}" if parts.number > 1 else "")
        return f"each of its results is of {many}, and a cluster counts {MOST_WORDS} words"
    stride_y, stride_x = window.stride_y, window.stride_x
    stride = max(stride_y // _line_step(parts.down, stride_y), stride_x // _line_step(parts.across, stride_x))
    if stride > most:
        return f"its stride is {stride}, and results are taken from sums that are {most} apart at most"
    down = _outside(window.pad_top, parts.down, window.stride_y, window.output_height, height)
    if down or _outside(window.pad_left, parts.across, window.stride_x, window.output_width, width):
        return "some of its results read nothing but padding, of which a map has no sums"
    return ""


def _outside(pad: int, parts: AxisParts, stride: int, outputs: int, lines: int) -> bool:
    """Whether the first or the last output along an axis is outside a map without zeros around it."""
    return parts.number == 1 and (pad >= parts.size or (outputs - 1) * stride - pad >= lines)
