"""Batches of images as one image of the array, so that a batch is one block with one exponent.

A window may not reach from one image into the next. Every row of the result gets the input rows of its own window, one
after the other (FP R30: the rows of the result are those that a sample takes); what a window needs in width stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import Window
from bfpga.errors import DataError
from bfpga.formats.arrays import IntArray

#: One number for both axes, or (vertical, horizontal).
Pair = int | tuple[int, int]
IndexArray = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.number[Any])


def _pair(value: Pair | tuple[int, ...], what: str, least: int) -> tuple[int, int]:
    """(vertical, horizontal) of one number or two; DataError for numbers below ``least``."""
    numbers = (value, value) if isinstance(value, (int, np.integer)) else tuple(value)
    if len(numbers) != 2 or not all(isinstance(number, (int, np.integer)) and number >= least for number in numbers):
        raise DataError(f"{what} is {value}; it takes a whole number from {least} on, or two: vertical, horizontal")
    return int(numbers[0]), int(numbers[1])


def window_of(
    images: tuple[int, ...], kernel: Pair | tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, what: str
) -> Window:
    """The window of an operation on images of a shape (N, channels, height, width).

    DataError for another number of axes, and for a window that does not fit into the padded image.
    """
    if len(images) != 4:
        raise DataError(f"{what}: shape {images}; images are (N, channels, height, width)")
    spans, strides, steps = (
        _pair(value, f"{what}: {name}", 1)
        for value, name in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
    )
    pads = _pair(padding, f"{what}: padding", 0)
    output = [
        (length + 2 * pad - (span - 1) * step - 1) // by + 1
        for length, pad, span, step, by in zip(images[2:], pads, spans, steps, strides, strict=True)
    ]
    if min(output) < 1:
        raise DataError(f"{what}: a kernel of {spans} does not fit images {images} with a padding of {pads}")
    if any(pad >= (span - 1) * step + 1 for pad, span, step in zip(pads, spans, steps, strict=True)):
        raise DataError(f"{what}: a padding of {pads} gives windows of a kernel of {spans} that see no pixel")
    return Window(*spans, *strides, *pads, *steps, *output)


def stacked(images: IntArray, window: Window, pools: bool) -> tuple[IntArray, Window]:
    """Images (N, height, width, channels) as one image (rows, width, channels), and the window over it.

    The result has the rows of all images one after the other. pools: a maximum is taken, and what is outside an image
    must not win: a row of the same window is there.
    """
    count, height = images.shape[:2]
    rows = replace(window, output_height=count * window.output_height)
    flat = images.reshape(count * height, *images.shape[2:])
    if count == 1:
        return flat, window
    index = _rows(window, height)
    outside = (index < 0) | (index >= height)
    if pools:
        first = np.argmin(outside, axis=1)
        index = np.where(outside, np.take_along_axis(index, first[:, None], axis=1), index)
        outside = np.zeros_like(outside)
    rows = replace(rows, stride_y=window.kernel_height, pad_top=0, dilation_y=1)
    every = np.arange(count)[:, None, None] * height + index
    every = np.where(outside, len(flat), every).reshape(-1)
    if np.array_equal(every, np.arange(len(flat))):
        return flat, rows
    if outside.any():
        flat = np.concatenate([flat, np.zeros((1, *flat.shape[1:]), flat.dtype)])
    return flat[every], rows


def _rows(window: Window, height: int) -> IndexArray:
    """Input rows of the windows of every output row, (output_height, kernel_height); some are outside the image."""
    first = np.arange(window.output_height)[:, None] * window.stride_y - window.pad_top
    return np.asarray(first + np.arange(window.kernel_height) * window.dilation_y, np.int64)


def columns_of(images: npt.NDArray[Number], window: Window, outside: float = 0) -> npt.NDArray[Number]:
    """The im2col matrix (N * output pixels, kernel rows, kernel columns, channels) of images, channels last."""
    height, width, channels = images.shape[1:]
    bottom = (window.output_height - 1) * window.stride_y + (window.kernel_height - 1) * window.dilation_y + 1
    right = (window.output_width - 1) * window.stride_x + (window.kernel_width - 1) * window.dilation_x + 1
    below, beyond = max(bottom - window.pad_top - height, 0), max(right - window.pad_left - width, 0)
    edges = ((0, 0), (window.pad_top, below), (window.pad_left, beyond), (0, 0))
    padded = np.pad(images, edges, constant_values=outside)
    y = _rows(replace(window, pad_top=0), height)
    x = np.arange(window.output_width)[:, None] * window.stride_x + np.arange(window.kernel_width) * window.dilation_x
    taken: npt.NDArray[Number] = padded[:, y[:, None, :, None], x[None, :, None, :]]
    return taken.reshape(-1, window.kernel_height, window.kernel_width, channels)
