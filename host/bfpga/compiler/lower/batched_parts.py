"""Parts of a sample that exporters put into the batch: an axis of the sample again.

MobileViT's transformers see patches of an image pixel by pixel: the first pixels of all patches attend to each other,
the second ones, and so on. PyTorch's ``reshape(batch * 4, ...)`` makes four samples of one, and the array knows nothing
of samples. Values whose first axis is ``count`` parts of every sample are written with the parts as an axis behind the
batch; operators on them stay as they are, with an axis more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from bfpga.compiler.lower.batch_first import Rewriter, shapes_of
from bfpga.compiler.lower.layers import IndexArray, positions
from bfpga.compiler.lower.placement import VIEWS
from bfpga.compiler.lower.views import view_index
from bfpga.compiler.read.channels_first import BINARY, UNARY
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import Graph, batches_of, rebuilt
from bfpga.compiler.read.shapes import inferred_shapes
from bfpga.compiler.read.simplify import without_unused

Shape = tuple[int, ...]
#: The axis of operators that state none, where it is not the last one.
AXES = {"Gather": 0, "Split": 0}
#: Operators over an axis and all that follow.
OVER_REST = ("LayerNormalization", "RMSNormalization")


@dataclass(frozen=True)
class _Parts:
    """A value that is ``whole`` with the axes ``axis`` (samples) and ``axis`` + 1 (parts of each) as one.

    rank: axes of the value.
    """

    whole: str
    count: int
    axis: int
    rank: int

    def origin(self, axis: int) -> int:
        """The axis of ``whole`` that an axis of the value is; of samples the first of both."""
        axis %= self.rank
        return axis + (axis > self.axis)


class _UnknownError(Exception):
    """An operator has no rule for values in parts."""


def with_parts_in_samples(graph: Graph) -> Graph:
    """The graph in which no sample is spread over the batch; the same where some operator has no rule for that."""
    if graph.grids or not any(node.op_type == "Reshape" for node in graph.model.graph.node):
        return graph
    writer = _Writer(graph.model)
    try:
        model = writer.written()
    except _UnknownError:
        return graph
    return graph if model is None else rebuilt(graph, without_unused(model))


def with_parts_apart(graph: Graph) -> Graph:
    """The graph in which parts that are pixels at even distances of an image are copied apart.

    Tensors that become weights have their pixels next to each other. The parts lie below each other, in one image.
    """
    apart = {name: found for name in graph.shapes if (found := _grid(graph, name)) is not None}
    if not apart:
        return graph
    rewriter = Rewriter(graph.model, {name: (0, *shape) for name, shape in graph.shapes.items()})
    for node in graph.model.graph.node:
        grid = apart.get(node.output[0])
        if grid is None:
            rewriter.nodes.append(node)
        else:
            _write_apart(rewriter, grid, node.output[0])
    return rebuilt(graph, without_unused(rewriter.finish()))


@dataclass(frozen=True)
class _Grid:
    """Parts of an image. firsts: row and column of the first pixel of each; steps: between them; size: of a part."""

    image: str
    firsts: tuple[tuple[int, int], ...]
    steps: tuple[int, int]
    size: tuple[int, int]
    channels: int


def _grid(graph: Graph, value: str) -> _Grid | None:
    """The parts of an image that a value (parts, pixels, channels) holds, if others than rearrangements read it."""
    shape = graph.shapes[value]
    readers = [reader.type for reader in graph.consumers.get(value, [])]
    if len(shape) != 3 or shape[0] < 2 or all(kind in VIEWS for kind in readers):
        return None
    image, index = _origin(graph, value)
    whole = graph.shapes[image]
    if len(whole) != 3 or whole[0] != shape[2]:
        return None
    channel, row, column = np.unravel_index(index, whole)
    rows, columns = row[:, :, 0], column[:, :, 0]
    height = len(np.unique(rows[0]))
    size = height, shape[1] // height
    if size[0] * size[1] != shape[1] or min(size) < 2:
        return None
    steps = int(rows[0, size[1]] - rows[0, 0]), int(columns[0, 1] - columns[0, 0])
    firsts = tuple((int(y), int(x)) for y, x in zip(rows[:, 0], columns[:, 0], strict=True))
    lines = [np.arange(count) * step for count, step in zip(size, steps, strict=True)]
    expected = np.array([[(y + a, x + b) for a in lines[0] for b in lines[1]] for y, x in firsts])
    same = (rows == expected[..., 0]).all() and (columns == expected[..., 1]).all() and min(steps) > 1
    pixels = (row == rows[..., None]).all() and (column == columns[..., None]).all()
    ordered = same and pixels and (channel == np.arange(shape[2])).all()
    return _Grid(image, firsts, steps, size, shape[2]) if ordered else None


def _origin(graph: Graph, value: str) -> tuple[str, IndexArray]:
    """What rearrangements made a value of, and the positions of its elements in that."""
    makers = {name: operator for operator in graph.operators for name in operator.outputs}
    chain = []
    while (maker := makers.get(value)) is not None and maker.type in VIEWS and maker.inputs[0] in graph.shapes:
        chain.append(maker)
        value = maker.inputs[0]
    index = positions(graph.shapes[value])
    for operator in reversed(chain):
        found = view_index(operator, index, graph.shapes.get(operator.outputs[0]))
        if found is None:
            return operator.outputs[0], positions(graph.shapes[operator.outputs[0]])
        index = found
    return value, index


def _write_apart(rewriter: Rewriter, grid: _Grid, output: str) -> None:
    """Slices of the image, one below the other, as (parts, pixels, channels)."""

    def numbers(*values: int) -> str:
        return rewriter.constant(np.array(values, np.int64))

    ends = [[start + step * (count - 1) + 1 for start, step, count in zip(first, grid.steps, grid.size, strict=True)]
            for first in grid.firsts]  # fmt: skip
    parts = [rewriter.add("Slice", grid.image, numbers(*first), numbers(*end), numbers(2, 3), numbers(*grid.steps))
             for first, end in zip(grid.firsts, ends, strict=True)]  # fmt: skip
    below = rewriter.add("Concat", *parts, axis=2)
    sizes = numbers(0, grid.channels, len(parts), grid.size[0] * grid.size[1])
    rewriter.add("Transpose", rewriter.add("Reshape", below, sizes), perm=[0, 2, 3, 1], output=output)


class _Writer:
    """Writes the model operator by operator."""

    def __init__(self, model: ModelProto) -> None:
        self.model, self.batches = model, batches_of(model)
        self.shapes = [inferred_shapes(model, batch) for batch in self.batches]
        self.rewriter = Rewriter(model, shapes_of(model))
        self.parts: dict[str, _Parts] = {}
        self._rules: dict[str, Callable[[NodeProto, list[_Parts]], _Parts]] = {
            "Transpose": self._transpose, "MatMul": self._product, "Slice": self._slice,
            **dict.fromkeys(("Concat", "Gather", "Softmax", "Split", *OVER_REST), self._over_axis),
            **dict.fromkeys(UNARY, self._alike), **dict.fromkeys(BINARY, self._alike),
        }  # fmt: skip

    def written(self) -> ModelProto | None:
        """The model; None where no batch holds parts of samples."""
        found = False
        for node in self.model.graph.node:
            given = [self.parts[name] for name in node.input if name in self.parts]
            target = self._target(node)
            if target is not None and (given or target[0] > 1):
                self._reshape(node, *target)
                found = True
            elif not given:
                self.rewriter.nodes.append(node)
            elif node.op_type in self._rules and node.domain in ("", "ai.onnx"):
                result = self._rules[node.op_type](node, given)
                self.parts.update((name, replace(result, whole=f"{name}/parts")) for name in node.output if name)
            else:
                raise _UnknownError
        if any(value.name in self.parts for value in self.model.graph.output):
            raise _UnknownError
        return self.rewriter.finish() if found else None

    def _target(self, node: NodeProto) -> tuple[int, Shape] | None:
        """Parts of each sample that a Reshape makes, and the axes after them; None where it makes none."""
        if node.op_type != "Reshape" or (node.input[0] in self.parts and self.parts[node.input[0]].axis):
            return None
        if node.input[0] not in self.parts and self.rewriter.shapes.get(node.input[0], (1,))[0] != 0:
            return None
        first, second = (shapes.get(node.output[0], ()) for shapes in self.shapes)
        if not first or len(first) != len(second) or first[1:] != second[1:] or first[0] % self.batches[0]:
            return None
        count = first[0] // self.batches[0]
        return (count, first[1:]) if count * self.batches[1] == second[0] else None

    def _reshape(self, node: NodeProto, count: int, axes: Shape) -> None:
        source, output = self.parts.get(node.input[0]), node.output[0]
        value = source.whole if source is not None else node.input[0]
        if count == 1:
            self.rewriter.add("Reshape", value, self.rewriter.constant(np.array([0, *axes], np.int64)), output=output)
            return
        name = f"{output}/parts"
        sizes = self.rewriter.constant(np.array([0, count, *axes], np.int64))
        self.rewriter.add("Reshape", value, sizes, output=name)
        self.parts[output] = _Parts(name, count, 0, 1 + len(axes))

    # Rules

    def _write(self, node: NodeProto, inputs: Iterable[str], **changed: Any) -> None:
        outputs = [f"{name}/parts" if name else "" for name in node.output]
        attributes = {**attributes_of(node), **changed}
        self.rewriter.nodes.append(
            helper.make_node(node.op_type, list(inputs), outputs, name=node.name, domain=node.domain, **attributes)
        )

    def _wholes(self, node: NodeProto, given: list[_Parts]) -> list[str]:
        """Names of the operands as wholes; all that are computed are in the same parts."""
        computed = [name for name in node.input if name and name not in self.rewriter.constants]
        if len({(item.count, item.axis, item.rank) for item in given}) > 1 or len(given) < len(computed):
            raise _UnknownError
        return [self.parts[name].whole if name in self.parts else name for name in node.input]

    def _alike(self, node: NodeProto, given: list[_Parts]) -> _Parts:
        """Element by element, with constants that are the same for all parts."""
        wholes, parts = self._wholes(node, given), given[0]
        constants = self.rewriter.constants
        self._write(node, [self._broadcast(name, parts) if name in constants else name for name in wholes])
        return parts

    def _broadcast(self, name: str, parts: _Parts) -> str:
        """A constant with an axis for the parts, if it has one for the batch."""
        value = self.rewriter.constants[name]
        place = value.ndim - (parts.rank - parts.axis)
        if place < 0:
            return name
        if value.ndim > parts.rank or value.shape[place] != 1:
            raise _UnknownError
        return self.rewriter.constant(np.expand_dims(value, place))

    def _product(self, node: NodeProto, given: list[_Parts]) -> _Parts:
        wholes, parts = self._wholes(node, given), given[0]
        flat = all(value.ndim == 2 for name in wholes if (value := self.rewriter.constants.get(name)) is not None)
        if parts.axis > parts.rank - 3 or not flat:
            raise _UnknownError
        self._write(node, wholes)
        return parts

    def _transpose(self, node: NodeProto, given: list[_Parts]) -> _Parts:
        (parts,) = given
        order = [int(axis) for axis in attributes_of(node).get("perm", range(parts.rank)[::-1])]
        axes = [parts.origin(axis) for axis in order]
        place = order.index(parts.axis)
        self._write(node, [parts.whole], perm=[*axes[: place + 1], parts.axis + 1, *axes[place + 1 :]])
        return replace(parts, axis=place)

    def _over_axis(self, node: NodeProto, given: list[_Parts]) -> _Parts:
        """Along one axis, which is not that of the samples; a Gather of one element takes the axis away."""
        wholes, parts, kind = self._wholes(node, given), given[0], node.op_type
        axis = int(attributes_of(node).get("axis", AXES.get(kind, -1))) % parts.rank
        if axis == parts.axis or (kind in OVER_REST and axis < parts.axis):
            raise _UnknownError
        self._write(node, wholes, axis=parts.origin(axis))
        index = self.rewriter.constants.get(node.input[1]) if kind == "Gather" else None
        if kind != "Gather":
            return parts
        if index is None or index.ndim > 1:
            raise _UnknownError
        single = index.ndim == 0
        return replace(parts, axis=parts.axis - (single and axis < parts.axis), rank=parts.rank - single)

    def _slice(self, node: NodeProto, given: list[_Parts]) -> _Parts:
        wholes, parts = self._wholes(node, given), given[0]
        axes = self.rewriter.constants.get(node.input[3]) if len(node.input) > 3 else None
        if axes is None or parts.axis in [int(axis) % parts.rank for axis in axes]:
            raise _UnknownError
        wholes[3] = self.rewriter.constant(np.array([parts.origin(int(axis)) for axis in axes], np.int64))
        self._write(node, wholes)
        return parts
