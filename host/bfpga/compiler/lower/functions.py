"""Operators that the function unit computes, found by their values.

Exporters write one function in many ways: as an operator with attributes, with bounds in constants, as a handful of
operators such as x * Sigmoid(x). What counts is what they compute, so operators between two values are run on points
all over the numbers and compared with the rows of ``contract/functions.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.read.importer import Graph, Operator, activations
from bfpga.compiler.read.simplify import session
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function, UnfitArgumentError

Floats = npt.NDArray[np.float64]
#: Operators that may be a function.
OPERATORS = frozenset(name for function in Function for name in function.row.operators)
#: Operators that functions are composed of, with these domains.
ELEMENTWISE = OPERATORS | {
    "Add", "Sub", "Mul", "Div", "Neg", "Abs", "Min", "Max", "Pow", "Sqrt", "Reciprocal", "Exp", "Log", "Erf",
}  # fmt: skip
DOMAINS = ("", "ai.onnx", "com.microsoft")
#: Operators of a function, at most: GELU by tanh has nine.
LONGEST = 12
#: Where functions are compared: the bend of every one of them, and far outside.
FAR = 2.0**100
PROBES: Floats = np.array([*np.arange(-640, 641) / 32, -FAR, -1000.0, 1000.0, FAR])
#: Largest difference, relative to values above 1: float32's rounding, and half the grid of what is rounded to one.
EXACT, ON_GRID = 2.0**-20, 2.0**-11


@dataclass(frozen=True)
class FunctionMatch:
    """Operators that are a function, with its argument (0 if it has none), of the value ``source``.

    operators: in the order of the graph; only the last one's result is read by others.
    """

    function: Function
    argument: float
    source: str
    operators: tuple[Operator, ...]


def find_functions(graph: Graph, config: KernelConfig) -> dict[str, FunctionMatch]:
    """What functions of the array compute, by the name of the last operator; the longest compositions."""
    order = {operator.name: number for number, operator in enumerate(graph.operators)}
    producers = {name: operator for operator in graph.operators for name in operator.outputs}
    found: dict[str, FunctionMatch] = {}
    taken: set[str] = set()
    for last in reversed(graph.operators):
        if last.name in taken or not _composable(graph, last):
            continue
        candidates = compositions(graph, last, producers, order, taken, _composable)
        for source, operators in sorted(candidates, key=lambda candidate: -len(candidate[1])):
            match = _match(graph, config, source, operators) or _limit(graph, config, source, operators)
            if match is not None:
                found[last.name] = match
                taken |= {operator.name for operator in operators}
                break
    return found


def with_functions(graph: Graph, found: dict[str, FunctionMatch]) -> Graph:
    """The graph with one operator in the place of each composition, named and typed so that reports can show it."""
    return with_single(graph, [(match.operators, _single(match)) for match in found.values()])


def with_single(graph: Graph, groups: Sequence[tuple[tuple[Operator, ...], Operator]]) -> Graph:
    """The graph with one operator in the place of several, whose last one has its name."""
    inner = {operator.name for operators, _ in groups for operator in operators[:-1]}
    last = {single.name: single for _, single in groups}
    operators = [last.get(operator.name, operator) for operator in graph.operators if operator.name not in inner]
    return replace(graph, operators=operators, consumers={})


def _single(match: FunctionMatch) -> Operator:
    operator = match.operators[-1]
    if len(match.operators) == 1:
        return operator
    kind = match.function.row.operators[0]
    return Operator(operator.name, kind, (match.source,), operator.outputs, {}, operator.proto)


def compositions(
    graph: Graph, last: Operator, producers: dict[str, Operator], order: dict[str, int], taken: set[str],
    composable: Callable[[Graph, Operator], bool],
) -> Iterator[tuple[str, tuple[Operator, ...]]]:  # fmt: skip
    """Operators that end with ``last`` and read one computed value, each set with that value, the smallest first.

    composable: whether an operator may be one of them.
    """
    members = {last.name: last}
    while len(members) <= LONGEST:
        made = {name for operator in members.values() for name in operator.outputs}
        read = {name for operator in members.values() for name in activations(graph, operator)} - made
        if len(read) == 1:
            operators = tuple(sorted(members.values(), key=lambda operator: order[operator.name]))
            yield next(iter(read)), operators
        # What was computed last cannot depend on the others: it joins, or nothing larger ends in one value.
        latest = max((producers[name] for name in read if name in producers), key=lambda item: order[item.name],
                     default=None)  # fmt: skip
        if latest is None or latest.name in taken or not composable(graph, latest):
            return
        (value,) = latest.outputs
        needed = value in graph.outputs or graph.ends_a_layer(value)
        if needed or any(item.name not in members for item in graph.consumers.get(value, [])):
            return
        members[latest.name] = latest


def _composable(graph: Graph, operator: Operator) -> bool:
    """Whether an operator works element by element on values of one shape, with constants that are single numbers."""
    computed = activations(graph, operator)
    numbers = all(graph.constants[name].size == 1 for name in operator.uses if name not in computed)
    plain = operator.proto.domain in DOMAINS and not operator.captured and len(operator.outputs) == 1
    shapes = [graph.shapes.get(name) for name in (*computed, *operator.outputs)]
    same = shapes[0] is not None and shapes.count(shapes[0]) == len(shapes)
    return operator.type in ELEMENTWISE and numbers and plain and same


def _match(
    graph: Graph, config: KernelConfig, source: str, operators: tuple[Operator, ...]
) -> FunctionMatch | None:
    """The function of the array that operators compute from ``source``."""
    if len(operators) == 1 and operators[0].type not in OPERATORS:
        return None
    matches = _matches(model_of(operators, graph, source), config.known_functions)
    return FunctionMatch(*matches[0], source, operators) if matches else None


def _limit(
    graph: Graph, config: KernelConfig, source: str, operators: tuple[Operator, ...]
) -> FunctionMatch | None:
    """The limit of a quantizer as ReLU where the array cannot clip: mantissas saturate close above it.

    Quantizers of a few values are none of these.
    """
    last, relu = operators[-1], Function.RELU
    grid = graph.grids.get(last.outputs[0])
    fits = len(operators) == 1 and last.type == "Clip" and relu.key in config.known_functions
    if not fits or grid is None or grid.few or grid.low != 0:
        return None
    return FunctionMatch(relu, 0.0, source, operators)


@cache
def _matches(model: bytes, functions: tuple[str, ...]) -> list[tuple[Function, float]]:
    """Functions of the array that have a model's values at ``PROBES``, with their arguments."""
    values = _values(model)
    if values is None:
        return []
    return [
        (function, argument)
        for function in Function
        if function != Function.NONE and function.key in functions
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


def model_of(operators: Sequence[Operator], graph: Graph, source: str) -> bytes:
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


def _values(model: bytes) -> Floats | None:
    """What a model makes of ``PROBES``; None if ONNX Runtime does not know one of its operators."""
    try:
        result = session(model).run(None, {"x": PROBES.astype(np.float32)})[0]
    except Exception:
        return None
    return np.asarray(result, np.float64).reshape(-1)
