"""Layers of which weights can be pruned, and which of their weights are the smallest, one by one or in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bfpga.compiler.read.importer import Graph, Operator
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.skip_array.assignment import assign, even_runs
from bfpga.formats.arrays import BoolArray, Float32Array, FloatArray, Int64Array

#: As many zeros in every kernel of a layer, which suits engines whose time is that of their fullest kernel.
Even = Literal["even"]
EVEN: Even = "even"
#: How often kernels are assigned anew until their groups are balanced.
ASSIGNMENTS = 6


@dataclass(frozen=True)
class Balanced:
    """As many weights in every group of a skip array, whose groups take whole kernels: its numbers as
    ``KernelConfig`` has them."""

    groups: int
    lanes: int
    rows: int

    @staticmethod
    def of(config: KernelConfig) -> Balanced:
        """What suits the skip array of a configuration."""
        return Balanced(config.array.skip_groups(config), config.lanes, config.rows)

    def kept(self, worth: FloatArray, sparsity: float) -> BoolArray:
        """Which weights of each kernel stay; worth: (kernels, weights). A share goes of each run of kernels that an
        operation computes."""
        runs = even_runs(len(worth), self.groups, self.lanes, self.rows)
        return np.concatenate([self._of_run(worth[m0:m1], sparsity) for m0, m1 in runs])

    def _of_run(self, worth: FloatArray, sparsity: float) -> BoolArray:
        """Kernels are assigned by how many weights of each would stay; then every group keeps as many of the largest.

        That changes how kernels are assigned, so it is done again; the choice with the least full group counts.
        """
        if len(worth) <= self.groups:
            return _without_smallest(worth, sparsity)
        kept = _without_smallest(worth.reshape(1, -1), sparsity).reshape(worth.shape)
        found = []
        for _ in range(ASSIGNMENTS):
            kept = _evened(worth, kept, self._assigned(kept))
            found.append((max(_entries(kept)[own].sum() for own in self._assigned(kept)), kept))
        return min(found, key=lambda item: item[0])[1]

    def _assigned(self, kept: BoolArray) -> list[Int64Array]:
        """The kernels of each group."""
        return [own[own >= 0] for own in assign(_entries(kept), self.groups).T]


def _entries(kept: BoolArray) -> Int64Array:
    """Entries of each kernel: one that begins it, and its weights."""
    counts: Int64Array = 1 + np.count_nonzero(kept, axis=1).astype(np.int64)
    return counts


def _evened(worth: FloatArray, kept: BoolArray, groups: list[Int64Array]) -> BoolArray:
    """As many weights as ``kept`` has, the largest ones of each group, and as many entries of all groups."""
    kernels, total = np.array([len(own) for own in groups]), int(np.count_nonzero(kept))
    sizes = kernels * worth.shape[1]
    counts = _shared_out(total + len(worth), sizes + kernels) - kernels
    if counts.min() < 0:
        counts = _shared_out(total, sizes)
    result = np.zeros(worth.shape, np.bool_)
    for own, count in zip(groups, counts.tolist(), strict=True):
        result[own] = _largest(worth[own], count)
    return result


#: Output and input channels of a group of weights that become zero together, at all taps of the kernel; or ``EVEN``; or
#: what balances the groups of a skip array.
Group = tuple[int, int] | Even | Balanced
#: Suits a sparse cluster whose units multiply a value by a whole kernel of its channel: zeros of single taps save none.
WHOLE_KERNELS: Group = (1, 1)


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
        if isinstance(group, tuple):
            return self._kept_groups(weights, sparsity, group)
        values = self._outputs_first(np.asarray(weights, np.float64))
        kernels = np.abs(values.astype(np.float64)).reshape(len(values), -1)
        # A kernel that reads one channel goes to the groups of its lane: these are balanced if all kernels are.
        if isinstance(group, Balanced) and values.shape[1] > 1:
            kept = group.kept(kernels, sparsity)
        else:
            kept = _without_smallest(kernels, sparsity)
        return np.ascontiguousarray(self._outputs_first(kept.reshape(values.shape))).astype(np.bool_)

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


def _largest(values: FloatArray, count: int) -> BoolArray:
    """Where the ``count`` largest values are."""
    kept = np.zeros(values.size, np.bool_)
    kept[np.argsort(-values, axis=None, kind="stable")[:count]] = True
    return kept.reshape(values.shape)


def _shared_out(total: int, sizes: Int64Array) -> Int64Array:
    """A number in parts as equal as can be, none of which is larger than its size."""
    parts, left = np.zeros(len(sizes), np.int64), total
    for number, index in enumerate(np.argsort(sizes, kind="stable").tolist()):
        parts[index] = min(int(sizes[index]), left // (len(sizes) - number))
        left -= int(parts[index])
    return parts


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
