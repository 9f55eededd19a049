"""Kernels as the engines beside the array get them: with zeros around those that are smaller than their padding.

An engine pads by fewer lines than its kernel has (docs/engines.md, section 3). A 1 x 1 kernel with a line of zeros
around the image is a 3 x 3 kernel whose other weights are zero, with two lines around the image; and weights that are
zero cost these engines nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.beside.expanded_weights import expanded_weights
from bfpga.engines.interface.engine import ImageShape
from bfpga.formats.arrays import IntArray


@dataclass(frozen=True)
class Lines:
    """Numbers of rows above and below something, and of columns left and right of it."""

    top: int
    bottom: int
    left: int
    right: int


def padding(window: Window, image: ImageShape) -> Lines:
    """Zeros around the image that the outputs of a layer without dilation read."""
    behind_rows = (window.output_height - 1) * window.stride_y + window.kernel_height - window.pad_top - image.height
    behind_columns = (window.output_width - 1) * window.stride_x + window.kernel_width - window.pad_left - image.width
    return Lines(window.pad_top, max(0, behind_rows), window.pad_left, max(0, behind_columns))


def kernel_margins(window: Window, image: ImageShape) -> Lines:
    """The fewest zeros around a kernel that make it larger than its padding; mostly none.

    Rows below a kernel for padding above the image: with them its first outputs reach the first row of the image. Rows
    above a kernel make its padding above larger by as many.
    """
    pads, height, width = padding(window, image), window.kernel_height, window.kernel_width
    return Lines(
        max(0, pads.bottom - height + 1), max(0, pads.top - height + 1),
        max(0, pads.right - width + 1), max(0, pads.left - width + 1),
    )  # fmt: skip


def embedded_size(window: Window, image: ImageShape) -> tuple[int, int]:
    """Rows and columns of the kernel that an engine gets."""
    margins = kernel_margins(window, image)
    return (
        window.kernel_height + margins.top + margins.bottom,
        window.kernel_width + margins.left + margins.right,
    )


def embedded_weights(node: ArrayNode, image: ImageShape, m0: int, m1: int) -> IntArray:
    """Weights of output channels [m0, m1) as an engine gets them (ZS R12, SC R7).

    (m1 - m0, rows, columns of the embedded kernel, input channels of all groups). image: what the node reads.
    """
    weights = expanded_weights(node, m0, m1)
    margins = kernel_margins(node.window, image)
    if margins == Lines(0, 0, 0, 0):
        return weights
    return np.pad(weights, ((0, 0), (margins.top, margins.bottom), (margins.left, margins.right), (0, 0)))
