"""Which operators may go to the array, judged by type, attributes and adjacent operators before any layer is built."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from bfpga.compiler.lower.accelerator_table import with_function, with_rows
from bfpga.compiler.lower.definitions import DEFINED
from bfpga.compiler.lower.functions import OPERATORS, FunctionMatch
from bfpga.compiler.read.importer import Graph, Operator, activations, constant_of

#: Operators that only rearrange elements.
VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout")
#: Operators worth an array pass of their own.
HEAVY = (
    "Conv", "ConvTranspose", "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool",
    "ReduceMean",
)  # fmt: skip
#: Operators that copy pixels or channels, or sum adjacent ones.
COPIES = ("Resize", "Slice", "Split", "DepthToSpace", "SpaceToDepth", "ReduceMax", "ReduceSum", "Expand")
ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "BatchNormalization", "Concat", *COPIES)
NO_QUOTIENTS = "it divides by what it finds in its own input, and the array has no quotients"
#: Operators that normalize by what they find in their input.
STATISTICS = (
    "Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "LRN",
    "RMSNormalization", "MeanVarianceNormalization", "LpNormalization",
)  # fmt: skip
#: Operators with subgraphs.
CONTROL = ("If", "Loop", "Scan")
#: Those that the process of rows has.
ROWS = ("Softmax", "LayerNormalization", "RMSNormalization")
MANY_FACTORS = "a product of two computed values, pixel by pixel, would need more weights than there are values"
#: Elementwise operators that the array has for constants, and for factors of whole channels.
PRODUCTS = ("Mul", "Div")


def placement(
    graph: Graph, functions: Mapping[str, FunctionMatch], rows: bool = False, blocked: Collection[str] = ()
) -> set[str]:
    """Names of the operators to try on the array. functions: those that its function unit computes, by name.

    rows: whether there is a process of rows. blocked: operators over rows that the host keeps, and with them what would
    only serve them.

    Heavy operators always; elementwise ones only between array operators: alone among host operators they would cost
    two conversions and gain nothing.
    """
    kept = {op.name for op in graph.operators if op.type in ROWS and op.name in blocked}
    chosen = {op.name for op in graph.operators if op.name in functions or _possible(graph, op, rows)} - kept
    producers = {output: op for op in graph.operators for output in op.outputs}
    while True:
        dropped = {
            op.name
            for op in graph.operators
            if op.name in chosen
            and (op.name in functions or op.type in (*ELEMENTWISE, *ROWS) or _light_mean(graph, op))
            and not _supported(graph, op, chosen, producers, functions)
        }
        if not dropped:
            return chosen
        chosen -= dropped


def reason(graph: Graph, operator: Operator, functions: Mapping[str, FunctionMatch], rows: bool = False) -> str:
    """Why an operator is not tried on the array."""
    possible = _possible(graph, operator, rows)
    if operator.type in PRODUCTS and len(activations(graph, operator)) > 1 and not possible:
        return MANY_FACTORS if rows or not _alike(graph, operator) else MANY_FACTORS + _with_rows()
    if operator.type in STATISTICS and not possible:
        return NO_QUOTIENTS if rows or operator.type not in ROWS else NO_QUOTIENTS + _with_rows()
    if operator.captured or operator.type in CONTROL:
        return "it has networks of its own inside, which are run as a whole: exporters unroll loops of known length"
    if operator.type in OPERATORS and operator.name not in functions:
        others = ", ".join(with_function(operator.type))
        return "the accelerator's function unit lacks it, or has it with other arguments only" + (
            f"; with some arguments it is on {others}" if others else ""
        )
    if operator.name in functions or possible:
        return "adjacent operators are the host's: fetching its input would cost more than it saves"
    if operator.type in DEFINED:
        return "the array would not compute all of the operators that define it"
    return "the array has no operation for it"


def _with_rows() -> str:
    names = ", ".join(with_rows())
    return "; a process of rows (key row_columns) computes it" + (f": {names}" if names else "")


def _alike(graph: Graph, operator: Operator) -> bool:
    """Whether an operator multiplies two computed values of one shape."""
    shapes = {graph.shapes.get(name) for name in operator.inputs}
    return operator.type == "Mul" and len(shapes) == 1 and shapes != {None}


def may_scale(graph: Graph, operator: Operator) -> bool:
    """Whether a product of two computed values may be that of a tensor and a factor for each of its channels."""
    if operator.type != "Mul" or len(set(operator.inputs)) < 2:
        return False
    sizes = [prod(graph.shapes.get(name, (0,))) for name in operator.inputs]
    shape = graph.shapes.get(operator.outputs[0], ())
    return 0 < min(sizes) <= max(shape, default=0) and max(sizes) == prod(shape)


def _light_mean(graph: Graph, operator: Operator) -> bool:
    """Whether an operator is a mean of something else than images: too little work to fetch it from the host."""
    return operator.type == "ReduceMean" and len(graph.shapes.get(operator.inputs[0], ())) != 3


def _possible(graph: Graph, operator: Operator, rows: bool) -> bool:
    if operator.proto.domain not in ("", "ai.onnx") or operator.captured:
        return False
    if operator.type in PRODUCTS and len(activations(graph, operator)) > 1:
        return may_scale(graph, operator) or (rows and _alike(graph, operator))
    if operator.type in ROWS:
        return rows
    return operator.type in HEAVY or operator.type in VIEWS or operator.type in ELEMENTWISE or operator.type == "Pad"


def _supported(
    graph: Graph, operator: Operator, chosen: set[str], producers: dict[str, Operator],
    functions: Mapping[str, FunctionMatch],
) -> bool:  # fmt: skip
    """Whether an elementwise operator has array operators (through views) on both sides, or may be fused into one."""
    sources = [_source(name, chosen, producers) for name in activations(graph, operator)]
    if operator.type in ROWS:
        # The host would take longer than it takes to bring what they read.
        return (sources[0] is not None and sources[0].name in chosen) or _feeds_array(graph, operator, chosen)
    if operator.type == "SpaceToDepth" and sources[0] is None:  # the host packs the input so
        return _feeds_array(graph, operator, chosen)
    if operator.type == "Mul" and len(sources) == 2:
        return _reached_by_array(graph, operator, chosen, producers) and _feeds_array(graph, operator, chosen)
    there = [source is not None and source.name in chosen for source in sources]
    if operator.type in ("Add", "Sub", "Concat") and any(there):
        there = [own or _loaded(graph, name, operator, chosen)
                 for own, name in zip(there, activations(graph, operator), strict=True)]  # fmt: skip
    if not all(there):
        return False
    if len(sources) == 1 and operator.type not in ("Concat", "ReduceMean", *COPIES):
        source = sources[0]
        fusible = source is not None and _fusible(graph, source, functions)
        if fusible and graph.only_consumer(operator.inputs[0]) is operator:
            return True
    # What a table holds takes the host longer than to fetch it.
    tabled = operator.name in functions and functions[operator.name].function.row.on_grid
    return tabled or _feeds_array(graph, operator, chosen)


def _reached_by_array(
    graph: Graph, operator: Operator, chosen: set[str], producers: dict[str, Operator]
) -> bool:
    """Whether the array has what a factor is multiplied with, or fetches it in any case; factors come from the host."""
    largest = max(prod(graph.shapes[name]) for name in operator.inputs)
    for name in operator.inputs:
        source = _source(name, chosen, producers)
        readers = [other for other in graph.consumers.get(name, []) if other is not operator]
        met = (source is not None and source.name in chosen) or any(other.name in chosen for other in readers)
        if met and prod(graph.shapes[name]) == largest:
            return True
    return False


def _loaded(graph: Graph, name: str, operator: Operator, chosen: set[str]) -> bool:
    """Whether the array fetches a value of the host for another operator: the begin of a residual block, say."""
    readers = [other for other in graph.consumers.get(name, []) if other is not operator and other.name in chosen]
    return any(other.type not in VIEWS for other in readers)


def _fusible(graph: Graph, operator: Operator, functions: Collection[str]) -> bool:
    """Whether the layer of an operator may compute the next one too."""
    if operator.type == "MatMul":
        return constant_of(graph, operator, 1) is not None
    return operator.name in functions or operator.type in ("Conv", "ConvTranspose", "Gemm", *ELEMENTWISE)


def _source(value: str, chosen: set[str], producers: dict[str, Operator]) -> Operator | None:
    """The operator that computes a value, views skipped; None for a network input."""
    operator = producers.get(value)
    while operator is not None and operator.type in VIEWS and operator.name in chosen:
        operator = producers.get(operator.inputs[0])
    return operator


def _feeds_array(graph: Graph, operator: Operator, chosen: set[str]) -> bool:
    """Whether some reader is on the array; a value that only the network's caller reads counts too."""
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
