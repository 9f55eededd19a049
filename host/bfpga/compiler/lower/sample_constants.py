"""Values that every sample has alike, although they follow the batch: they become constants.

Exporters repeat a class token or a position for each sample of an open batch: the constant, the batch's size out of the
shape of something else, and Expand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper

from bfpga.compiler.read.importer import Graph, Operator
from bfpga.compiler.read.simplify import session

Arrays = dict[str, npt.NDArray[Any]]


def with_sample_constants(graph: Graph) -> Graph:
    """The graph with such values among its constants (one sample, batch first), without what gives them."""
    known, operators = set(graph.constants), []
    for operator in graph.operators:
        if not operator.captured and (_asks_shape(graph, operator) or set(operator.uses) <= known):
            operators.append(operator)
            known |= set(filter(None, operator.outputs))
    made = {operator.name for operator in operators}
    read = {name for other in graph.operators if other.name not in made for name in other.uses} - set(graph.outputs)
    wanted = [name for operator in operators for name in operator.outputs if name in read]
    found = _evaluated(graph, operators, wanted)
    if not found:
        return graph
    dropped = made - _needed(operators, (read - set(found)) | set(graph.outputs))
    rest = [item for item in graph.operators if item.name not in dropped]
    shapes = {**graph.shapes, **{name: value.shape[1:] for name, value in found.items()}}
    for item in rest:
        shapes.update(_joined_shape(item, shapes))
    return replace(graph, operators=rest, constants={**graph.constants, **found}, shapes=shapes, consumers={})


def _joined_shape(operator: Operator, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shape of a concatenation that could not be inferred before."""
    parts = [shapes[name] for name in operator.inputs if name in shapes]
    if operator.type != "Concat" or operator.outputs[0] in shapes or len(parts) < len(operator.inputs):
        return {}
    axis = int(operator.attributes["axis"]) % (len(parts[0]) + 1) - 1
    others = {(*part[:axis], *part[axis + 1 :]) for part in parts}
    if axis < 0 or len(others) > 1:
        return {}
    return {operator.outputs[0]: (*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :])}


def _asks_shape(graph: Graph, operator: Operator) -> bool:
    return operator.type == "Shape" and operator.inputs[0] in graph.shapes


def _shape(graph: Graph, operator: Operator, batch: int) -> npt.NDArray[np.int64]:
    """What a Shape gives, or the part of it that it is asked for."""
    sizes = (batch, *graph.shapes[operator.inputs[0]])
    return np.array(sizes[operator.attributes.get("start", 0) : operator.attributes.get("end", len(sizes))], np.int64)


def _needed(operators: list[Operator], values: set[str]) -> set[str]:
    """The names of those operators that it takes to compute values."""
    makers = {name: item for item in operators for name in item.outputs}
    pending, result = [makers[name] for name in values if name in makers], set()
    while pending:
        operator = pending.pop()
        if operator.name not in result:
            result.add(operator.name)
            pending += [makers[name] for name in operator.uses if name in makers]
    return result


def _evaluated(graph: Graph, operators: list[Operator], wanted: list[str]) -> Arrays:
    """The values of one sample, of those that two samples have alike."""
    if not wanted:
        return {}
    one, two = (_run(graph, operators, wanted, batch) for batch in (1, 2))
    return {
        name: value
        for name, value in one.items()
        if value.ndim > 1 and len(value) == 1 and value.dtype.kind == "f" and name in two
        and np.array_equal(two[name], np.repeat(value, 2, axis=0))
    }  # fmt: skip


def _run(graph: Graph, operators: list[Operator], wanted: list[str], batch: int) -> Arrays:
    """The wanted values for a batch; none if ONNX Runtime cannot give them."""
    shapes = {
        operator.outputs[0]: _shape(graph, operator, batch) for operator in operators if _asks_shape(graph, operator)
    }
    nodes = [operator.proto for operator in operators if operator.outputs[0] not in shapes]
    used = {name for node in nodes for name in node.input}
    constants = {name: value for name, value in {**graph.constants, **shapes}.items() if name in used}
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    ends = [helper.make_empty_tensor_value_info(name) for name in wanted]
    body = helper.make_graph(nodes, "constants", [], ends, initializers)
    model = helper.make_model(body, opset_imports=list(graph.model.opset_import), ir_version=graph.model.ir_version)
    try:
        return dict(zip(wanted, session(model).run(wanted, {}), strict=True))
    except Exception:
        return {}
