"""Several samples side by side: one a column of the array (BFP R82: batch), for networks that compute pixel by pixel.

A fully connected layer has one output pixel, and so has each step of a recurrent layer: a single sample keeps one
column busy, and its layers wait for each other. The network is rewritten for ``count`` samples on an axis before the
channels, (N, K) becomes (N, count, K), (N, steps, K) becomes (N, steps, count, K): weights are read once for all of
them. Exponents must be static: one that is found from the data would be shared by samples that happen to be processed
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from bfpga.compiler.lower.batch_first import UNARY, Rewriter, shapes_of
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import Graph, batches_of, rebuilt
from bfpga.errors import ModelError

#: Operators of values element by element, and of two of them.
POINTWISE = {
    *UNARY, "Add", "Sub", "Mul", "Div", "Clip", "Selu", "Gelu", "HardSwish", "Mish", "Exp", "Log", "Sqrt", "Cast",
}  # fmt: skip
#: Operators over channels: whose axis has to be the last one, and what it is where it is not stated.
OVER_CHANNELS = {"Softmax": -1, "LogSoftmax": -1, "LayerNormalization": -1, "RMSNormalization": -1}
SHAPING = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}
#: Pixels at most whose channels are put beside each other.
MOST_JOINED = 8
GEMM_DEFAULTS = {"alpha": 1.0, "beta": 1.0, "transA": 0}


def side_by_side(graph: Graph, count: int) -> Graph:
    """The network on ``count`` samples at once. ModelError if an operator mixes samples, pixels or axes."""
    stated = batches_of(graph.model)
    if stated[0] == stated[1]:
        raise ModelError(
            f"a batch of {stated[0]} is built into the operators of this network; "
            "export it with an open batch, for samples side by side"
        )
    return rebuilt(graph, _Widener(graph.model, count).model())


class _Widener:
    """Writes the operators of a network with one more axis, in front of the last one, for ``count`` samples."""

    def __init__(self, model: ModelProto, count: int) -> None:
        self.count, self.given = count, model
        self.rewriter = Rewriter(model, shapes_of(model))
        self._rules: dict[str, Callable[[NodeProto], None]] = {
            **dict.fromkeys(POINTWISE, self._pointwise), **dict.fromkeys(OVER_CHANNELS, self._over_channels),
            **dict.fromkeys(SHAPING, self._shaped), "MatMul": self._product, "Gemm": self._affine,
            "Slice": self._slice, "Concat": self._concat, "Gather": self._gather, "Transpose": self._transpose,
        }  # fmt: skip

    def model(self) -> ModelProto:
        for node in self.given.graph.node:
            rule = self._rules.get(node.op_type)
            if rule is None:
                raise _refusal(node, "is none of their kind")
            rule(node)
        result = self.rewriter.finish()
        for value in result.graph.input:
            self._widen_input(value.type.tensor_type, value.name)
        for value in result.graph.output:
            value.type.tensor_type.ClearField("shape")
        return result

    def _widen_input(self, form: Any, name: str) -> None:
        sizes = [dim.dim_value for dim in form.shape.dim]
        if not 2 <= len(sizes) <= 3:
            raise ModelError(
                f"samples side by side are vectors or sequences of them; input {name} has {len(sizes)} axes with its "
                "batch"
            )
        del form.shape.dim[1:]
        for size in (*sizes[1:-1], self.count, sizes[-1]):
            form.shape.dim.add().dim_value = size

    # Values

    def _rank(self, node: NodeProto, name: str) -> int:
        """Axes of a value as the network has it."""
        shape = self.rewriter.shapes.get(name, ())
        if len(shape) < 2 or shape[0] != 0:
            raise _refusal(node, f"takes {name} of another shape than samples have")
        return len(shape)

    def _axis(self, node: NodeProto, axis: int, rank: int) -> int:
        """Where an axis is behind the rewriting."""
        axis %= rank
        if axis == 0:
            raise _refusal(node, "mixes samples")
        return axis if axis < rank - 1 else rank

    def _constant(self, node: NodeProto, name: str) -> Any:
        if name not in self.rewriter.constants:
            raise _refusal(node, f"takes {name}, which is computed")
        return self.rewriter.constants[name]

    def _write(self, node: NodeProto, inputs: Sequence[str], **attributes: Any) -> None:
        self.rewriter.nodes.append(
            helper.make_node(node.op_type, inputs, node.output, name=node.name, domain=node.domain, **attributes)
        )

    # Rules

    def _pointwise(self, node: NodeProto) -> None:
        ranks = {self._rank(node, name) for name in node.input if name and name not in self.rewriter.constants}
        if len(ranks) != 1:
            raise _refusal(node, "takes values of different axes")
        self._write(node, [self._broadcast(name) for name in node.input], **attributes_of(node))

    def _broadcast(self, name: str) -> str:
        """A constant with an axis for the samples."""
        value = self.rewriter.constants.get(name)
        return name if value is None or value.ndim < 2 else self.rewriter.constant(np.expand_dims(value, -2))

    def _over_channels(self, node: NodeProto) -> None:
        rank, attributes = self._rank(node, node.input[0]), attributes_of(node)
        if attributes.get("axis", OVER_CHANNELS[node.op_type]) not in (-1, rank - 1):
            raise _refusal(node, "is over another axis than the last")
        self._write(node, node.input, **{**attributes, "axis": -1})

    def _shaped(self, node: NodeProto) -> None:
        """The channels stay as they are: what is moved lies before the samples."""
        before, after = (self.rewriter.shapes.get(name, ()) for name in (node.input[0], node.output[0]))
        if len(before) == 3 and after == (0, before[1] * before[2]) and 1 < before[1] <= MOST_JOINED:
            self._channels_of_pixels(node, before[1])
            return
        if len(after) < 2 or after[0] != 0 or before[-1:] != after[-1:]:
            raise _refusal(node, "makes pixels and channels of each other")
        sizes = self.rewriter.constant(np.array([0, *after[1:-1], self.count, after[-1]], np.int64))
        self.rewriter.add("Reshape", node.input[0], sizes, output=node.output[0])

    def _channels_of_pixels(self, node: NodeProto, pixels: int) -> None:
        """The channels of a few pixels, as the last states of both directions, beside each other."""
        parts = [self.rewriter.part(node.input[0], 1, pixel, pixel + 1) for pixel in range(pixels)]
        joined = self.rewriter.add("Concat", *parts, axis=3)
        sizes = self.rewriter.constant(np.array([0, self.count, -1], np.int64))
        self.rewriter.add("Reshape", joined, sizes, output=node.output[0])

    def _product(self, node: NodeProto) -> None:
        self._rank(node, node.input[0])
        if self._constant(node, node.input[1]).ndim != 2:
            raise _refusal(node, "has weights of more than two axes")
        self._write(node, node.input)

    def _affine(self, node: NodeProto) -> None:
        """Gemm takes matrices only: MatMul and Add take more axes."""
        attributes = attributes_of(node)
        if any(attributes.get(name, default) != default for name, default in GEMM_DEFAULTS.items()):
            raise _refusal(node, "scales or transposes its operands")
        self._rank(node, node.input[0])
        weights = self._constant(node, node.input[1])
        name = self.rewriter.constant(np.ascontiguousarray(weights.T if attributes.get("transB", 0) else weights))
        if len(node.input) < 3 or not node.input[2]:
            self.rewriter.add("MatMul", node.input[0], name, output=node.output[0])
            return
        product = self.rewriter.add("MatMul", node.input[0], name, stem=f"{node.output[0]}/product")
        self.rewriter.add("Add", product, self._broadcast(node.input[2]), output=node.output[0])

    def _slice(self, node: NodeProto) -> None:
        rank = self._rank(node, node.input[0])
        numbers = [self._constant(node, name) for name in node.input[1:] if name]
        if len(node.input) < 4 or len(numbers) != len(node.input) - 1:
            raise _refusal(node, "does not state its axes")
        numbers[2] = np.array([self._axis(node, int(axis), rank) for axis in numbers[2]], np.int64)
        self._write(node, [node.input[0], *map(self.rewriter.constant, numbers)])

    def _concat(self, node: NodeProto) -> None:
        rank = max(self._rank(node, name) for name in node.input)
        self._write(node, node.input, axis=self._axis(node, int(attributes_of(node)["axis"]), rank))

    def _gather(self, node: NodeProto) -> None:
        rank, axis = self._rank(node, node.input[0]), int(attributes_of(node).get("axis", 0))
        self._constant(node, node.input[1])
        if axis % rank == rank - 1:
            raise _refusal(node, "takes some of the channels")
        self._write(node, node.input, axis=self._axis(node, axis, rank))

    def _transpose(self, node: NodeProto) -> None:
        rank = self._rank(node, node.input[0])
        order = [int(axis) for axis in attributes_of(node).get("perm", range(rank)[::-1])]
        if order[0] != 0 or order[-1] != rank - 1:
            raise _refusal(node, "moves samples or channels")
        self._write(node, node.input, perm=[*order[:-1], rank - 1, rank])


def _refusal(node: NodeProto, reason: str) -> ModelError:
    return ModelError(
        "samples side by side need a network of fully connected and recurrent layers; operator "
        f"{node.name or node.op_type} ({node.op_type}) {reason}"
    )
