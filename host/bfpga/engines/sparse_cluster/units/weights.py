"""Kernels of a layer as the sparse cluster meets them: which weights are issued, in which order, how often (SC R19)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bfpga.engines.sparse_cluster.partition.geometry import (
    NO_PADDING,
    CutGeometry,
    Padding,
    halo_geometry,
    output_size,
    overlap_add_geometry,
)
from bfpga.engines.sparse_cluster.units.configuration import PACKED, SparseClusterConfig, WeightOrder
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray

Position = tuple[int, int]


@dataclass(frozen=True)
class ConvolutionWindow:
    """Geometry of a convolution for `engines.windows`; the cluster knows no dilation (R154)."""

    kernel_height: int
    kernel_width: int
    stride_y: int
    stride_x: int
    pad_top: int
    pad_left: int
    output_height: int
    output_width: int
    dilation_y: int = 1
    dilation_x: int = 1


@dataclass(frozen=True)
class SparseLayer:
    """A convolution of integers: weights (kernels, rows, columns, channels of a group), zeros included.

    groups: 1, or as many as channels (depthwise); padding is virtual (R35). A fully connected layer is a 1 x 1 kernel
    on a map of 1 x 1.
    """

    weights: IntArray
    padding: Padding = NO_PADDING
    stride: tuple[int, int] = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        if self.weights.ndim != 4 or min(self.weights.shape) < 1:
            raise ConfigurationError(
                f"sparse cluster: weights have shape {self.weights.shape}; (kernels, rows, columns, channels) is needed"
            )
        if min(self.stride) < 1 or min(self.padding) < 0:
            raise ConfigurationError(
                f"sparse cluster: stride {self.stride} and padding {tuple(self.padding)}; strides of 1 or more and "
                "padding of 0 or more are possible"
            )
        if self.groups < 1 or len(self.weights) % self.groups:
            raise ConfigurationError(
                f"sparse cluster: {len(self.weights)} kernels cannot be split into {self.groups} groups"
            )

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weights.shape[1], self.weights.shape[2]

    @property
    def channels(self) -> int:
        """Input channels."""
        return self.weights.shape[3] * self.groups

    def output_shape(self, height: int, width: int) -> tuple[int, int]:
        """Output rows and columns for a map (E5)."""
        top, bottom, left, right = self.padding
        return (
            output_size(height, top + bottom, self.kernel[0], self.stride[0]),
            output_size(width, left + right, self.kernel[1], self.stride[1]),
        )

    def window(self, height: int, width: int) -> ConvolutionWindow:
        rows, columns = self.output_shape(height, width)
        return ConvolutionWindow(*self.kernel, *self.stride, self.padding.top, self.padding.left, rows, columns)

    def geometry(self, height: int, width: int, mode: str) -> CutGeometry:
        """How a map is cut for this layer: ``halo`` or ``overlap_add``; 1 x 1 kernels have neither (R31)."""
        if mode == "overlap_add":
            return overlap_add_geometry(height, width)
        return halo_geometry(height, width, self.kernel, self.padding, self.stride)

    def kernels_of_channel(self, channel: int) -> IntArray:
        """Kernels that meet an input channel: (kernels, rows, columns)."""
        inner = self.weights.shape[3]
        outputs = len(self.weights) // self.groups
        group = channel // inner
        return self.weights[group * outputs : (group + 1) * outputs, :, :, channel % inner]


def weight_order(kernel: Position, order: WeightOrder | tuple[Position, ...]) -> list[Position]:
    """Positions of a kernel in the order in which they are issued (R84, R147)."""
    rows, columns = kernel
    if order == "raster":
        return [(row, column) for row in range(rows) for column in range(columns)]
    if order == "serpentine":
        return [
            (row, column if row % 2 == 0 else columns - 1 - column) for row in range(rows) for column in range(columns)
        ]
    if order == "column":
        return [(row, column) for column in range(columns) for row in range(rows)]
    if sorted(order) != weight_order(kernel, "raster"):
        raise ConfigurationError(
            f"sparse cluster: the weight order {order} does not hold each position of the kernel once"
        )
    return [(int(row), int(column)) for row, column in order]


@dataclass(frozen=True)
class WeightPatterns:
    """The different patterns of issued weights of a layer, and how often each channel and group of kernels has them.

    counts: weights issued (patterns,). positions: where they lie, (patterns, kernel cells) in raster order. uses:
    (channels, groups of kernels in flight, patterns). lanes: of a unit. Cycles depend on patterns alone, never on the
    weights' values.
    """

    counts: Int64Array
    positions: BoolArray
    uses: Int64Array
    lanes: int

    @cached_property
    def kernels(self) -> Int64Array:
        """Kernels of each channel and group (channels, groups)."""
        result: Int64Array = self.uses.sum(axis=2)
        return result

    @cached_property
    def weights(self) -> Int64Array:
        """Weights issued of each channel and group (channels, groups)."""
        result: Int64Array = self.uses @ self.counts
        return result

    @cached_property
    def passes(self) -> Int64Array:
        """Rounds that one value takes to meet all of them, a lane a weight (channels, groups)."""
        result: Int64Array = self.uses @ -(-self.counts // self.lanes)
        return result


def weight_patterns(layer: SparseLayer, config: SparseClusterConfig) -> WeightPatterns:
    """Static analysis of a layer's kernels (R146).

    Variant A may issue zeros like any weight (R85). Variants with one weight or one value a round need to know no more
    than how many weights there are, so patterns with as many weights are one.
    """
    by_count = config.variant not in PACKED
    zero_weights = config.variant == "A" and not config.skip_zero_weights
    kernels = np.stack([layer.kernels_of_channel(channel) for channel in range(layer.channels)])
    channels, outputs = kernels.shape[:2]
    present = kernels.reshape(channels * outputs, -1) != 0
    if zero_weights:
        present = np.ones_like(present)
    if by_count:
        present = np.arange(present.shape[1]) < present.sum(axis=1)[:, None]
    positions, which = unique_patterns(present)
    groups = -(-outputs // config.kernels_in_flight)
    uses = np.zeros((channels, groups, len(positions)), np.int64)
    channel, kernel = np.divmod(np.arange(channels * outputs), outputs)
    np.add.at(uses, (channel, kernel // config.kernels_in_flight, which), 1)
    return WeightPatterns(positions.sum(axis=1, dtype=np.int64), positions, uses, config.lanes)


def unique_patterns(bits: BoolArray) -> tuple[BoolArray, Int64Array]:
    """The different rows of ``bits`` (rows, width), and for each row which of them it is."""
    packed = np.packbits(bits, axis=1)
    keys = packed.view(f"V{packed.shape[1]}").ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return bits[first], which.ravel()
