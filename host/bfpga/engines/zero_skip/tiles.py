"""The tiles of rows and columns in which the zero-skip engine computes the output of a layer (docs/engines.md)."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, Tile
from bfpga.engines.interface.engine import ImageShape
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers


def tiles(node: ArrayNode, image: ImageShape, config: SystolicConfig, part: Tile) -> list[Tile]:
    """Output rows and channels of ``part`` in tiles that one descriptor computes each; raster order."""
    numbers, columns = config.numbers_of(ZeroSkipNumbers), node.window.output_width
    height = _even(part.y1 - part.y0, numbers.tile_height, numbers.rows_parallel)
    width = _even(columns, numbers.tile_width, numbers.lanes)
    return [
        Tile(y, min(y + height, part.y1), part.m0, part.m1, x, min(x + width, columns))
        for y in range(part.y0, part.y1, height)
        for x in range(0, columns, width)
    ]


def _even(outputs: int, largest: int, step: int) -> int:
    """Size of the fewest parts, nearly equal; whole steps of the lanes where the largest tile allows them."""
    size = -(-outputs // -(-outputs // largest))
    whole = -(-size // step) * step
    return whole if whole <= largest else size


def strip_rows(node: ArrayNode, config: SystolicConfig, most: int) -> int:
    """Rows of the strips in which a layer passes through memory that holds ``most`` output rows at once.

    A strip is whole steps of the engine's rows if that makes fewer steps of all strips together.
    """
    height, step = node.window.output_height, config.numbers_of(ZeroSkipNumbers).rows_parallel
    whole = max(most - most % step, 1)
    return min(most, whole, key=lambda rows: -(-height // rows) * -(-rows // step))
