"""What stays on the host: operators gathered into as few ONNX models as their order allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.read.graphs import rename
from bfpga.compiler.read.grids import SAME_VALUES
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.compiler.read.opsets import opset_of
from bfpga.contract.program import HostNode, unpacked

HOST, ARRAY, MATMUL = 0, 1, 2
#: The name of a constant that holds the number of the first axis.
FRONT = "axis in front"


@dataclass
class Stage:
    """Work without a change of engine: host operators, array layers, or products of two activations."""

    kind: int
    operators: list[Operator] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)


def stages(graph: Graph, lowered: Lowered) -> list[Stage]:
    """Layers and host operators in stages: an item waits only for items of earlier stages, or of its own before it."""
    items: list[Operator | Layer] = [*lowered.host, *lowered.layers]
    producers = _producers(lowered)
    numbers: dict[int, int] = {}

    def sources(name: str) -> list[Operator | Layer]:
        return [source for root in _roots(name, lowered, producers) for source in producers.get(root, [])]

    def number(item: Operator | Layer) -> int:
        if id(item) not in numbers:
            kind = _kind(item)
            least = max((number(source) for name in _used(item) for source in sources(name)), default=0)
            if isinstance(item, Layer) and item.kind == "scale":  # its factors have left the array by then
                least = max((least, *(number(source) + 1 for source in sources(item.inputs[1]))))
            numbers[id(item)] = least + (kind - least) % 3
        return numbers[id(item)]

    result: dict[int, Stage] = {}
    for item in items:
        stage = result.setdefault(number(item), Stage(number(item) % 3))
        if isinstance(item, Operator):
            stage.operators.append(item)
        else:
            stage.layers.append(item)
    return [result[key] for key in sorted(result)]


def with_readers(graph: Graph, lowered: Lowered) -> list[Operator]:
    """The host's operators whose results anything reads: a shape has no reader once its Reshape is a view."""
    producers, kept = _producers(lowered), []
    used = [*graph.outputs, *unpacked(graph.outputs, lowered.joined)]
    used += [name for layer in lowered.layers for name in layer.inputs]
    needed = {root for name in used for root in _roots(name, lowered, producers)}
    for operator in reversed(lowered.host):
        if needed & set(operator.outputs):
            kept.append(operator)
            needed |= {root for name in operator.uses for root in _roots(name, lowered, producers)}
    return kept[::-1]


def _producers(lowered: Lowered) -> dict[str, list[Operator | Layer]]:
    """What computes each value; parts of a concatenation have several."""
    producers: dict[str, list[Operator | Layer]] = {}
    for operator in lowered.host:
        for name in operator.outputs:
            producers.setdefault(name, []).append(operator)
    for layer in lowered.layers:
        producers.setdefault(layer.output, []).append(layer)
    return producers


def _used(item: Operator | Layer) -> tuple[str, ...]:
    """Values that an item reads."""
    return tuple(item.uses) if isinstance(item, Operator) else item.inputs


def _kind(item: Operator | Layer) -> int:
    if isinstance(item, Operator):
        return HOST
    return MATMUL if item.kind == "matmul" else ARRAY


def _roots(value: str, lowered: Lowered, producers: dict[str, list[Operator | Layer]]) -> list[str]:
    """The source values of a view; a value that an operator produces is its own."""
    if value in producers or value not in lowered.views:
        return [value]
    return [root for name in lowered.views[value].uses for root in _roots(name, lowered, producers)]


def host_node(
    name: str, graph: Graph, lowered: Lowered, stage: Stage, needed: set[str], work: Mapping[str, int]
) -> HostNode:
    """The operators of a host stage as one model of one sample.

    needed: values that other stages or the caller read; work: operations of operators, as ``count_operations`` gives
    them. Values whose first axis is not the batch get one in front on their way from one stage to another.
    """
    operators = _with_views(lowered, stage.operators)
    produced = {output for operator in operators for output in operator.outputs if output}
    used = list(dict.fromkeys(name for operator in operators for name in operator.uses))
    inputs = [value for value in used if value not in produced and value not in graph.constants]
    outputs = list(dict.fromkeys(value for op in stage.operators for value in op.outputs if value in needed))
    entering, leaving = ([value for value in values if value not in graph.shapes] for values in (inputs, outputs))
    rounding, steps = _with_rounding(graph, [operator.proto for operator in operators])
    nodes = [_change("Squeeze", graph, _outside(graph, value), value) for value in entering]
    nodes += rounding
    nodes += [_change("Unsqueeze", graph, value, _outside(graph, value)) for value in leaving]
    model = _model(graph, name, nodes, steps, inputs, outputs)
    flops = sum(work[next(filter(None, operator.outputs))] for operator in operators)
    types = tuple(operator.type for operator in stage.operators)
    given, found = (tuple(_outside(graph, value) for value in values) for values in (inputs, outputs))
    return HostNode(name, model, given, found, types, flops)


def _outside(graph: Graph, value: str) -> str:
    """The name of a value outside its stage, where the batch is its first axis."""
    return value if value in graph.shapes else f"{value}/samples"


def _change(kind: str, graph: Graph, value: str, result: str) -> NodeProto:
    """Give a value an axis in front, or take it away."""
    if opset_of(graph.model) < 13:
        return helper.make_node(kind, [value], [result], axes=[0])
    return helper.make_node(kind, [value, FRONT], [result])


def _with_views(lowered: Lowered, operators: list[Operator]) -> list[Operator]:
    """The operators with the views they read in front of them."""
    result: list[Operator] = []
    done = {output for operator in operators for output in operator.outputs}

    def add(operator: Operator) -> None:
        for value in operator.uses:
            view = lowered.views.get(value)
            if view is not None and value not in done:
                done.update(view.outputs)
                add(view)
        result.append(operator)

    for operator in operators:
        add(operator)
    return result


def _with_rounding(graph: Graph, nodes: list[NodeProto]) -> tuple[list[NodeProto], list[TensorProto]]:
    """Operators, and quantizers of what they give: the array rounds and limits by exponents and mantissas."""
    result: list[NodeProto] = []
    constants: list[TensorProto] = []
    for node in nodes:
        rounded = [name for name in node.output if graph.ends_a_layer(name)]
        if not rounded or (node.op_type in SAME_VALUES and graph.ends_a_layer(node.input[0])):
            result.append(node)
            continue
        copy = NodeProto()
        copy.CopyFrom(node)
        result.append(copy)
        for name in rounded:
            grid = graph.grids[name]
            parts = [f"{name}/{part}" for part in ("not_rounded", "steps", "limited", "integers")]
            rename(copy.output, name, parts[0])
            numbers = [f"{name}/{part}" for part in ("factor", "low", "high", "step")]
            values = (1 / grid.step, round(grid.low / grid.step), round(grid.high / grid.step), grid.step)
            for number, value in zip(numbers, values, strict=True):
                constants.append(numpy_helper.from_array(np.asarray(value, np.float32), number))
            result += [
                helper.make_node("Mul", [parts[0], numbers[0]], [parts[1]]),
                helper.make_node("Clip", [parts[1], *numbers[1:3]], [parts[2]]),
                helper.make_node("Round", [parts[2]], [parts[3]]),
                helper.make_node("Mul", [parts[3], numbers[3]], [name]),
            ]
    return result, constants


def _model(
    graph: Graph, name: str, nodes: list[NodeProto], steps: list[TensorProto], inputs: list[str], outputs: list[str]
) -> bytes:
    names = {value for node in nodes for value in node.input} | {v for op in graph.operators for v in op.captured}
    constants = [numpy_helper.from_array(graph.constants[value], value)
                 for value in sorted(names & set(graph.constants))]
    if FRONT in names:
        constants.append(numpy_helper.from_array(np.zeros(1, np.int64), FRONT))
    ends = [[_value(graph, value) for value in values] for values in (inputs, outputs)]
    body = helper.make_graph(nodes, name, *ends, [*constants, *steps])
    model = helper.make_model(body, opset_imports=list(graph.model.opset_import), ir_version=graph.model.ir_version)
    model.functions.extend(graph.model.functions)
    return bytes(model.SerializeToString())


def _value(graph: Graph, name: str) -> onnx.ValueInfoProto:
    shape = graph.shapes.get(name)
    kind = graph.types.get(name, TensorProto.FLOAT) or TensorProto.FLOAT
    if shape is None:
        return helper.make_tensor_value_info(_outside(graph, name), kind, None)
    return helper.make_tensor_value_info(name, kind, ["N", *shape])


def outside_values(graph: Graph, lowered: Lowered, order: list[Stage], number: int) -> set[str]:
    """Values that the caller or any stage but ``number`` reads, views resolved."""
    producers = _producers(lowered)
    used = list(graph.outputs)
    for index, stage in enumerate(order):
        if index != number:
            used += [name for operator in stage.operators for name in operator.uses]
            used += [name for layer in stage.layers for name in layer.inputs]
    return {root for name in used for root in _roots(name, lowered, producers)}
