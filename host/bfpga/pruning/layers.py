"""Layers of which weights can be pruned, and which of their weights are the smallest, one by one or in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bfpga.compiler.read.importer import Graph, Operator
from bfpga.formats.arrays import BoolArray, Float32Array, FloatArray

#: As many zeros in every kernel of a layer, which suits engines whose time is that of their fullest kernel.
Even = Literal["even"]
EVEN: Even = "even"
#: Output and input channels of a group of weights that become zero together, at all taps of the kernel; or ``EVEN``.
Group = tuple[int, int] | Even


@dataclass(frozen=True)
class PrunableLayer:
    """A layer by its operator's name and the constant that holds its weights.

    outputs_last: weights are (inputs, outputs), as of MatMul; else outputs come first.
    """

    name: str
    constant: str
    weights: Float32Array
    outputs_last: bool = False

    @property
    def size(self) -> int:
        return self.weights.size

    @property
    def zeros(self) -> int:
        return self.size - int(np.count_nonzero(self.weights))

    def kept(self, weights: FloatArray, sparsity: float, group: Group | None = None) -> BoolArray:
        """Which weights stay when the smallest ones go, in the shape of ``weights``.

        sparsity: share that goes; of whole groups and of even kernels the nearest count that they allow. Groups are
        judged by the mean square of their weights. Of equal ones the first go.
        """
        if group is None:
            return _without_smallest(weights.reshape(1, -1), sparsity).reshape(weights.shape)
        if group == EVEN:
            values = self._outputs_first(np.asarray(weights, np.float64))
            even = _without_smallest(np.abs(values).reshape(len(values), -1), sparsity).reshape(values.shape)
            return np.ascontiguousarray(self._outputs_first(even)).astype(np.bool_)
        return self._kept_groups(weights, sparsity, group)

    def _kept_groups(self, weights: FloatArray, sparsity: float, group: tuple[int, int]) -> BoolArray:
        values = self._outputs_first(np.asarray(weights, np.float64))
        outputs, inputs = values.shape[:2]
        numbers = (np.arange(outputs) // group[0])[:, None] * -(-inputs // group[1]) + np.arange(inputs) // group[1]
        squares = np.square(values).reshape(outputs, inputs, -1)
        sizes = np.bincount(numbers.ravel()) * squares.shape[2]
        order = np.argsort(np.bincount(numbers.ravel(), squares.sum(axis=2).ravel()) / sizes, kind="stable")
        gone = np.concatenate([[0], np.cumsum(sizes[order])])
        count = int(np.abs(gone - sparsity * weights.size).argmin())
        kept = ~np.isin(numbers, order[:count])
        spread = np.broadcast_to(kept.reshape(outputs, inputs, *(1,) * (values.ndim - 2)), values.shape)
        return np.ascontiguousarray(self._outputs_first(spread))

    def _outputs_first(self, values: FloatArray | BoolArray) -> FloatArray | BoolArray:
        """Outputs before inputs; the same again turns them back."""
        return values.swapaxes(0, 1) if self.outputs_last else values


def _without_smallest(rows: FloatArray, sparsity: float) -> BoolArray:
    """Which weights of each row stay when a share of it goes, the smallest ones first."""
    kept = np.ones(rows.shape, np.bool_)
    order = np.argsort(np.abs(rows), axis=1, kind="stable")
    np.put_along_axis(kept, order[:, : round(sparsity * rows.shape[1])], False, axis=1)
    return kept


def prunable_layers(graph: Graph) -> list[PrunableLayer]:
    """Convolutions and fully connected layers whose weights are constants, in the order of the network.

    Weights that several layers share are pruned once, as those of the first one.
    """
    found: dict[str, PrunableLayer] = {}
    for operator in graph.operators:
        name = _weights(graph, operator)
        if name and name not in found:
            weights = np.asarray(graph.constants[name], np.float32)
            turned = operator.type == "MatMul" or (operator.type == "Gemm" and not operator.attributes.get("transB", 0))
            found[name] = PrunableLayer(operator.name, name, weights, turned)
    return list(found.values())


def _weights(graph: Graph, operator: Operator) -> str:
    """Name of an operator's constant weights; empty if it has none."""
    if operator.type not in ("Conv", "Gemm", "MatMul"):
        return ""
    name = operator.inputs[1]
    return name if name in graph.constants and graph.constants[name].ndim >= 2 else ""
