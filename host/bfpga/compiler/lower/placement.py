"""Which operators may go to the array, judged by type, attributes and neighbours before any layer is built."""

from __future__ import annotations

import numpy as np

from bfpga.compiler.read.importer import Graph, Operator, activations, constant_of
from bfpga.contract.configuration import SystolicConfig

#: Operators that only rearrange elements.
VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout")
#: Operators worth an array pass of their own.
HEAVY = ("Conv", "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean")
FUNCTIONS = ("Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh")
ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "BatchNormalization", "Concat", *FUNCTIONS)


def function_name(graph: Graph, operator: Operator, config: SystolicConfig) -> str:
    """The function unit's name for an operator; empty if the array does not compute it."""
    name = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}.get(operator.type, "")
    if operator.type == "LeakyRelu" and leaky_shift(operator) is not None:
        name = "leaky_relu"
    if operator.type == "Clip":
        low, high = clip_bounds(graph, operator)
        name = "" if low != 0 else "relu" if np.isinf(high) else "clip" if high > 0 else ""
    return name if name in config.functions else ""


def leaky_shift(operator: Operator) -> int | None:
    """The right shift of a leaky ReLU whose slope is a power of two from 1/2 to 2^-15."""
    slope = float(operator.attributes.get("alpha", 0.01))
    mantissa, exponent = np.frexp(slope)
    shift = 1 - int(exponent)
    return shift if mantissa == 0.5 and 1 <= shift <= 15 else None


def clip_bounds(graph: Graph, operator: Operator) -> tuple[float, float]:
    """Lower and upper bound of a Clip; (nan, nan) if they are computed."""
    bounds = [-np.inf, np.inf]
    for index, key in enumerate(("min", "max")):
        bounds[index] = float(operator.attributes.get(key, bounds[index]))
        position = index + 1
        if position < len(operator.inputs) and operator.inputs[position]:
            value = constant_of(graph, operator, position)
            bounds[index] = float("nan") if value is None else float(np.asarray(value).reshape(-1)[0])
    return bounds[0], bounds[1]


def placement(graph: Graph, config: SystolicConfig) -> set[str]:
    """Names of the operators to try on the array.

    Heavy operators always; elementwise ones only between array operators: alone among host operators they would cost
    two conversions and gain nothing.
    """
    chosen = {op.name for op in graph.operators if _possible(graph, op, config)}
    producers = {output: op for op in graph.operators for output in op.outputs}
    while True:
        dropped = {
            op.name
            for op in graph.operators
            if op.name in chosen and op.type in ELEMENTWISE and not _supported(graph, op, chosen, producers)
        }
        if not dropped:
            return chosen
        chosen -= dropped


def _possible(graph: Graph, operator: Operator, config: SystolicConfig) -> bool:
    if operator.proto.domain not in ("", "ai.onnx") or operator.captured:
        return False
    if operator.type in FUNCTIONS:
        return bool(function_name(graph, operator, config))
    return operator.type in HEAVY or operator.type in VIEWS or operator.type in ELEMENTWISE or operator.type == "Pad"


def _supported(graph: Graph, operator: Operator, chosen: set[str], producers: dict[str, Operator]) -> bool:
    """Whether an elementwise operator has array operators (behind views) on both sides, or may be fused into one."""
    sources = [_source(name, chosen, producers) for name in activations(graph, operator)]
    if not all(source is not None and source.name in chosen for source in sources):
        return False
    if len(sources) == 1 and operator.type != "Concat":
        source = sources[0]
        fusible = source is not None and (source.type in ("Conv", "Gemm", *ELEMENTWISE) or _weighted(graph, source))
        if fusible and graph.only_consumer(operator.inputs[0]) is operator:
            return True
    return _feeds_array(graph, operator, chosen)


def _weighted(graph: Graph, operator: Operator) -> bool:
    """Whether the operator is a product with a constant matrix."""
    return operator.type == "MatMul" and constant_of(graph, operator, 1) is not None


def _source(value: str, chosen: set[str], producers: dict[str, Operator]) -> Operator | None:
    """The operator that computes a value, views skipped; None for a network input."""
    operator = producers.get(value)
    while operator is not None and operator.type in VIEWS and operator.name in chosen:
        operator = producers.get(operator.inputs[0])
    return operator


def _feeds_array(graph: Graph, operator: Operator, chosen: set[str]) -> bool:
    """Whether some reader is on the array; a value nobody but the network's caller reads counts too."""
    pending, seen = list(operator.outputs), set()
    readers = 0
    while pending:
        value = pending.pop()
        for consumer in graph.consumers.get(value, []):
            readers += 1
            if consumer.name in chosen and consumer.type not in VIEWS:
                return True
            if consumer.type in VIEWS and consumer.name not in seen:
                seen.add(consumer.name)
                pending += consumer.outputs
    return readers == 0
