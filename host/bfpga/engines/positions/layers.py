"""Layers of fixed-point tensors: exact wide results and their position, from mantissas of any position (FP R3, R8).

Arrays are (items, channels) or images (samples, height, width, channels). A product has the sum of both positions, a
sum the larger one of its operands, so that no bit is lost; the integers do not depend on positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bfpga.engines.kernel.accumulators import convolution
from bfpga.engines.kernel.products import certified_product
from bfpga.engines.kernel.windows import WindowShape, padded, taps
from bfpga.errors import DataError
from bfpga.formats.arrays import Int64Array
from bfpga.formats.fixed_point import FixedTensor, fixed_point_tensor
from bfpga.formats.rounding import shift_round


class WideResult(NamedTuple):
    """values: exact integers (..., channels); position: their fraction bits, beyond an int8 register too."""

    values: Int64Array
    position: int


@dataclass(frozen=True)
class FixedPointLayer(ABC):
    """A layer under its name; layers of one ``operation`` may share a flow (FP R34)."""

    name: str
    operation: ClassVar[str]
    updates_position: ClassVar[bool]


class WideLayer(FixedPointLayer):
    """A layer whose results get a position of their own."""

    updates_position = True

    @abstractmethod
    def wide(self, *inputs: FixedTensor) -> WideResult:
        """Exact results of the inputs' mantissas. FP R8."""


class PassingLayer(FixedPointLayer):
    """A layer that keeps the position of its input: narrow in, narrow out. FP R35."""

    updates_position = False

    @abstractmethod
    def narrow(self, x: FixedTensor) -> FixedTensor:
        """Results in the input's format."""


def _aligned(tensor: FixedTensor) -> tuple[Int64Array, int]:
    """Mantissas at one position for all channels, and the position."""
    whole = tensor.aligned()
    return whole.mantissa.astype(np.int64), int(whole.position)


def _largest(mantissa: Int64Array) -> int:
    return int(np.abs(mantissa).max(initial=1))


def _with_bias(values: Int64Array, position: int, bias: FixedTensor | None) -> WideResult:
    """Results plus the bias of each channel, rounded half to even where it has more fraction bits than they have."""
    if bias is None:
        return WideResult(values, position)
    return WideResult(values + shift_round(bias.mantissa, bias.position - position, "rne"), position)


@dataclass(frozen=True)
class FullyConnected(WideLayer):
    """x (items, inner) times weights (inner, outputs), plus a bias (outputs,)."""

    weights: FixedTensor
    bias: FixedTensor | None = None
    operation = "fully_connected"

    def wide(self, *inputs: FixedTensor) -> WideResult:
        """FP R3 (product-sum), R8."""
        (x, position), (weights, weight_position) = _aligned(inputs[0]), _aligned(self.weights)
        _require_inner(x.shape[-1], len(weights))
        values = certified_product(weights, _largest(x))(x).astype(np.int64)
        return _with_bias(values, position + weight_position, self.bias)


@dataclass(frozen=True)
class Convolution(WideLayer):
    """Images with weights (outputs, kernel rows, kernel columns, channels of a group), plus a bias (outputs,)."""

    weights: FixedTensor
    window: WindowShape
    groups: int = 1
    bias: FixedTensor | None = None
    operation = "convolution"

    def wide(self, *inputs: FixedTensor) -> WideResult:
        """FP R3 (product-sum), R8."""
        (x, position), (weights, weight_position) = _aligned(inputs[0]), _aligned(self.weights)
        _require_inner(x.shape[-1], weights.shape[-1] * self.groups)
        values = convolution(weights, self.window, self.groups, _largest(x))(x).astype(np.int64)
        image = values.reshape(len(x), self.window.output_height, self.window.output_width, -1)
        return _with_bias(image, position + weight_position, self.bias)


@dataclass(frozen=True)
class AveragePooling(WideLayer):
    """Mean of every window: its sum times the reciprocal of its size in ``width`` bits."""

    window: WindowShape
    width: int = 8
    operation = "average_pooling"

    def wide(self, *inputs: FixedTensor) -> WideResult:
        """FP R3 (pooling), R8."""
        x, position = _aligned(inputs[0])
        area = self.window.kernel_height * self.window.kernel_width
        factor, factor_position = _aligned(fixed_point_tensor([1 / area], self.width))
        total = sum(taps(padded(x, self.window, 0, np.int64), self.window), np.int64(0))
        return WideResult(np.asarray(total * factor[0]), position + factor_position)


@dataclass(frozen=True)
class BatchNormalization(WideLayer):
    """Every channel times its scale (channels,), plus a bias (channels,)."""

    scale: FixedTensor
    bias: FixedTensor | None = None
    operation = "batch_normalization"

    def wide(self, *inputs: FixedTensor) -> WideResult:
        """FP R3 (multiply), R8."""
        (x, position), (scale, scale_position) = _aligned(inputs[0]), _aligned(self.scale)
        _require_inner(x.shape[-1], len(scale))
        return _with_bias(x * scale, position + scale_position, self.bias)


@dataclass(frozen=True)
class Addition(WideLayer):
    """Sum of tensors of one shape and any positions."""

    operation = "addition"

    def wide(self, *inputs: FixedTensor) -> WideResult:
        """FP R3 (accumulate), R8: everything is aligned to the most fraction bits."""
        aligned = [_aligned(tensor) for tensor in inputs]
        position = max(own for _, own in aligned)
        total = sum((mantissa << (position - own) for mantissa, own in aligned), np.int64(0))
        return WideResult(np.asarray(total), position)


@dataclass(frozen=True)
class MaximumPooling(PassingLayer):
    """Largest value of every window."""

    window: WindowShape
    operation = "maximum_pooling"

    def narrow(self, x: FixedTensor) -> FixedTensor:
        lowest = np.iinfo(x.mantissa.dtype).min
        views = taps(padded(x.mantissa, self.window, lowest, x.mantissa.dtype), self.window)
        return FixedTensor(np.maximum.reduce(list(views)), x.position)


@dataclass(frozen=True)
class Relu(PassingLayer):
    """max(x, 0)."""

    operation = "relu"

    def narrow(self, x: FixedTensor) -> FixedTensor:
        return FixedTensor(np.maximum(x.mantissa, 0), x.position)


def _require_inner(found: int, wanted: int) -> None:
    if found != wanted:
        raise DataError(f"its input has {found} channels, its weights are for {wanted}")
