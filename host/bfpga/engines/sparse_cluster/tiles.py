"""The strips of whole rows in which the sparse cluster computes the output of a layer (docs/engines.md)."""

from __future__ import annotations

from math import ceil

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, Tile, Window
from bfpga.engines.beside.embedded_kernels import embedded_size
from bfpga.engines.beside.tiles import input_rectangle
from bfpga.engines.interface.engine import ImageShape
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers

#: Factor by which the pieces of a strip should be able to grow in both directions, so that their work can be balanced.
PIECE_GROWTH = 1.4


def tiles(node: ArrayNode, image: ImageShape, config: SystolicConfig, part: Tile) -> list[Tile]:
    """Output rows and channels of ``part`` in strips that one descriptor computes each, from above."""
    strips = cluster_strips(node.window, image, config.numbers_of(ClusterNumbers), part.y0, part.y1)
    return [Tile(y0, y1, part.m0, part.m1) for y0, y1 in strips]


def cluster_strips(
    window: Window, image: ImageShape, numbers: ClusterNumbers, y0: int, y1: int
) -> list[tuple[int, int]]:
    """Output rows [y0, y1) in the fewest nearly equal strips whose pieces may grow, else in the fewest that fit."""
    for growth in (PIECE_GROWTH, 1.0):
        for parts in range(1, y1 - y0 + 1):
            rows = -(-(y1 - y0) // parts)
            if strip_fits(window, image, numbers, rows, growth):
                return [(y, min(y + rows, y1)) for y in range(y0, y1, rows)]
    raise AssertionError("a layer whose strips of one row do not fit is refused")


def strip_fits(window: Window, image: ImageShape, numbers: ClusterNumbers, rows: int, growth: float = 1.0) -> bool:
    """Whether pieces of a strip of ``rows`` output rows fit the units, when they grow beyond equal ones by a factor."""
    reach = Tile(0, rows, 0, 0)
    columns = input_rectangle(window, image, reach)
    lines = min(image.height, (rows - 1) * window.stride_y + window.kernel_height)
    return numbers.piece_fits(
        _grown(lines, numbers.grid_rows, growth), _grown(columns.x1 - columns.x0, numbers.grid_columns, growth),
        *embedded_size(window, image),
    )  # fmt: skip


def _grown(lines: int, pieces: int, growth: float) -> int:
    return min(lines, ceil(-(-lines // pieces) * growth))


def strip_rows(node: ArrayNode, config: SystolicConfig, most: int) -> int:
    """Rows of the strips in which a layer passes through memory that holds ``most`` output rows at once: all."""
    return most
