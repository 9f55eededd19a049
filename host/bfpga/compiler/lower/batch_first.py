"""Values whose samples are along another axis than the first: rewritten so that the batch comes first.

Recurrent operators take (steps, samples, channels), so exporters put transpositions around them. A value that is
another one with its first axis moved is kept as that other one, and operators after it work on that, as long as there
is a rule; only then does the array see the values at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import batches_of
from bfpga.compiler.read.shapes import inferred_shapes

#: Operators of one value, element by element.
UNARY = frozenset(
    {"Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Identity", "Dropout", "Neg", "Abs"}
)


@dataclass(frozen=True)
class Moved:
    """A value that is ``first`` with its first axis, the batch, at ``axis``. shape: of it, 0 for the batch."""

    first: str
    axis: int
    shape: tuple[int, ...]

    def origin(self, axis: int) -> int:
        """The axis of ``first`` that an axis of the value is."""
        axis %= len(self.shape)
        return 0 if axis == self.axis else axis + 1 if axis < self.axis else axis

    @property
    def first_shape(self) -> tuple[int, ...]:
        """The shape of ``first``."""
        return (0, *self.shape[: self.axis], *self.shape[self.axis + 1 :])


class Rewriter:
    """Builds the nodes of a rewritten model. shapes: of its values, 0 for the axis of the batch."""

    def __init__(self, model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.model = model
        self.shapes = dict(shapes)
        self.constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
        self.moved: dict[str, Moved] = {}
        self.nodes: list[NodeProto] = []
        #: Of results of Reshape: what was reshaped, and its shape.
        self._origins: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._made: set[str] = set()
        self._taken = {name for node in model.graph.node for name in (*node.input, *node.output)} | set(self.constants)
        self._number = 0

    def name(self, stem: str) -> str:
        """A name that no value has."""
        while True:
            self._number += 1
            name = f"{stem}_{self._number}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def constant(self, values: npt.ArrayLike) -> str:
        """The name of a new constant."""
        name = self.name("constant")
        self.constants[name] = np.asarray(values)
        return name

    def add(self, kind: str, *inputs: str, output: str = "", stem: str = "", **attributes: Any) -> str:
        """A new operator; the name of its result."""
        result = output or self.name(stem or kind.lower())
        self.nodes.append(helper.make_node(kind, list(inputs), [result], name=result, **attributes))
        return result

    def part(self, value: str, axis: int, first: int, last: int) -> str:
        """The elements [first, last) of an axis of a value."""
        bounds = [self.constant(np.array([number], np.int64)) for number in (first, last, axis)]
        return self.add("Slice", value, *bounds)

    def reshape(self, value: str, before: tuple[int, ...], after: tuple[int, ...]) -> str:
        """A value in another shape, 0 for the batch; what was reshaped already is taken as it was before."""
        value, before = self._origins.get(value, (value, before))
        if before == after:
            return value
        result = self.add("Reshape", value, self.constant(np.array(after, np.int64)))
        self._origins[result] = value, before
        return result

    def value(self, name: str) -> str:
        """A value under its own name, computed by a transposition if it was only moved."""
        moved = self.moved.get(name)
        if moved is not None and name not in self._made:
            self._made.add(name)
            order = list(range(1, len(moved.shape)))
            order.insert(moved.axis, 0)
            self.add("Transpose", moved.first, output=name, perm=order)
        return name

    def finish(self) -> ModelProto:
        """The model of the nodes; outputs that were only moved are computed."""
        for output in self.model.graph.output:
            self.value(output.name)
        result = ModelProto()
        result.CopyFrom(self.model)
        del result.graph.node[:], result.graph.initializer[:], result.graph.value_info[:]
        result.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input}
        used |= {name for node in self.nodes for item in node.attribute for name in _outside(item.g)}
        used |= {output.name for output in self.model.graph.output}
        result.graph.initializer.extend(
            numpy_helper.from_array(self.constants[name], name)
            for name in sorted(used & set(self.constants))
        )
        return result


def _outside(graph: object) -> set[str]:
    """Names that a subgraph may take from outside."""
    nodes = getattr(graph, "node", [])
    return {name for node in nodes for name in node.input} | {
        name for node in nodes for item in node.attribute for name in _outside(item.g)
    }


def shapes_of(model: ModelProto) -> dict[str, tuple[int, ...]]:
    """Shapes of all values that have numbers for their axes; 0 where the size follows the batch alone."""
    batches = batches_of(model)
    first, second = (inferred_shapes(model, batch) for batch in batches)
    if batches[0] == batches[1]:
        return {name: (0, *shape[1:]) if shape[:1] == batches[:1] else shape for name, shape in first.items()}
    return {
        name: tuple(0 if (a, b) == batches else a for a, b in zip(shape, second[name], strict=True))
        for name, shape in first.items()
        if len(second.get(name, ())) == len(shape)
    }


def move(rewriter: Rewriter, node: NodeProto) -> bool:
    """Let an operator work on values with the batch first, if its input is one that was moved; whether it does."""
    if node.op_type == "Transpose" and node.input[0] not in rewriter.moved:
        return _begin(rewriter, node)
    moved = rewriter.moved.get(node.input[0]) if node.input else None
    rule = _RULES.get(node.op_type)
    if moved is None or rule is None or any(node.output[1:]):
        return False
    found = rule(rewriter, node, moved)
    if found is not None:
        rewriter.moved[node.output[0]] = found
    return found is not None


def moves_batch(rewriter: Rewriter, node: NodeProto) -> bool:
    """Whether a transposition puts the batch elsewhere than first."""
    shape = rewriter.shapes.get(node.input[0])
    return shape is not None and shape[:1] == (0,) and _order(node, len(shape))[0] != 0


def _begin(rewriter: Rewriter, node: NodeProto) -> bool:
    """A transposition that moves the batch."""
    if not moves_batch(rewriter, node):
        return False
    shape = rewriter.shapes[node.input[0]]
    start = Moved(node.input[0], 0, shape)
    rewriter.moved[node.output[0]] = _transposed(rewriter, start, _order(node, len(shape)))
    return True


def _order(node: NodeProto, rank: int) -> list[int]:
    given = attributes_of(node).get("perm")
    return [int(axis) for axis in given] if isinstance(given, list) else list(range(rank))[::-1]


def _transposed(rewriter: Rewriter, moved: Moved, order: Sequence[int]) -> Moved:
    axes = [0, *(moved.origin(axis) for axis in order if axis != moved.axis)]
    first = moved.first
    if axes != list(range(len(axes))):
        first = rewriter.add("Transpose", first, perm=axes)
    return Moved(first, list(order).index(moved.axis), tuple(moved.shape[axis] for axis in order))


def _transpose(rewriter: Rewriter, node: NodeProto, moved: Moved) -> Moved:
    return _transposed(rewriter, moved, _order(node, len(moved.shape)))


def _axes(rewriter: Rewriter, node: NodeProto) -> list[int] | None:
    given = attributes_of(node).get("axes")
    if len(node.input) > 1 and node.input[1]:
        given = rewriter.constants.get(node.input[1])
    return None if given is None else [int(axis) for axis in np.atleast_1d(np.asarray(given))]


def _squeeze(rewriter: Rewriter, node: NodeProto, moved: Moved) -> Moved | None:
    axes = _axes(rewriter, node)
    if axes is None:
        return None
    axes = [axis % len(moved.shape) for axis in axes]
    if moved.axis in axes:
        return None
    kept = tuple(size for axis, size in enumerate(moved.shape) if axis not in axes)
    result = Moved("", moved.axis - sum(axis < moved.axis for axis in axes), kept)
    return _reshaped(rewriter, moved, result)


def _reshaped(rewriter: Rewriter, moved: Moved, target: Moved) -> Moved:
    """The moved value in another shape, whose batch is at ``target.axis``."""
    return Moved(rewriter.reshape(moved.first, moved.first_shape, target.first_shape), target.axis, target.shape)


def _reshape(rewriter: Rewriter, node: NodeProto, moved: Moved) -> Moved | None:
    """Axes before the batch stay before it, axes after it stay after it."""
    given = rewriter.constants.get(node.input[1])
    if given is None or attributes_of(node).get("allowzero", 0):
        return None
    before, after = prod(moved.shape[: moved.axis]), prod(moved.shape[moved.axis + 1 :])
    sizes = [int(size) for size in given]
    for axis, size in enumerate(sizes):
        front, back = sizes[:axis], sizes[axis + 1 :]
        copied = size == 0 and axis == moved.axis
        if not (copied or size in (-1, 1)):
            continue
        front = [moved.shape[i] if number == 0 else number for i, number in enumerate(front)]
        back = [moved.shape[axis + 1 + i] if number == 0 and axis + 1 + i < len(moved.shape) else number
                for i, number in enumerate(back)]  # fmt: skip
        parts = [_completed(front, before), _completed(back, after)]
        if (size != -1 or -1 not in front + back) and parts[0] is not None and parts[1] is not None:
            return _reshaped(rewriter, moved, Moved("", axis, (*parts[0], 0, *parts[1])))
    return None


def _completed(sizes: list[int], total: int) -> tuple[int, ...] | None:
    """Sizes of ``total`` elements, -1 replaced; None if they do not fit."""
    known = prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or known <= 0 or (total % known if -1 in sizes else known != total):
        return None
    return tuple(total // known if size == -1 else size for size in sizes)


def _gather(rewriter: Rewriter, node: NodeProto, moved: Moved) -> Moved | None:
    """One element, or some, of an axis that is not the batch."""
    index = rewriter.constants.get(node.input[1])
    axis = int(attributes_of(node).get("axis", 0)) % len(moved.shape)
    if index is None or index.ndim > 1 or axis == moved.axis:
        return None
    first = rewriter.add("Gather", moved.first, rewriter.constant(index), axis=moved.origin(axis))
    sizes = () if index.ndim == 0 else (len(index),)
    shape = (*moved.shape[:axis], *sizes, *moved.shape[axis + 1 :])
    return Moved(first, moved.axis - (axis < moved.axis and index.ndim == 0), shape)


def _slice(rewriter: Rewriter, node: NodeProto, moved: Moved) -> Moved | None:
    """Parts of axes that are not the batch."""
    rank = len(moved.shape)
    given = [np.atleast_1d(rewriter.constants[name]) for name in node.input[1:] if name in rewriter.constants]
    if not 2 <= len(given) == len(node.input) - 1:
        return None
    starts, ends = given[:2]
    axes = [int(axis) % rank for axis in (range(len(starts)) if len(given) < 3 else given[2])]
    steps = np.ones(len(axes), np.int64) if len(given) < 4 else given[3]
    if moved.axis in axes:
        return None
    shape = list(moved.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        shape[axis] = len(range(*slice(int(start), int(end), int(step)).indices(moved.shape[axis])))
    numbers = (starts, ends, np.array([moved.origin(axis) for axis in axes]), steps)
    bounds = [rewriter.constant(np.asarray(values, np.int64)) for values in numbers]
    return Moved(rewriter.add("Slice", moved.first, *bounds), moved.axis, tuple(shape))


def _unary(rewriter: Rewriter, node: NodeProto, moved: Moved) -> Moved:
    first = rewriter.add(node.op_type, moved.first, *node.input[1:], **attributes_of(node))
    return Moved(first, moved.axis, moved.shape)


_Rule = Callable[[Rewriter, NodeProto, Moved], Moved | None]
_RULES: dict[str, _Rule] = {
    "Transpose": _transpose, "Squeeze": _squeeze, "Reshape": _reshape, "Gather": _gather, "Slice": _slice,
    **dict.fromkeys(UNARY, _unary),
}  # fmt: skip
