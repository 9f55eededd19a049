"""Windows that slide: a pass of a skip array reads what its window has beyond that of the pass before.

A window of one chunk stays in the array's ring. Where the pixels of a pass are those of the pass before, some rows
further down, the rows of taps that both have need not come again. So the output is cut into strips of columns, whose
rows a pass computes one or two of; the first pass of a strip reads whole windows, the others are an operation by
themselves, with the flag SLIDES and the last rows of the kernel as its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag
from bfpga.contract.program import ArrayNode, Tile
from bfpga.engines.skip_array.pieces import Piece, piece_of

#: Cycles between operations one of which waits until the array has left the windows of the other.
START = 40


def group_pixels(tile: Tile, config: KernelConfig) -> int:
    """Pixels of a group: half a row of a strip, or all of it where the columns are enough; else as many as columns."""
    width = tile.x1 - tile.x0
    if width == 0 or config.array.computes_runs:
        return config.columns
    return width if width <= config.columns else width // config.array.halves


def pass_rows(width: int, config: KernelConfig) -> int:
    """Output rows of a pass down a strip of so many columns."""
    return config.array.halves if width <= config.columns else 1


def fresh_rows(node: ArrayNode, tile: Tile, config: KernelConfig) -> int:
    """Rows of the kernel that a pass down a strip reads."""
    return pass_rows(tile.x1 - tile.x0, config) * node.window.stride_y


def sliding_parts(node: ArrayNode, tile: Tile, config: KernelConfig) -> list[tuple[Tile, Flag]]:
    """The operations that compute a tile, in strips whose windows slide if that is faster, and their flags."""
    window = node.window
    piece = piece_of(node, config, tile.m0, tile.m1)
    rows_in_one_chunk = len(piece.chunks.steps) == 1 and not piece.window.apart
    if window.dilation_y > 1 or window.stride_y >= window.kernel_height or not rows_in_one_chunk:
        return [(tile, Flag.NONE)]
    width, whole = window.output_width, piece.clocks()
    least, best = -(-tile.rows * width // piece.shape.pixels) * whole.total, [(tile, Flag.NONE)]
    for widths in _cuts(width, config):
        clocks = sum(_strip_clocks(node, tile.rows, part, config, piece, whole.total) for part in widths)
        if clocks < least:
            least, best = clocks, _parts(node, tile, widths, config)
    return best


def _cuts(width: int, config: KernelConfig) -> Iterator[list[int]]:
    """Ways to cut a row of the output into strips: as wide as they may be, or about equal ones.

    All have an even number of columns but the last.
    """
    most, unit = config.array.halves * config.columns, config.array.halves
    fewest = -(-width // most)
    for size in (most, *(-(-width // (count * unit)) * unit for count in (fewest, fewest + 1))):
        widths = [size] * (width // size) + [width % size] * (width % size > 0)
        if size <= most and all(part % unit == 0 or part <= config.columns for part in widths):
            yield widths


def _strip_clocks(node: ArrayNode, rows: int, width: int, config: KernelConfig, piece: Piece, whole: int) -> int:
    """Cycles of a strip; whole: those of a pass that reads its window whole."""
    at_once = pass_rows(width, config)
    passes, fresh = -(-rows // at_once), at_once * node.window.stride_y
    if fresh >= node.window.kernel_height:
        return passes * whole + START
    steps = piece.chunk_steps // node.window.kernel_height * fresh
    return 2 * whole + (passes - 1) * piece.clocks(slid=steps).total + 2 * START


def _parts(node: ArrayNode, tile: Tile, widths: list[int], config: KernelConfig) -> list[tuple[Tile, Flag]]:
    parts: list[tuple[Tile, Flag]] = []
    x0 = 0
    for width in widths:
        rows = pass_rows(width, config)
        slides = rows * node.window.stride_y < node.window.kernel_height
        first = min(tile.y0 + rows, tile.y1) if slides else tile.y1
        parts.append((Tile(tile.y0, first, tile.m0, tile.m1, x0, x0 + width), Flag.NONE))
        if first < tile.y1:
            parts.append((Tile(first, tile.y1, tile.m0, tile.m1, x0, x0 + width), Flag.SLIDES))
        x0 += width
    return parts
