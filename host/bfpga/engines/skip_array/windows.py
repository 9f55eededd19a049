"""The windows that the kernels of a layer read, as the skip array meets them: steps of one word of channels at a tap.

Kernels of a layer without groups all read one window. Those of a grouped layer read parts of it, so the layer is cut
into blocks of groups: a block's window holds the channels of its groups alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from bfpga.engines.skip_array.shape import SkipShape
from bfpga.formats.arrays import IntArray


@dataclass(frozen=True)
class WindowBlock:
    """Kernels that read the same window.

    first: their first output channel. first_word: the first word of channels that they read of a pixel.
    weights: (kernels, steps, lanes), steps in the order of taps and, at each tap, of words of channels.
    """

    first: int
    first_word: int
    weights: IntArray

    @property
    def kernels(self) -> int:
        return len(self.weights)

    @property
    def steps(self) -> int:
        """Steps of the window."""
        return self.weights.shape[1]


def window_blocks(weights: IntArray, groups: int, shape: SkipShape) -> list[WindowBlock]:
    """The blocks of a layer; they read words of channels one fixed step apart.

    weights: (output channels, kernel height, kernel width, input channels of a group), as ``ArrayNode`` has them.
    groups: of the convolution. ValueError if the output channels are no whole groups.
    """
    channels, height, width, inputs = weights.shape
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} output channels are not {groups} groups")
    together = groups if groups == 1 else _groups_together(groups, inputs, height * width, shape)
    outputs, blocks = channels // groups, []
    for group in range(0, groups, together):
        part = weights[group * outputs : min(group + together, groups) * outputs]
        steps = _steps(part, outputs, shape.lanes)
        blocks.append(WindowBlock(group * outputs, group * inputs // shape.lanes, steps))
    return blocks


def _groups_together(groups: int, inputs: int, taps: int, shape: SkipShape) -> int:
    """Groups of a convolution in one block: whole words of channels, as many as a chunk holds; all if none fits."""
    whole = lcm(inputs, shape.lanes) // inputs
    words = whole * inputs // shape.lanes
    return min(groups, whole * max(1, shape.steps // (taps * words)))


def _steps(weights: IntArray, outputs: int, lanes: int) -> IntArray:
    """Weights (kernels, height, width, inputs of a group) of a block at the steps of its window.

    outputs: kernels of a group.
    """
    kernels, height, width, inputs = weights.shape
    groups = kernels // outputs
    words = -(-groups * inputs // lanes)
    result = np.zeros((kernels, height * width, words * lanes), np.asarray(weights).dtype)
    kernel = np.arange(kernels)[:, None]
    channel = kernel // outputs * inputs + np.arange(inputs)
    taps = np.asarray(weights).reshape(kernels, height * width, inputs)
    result[kernel, :, channel] = taps.transpose(0, 2, 1)
    return result.reshape(kernels, height * width * words, lanes)
