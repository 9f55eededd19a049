"""Operators that the function unit computes, found by their values.

Exporters write one function in many ways: as an operator with attributes, with bounds in constants. What counts is
what it computes, so an operator is run on points all over the numbers and compared with the rows of
``contract/functions.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.read.importer import Graph, Operator, activations
from bfpga.compiler.read.simplify import session
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.functions import Function, UnfitArgumentError

Floats = npt.NDArray[np.float64]
#: Operators that may be a function.
OPERATORS = frozenset(name for function in Function for name in function.row.operators)
DOMAINS = ("", "ai.onnx", "com.microsoft")
#: Where functions are compared: the bend of every one of them, and far outside.
FAR = 2.0**100
PROBES: Floats = np.array([*np.arange(-640, 641) / 32, -FAR, -1000.0, 1000.0, FAR])
#: Largest difference, relative to values above 1: float32's rounding, and half the grid of what is rounded to one.
EXACT, ON_GRID = 2.0**-20, 2.0**-11


@dataclass(frozen=True)
class FunctionMatch:
    """An operator that is a function: with its argument (0 if it has none) of the value ``source``."""

    function: Function
    argument: float
    source: str


def find_functions(graph: Graph, config: SystolicConfig) -> dict[str, FunctionMatch]:
    """The operators that functions of the array compute, by name."""
    found = {}
    for operator in graph.operators:
        source = _source(graph, operator)
        if operator.type in OPERATORS and source:
            values = _values(_model([operator], graph, source))
            matches = [] if values is None else _matches(values, config)
            if matches:
                found[operator.name] = FunctionMatch(*matches[0], source)
    return found


def _source(graph: Graph, operator: Operator) -> str:
    """The one computed value that an operator reads, if all others are constant numbers; else empty."""
    computed = set(activations(graph, operator))
    numbers = all(graph.constants[name].size == 1 for name in operator.uses if name not in computed)
    plain = operator.proto.domain in DOMAINS and not operator.captured and len(operator.outputs) == 1
    shapes = [graph.shapes.get(name) for name in (*computed, *operator.outputs)]
    same = shapes[0] is not None and shapes.count(shapes[0]) == len(shapes)
    return computed.pop() if len(computed) == 1 and numbers and plain and same else ""


def _matches(values: Floats, config: SystolicConfig) -> list[tuple[Function, float]]:
    """Functions of the array that have these values at ``PROBES``, with their arguments."""
    return [
        (function, argument)
        for function in Function
        if function != Function.NONE and function.key in config.functions
        for argument in _arguments(function, values)
        if _equal(function, argument, values)
    ]


def _arguments(function: Function, values: Floats) -> Iterator[float]:
    """The argument with which the function may have these values: none if the function unit cannot have it."""
    argument = function.row.argument
    if argument is None:
        yield 0.0
        return
    number = argument.seen(float(values[np.flatnonzero(argument.probe == PROBES)[0]]))
    try:
        argument.encoded(number)
    except UnfitArgumentError:
        return
    yield number


def _equal(function: Function, argument: float, values: Floats) -> bool:
    with np.errstate(all="ignore"):
        expected = np.asarray(function.row.plain(PROBES, argument), np.float64)
    tolerance = (ON_GRID if function.row.on_grid else EXACT) * np.maximum(1, np.abs(expected))
    return bool((np.abs(values - expected) <= tolerance).all())  # NaN is equal to nothing


def _model(operators: Sequence[Operator], graph: Graph, source: str) -> bytes:
    """A model of operators from ``source`` to the last one's result; operators alike give the same bytes."""
    names = {source: "x"}
    nodes, constants = [], []
    for operator in operators:
        for name in operator.inputs:
            if name in graph.constants and name not in names:
                names[name] = f"constant{len(names)}"
                constants.append(numpy_helper.from_array(np.asarray(graph.constants[name]), names[name]))
        names |= {name: f"value{len(names)}" for name in operator.outputs}
        node = NodeProto()
        node.CopyFrom(operator.proto)
        del node.input[:], node.output[:]
        node.name, node.doc_string = "", ""
        node.input.extend(names.get(name, "") for name in operator.inputs)
        node.output.extend(names[name] for name in operator.outputs)
        nodes.append(node)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", nodes[-1].output[0])]
    body = helper.make_graph(nodes, "function", ends[:1], ends[1:], constants)
    imports = list(graph.model.opset_import)
    return bytes(helper.make_model(body, opset_imports=imports, ir_version=graph.model.ir_version).SerializeToString())


@cache
def _values(model: bytes) -> Floats | None:
    """What a model makes of ``PROBES``; None if ONNX Runtime does not know one of its operators."""
    try:
        result = session(model).run(None, {"x": PROBES.astype(np.float32)})[0]
    except Exception:
        return None
    return np.asarray(result, np.float64).reshape(-1)
