"""Networks with channels last (Keras, TFLite): transpositions move past the operators that need none.

Exporters put a Transpose on either side of each convolution, and biases, activations, sums and means between them work
on channels last. Here a Transpose moves down past such operators until it reaches its inverse and both vanish, or an
operator that does need it. What is left between two convolutions is then written as in a network with channels first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, nested, replace_nodes, subgraphs

#: Ends the name of a value with channels first whose namesake has them last.
SUFFIX = "/channels_first"
#: From channels first to channels last, by axes.
TO_LAST = {4: (0, 2, 3, 1), 3: (0, 2, 1)}
#: Operators on each element of their first input; further inputs are single numbers.
UNARY = frozenset({
    "Abs", "Cast", "Ceil", "Clip", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
    "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Softplus",
    "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
})  # fmt: skip
BINARY = frozenset({"Add", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub"})
REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Squeeze"})

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Turned:
    """A value that replaces a Transpose of ``name`` with ``axes``."""

    name: str
    axes: Axes


def channels_first(model: ModelProto) -> ModelProto:
    """The model with its transpositions to channels last as far down as they go; itself if it has none."""
    chosen = [node for node in model.graph.node if _axes(node) in TO_LAST.values()]
    return _Pass(copied(model)).run() if chosen else model


def _axes(node: NodeProto) -> Axes:
    return tuple(attributes_of(node).get("perm", ())) if node.op_type == "Transpose" else ()


class _Pass:
    """Operators in order; ``turned`` are the values whose Transpose waits."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.constants = {item.name: item for item in model.graph.initializer}
        self.turned: dict[str, Turned] = {}
        self.made: set[str] = set()
        self.nodes: list[NodeProto] = []

    def run(self) -> ModelProto:
        for node in self.model.graph.node:
            rule = self._rule(node)
            if rule is None or not rule(node):
                self._stay(node)
        for output in self.model.graph.output:
            self._turn(output.name)
        replace_nodes(self.model, self.nodes)
        del self.model.graph.value_info[:]
        return self.model

    def _rule(self, node: NodeProto) -> Callable[[NodeProto], bool] | None:
        if node.op_type == "Transpose":
            return self._transpose
        if node.domain not in ("", "ai.onnx") or not any(name in self.turned for name in node.input):
            return None
        if node.op_type in UNARY:
            return self._unary
        if node.op_type in BINARY:
            return self._binary
        if node.op_type in REDUCTIONS:
            return self._reduce
        return {
            "Concat": self._concat, "Pad": self._pad, "Resize": self._resize, "Softmax": self._softmax,
        }.get(node.op_type)  # fmt: skip

    # What an operator becomes

    def _stay(self, node: NodeProto) -> None:
        captured = [name for inner in nested(child for graph in subgraphs(node) for child in graph.node)
                    for name in inner.input]  # fmt: skip
        for index, name in enumerate(node.input):
            waiting = self.turned.get(name)
            if waiting is not None and waiting.axes == tuple(range(len(waiting.axes))):
                node.input[index] = waiting.name
            else:
                self._turn(name)
        for name in captured:
            self._turn(name)
        self.nodes.append(node)

    def _turn(self, value: str) -> None:
        """Emit the Transpose that a value waits for."""
        if value in self.turned and value not in self.made:
            self.made.add(value)
            waiting = self.turned[value]
            kind = {} if waiting.axes == tuple(range(len(waiting.axes))) else {"perm": waiting.axes}
            self.nodes.append(
                helper.make_node("Transpose" if kind else "Identity", [waiting.name], [value], name=value, **kind)
            )

    def _move(self, node: NodeProto, inputs: list[str], order: Axes, **changed: Any) -> bool:
        """The operator on values before their Transpose, which its results now wait for."""
        outputs = [f"{name}{SUFFIX}" if name else "" for name in node.output]
        kept = attributes_of(node) | changed
        new = helper.make_node(node.op_type, inputs, outputs, name=node.name, **kept)
        self.nodes.append(new)
        self.turned |= {old: Turned(name, order) for old, name in zip(node.output, outputs, strict=True) if old}
        return True

    def _constant(self, values: npt.NDArray[Any], base: str) -> str:
        name = f"{base}{SUFFIX}{len(self.constants)}"
        tensor = numpy_helper.from_array(values, name)
        self.model.graph.initializer.append(tensor)
        self.constants[name] = tensor
        return name

    def _number(self, name: str) -> npt.NDArray[Any] | None:
        return numpy_helper.to_array(self.constants[name]) if name in self.constants else None

    # Rules

    def _transpose(self, node: NodeProto) -> bool:
        axes, waiting = _axes(node), self.turned.get(node.input[0])
        if waiting is None:
            if axes in TO_LAST.values():
                self.turned[node.output[0]] = Turned(node.input[0], axes)
            return axes in TO_LAST.values()
        if len(axes) != len(waiting.axes):
            return False
        self.turned[node.output[0]] = Turned(waiting.name, tuple(waiting.axes[axis] for axis in axes))
        return True

    def _unary(self, node: NodeProto) -> bool:
        first = self.turned.get(node.input[0])
        others = [self._number(name) for name in list(node.input)[1:] if name]
        if first is None or any(number is None or number.size > 1 for number in others):
            return False
        return self._move(node, [first.name, *list(node.input)[1:]], first.axes)

    def _binary(self, node: NodeProto) -> bool:
        """All inputs wait for the same Transpose, or are constants."""
        waiting = {self.turned[name].axes for name in node.input if name in self.turned}
        if len(waiting) != 1:
            return False
        (axes,) = waiting
        inputs = []
        for name in node.input:
            number = self._number(name)
            if name in self.turned:
                inputs.append(self.turned[name].name)
            elif number is None or number.ndim > len(axes):
                return False
            elif number.size == 1:
                inputs.append(name)
            else:
                shaped = number.reshape(*[1] * (len(axes) - number.ndim), *number.shape)
                inputs.append(self._constant(shaped.transpose(np.argsort(axes)), name))
        return self._move(node, inputs, axes)

    def _concat(self, node: NodeProto) -> bool:
        waiting = [self.turned.get(name) for name in node.input]
        first = waiting[0]
        if first is None or any(item is None or item.axes != first.axes for item in waiting):
            return False
        axis = first.axes[attributes_of(node)["axis"]]
        return self._move(node, [item.name for item in waiting if item is not None], first.axes, axis=axis)

    def _softmax(self, node: NodeProto) -> bool:
        first = self.turned[node.input[0]]
        version = max(item.version for item in self.model.opset_import if item.domain in ("", "ai.onnx"))
        if version < 13:  # it has no single axis
            return False
        return self._move(node, [first.name], first.axes, axis=first.axes[attributes_of(node).get("axis", -1)])

    def _resize(self, node: NodeProto) -> bool:
        """Ratios or sizes of all axes are constants."""
        first, sizes = self.turned.get(node.input[0]), [self._number(name) for name in list(node.input)[2:] if name]
        if first is None or {"axes", "keep_aspect_ratio_policy"} & set(attributes_of(node)) or not sizes:
            return False
        if node.input[1] and (number := self._number(node.input[1])) is not None and number.size:
            return False  # a region of interest
        inputs = [first.name, ""]
        for name in list(node.input)[2:]:
            number = self._number(name) if name else np.zeros(0)
            if number is None or number.size not in (0, len(first.axes)):
                return False
            inputs.append(self._constant(number[np.argsort(first.axes)], name) if number.size else "")
        return self._move(node, inputs, first.axes)

    def _pad(self, node: NodeProto) -> bool:
        first = self.turned.get(node.input[0])
        pads = self._number(node.input[1]) if len(node.input) > 1 else None
        if first is None or pads is None or any(list(node.input)[3:]) or pads.size != 2 * len(first.axes):
            return False
        moved = pads.reshape(2, -1)[:, np.argsort(first.axes)].reshape(-1)
        return self._move(node, [first.name, self._constant(moved, node.input[1]), *list(node.input)[2:]], first.axes)

    def _reduce(self, node: NodeProto) -> bool:
        """Reductions over some axes, and Squeeze, which is one that keeps no axis of one element."""
        first, given = self.turned.get(node.input[0]), attributes_of(node)
        stated = self._number(node.input[1]) if len(node.input) > 1 and node.input[1] else given.get("axes")
        if first is None or stated is None:
            return False
        count = len(first.axes)
        axes = sorted(int(axis) % count for axis in np.asarray(stated).reshape(-1))
        moved = np.array(sorted(first.axes[axis] for axis in axes), np.int64)
        left = [first.axes[axis] for axis in range(count) if axis not in axes]
        kept = node.op_type != "Squeeze" and bool(given.get("keepdims", 1))
        after = first.axes if kept else tuple(sorted(left).index(axis) for axis in left)
        if len(node.input) > 1:
            return self._move(node, [first.name, self._constant(moved, node.input[1])], after)
        return self._move(node, [first.name], after, axes=moved.tolist())
