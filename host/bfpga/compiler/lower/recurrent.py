"""RNN, GRU and LSTM step by step: their products and the gates' functions are layers of the array.

The product with the input is one layer for all steps. In each step the product with the state and the gates' functions
follow; what multiplies gates and states with each other stays on the host, which has the array's results anyway.
Gates in the order of ONNX: z, r, h (GRU) and i, o, f, c (LSTM).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto

from bfpga.compiler.lower.batch_first import Moved, Rewriter, move, moves_batch, shapes_of
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import Graph, rebuilt
from bfpga.compiler.read.simplify import without_unused

Floats = npt.NDArray[np.float32]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
#: Activations of every direction that the steps are written with.
USUAL = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
#: Steps of one operator, both directions counted: each takes a start of the kernel.
MOST_STEPS = 128


def with_batch_first(graph: Graph) -> Graph:
    """The graph without values whose samples are along another axis than the first, as far as there are rules."""
    moving = [node for node in graph.model.graph.node if node.op_type == "Transpose"]
    rewriter = Rewriter(graph.model, shapes_of(graph.model))
    if not any(moves_batch(rewriter, node) for node in moving):
        return graph
    for node in graph.model.graph.node:
        if not move(rewriter, node):
            _keep(rewriter, node)
    return rebuilt(graph, without_unused(rewriter.finish()))


def _keep(rewriter: Rewriter, node: NodeProto) -> None:
    """Leave a node as it is, of values under their own names."""
    for name in (*node.input, *_captured(node)):
        rewriter.value(name)
    rewriter.nodes.append(node)


def unroll(graph: Graph) -> tuple[Graph, list[str]]:
    """The graph with recurrent operators step by step, and notes about those that stay as they are."""
    if not any(operator.type in GATES for operator in graph.operators):
        return graph, []
    names = {operator.outputs: operator.name for operator in graph.operators}
    rewriter, notes = Rewriter(graph.model, shapes_of(graph.model)), []
    for node in graph.model.graph.node:
        if node.op_type in GATES:
            try:
                _Cell(rewriter, node).unroll()
                continue
            except _UnfitError as reason:
                notes.append(f"{names[tuple(node.output)]} ({node.op_type}) runs on the host: {reason}")
        elif move(rewriter, node):
            continue
        _keep(rewriter, node)
    return rebuilt(graph, without_unused(rewriter.finish())), notes


class _UnfitError(Exception):
    """An operator stays as it is; the text says why."""


def _captured(node: NodeProto) -> list[str]:
    graphs = [item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH]
    return [name for graph in graphs for inner in graph.node for name in (*inner.input, *_captured(inner))]


@dataclass
class _Direction:
    """Weights of one direction: (input channels, gates * hidden), (hidden, gates * hidden), and both biases."""

    inputs: Floats
    states: Floats
    input_bias: Floats
    state_bias: Floats
    reverse: bool


class _Cell:
    """One recurrent operator. Raises _UnfitError for what its steps are not written for."""

    def __init__(self, rewriter: Rewriter, node: NodeProto) -> None:
        self.rewriter, self.node, self.kind = rewriter, node, node.op_type
        self.attributes = attributes_of(node)
        self.hidden = int(self.attributes.get("hidden_size", 0))
        self._check()
        self.source, self.steps = self._input()
        self.directions = self._directions()
        if self.steps * len(self.directions) > MOST_STEPS:
            raise _UnfitError(f"it has {self.steps * len(self.directions)} steps, {MOST_STEPS} are written out at most")

    def _given(self, index: int) -> str:
        return self.node.input[index] if len(self.node.input) > index else ""

    def _check(self) -> None:
        attributes, usual = self.attributes, USUAL[self.kind]
        named = [name.decode().lower() for name in attributes.get("activations", [])]
        if named and tuple(named[: len(usual)]) * (len(named) // len(usual)) != usual * (len(named) // len(usual)):
            raise _UnfitError("its gates have other functions than usual")
        if attributes.get("clip") is not None or attributes.get("input_forget", 0):
            raise _UnfitError("its gates are clipped or coupled")
        if self._given(4) or (self.kind == "LSTM" and self._given(7)):
            raise _UnfitError("its sequences have lengths of their own, or its gates look at the cell")
        for index in (5, 6):
            if self._given(index):
                state = self.rewriter.constants.get(self._given(index))
                if state is None or state.any():
                    raise _UnfitError("it starts from a given state")

    def _input(self) -> tuple[str, int]:
        """The input as (batch, steps, channels), and its number of steps."""
        name, first = self.node.input[0], self.attributes.get("layout", 0) == 1
        moved = self.rewriter.moved.get(name)
        if moved is not None and moved.axis == 1 and not first:
            return moved.first, moved.shape[0]
        shape = self.rewriter.shapes.get(name)
        if shape is None or len(shape) != 3 or shape.count(0) != 1 or shape.index(0) != (0 if first else 1):
            raise _UnfitError("the shape of its input is not known")
        if first:
            return self.rewriter.value(name), shape[1]
        return self.rewriter.add("Transpose", self.rewriter.value(name), perm=[1, 0, 2]), shape[0]

    def _directions(self) -> list[_Direction]:
        weights, states = (self.rewriter.constants.get(self._given(index)) for index in (1, 2))
        bias = self.rewriter.constants.get(self._given(3))
        if weights is None or states is None or (bias is None and self._given(3)):
            raise _UnfitError("its weights are computed")
        size = GATES[self.kind] * self.hidden
        way = self.attributes.get("direction", b"forward")
        backwards = {b"forward": [False], b"reverse": [True], b"bidirectional": [False, True]}.get(way)
        if backwards is None or len(backwards) != len(weights) or weights.shape[1] != size:
            raise _UnfitError("its direction does not fit its weights")
        numbers = np.zeros((len(weights), 2 * size), np.float32) if bias is None else bias
        return [
            _Direction(weights[i].T, states[i].T, numbers[i, :size], numbers[i, size:], reverse)
            for i, reverse in enumerate(backwards)
        ]

    def unroll(self) -> None:
        """Write the steps of all directions and the operator's results."""
        rewriter, states, last, cells = self.rewriter, [], [], []
        for direction in self.directions:
            run = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.kind]
            steps, cell = run(direction)
            last.append(steps[-1])
            cells.append(cell)
            states.append(steps[::-1] if direction.reverse else steps)
        count, hidden = len(self.directions), self.hidden
        first = self.attributes.get("layout", 0) == 1
        outputs = [*self.node.output, "", "", ""]
        if outputs[0]:
            sides = [rewriter.add("Concat", *side, axis=1) if len(side) > 1 else side[0] for side in states]
            joined = rewriter.add("Concat", *sides, axis=2) if count > 1 else sides[0]
            apart = rewriter.reshape(joined, (0, self.steps, count * hidden), (0, self.steps, count, hidden))
            self._give(outputs[0], apart, 2, (self.steps, count, 0, hidden), first)
        for name, parts in ((outputs[1], last), (outputs[2], cells)):
            if name:
                joined = rewriter.add("Concat", *parts, axis=1) if count > 1 else parts[0]
                self._give(name, joined, 1, (count, 0, hidden), first)

    def _give(self, name: str, value: str, axis: int, shape: tuple[int, ...], first: bool) -> None:
        if first:
            self.rewriter.add("Identity", value, output=name)
        else:
            self.rewriter.moved[name] = Moved(value, axis, shape)

    # Steps: values are (batch, 1, gates * hidden)

    def _order(self, direction: _Direction) -> list[int]:
        return list(range(self.steps))[:: -1 if direction.reverse else 1]

    def _columns(self, values: Floats, first: int, last: int) -> Floats:
        return values[..., first * self.hidden : last * self.hidden]

    def _project(self, direction: _Direction, first: int, last: int, bias: Floats) -> str:
        """The product of the inputs of all steps with the weights of gates [first, last)."""
        weights = self.rewriter.constant(self._columns(direction.inputs, first, last))
        product = self.rewriter.add("MatMul", self.source, weights, stem=f"{self.kind.lower()}_input")
        return self.rewriter.add("Add", product, self.rewriter.constant(self._columns(bias, first, last)))

    def _step(self, projected: str, step: int) -> str:
        return self.rewriter.part(projected, 1, step, step + 1)

    def _sum(self, projected: str, step: int, state: str, weights: str, function: str) -> str:
        """A gate: the function of the input's part and, unless it is the first step, the state's."""
        value = self._step(projected, step)
        if state:
            value = self.rewriter.add("Add", value, self.rewriter.add("MatMul", state, weights, stem="state"))
        return self.rewriter.add(function, value)

    def _rnn(self, direction: _Direction) -> tuple[list[str], str]:
        projected = self._project(direction, 0, 1, direction.input_bias + direction.state_bias)
        weights, state, states = self.rewriter.constant(direction.states), "", []
        for step in self._order(direction):
            state = self._sum(projected, step, state, weights, "Tanh")
            states.append(state)
        return states, ""

    def _lstm(self, direction: _Direction) -> tuple[list[str], str]:
        rewriter, bias = self.rewriter, direction.input_bias + direction.state_bias
        gates, new = self._project(direction, 0, 3, bias), self._project(direction, 3, 4, bias)
        weights = [rewriter.constant(self._columns(direction.states, *part)) for part in ((0, 3), (3, 4))]
        state, cell, states = "", "", []
        for step in self._order(direction):
            opened = self._parts(self._sum(gates, step, state, weights[0], "Sigmoid"), 3)
            candidate = self._sum(new, step, state, weights[1], "Tanh")
            entered = rewriter.add("Mul", opened[0], candidate)
            cell = rewriter.add("Add", rewriter.add("Mul", opened[2], cell), entered) if cell else entered
            state = rewriter.add("Mul", opened[1], rewriter.add("Tanh", cell))
            states.append(state)
        return states, cell

    def _parts(self, value: str, count: int) -> list[str]:
        """The gates of one value."""
        return [self.rewriter.part(value, 2, i * self.hidden, (i + 1) * self.hidden) for i in range(count)]

    def _gru(self, direction: _Direction) -> tuple[list[str], str]:
        rewriter, late = self.rewriter, bool(self.attributes.get("linear_before_reset", 0))
        bias = direction.input_bias + direction.state_bias
        gates = self._project(direction, 0, 2, bias)
        new = self._project(direction, 2, 3, direction.input_bias if late else bias)
        weights = [rewriter.constant(self._columns(direction.states, *part)) for part in ((0, 2), (2, 3))]
        inner = rewriter.constant(self._columns(direction.state_bias, 2, 3))
        one, state, states = rewriter.constant(np.float32(1)), "", []
        for step in self._order(direction):
            update, reset = self._parts(self._sum(gates, step, state, weights[0], "Sigmoid"), 2)
            if late:
                from_state = rewriter.add("Add", rewriter.add("MatMul", state, weights[1]), inner) if state else inner
                part = rewriter.add("Mul", reset, from_state)
                candidate = rewriter.add("Tanh", rewriter.add("Add", self._step(new, step), part))
            else:
                kept = rewriter.add("Mul", reset, state) if state else ""
                candidate = self._sum(new, step, kept, weights[1], "Tanh")
            changed = rewriter.add("Mul", rewriter.add("Sub", one, update), candidate)
            state = rewriter.add("Add", rewriter.add("Mul", update, state), changed) if state else changed
            states.append(state)
        return states, ""
