"""How the output of a layer is cut for an engine beside the array, and which input each part reads (docs/engines.md).

The zero-skip engine takes tiles of rows and columns, the sparse cluster strips of whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import ClusterBuild, ZeroSkipBuild
from bfpga.contract.program import ArrayNode, Tile, Window
from bfpga.engines.beside.embedded_kernels import ImageSize, embedded_size, kernel_margins

#: Factor by which the pieces of a strip should be able to grow in both directions, so that their work can be balanced.
PIECE_GROWTH = 1.4


@dataclass(frozen=True)
class InputRectangle:
    """Rows [y0, y1) and columns [x0, x1) of an image, with the rows and columns of zeros above and left of them.

    Zeros: lines that the kernel of the engine (``embedded_size``) reads.
    """

    y0: int
    y1: int
    x0: int
    x1: int
    pad_top: int
    pad_left: int


def output_columns(window: Window, tile: Tile) -> tuple[int, int]:
    """Output columns [x0, x1) of a tile."""
    return (tile.x0, tile.x1) if tile.x1 else (0, window.output_width)


def input_rectangle(window: Window, image: ImageSize, tile: Tile) -> InputRectangle:
    """The part of the image that the outputs of a tile are computed from, one line at least.

    Lines that only zeros around a kernel meet are not read: they count as padding.
    """
    x0, x1 = output_columns(window, tile)
    margins = kernel_margins(window, image)
    top, first_row, last_row = _reach(
        tile.y0, tile.y1, window.stride_y, window.kernel_height, window.pad_top, image.height
    )
    left, first_column, last_column = _reach(x0, x1, window.stride_x, window.kernel_width, window.pad_left, image.width)
    return InputRectangle(
        first_row, last_row, first_column, last_column, top + margins.top, left + margins.left
    )  # fmt: skip


def _reach(first: int, last: int, stride: int, kernel: int, pad: int, size: int) -> tuple[int, int, int]:
    """What outputs [first, last) of one axis read: (lines before the first one, it, the line behind the last).

    Lines before: of the first output's kernel; less than zero if it lies behind the image.
    """
    begin, end = first * stride - pad, (last - 1) * stride - pad + kernel
    start = min(max(0, begin), size - 1)
    return start - begin, start, max(min(size, end), start + 1)


def engine_tiles(node: ArrayNode, image: ImageSize, config: SystolicConfig, part: Tile) -> list[Tile]:
    """Output rows and channels of ``part``, cut to what one descriptor of the node's engine computes; raster order."""
    if node.engine == "zero_skip":
        assert config.zero_skip is not None
        return list(_zero_skip_tiles(node.window, config.zero_skip, part))
    assert config.sparse_cluster is not None
    strips = cluster_strips(node.window, image, config.sparse_cluster, part.y0, part.y1)
    return [Tile(y0, y1, part.m0, part.m1) for y0, y1 in strips]


def strip_rows(node: ArrayNode, config: SystolicConfig, most: int) -> int:
    """Rows of the strips in which a layer passes through memory that holds ``most`` output rows at once.

    A strip of the zero-skip engine is whole steps of its rows if that makes fewer steps of all strips together.
    """
    if node.engine != "zero_skip":
        return most
    assert config.zero_skip is not None
    height, step = node.window.output_height, config.zero_skip.rows_parallel
    whole = max(most - most % step, 1)
    return min(most, whole, key=lambda rows: -(-height // rows) * -(-rows // step))


def _zero_skip_tiles(window: Window, build: ZeroSkipBuild, part: Tile) -> Iterator[Tile]:
    height = _even(part.y1 - part.y0, build.tile_height, build.rows_parallel)
    width = _even(window.output_width, build.tile_width, build.lanes)
    for y in range(part.y0, part.y1, height):
        for x in range(0, window.output_width, width):
            yield Tile(y, min(y + height, part.y1), part.m0, part.m1, x, min(x + width, window.output_width))


def _even(outputs: int, largest: int, step: int) -> int:
    """Size of the fewest parts, nearly equal; whole steps of the lanes where the largest tile allows them."""
    size = -(-outputs // -(-outputs // largest))
    whole = -(-size // step) * step
    return whole if whole <= largest else size


def cluster_strips(window: Window, image: ImageSize, build: ClusterBuild, y0: int, y1: int) -> list[tuple[int, int]]:
    """Output rows [y0, y1) in the fewest nearly equal strips whose pieces may grow, else in the fewest that fit."""
    for growth in (PIECE_GROWTH, 1.0):
        for parts in range(1, y1 - y0 + 1):
            rows = -(-(y1 - y0) // parts)
            if strip_fits(window, image, build, rows, growth):
                return [(y, min(y + rows, y1)) for y in range(y0, y1, rows)]
    raise AssertionError("a layer whose strips of one row do not fit is refused")


def strip_fits(window: Window, image: ImageSize, build: ClusterBuild, rows: int, growth: float = 1.0) -> bool:
    """Whether pieces of a strip of ``rows`` output rows fit the units, when they grow beyond equal ones by a factor."""
    reach = Tile(0, rows, 0, 0)
    columns = input_rectangle(window, image, reach)
    lines = min(image.height, (rows - 1) * window.stride_y + window.kernel_height)
    return build.piece_fits(
        _grown(lines, build.grid_rows, growth), _grown(columns.x1 - columns.x0, build.grid_columns, growth),
        *embedded_size(window, image),
    )  # fmt: skip


def _grown(lines: int, pieces: int, growth: float) -> int:
    return min(lines, ceil(-(-lines // pieces) * growth))
