"""ONNX file -> checked, simplified operator graph with known shapes.

What the rest of the compiler may rely on: one float32 network, batch axis first and symbolic, every other dimension a
number, constants folded, no unused operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, numpy_helper

from bfpga.compiler.read import microscaling, qonnx
from bfpga.compiler.read.attributes import check_attributes
from bfpga.compiler.read.borders import float_inputs, float_outputs
from bfpga.compiler.read.ceil_pooling import explicit_ceiling
from bfpga.compiler.read.channels_first import SUFFIX, channels_first
from bfpga.compiler.read.finite_weights import check_finite
from bfpga.compiler.read.float_types import in_float32
from bfpga.compiler.read.functions import check_functions
from bfpga.compiler.read.graphs import attributes_of, copied, graph_inputs, with_own_names, without_constant_inputs
from bfpga.compiler.read.grids import Grids, rounded
from bfpga.compiler.read.late_averages import LateAverages
from bfpga.compiler.read.model_file import read_model
from bfpga.compiler.read.open_sizes import check_shape
from bfpga.compiler.read.operands import Operands, problems
from bfpga.compiler.read.opsets import STANDARD, check_opset, opset_of, supported_opset
from bfpga.compiler.read.outputs import with_known_types, with_outputs
from bfpga.compiler.read.packed_weights import with_unpacked_weights
from bfpga.compiler.read.plain import is_plain
from bfpga.compiler.read.qonnx_domains import in_standard_layout, with_imports
from bfpga.compiler.read.quantized import FloatNetworkForm, in_float
from bfpga.compiler.read.ranks import check_ranks, constants_of, ranks_of
from bfpga.compiler.read.scalers import plain_scalers
from bfpga.compiler.read.separable_averages import separated_averages
from bfpga.compiler.read.shapes import inferred_shapes, inferred_values
from bfpga.compiler.read.simplify import fold_constants, rewrite_reshapes, run_shapes, simplify
from bfpga.compiler.read.sizes import InputShapes, with_open_sizes, with_sizes
from bfpga.compiler.read.start_states import without_zero_states
from bfpga.compiler.read.trial import try_reading
from bfpga.compiler.read.wiring import check_wiring
from bfpga.errors import BfpgaError, ModelError
from bfpga.formats.files import first_line, printable

DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", *qonnx.DOMAINS, qonnx.CHANNELS_LAST, microscaling.DOMAIN)
#: Elements of the largest value of one sample: a gibibyte of float32.
LARGEST_VALUE = 1 << 28
#: Two batch sizes that distinguish the batch axis from every other axis.
BATCH_PROBES = (2, 3)


@dataclass
class Operator:
    """One ONNX operator; ``attributes`` are plain Python values, ``captured`` names what its subgraphs use."""

    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    proto: NodeProto
    captured: tuple[str, ...] = ()

    @property
    def uses(self) -> tuple[str, ...]:
        return tuple(name for name in self.inputs if name) + self.captured


@dataclass
class Graph:
    """A network: operators in topological order.

    ``shapes`` holds, for values whose first axis is the batch, the shape without it; other values are missing.
    ``grids``: what the quantizers of a quantized network say of values.
    """

    model: ModelProto
    operators: list[Operator]
    constants: dict[str, npt.NDArray[Any]]
    shapes: dict[str, tuple[int, ...]]
    types: dict[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    grids: Grids = field(default_factory=dict)
    consumers: dict[str, list[Operator]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for operator in self.operators:
            for name in dict.fromkeys(operator.uses):
                self.consumers.setdefault(name, []).append(operator)

    def only_consumer(self, value: str) -> Operator | None:
        """The operator that alone reads ``value``; None if there are more, or if it is a network output."""
        consumers = self.consumers.get(value, [])
        return consumers[0] if len(consumers) == 1 and value not in self.outputs else None

    def rounds(self, value: str) -> bool:
        """Whether the network needs the rounding of this value to a quantizer's few."""
        return value in self.grids and self.grids[value].rounds

    def ends_a_layer(self, value: str) -> bool:
        """Whether the array rounds or limits this value where it is written: no further operator may come before."""
        return self.rounds(value) or (value in self.grids and self.grids[value].saturates)


def checked_model(
    path: str | Path,
    shapes: InputShapes | None = None,
    outputs: Sequence[str] | None = None,
    tried: bool = False,
) -> FloatNetworkForm:
    """Read and check an ONNX file, external weights included, and bring it into the one form that all others read.

    shapes: of inputs, batch first, where the file leaves sizes open. outputs: values that are wanted; None for all
    outputs that are numbers. Whatever the file holds (any opset, half precision, integer inputs, quantizers), the model
    is float32 of a known opset; see the passes of this room. tried: this is a process that reads on trial, which all
    files go through first that could end it.
    Raises ModelError for files that are not ONNX or truncated, opsets that the installed onnx does not know, unknown
    operator domains, missing external data, sizes that stay open (but the batch), NaN or infinite weights.
    """
    with _one_error(path):
        model, notes = with_outputs(with_imports(read_model(Path(path))), outputs, path)
        check_attributes(model, path)
        check_opset(model, path)
        check_functions(model, path)
        check_wiring(model, path)
        constants = constants_of(model)
        ranks = ranks_of(model, constants)
        check_ranks(model, ranks, path)
        if not tried and not is_plain(model, ranks, constants):
            try_reading(path, shapes or {})
        _check_header(model, path)
        model = in_standard_layout(with_known_types(model, path), path)
        model = with_sizes(with_own_names(without_constant_inputs(with_open_sizes(model))), shapes or {}, path)
        _check_borders(model, path)
        model = float_inputs(in_float32(plain_scalers(supported_opset(model, path))), path)
        form = in_float(with_unpacked_weights(model, path), path)
        plain = float_outputs(form.model, path)
        reference = float_outputs(form.reference, path) if form.quantized else plain
        form = replace(form, model=plain, reference=reference, notes=(*notes, *form.notes))
        check_finite(form.model, path)
        return form


def simplified_graph(
    model: ModelProto, path: str | Path, separate_averages: bool = False, late_averages: bool = False,
    grids: Grids | None = None,
) -> Graph:  # fmt: skip
    """The simplified graph of a checked model, which stays as it is.

    path: for messages. separate_averages: large ones go in two steps. late_averages: after the layer that reads one.
    grids: of the model's values. Raises ModelError for shapes that do not fit together.
    """
    grids = grids or {}
    with _one_error(path):
        graph = _simplified(model, path, separate_averages, late_averages, rounded(grids))
    turned = {f"{name}{SUFFIX}": grid for name, grid in grids.items()}
    return replace(graph, grids={**grids, **turned}, consumers={})


@contextmanager
def _one_error(path: str | Path) -> Iterator[None]:
    """Libraries of ONNX raise whatever a damaged model makes them stumble over; it becomes a ModelError."""
    try:
        yield
    except BfpgaError as error:
        if str(error).startswith(str(path)):
            raise
        raise ModelError(f"{path}: {error}") from None
    except Exception as error:
        raise ModelError(f"{path}: not a network that can be read: {first_line(error)}") from error


def _simplified(
    model: ModelProto, path: str | Path, separate_averages: bool, late_averages: bool, kept: Collection[str]
) -> Graph:
    fixed = max(value.type.tensor_type.shape.dim[0].dim_value for value in model.graph.input)
    settings = (path, separate_averages, late_averages, kept)
    try:
        return _batched(with_batch(model), fixed, *settings)
    except ModelError as error:
        if fixed < 1:
            raise
        reason = error
    try:
        graph = _batched(with_batch(model, fixed), fixed, *settings)
    except ModelError:
        raise reason from None
    if fixed > 1:
        cause = str(reason).removeprefix(f"{path}: ")
        raise ModelError(
            f"{path}: a batch of {fixed} is built into the operators of this network: {cause}; "
            f"export it with an open batch, or for a batch of 1, which takes one sample a run"
        )
    return graph


def _batched(
    model: ModelProto, fixed: int, path: str | Path, separate_averages: bool, late_averages: bool,
    kept: Collection[str],
) -> Graph:  # fmt: skip
    """The graph of a model whose batch is open, or is a number. fixed: the batch that the file states; 0: none.

    kept: values that stay when the graph is simplified.
    """
    batches = batches_of(model)
    model = without_zero_states(_without_borders(model))
    _check_sizes(inferred_shapes(model, 1), path)
    try:
        model = explicit_ceiling(model, lambda pooled: inferred_shapes(pooled, batches[0]))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    if late_averages:
        model = LateAverages(model, inferred_shapes(model, 1)).changed()
    if separate_averages:
        model = separated_averages(model, inferred_shapes(model, 1))
    if batches == BATCH_PROBES:
        model = simplify(rewrite_reshapes(model, BATCH_PROBES, fixed), batches[0], kept)
    else:  # onnxslim takes the batch for one more row of matrices where it is a number
        model = fold_constants(model)
    return _graph(channels_first(model), str(path))


def _check_header(model: ModelProto, path: str | Path) -> None:
    functions = {(function.domain, function.name) for function in model.functions}
    for node in model.graph.node:
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in functions:
            raise ModelError(
                f"{path}: operator {node.name or node.op_type} ({node.op_type}) is of the unknown domain "
                f"{node.domain!r}; known are the standard operators of ONNX and the quantizers of QONNX and AMD Quark"
            )
    try:
        onnx.checker.check_model(_with_shaped_outputs(model))
    except Exception as error:
        raise ModelError(f"{path}: not a valid ONNX network: {first_line(error)}") from None


def _with_shaped_outputs(model: ModelProto) -> ModelProto:
    """The model, or a copy where outputs of unknown shape have one: the checker requires one, nothing reads it."""
    if all(value.type.tensor_type.HasField("shape") for value in model.graph.output):
        return model
    result = copied(model)
    for value in result.graph.output:
        value.type.tensor_type.shape.SetInParent()
    return result


def _check_borders(model: ModelProto, path: str | Path) -> None:
    inputs = graph_inputs(model)
    if not inputs or not model.graph.output:
        raise ModelError(f"{path}: the network needs at least one input and one output")
    for name, times in Counter(value.name for value in model.graph.output).items():
        if times > 1:
            raise ModelError(f"{path}: output {printable(name)!r} is there {times} times, once is right")
    for value in inputs:
        check_shape(model, value, path)


def _check_sizes(shapes: dict[str, tuple[int, ...]], path: str | Path) -> None:
    """Values that no memory holds are refused before anything computes them (a constant of 10**12 elements)."""
    for name, shape in shapes.items():
        if prod(shape) > LARGEST_VALUE:
            raise ModelError(f"{path}: value {name} has {prod(shape):,} elements, {LARGEST_VALUE:,} are possible")


def _without_borders(model: ModelProto) -> ModelProto:
    """The model without shapes that it states of inner values and outputs; changes it."""
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def with_batch(model: ModelProto, batch: int | None = None) -> ModelProto:
    """A copy of the model whose inputs have ``batch`` samples; None: any number."""
    result = without_constant_inputs(copied(model))
    for value in result.graph.input:
        first = value.type.tensor_type.shape.dim[0]
        first.Clear()
        if batch is None:
            first.dim_param = "N"
        else:
            first.dim_value = batch
    return result


def batches_of(model: ModelProto) -> tuple[int, int]:
    """Two batch sizes that distinguish the batch from other axes; twice the same where the model has no other."""
    stated = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    return (stated, stated) if stated else BATCH_PROBES


def _graph(model: ModelProto, path: str) -> Graph:
    shapes, types = _shapes(model, path)
    unknown = [value.name for value in model.graph.output if value.name not in shapes]
    shapes |= run_shapes(model, unknown, batches_of(model))
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    used: dict[str, int] = {}
    operators = [_operator(node, index, used) for index, node in enumerate(model.graph.node)]
    graph = Graph(
        model,
        operators,
        constants,
        shapes,
        types,
        tuple(value.name for value in model.graph.input),
        tuple(value.name for value in model.graph.output),
    )
    for name, shape in shapes.items():
        if min(shape, default=1) <= 0:
            raise ModelError(f"{path}: value {name} is empty, its shape is {shape}: a kernel larger than its input?")
    for operator in operators:
        _check_window(graph, operator, path)
    for name in graph.outputs:
        if name not in shapes:
            raise ModelError(f"{path}: {_not_by_batch(model, name, shapes)}")
    for operator in operators:
        _check_operator(graph, operator, path)
    return graph


def _not_by_batch(model: ModelProto, name: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Why an output has no shape for a sample."""
    inferred = inferred_shapes(model, batches_of(model)[0])
    if name in inferred:
        return f"the first axis of output {name} does not follow the batch"
    unknown = next(node for node in model.graph.node if not all(not out or out in inferred for out in node.output))
    return (
        f"the shape of output {name} is known only while the network runs: {unknown.op_type} "
        f"{printable(unknown.name or unknown.output[0])} gives results of unknown shape"
    )


def rebuilt(graph: Graph, model: ModelProto) -> Graph:
    """The graph of a model that computes the same as ``graph`` with other operators."""
    return replace(_graph(model, graph.model.graph.name or "network"), grids=graph.grids, consumers={})


def _check_operator(graph: Graph, operator: Operator, path: str) -> None:
    """What the inference of shapes accepts: results without elements, operands of wrong shapes and types."""
    for name in operator.outputs:
        if 0 in graph.shapes.get(name, ()):
            shape = graph.shapes[name]
            raise ModelError(f"{path}: {operator.type} {operator.name} gives no values, its shape is {shape}")
    if operator.proto.domain not in STANDARD:
        return
    operands = Operands(operator.proto, graph.shapes, graph.constants, graph.types)
    for problem in problems(operands, opset_of(graph.model)):
        raise ModelError(f"{path}: shapes do not fit together: {operator.type} {operator.name}: {problem}")


def _check_window(graph: Graph, operator: Operator, path: str) -> None:
    """A window larger than its padded image has no defined result (and runtimes disagree about it)."""
    shape = graph.shapes.get(operator.inputs[0] if operator.inputs else "", ())[1:]
    kernel = operator.attributes.get("kernel_shape")
    if operator.type == "Conv" and kernel is None and operator.inputs[1] in graph.constants:
        kernel = graph.constants[operator.inputs[1]].shape[2:]
    if operator.type not in ("Conv", "MaxPool", "AveragePool") or kernel is None or len(kernel) != len(shape):
        return
    if operator.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return
    pads = operator.attributes.get("pads", [0] * (2 * len(shape)))
    dilations = operator.attributes.get("dilations", [1] * len(shape))
    for axis, (size, span, step) in enumerate(zip(shape, kernel, dilations, strict=True)):
        padded, reach = size + pads[axis] + pads[axis + len(shape)], step * (span - 1) + 1
        if reach > padded:
            raise ModelError(f"{path}: the window of {operator.name} spans {reach} pixels of its {padded}")


def _operator(node: NodeProto, index: int, used: dict[str, int]) -> Operator:
    """The operator with a name that is unique in the graph and readable in listings."""
    base = printable(node.name) or f"{node.op_type}_{index}"
    used[base] = used.get(base, 0) + 1
    name = base if used[base] == 1 else f"{base}_{used[base]}"
    captured = [name for item in node.attribute if item.type == AttributeProto.GRAPH for name in _captured(item.g)]
    inputs, outputs = tuple(node.input), tuple(node.output)
    return Operator(name, node.op_type, inputs, outputs, attributes_of(node), node, tuple(captured))


def _captured(graph: onnx.GraphProto) -> list[str]:
    """Names a subgraph takes from outside."""
    local = {item.name for item in graph.initializer} | {item.name for item in graph.input}
    names: list[str] = []
    for node in graph.node:
        inner = [name for item in node.attribute if item.type == AttributeProto.GRAPH for name in _captured(item.g)]
        names += [name for name in [*node.input, *inner] if name and name not in local]
        local |= set(node.output)
    return names + [item.name for item in graph.output if item.name not in local]


def _shapes(model: ModelProto, path: str) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Shapes without the batch axis of every value that has one, and element types, by two inferences."""
    batches = batches_of(model)
    first, types = _inferred(model, batches[0], path)
    second = _inferred(model, batches[1], path)[0] if batches[0] != batches[1] else first
    shapes = {}
    for name, shape in first.items():
        other = second.get(name, ())
        if shape and shape[0] == batches[0] and other == (batches[1], *shape[1:]):
            shapes[name] = shape[1:]
    return shapes, types


def _inferred(model: ModelProto, batch: int, path: str) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    try:
        values = inferred_values(model, batch, strict=True)
    except Exception as error:
        raise ModelError(f"{path}: shapes do not fit together: {first_line(error)}") from None
    shapes: dict[str, tuple[int, ...]] = {}
    types: dict[str, int] = {}
    for value in values:
        tensor = value.type.tensor_type
        types[value.name] = tensor.elem_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return shapes, types


def constant_of(graph: Graph, operator: Operator, index: int) -> npt.NDArray[Any] | None:
    """The constant that is input ``index`` of the operator; None if it is absent or computed."""
    name = operator.inputs[index] if index < len(operator.inputs) else ""
    return graph.constants.get(name)


def activations(graph: Graph, operator: Operator) -> Sequence[str]:
    """The inputs of an operator that are computed from the network's inputs."""
    return [name for name in operator.uses if name not in graph.constants]


Progress = Callable[[str], None]
