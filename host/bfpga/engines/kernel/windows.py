"""Sliding windows over images (samples, height, width, channels): the geometry of convolution and pooling in numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

NumberArray = npt.NDArray[Any]


class WindowShape(Protocol):
    """Geometry of convolution and pooling, as ``Window`` has it; windows may reach beyond the end of the image."""

    @property
    def kernel_height(self) -> int: ...
    @property
    def kernel_width(self) -> int: ...
    @property
    def stride_y(self) -> int: ...
    @property
    def stride_x(self) -> int: ...
    @property
    def pad_top(self) -> int: ...
    @property
    def pad_left(self) -> int: ...
    @property
    def dilation_y(self) -> int: ...
    @property
    def dilation_x(self) -> int: ...
    @property
    def output_height(self) -> int: ...
    @property
    def output_width(self) -> int: ...


def padded(x: NumberArray, window: WindowShape, fill: int, dtype: npt.DTypeLike) -> NumberArray:
    """The image as ``dtype``, with ``fill`` around it as far as windows reach; the input itself if nothing changes.

    Negative padding leaves out the first rows or columns.
    """
    x = x[:, max(0, -window.pad_top) :, max(0, -window.pad_left) :]
    height = (window.output_height - 1) * window.stride_y + (window.kernel_height - 1) * window.dilation_y + 1
    width = (window.output_width - 1) * window.stride_x + (window.kernel_width - 1) * window.dilation_x + 1
    top, left = max(0, window.pad_top), max(0, window.pad_left)
    rows, columns = x.shape[1], x.shape[2]
    if top == left == 0 and height <= rows and width <= columns:
        return x.astype(dtype, copy=False)
    result = np.full((len(x), max(height, top + rows), max(width, left + columns), x.shape[3]), fill, dtype)
    result[:, top : top + rows, left : left + columns] = x
    return result


def taps(image: NumberArray, window: WindowShape) -> Iterator[NumberArray]:
    """For every tap of the window, in order, the view of what all output pixels see there.

    image: as ``padded`` gives it. Each view is (samples, output_height, output_width, channels).
    """
    reach_y = (window.output_height - 1) * window.stride_y + 1
    reach_x = (window.output_width - 1) * window.stride_x + 1
    for ky in range(window.kernel_height):
        y = ky * window.dilation_y
        for kx in range(window.kernel_width):
            x = kx * window.dilation_x
            yield image[:, y : y + reach_y : window.stride_y, x : x + reach_x : window.stride_x]


def patches(image: NumberArray, window: WindowShape) -> NumberArray:
    """(samples, output pixels, taps, channels) in one block of memory: a row of every window, tap by tap.

    image: as ``padded`` gives it. No copy is made where memory has the windows like this already.
    """
    samples, channels = len(image), image.shape[3]
    pixels = window.output_height * window.output_width
    if window.kernel_height == window.kernel_width == 1:
        view = image[
            :,
            : (window.output_height - 1) * window.stride_y + 1 : window.stride_y,
            : (window.output_width - 1) * window.stride_x + 1 : window.stride_x,
        ]
        return view.reshape(samples, pixels, 1, channels)
    step = image.strides
    view = np.lib.stride_tricks.as_strided(
        image,
        (samples, window.output_height, window.output_width, window.kernel_height, window.kernel_width, channels),
        (
            step[0],
            step[1] * window.stride_y,
            step[2] * window.stride_x,
            step[1] * window.dilation_y,
            step[2] * window.dilation_x,
            step[3],
        ),
        writeable=False,
    )
    return view.reshape(samples, pixels, window.kernel_height * window.kernel_width, channels)
