"""Softmax and normalizations that exporters wrote in parts, found by their values.

As with functions, what counts is what operators compute: those between two values are run on rows of several
magnitudes and compared with the operation as it is defined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from bfpga.compiler.lower.functions import DOMAINS, compositions, model_of
from bfpga.compiler.read.importer import Graph, Operator, activations
from bfpga.compiler.read.simplify import session
from bfpga.formats.arrays import Float64Array

#: Operators that an operation over rows is composed of.
PARTS = frozenset({
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceSumSquare", "ReduceL2", "Sub", "Add", "Mul", "Div", "Pow", "Sqrt",
    "Reciprocal", "Exp", "Cast",
})  # fmt: skip
#: Those that each of them ends with.
LAST = frozenset({"Div", "Mul", "Cast"})
#: Magnitudes of values that are compared, and of those that show an epsilon: their squares are below all that is used.
MAGNITUDES, SMALL = (2.0**-6, 1.0, 2.0**5), 2.0**-24
#: Largest difference, relative to the largest value: float32's rounding of sums.
EXACT = 2.0**-14


@dataclass(frozen=True)
class RowGroup:
    """Operators that are together an operation over rows. operator: the one they are."""

    operators: tuple[Operator, ...]
    operator: Operator


def find_row_groups(graph: Graph) -> dict[str, RowGroup]:
    """Operations over rows by the name of their last operator."""
    order = {operator.name: number for number, operator in enumerate(graph.operators)}
    producers = {name: operator for operator in graph.operators for name in operator.outputs}
    found: dict[str, RowGroup] = {}
    taken: set[str] = set()
    for last in reversed(graph.operators):
        if last.type not in LAST or last.name in taken or not _composable(graph, last):
            continue
        candidates = list(compositions(graph, last, producers, order, taken, _composable))
        for source, operators in reversed(candidates):  # a LayerNormalization ends with an RMSNormalization
            single = _single(graph, source, operators)
            if single is not None:
                found[last.name] = RowGroup(operators, single)
                taken |= {operator.name for operator in operators}
                break
    return found


def _composable(graph: Graph, operator: Operator) -> bool:
    """Whether an operator keeps the rank of what it reads, with constants that are single numbers or axes."""
    plain = operator.proto.domain in DOMAINS and not operator.captured and len(operator.outputs) == 1
    shapes = [graph.shapes.get(name) for name in (*activations(graph, operator), *operator.outputs)]
    ranks = {None if shape is None else len(shape) for shape in shapes}
    sizes = [graph.constants[name].size for name in operator.uses if name in graph.constants]
    return operator.type in PARTS and plain and len(ranks) == 1 and None not in ranks and all(n == 1 for n in sizes)


def _single(graph: Graph, source: str, operators: tuple[Operator, ...]) -> Operator | None:
    """The operation that operators are, as one operator of ``source``; None if they are none."""
    shape = graph.shapes[source]
    reduced = any(operator.type.startswith("Reduce") for operator in operators)
    if not reduced or graph.shapes[operators[-1].outputs[0]] != shape or 0 in shape:
        return None
    values = np.random.default_rng(1).standard_normal((1, *shape)) + 0.25
    model = model_of(operators, graph, source)
    found = [_run(model, scale * values) for scale in (*MAGNITUDES, SMALL)]
    if any(item is None for item in found):
        return None
    results = [item for item in found if item is not None]
    for axis in range(1, len(shape) + 1):
        if shape[axis - 1] < 2:
            continue
        pairs = list(zip([scale * values for scale in MAGNITUDES], results, strict=False))
        if all(_equal(result, _softmax(x, axis)) for x, result in pairs):
            return _as(operators, "Softmax", source, {"axis": axis})
        if axis != len(shape):
            continue
        for kind, centered in (("LayerNormalization", True), ("RMSNormalization", False)):
            epsilon = _epsilon(SMALL * values, results[-1], centered)
            if epsilon >= 0 and all(_equal(result, _normalized(x, epsilon, centered)) for x, result in pairs):
                return _as(operators, kind, source, {"axis": axis, "epsilon": epsilon})
    return None


def _as(operators: tuple[Operator, ...], kind: str, source: str, attributes: dict[str, float]) -> Operator:
    last = operators[-1]
    return Operator(last.name, kind, (source,), last.outputs, attributes, NodeProto(name=last.name, op_type=kind))


def _run(model: bytes, values: Float64Array) -> Float64Array | None:
    """What a model makes of values; None if ONNX Runtime cannot run it."""
    try:
        result = session(model).run(None, {"x": values.astype(np.float32)})[0]
    except Exception:
        return None
    return np.asarray(result, np.float64)


def _softmax(x: Float64Array, axis: int) -> Float64Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _centered(x: Float64Array, centered: bool) -> Float64Array:
    return x - x.mean(axis=-1, keepdims=True) if centered else x


def _normalized(x: Float64Array, epsilon: float, centered: bool) -> Float64Array:
    moved = _centered(x, centered)
    return np.asarray(moved / np.sqrt(np.square(moved).mean(axis=-1, keepdims=True) + epsilon))


def _epsilon(x: Float64Array, result: Float64Array, centered: bool) -> float:
    """The epsilon of a normalization that makes ``result`` of x; what it is worth shows in other values."""
    moved = _centered(x, centered)
    largest = float(np.abs(result).max())
    if not 0 < largest < np.inf:
        return -1.0
    found = (float(np.abs(moved).max()) / largest) ** 2 - float(np.square(moved).mean(axis=-1).max())
    return max(found, 0.0)


def _equal(result: Float64Array, expected: Float64Array) -> bool:
    largest = float(np.abs(expected).max())
    return result.shape == expected.shape and bool((np.abs(result - expected) <= EXACT * largest).all())
