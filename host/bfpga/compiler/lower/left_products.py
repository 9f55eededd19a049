"""Products of constants from the left: Y = W X, along the tokens of X, as MLP mixers compute them.

Exporters write them between two transpositions, since a layer multiplies the last axis: (X^T A + b)^T = A^T X + b^T,
and functions of single elements do not mind. Or as convolutions along the other axis with kernels of one element. Where
X may become weights on the chip (key ``operand_weights``) nothing has to be transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.read.channels_first import BINARY, UNARY
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import Graph, Operator, rebuilt
from bfpga.compiler.read.simplify import without_unused

#: The transposition of the two axes of a sample.
SWAP = [0, 2, 1]


def left_products(graph: Graph) -> set[str]:
    """Names of the products of a constant matrix, from the left, with the matrix of a sample."""
    return {operator.name for operator in graph.operators if _from_left(graph, operator)}


def with_left_products(graph: Graph) -> Graph:
    """The graph with products from the left in the place of convolutions and of what is between two transpositions."""
    graph = _without_convolutions(graph)
    runs = [run for operator in graph.operators if (run := _run_from(graph, operator)) is not None]
    return rebuilt(graph, without_unused(_Writer(graph, runs).written())) if runs else graph


@dataclass(frozen=True)
class _Run:
    """Operators between a transposition and those that undo it.

    All that they read is turned or constant, or is transposed for others too.
    """

    start: Operator
    inner: tuple[Operator, ...]
    ends: tuple[Operator, ...]


def _from_left(graph: Graph, operator: Operator) -> bool:
    matrix = graph.constants.get(operator.inputs[0]) if operator.type == "MatMul" else None
    return matrix is not None and matrix.ndim == 2 and len(graph.shapes.get(operator.inputs[1], ())) == 2


def _is_swap(node: NodeProto) -> bool:
    return node.op_type == "Transpose" and attributes_of(node).get("perm") == SWAP


def _swaps(graph: Graph, operator: Operator) -> bool:
    return _is_swap(operator.proto) and operator.inputs[0] in graph.shapes


def _run_from(graph: Graph, start: Operator) -> _Run | None:
    """The operators after a transposition, as far as it is undone behind all of them."""
    if not _swaps(graph, start):
        return None
    turned, inner, ends = {start.outputs[0]}, [], []
    for operator in graph.operators:
        if not turned & set(operator.uses):
            continue
        if _swaps(graph, operator):
            ends.append(operator)
        elif _commutes(graph, operator, turned):
            inner.append(operator)
            turned.add(operator.outputs[0])
        else:
            return None
    known = turned & (set(graph.outputs) | set(graph.grids))
    if known or not ends or not any(operator.type == "MatMul" for operator in inner):
        return None
    return _Run(start, tuple(inner), tuple(ends))


def _commutes(graph: Graph, operator: Operator, turned: set[str]) -> bool:
    """Whether an operator on turned values may work on them as they were."""
    if operator.proto.domain not in ("", "ai.onnx") or operator.captured or any(operator.outputs[1:]):
        return False
    others = [name for name in operator.inputs if name and name not in turned]
    numbers = [graph.constants[name] for name in others if name in graph.constants]
    if operator.type == "MatMul":
        return operator.inputs[0] in turned and bool(numbers) and numbers[0].ndim == 2
    if operator.type in UNARY:
        return len(numbers) == len(others) and all(number.size == 1 for number in numbers)
    values = [name for name in operator.inputs if name not in graph.constants]
    shape = graph.shapes.get(operator.outputs[0])
    alike = all(graph.shapes.get(name) == shape and (name in turned or _is_swapped(graph, name)) for name in values)
    return operator.type in BINARY and alike and all(number.ndim <= len(SWAP) for number in numbers)


def _is_swapped(graph: Graph, value: str) -> bool:
    """Whether something reads a value of the network transposed."""
    return any(_swaps(graph, reader) for reader in graph.consumers.get(value, []))


def _without_convolutions(graph: Graph) -> Graph:
    """The graph with products in the place of convolutions with kernels of one element behind a normalization.

    That has the other axis in its rows, so an image of it would have to be transposed.
    """
    makers = {name: operator for operator in graph.operators for name in operator.outputs}
    chosen = {operator.outputs[0] for operator in graph.operators if _mixes_rows(graph, operator, makers)}
    if not chosen:
        return graph
    rewriter = Rewriter(graph.model, {})
    for node in graph.model.graph.node:
        if node.output[0] not in chosen:
            rewriter.nodes.append(node)
            continue
        matrix, biased = rewriter.constants[node.input[1]][:, :, 0], len(node.input) > 2
        result = "" if biased else node.output[0]
        product = rewriter.add("MatMul", rewriter.constant(matrix), node.input[0], output=result)
        if biased:
            bias = rewriter.constant(rewriter.constants[node.input[2]].reshape(-1, 1))
            rewriter.add("Add", product, bias, output=node.output[0])
    return rebuilt(graph, without_unused(rewriter.finish()))


def _mixes_rows(graph: Graph, operator: Operator, makers: dict[str, Operator]) -> bool:
    """Whether an operator is such a convolution; between it and the normalization may be others and functions."""
    if not _is_pointwise(graph, operator):
        return False
    maker = makers.get(operator.inputs[0])
    while maker is not None and (_is_pointwise(graph, maker) or maker.type in UNARY | BINARY):
        computed = [name for name in maker.inputs if name and name not in graph.constants]
        maker = makers.get(next(iter(computed), ""))
    return maker is not None and maker.type in ("LayerNormalization", "RMSNormalization")


def _is_pointwise(graph: Graph, operator: Operator) -> bool:
    """Whether an operator is a convolution along one axis with one element, of all channels."""
    found = [graph.constants.get(name) for name in operator.inputs[1:]] if operator.type == "Conv" else []
    weights, attributes = found[0] if found else None, operator.attributes
    plain = attributes.get("group", 1) == 1 and attributes.get("strides", [1]) == [1] and not any(
        attributes.get("pads", [0, 0])
    )
    known = graph.grids.keys().isdisjoint((*operator.inputs, *operator.outputs))
    return plain and known and weights is not None and weights.shape[2:] == (1,) and all(n is not None for n in found)


class _Writer:
    """Writes the model in which nothing of the runs is turned."""

    def __init__(self, graph: Graph, runs: Sequence[_Run]) -> None:
        self.graph = graph
        self.rewriter = Rewriter(graph.model, {name: (0, *shape) for name, shape in graph.shapes.items()})
        self.starts = {run.start.outputs[0] for run in runs}
        self.inner = {operator.outputs[0] for run in runs for operator in run.inner}
        self.ends = {operator.outputs[0] for run in runs for operator in run.ends}
        #: What is read in the place of a value.
        self.instead: dict[str, str] = {}
        #: Values that are transposed for others, with the results.
        self.swapped: dict[str, str] = {}

    def written(self) -> ModelProto:
        for node in self.graph.model.graph.node:
            self._write(node)
        return self.rewriter.finish()

    def _write(self, node: NodeProto) -> None:
        output = node.output[0]
        inputs = [self.instead.get(name, name) for name in node.input]
        if output in self.starts or output in self.ends:
            self.instead[output] = inputs[0]
            if output in self.graph.outputs:
                self.rewriter.add("Identity", inputs[0], output=output)
            return
        if _is_swap(node):
            self.swapped.setdefault(inputs[0], output)
        copy = NodeProto()
        copy.CopyFrom(node)
        if output in self.inner:
            inputs = self._turned(node)
            copy.output[0] = self.instead[output] = self.rewriter.name(output)
        copy.input[:] = inputs
        self.rewriter.nodes.append(copy)

    def _turned(self, node: NodeProto) -> list[str]:
        """The operands of an operator on values as they were."""
        if node.op_type == "MatMul":
            matrix = self.rewriter.constants[node.input[1]]
            return [self.rewriter.constant(np.ascontiguousarray(matrix.T)), self.instead[node.input[0]]]
        return [self._operand(name) for name in node.input]

    def _operand(self, name: str) -> str:
        number = self.rewriter.constants.get(name)
        if not name or (number is not None and number.size == 1):
            return name
        if number is not None:
            return self.rewriter.constant(_swapped(number))
        if name not in self.instead and name not in self.swapped:
            self.swapped[name] = self.rewriter.add("Transpose", name, perm=SWAP)
        return self.instead.get(name) or self.swapped[name]


def _swapped(number: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A constant for values whose last two axes are swapped."""
    shaped = number.reshape(1, -1) if number.ndim == 1 else number
    return np.ascontiguousarray(np.swapaxes(shaped, -1, -2))
