"""Random windows of convolution and pooling."""

from __future__ import annotations

import numpy as np

from bfpga.contract.program import TensorSpec, Window

Generator = np.random.Generator
#: Strides of random windows.
STRIDES = (1, 2, 3)


def random_window(rng: Generator, spec: TensorSpec, largest: int) -> Window:
    """A window that fits the tensor, with padding smaller than the (dilated) kernel."""
    result = Window(
        kernel_height=int(rng.integers(1, min(largest, spec.height) + 1)),
        kernel_width=int(rng.integers(1, min(largest, spec.width) + 1)),
        stride_y=int(rng.choice(STRIDES)),
        stride_x=int(rng.choice(STRIDES)),
    )
    if (result.kernel_height - 1) * 2 < spec.height and rng.random() < 0.2:
        result.dilation_y = 2
    if (result.kernel_width - 1) * 2 < spec.width and rng.random() < 0.2:
        result.dilation_x = 2
    return _padded(rng, result, spec)


def tap_reuse_window(rng: Generator, spec: TensorSpec) -> Window:
    """A window of three columns that gives a row of as many pixels as the image has, or of one more."""
    right = int(rng.integers(1, 3))
    result = Window(
        kernel_height=int(rng.integers(1, min(5, spec.height) + 1)), kernel_width=3,
        stride_y=int(rng.choice(STRIDES)), pad_left=1, output_width=spec.width + right - 1,
    )  # fmt: skip
    result.pad_top = int(rng.integers(0, result.kernel_height))
    bottom = int(rng.integers(0, result.kernel_height))
    result.output_height = (spec.height + result.pad_top + bottom - result.kernel_height) // result.stride_y + 1
    return result


def _padded(rng: Generator, window: Window, spec: TensorSpec) -> Window:
    """The window with padding on all four sides, and the outputs that follow: each reads a line of the image."""
    reach_y = (window.kernel_height - 1) * window.dilation_y
    reach_x = (window.kernel_width - 1) * window.dilation_x
    most_y, most_x = reach_y + 1, reach_x + 1
    window.pad_top, window.pad_left = int(rng.integers(0, most_y)), int(rng.integers(0, most_x))
    bottom, right = int(rng.integers(0, most_y)), int(rng.integers(0, most_x))
    window.output_height = (spec.height + window.pad_top + bottom - reach_y - 1) // window.stride_y + 1
    window.output_width = (spec.width + window.pad_left + right - reach_x - 1) // window.stride_x + 1
    return window
