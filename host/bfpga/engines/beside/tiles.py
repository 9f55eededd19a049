"""Which part of the input a tile or a strip of an engine beside the array is computed from (docs/engines.md)."""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.program import Tile, Window
from bfpga.engines.beside.embedded_kernels import kernel_margins
from bfpga.engines.interface.engine import ImageShape


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
    return tile.columns(window.output_width)


def input_rectangle(window: Window, image: ImageShape, tile: Tile) -> InputRectangle:
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
