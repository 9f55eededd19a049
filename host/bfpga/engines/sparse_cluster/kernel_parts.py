"""Kernels in parts: what is larger than the kernels of a cluster's units is computed as several that fit (SC R7).

A part is multiplied with the map from the line on at which the part begins in its kernel. So an operation reads its map
once for each part, shifted, as if a channel of the input were several: part for part all words of channels, in the rows
of parts. Sums of all parts are of the same cells, so they add up where those of channels do, and no bit differs.
Maps that are read in parts have the zeros around the input: their outputs are those of a kernel without padding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bfpga.contract.arrays.sparse_cluster import map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Window
from bfpga.formats.arrays import IntArray

#: Words of channels that a cluster's processes count, parts and all (`line_bits` of sparse_cluster/map_beats.hpp).
MOST_WORDS = 1023


class AxisParts(NamedTuple):
    """Parts of a kernel along an axis: how many, the lines of each, and how far apart they are in the input."""

    number: int
    size: int
    step: int


class KernelParts(NamedTuple):
    """Parts of a kernel; one along both axes if it is whole."""

    down: AxisParts
    across: AxisParts

    @property
    def number(self) -> int:
        return self.down.number * self.across.number

    @property
    def taps(self) -> int:
        """Taps of all parts, with those past the end of the kernel."""
        return self.number * self.down.size * self.across.size

    def __str__(self) -> str:
        return f"{self.down.number}x{self.across.number} parts of {self.down.size}x{self.across.size}"


def kernel_parts(window: Window, config: KernelConfig) -> KernelParts:
    """The parts of a layer's kernel: equal ones, as few as units have memories for. Of a dilated one each tap."""
    return KernelParts(
        _axis_parts(window.kernel_height, window.dilation_y, config),
        _axis_parts(window.kernel_width, window.dilation_x, config),
    )


def _axis_parts(kernel: int, dilation: int, config: KernelConfig) -> AxisParts:
    if not config.array.reads_maps:
        return AxisParts(1, kernel, dilation)
    if kernel > 1 and dilation > 1:
        return AxisParts(kernel, 1, dilation)
    count = -(-kernel // map_array(config.array).kernel)
    size = -(-kernel // count)
    return AxisParts(count, size, size)


def part_weights(weights: IntArray, parts: KernelParts) -> IntArray:
    """Weights (kernels, rows, columns, channels) of kernels as those of their parts, whose channels follow each other:
    (kernels, rows of a part, columns of a part, parts * channels). Taps past the end of a kernel are zero."""
    if parts.number == 1:
        return weights
    (down, rows, _), (across, columns, _) = parts
    kernels, height, width, channels = weights.shape
    whole = np.zeros((kernels, down * rows, across * columns, channels), weights.dtype)
    whole[:, :height, :width] = weights
    cut: IntArray = whole.reshape(kernels, down, rows, across, columns, channels).transpose(0, 2, 4, 1, 3, 5)
    return cut.reshape(kernels, rows, columns, -1)


def words_of_block(channels: int, kernels: int, groups: int, config: KernelConfig) -> int:
    """Words of its input's channels that a block of kernels reads, at most."""
    inputs, outputs = channels // groups, kernels // groups
    met = min(groups, (config.rows - 2) // outputs + 2)
    spread = 1 if groups > 1 and inputs % config.lanes else 0
    return min(math.ceil(channels / config.lanes), math.ceil(met * inputs / config.lanes) + spread)
