"""The matrix products of training, each with an exponent that an operation before it finds in the same pass (FP R4)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bfpga.dynamic_graph.array import EagerArray
from bfpga.dynamic_graph.blocks import ArrayBlock
from bfpga.dynamic_graph.run import EagerRun
from bfpga.formats.arrays import FloatArray

#: Values of a layer: numbers, or a block that stays one from layer to layer.
Activations = EagerArray | FloatArray


class Products(Protocol):
    """What a layer with weights (inner, outputs) computes of rows x (rows, inner) in one training step.

    part: bytes of rows that are best computed at once; None where all rows must be, for they share an exponent.
    """

    part: int | None

    def forward(self, name: str, x: Activations, weights: FloatArray, bias: FloatArray, relu: bool) -> Activations:
        """x @ weights + bias, and no less than 0 with ``relu``."""

    def input_gradient(self, name: str, gradient: FloatArray, weights: FloatArray) -> FloatArray:
        """gradient @ weights.T"""

    def weight_gradient(self, name: str, x: Activations, gradient: FloatArray) -> FloatArray:
        """x.T @ gradient"""


class FloatProducts:
    """Products in floating point: float64, or float32 where many samples shall pass in little time."""

    #: About what stays in the second cache of one core.
    part: int | None = 2 << 20

    def __init__(self, kind: type[np.floating[Any]] = np.float64) -> None:
        self.kind = kind

    def forward(self, name: str, x: Activations, weights: FloatArray, bias: FloatArray, relu: bool) -> FloatArray:
        """Product, bias and function."""
        y: FloatArray = np.matmul(np.asarray(x, self.kind), weights.astype(self.kind))
        y += bias.astype(self.kind)
        return np.asarray(np.maximum(y, 0, out=y), self.kind) if relu else y

    def input_gradient(self, name: str, gradient: FloatArray, weights: FloatArray) -> FloatArray:
        """Rows of gradients of the layer's inputs."""
        return np.asarray(np.matmul(np.asarray(gradient, self.kind), weights.T.astype(self.kind)), self.kind)

    def weight_gradient(self, name: str, x: Activations, gradient: FloatArray) -> FloatArray:
        """Gradients of the weights, summed over the rows."""
        return np.asarray(np.matmul(np.asarray(x, self.kind).T, np.asarray(gradient, self.kind)), self.kind)


class ArrayProducts:
    """Products on two sessions: activations and weights in narrow mantissas, gradients in wide ones. FP R4, R27.

    A layer takes the mantissas and the exponent of the layer before as they are. Both sessions may be the same.
    """

    part: int | None = None

    def __init__(self, narrow: EagerRun, wide: EagerRun) -> None:
        """narrow, wide: open sessions, for example of 8-bit and of 16-bit mantissas."""
        self.narrow = narrow
        self.wide = wide

    def forward(self, name: str, x: Activations, weights: FloatArray, bias: FloatArray, relu: bool) -> EagerArray:
        """One operation: product, bias and function, then one exponent."""
        return self.narrow.linear(x, weights, bias, function="relu" if relu else None)

    def input_gradient(self, name: str, gradient: FloatArray, weights: FloatArray) -> FloatArray:
        """Rows of gradients of the layer's inputs."""
        return np.asarray(self.wide.matmul(gradient, weights.T), np.float64)

    def weight_gradient(self, name: str, x: Activations, gradient: FloatArray) -> FloatArray:
        """Gradients of the weights, summed over the rows."""
        return np.asarray(self.wide.matmul(self._widened(x).T, gradient), np.float64)

    def finish_iteration(self, accuracy: float | None = None) -> None:
        """Count an iteration on both sessions: samples shrink by their schedules. FP R31, R32."""
        for session in {self.narrow.session, self.wide.session}:
            session.finish_iteration(accuracy)

    def _widened(self, x: Activations) -> EagerArray:
        """Activations in the session of gradients; narrow mantissas are wide ones too."""
        if not isinstance(x, EagerArray) or self.narrow is self.wide:
            return self.wide.array(x)
        kind = self.wide.array(np.ones(1)).mantissa.dtype
        return self.wide.wrap(ArrayBlock(x.mantissa.astype(kind), x.exponent))
