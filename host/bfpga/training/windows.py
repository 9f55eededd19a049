"""Windows that slide over images (samples, height, width, channels), and what backward adds where they overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bfpga.contract.program import Window
from bfpga.formats.arrays import FloatArray

#: Rows and columns of an image.
Size = tuple[int, int]


@dataclass(frozen=True)
class Sliding:
    """A window: its kernel, strides, zeros (top, left, bottom, right) around the image, distance between its taps."""

    kernel: Size
    strides: Size = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: Size = (1, 1)

    def results(self, height: int, width: int) -> Size:
        """Rows and columns of what the windows of an image give."""
        top, left, bottom, right = self.pads
        reach_y, reach_x = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))
        rows = (height + top + bottom - reach_y) // self.strides[0] + 1
        return rows, (width + left + right - reach_x) // self.strides[1] + 1

    def padded(self, images: FloatArray, fill: float = 0.0) -> FloatArray:
        """Images with ``fill`` around them; themselves where there is nothing to add."""
        top, left, bottom, right = self.pads
        if not any(self.pads):
            return images
        samples, height, width, channels = images.shape
        around = np.full((samples, top + height + bottom, left + width + right, channels), fill, images.dtype)
        around[:, top : top + height, left : left + width] = images
        return around

    def taps(self, results: Size) -> Iterator[tuple[Size, tuple[slice, ...]]]:
        """Each tap of the kernel with the pixels of the padded images that it reads."""
        for tap in np.ndindex(*self.kernel):
            yield (tap[0], tap[1]), (slice(None), *map(self._pixels, tap, self.dilations, self.strides, results))

    @staticmethod
    def _pixels(tap: int, dilation: int, stride: int, results: int) -> slice:
        return slice(tap * dilation, tap * dilation + (results - 1) * stride + 1, stride)

    def matrix(self, images: FloatArray) -> FloatArray:
        """A row for each window: (samples x rows x columns, kernel rows x kernel columns x channels)."""
        samples, height, width, channels = images.shape
        if self.kernel == (1, 1) and self.strides == (1, 1) and not any(self.pads):
            return images.reshape(-1, channels)
        rows, columns = self.results(height, width)
        padded = self.padded(images)
        sample, line, pixel, value = padded.strides
        # One view of all windows, copied at once: the adjacent taps of a row are one run of memory.
        windows = np.lib.stride_tricks.as_strided(
            padded,
            (samples, rows, columns, *self.kernel, channels),
            (sample, line * self.strides[0], pixel * self.strides[1],
             line * self.dilations[0], pixel * self.dilations[1], value),
            writeable=False,
        )  # fmt: skip
        return np.ascontiguousarray(windows).reshape(samples * rows * columns, -1)

    @property
    def turned(self) -> Sliding | None:
        """The window over gradients of results whose rows of ``matrix``, with the taps of the weights in reverse, give
        the gradients of images; None where strides or wide pads leave results that do not fit."""
        reach = [(kernel - 1) * dilation for kernel, dilation in zip(self.kernel, self.dilations, strict=True)]
        top, left, bottom, right = (reach[axis % 2] - pad for axis, pad in enumerate(self.pads))
        if self.strides != (1, 1) or min(top, left, bottom, right) < 0:
            return None
        return Sliding(self.kernel, (1, 1), (top, left, bottom, right), self.dilations)

    def added(self, matrix: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Rows as of ``matrix``, each added to the pixels of its window, in images of ``shape``."""
        samples, height, width, channels = shape
        results = self.results(height, width)
        values = matrix.reshape(samples, *results, *self.kernel, channels)
        images = np.zeros(self.padded_shape(shape), matrix.dtype)
        for (row, column), place in self.taps(results):
            images[place] += values[:, :, :, row, column]
        return self.inner(images, shape)

    def padded_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of images of ``shape`` with what is around them."""
        top, left, bottom, right = self.pads
        return shape[0], shape[1] + top + bottom, shape[2] + left + right, shape[3]

    def inner(self, padded: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """The images of ``shape`` in padded ones."""
        top, left = self.pads[:2]
        return padded[:, top : top + shape[1], left : left + shape[2]]


def sliding_of(window: Window, height: int, width: int) -> Sliding:
    """The window of a layer whose input has ``height`` x ``width`` pixels."""
    bottom = (window.output_height - 1) * window.stride_y + (window.kernel_height - 1) * window.dilation_y + 1
    right = (window.output_width - 1) * window.stride_x + (window.kernel_width - 1) * window.dilation_x + 1
    return Sliding(
        (window.kernel_height, window.kernel_width),
        (window.stride_y, window.stride_x),
        (window.pad_top, window.pad_left, max(bottom - height - window.pad_top, 0),
         max(right - width - window.pad_left, 0)),
        (window.dilation_y, window.dilation_x),
    )  # fmt: skip
