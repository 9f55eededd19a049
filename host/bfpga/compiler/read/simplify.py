"""Simplification of an ONNX model by existing libraries, each step checked or guarded."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Collection
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, numpy_helper

from bfpga.compiler.read.ranks import KEEPING
from bfpga.errors import ModelError
from bfpga.formats.files import printable
from bfpga.formats.onnx_runtime import onnxruntime

#: Largest relative difference that rounding may cause between a model and its simplified form.
TOLERANCE = 1e-3
#: Operators that compute with values, and those that lay them out anew, one of which after the other could be one.
COMPUTING = frozenset({
    "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "ConvTranspose", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "HardSigmoid", "HardSwish", "LRN", "LeakyRelu", "MatMul", "MaxPool", "Mul", "PRelu", "Relu",
    "Sigmoid", "Softmax", "Sub", "Tanh",
})  # fmt: skip
RESHAPING = frozenset({"Flatten", "Reshape"})
#: Elements of the largest constant that is computed.
LARGEST_CONSTANT = 1 << 26


def session(model: ModelProto | bytes) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session on the CPU, without its console messages.

    One thread: most of these run once, for less time than others take to start and then spin.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = model if isinstance(model, bytes) else model.SerializeToString()
    # What 1.23, the newest for Python 3.10, fuses so, transposes of three axes included, it cannot compute.
    return onnxruntime.InferenceSession(
        data, options, providers=["CPUExecutionProvider"], disabled_optimizers=["GemmTransposeFusion"]
    )


def probe_inputs(model: ModelProto, batch: int) -> dict[str, npt.NDArray[np.float32]]:
    """Random inputs of ``batch`` samples, the same at every call."""
    generator = np.random.default_rng(0)
    inputs = {}
    for value in model.graph.input:
        shape = [batch, *(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])]
        inputs[value.name] = generator.normal(size=shape).astype(np.float32)
    return inputs


def simplify(model: ModelProto, batch: int, kept: Collection[str] = ()) -> ModelProto:
    """The model with constants folded and idle operators removed, but none that gives a value of ``kept``.

    onnxslim does it; its result is used only if ONNX Runtime computes the same outputs with it, otherwise constants are
    folded here operator by operator. It is not run where it finds nothing: that takes longer than all else here.
    """
    folded = fold_constants(model)  # first, within its limits: onnxslim has none
    if _is_plain(model):
        return folded
    try:
        slim = _slim(folded)
        onnx.checker.check_model(slim)
        if _same_interface(model, slim) and _gives(slim, kept) and _same_outputs(model, slim, batch):
            return fold_constants(slim)
    except Exception as error:
        logging.getLogger(__name__).debug("onnxslim does not take this network: %s", error)
    return folded


def _gives(model: ModelProto, names: Collection[str]) -> bool:
    """Whether values of these names are in a model, computed or fed."""
    values = {name for node in model.graph.node for name in node.output}
    return values.union(value.name for value in model.graph.input) >= set(names)


def _is_plain(model: ModelProto) -> bool:
    """Whether a model computes everything once, by operators that stay, with shapes that are not computed.

    Numbers for each channel, such as normalizations with constants, go into the layers before them later on.
    """
    nodes = model.graph.node
    shaped = {name for node in nodes if node.op_type in RESHAPING for name in node.output}

    def stays(node: onnx.NodeProto) -> bool:
        known = node.op_type in COMPUTING or (node.op_type in RESHAPING and shaped.isdisjoint(node.input))
        return known and node.domain in ("", "ai.onnx")

    computed = {(node.op_type, *node.input, *sorted(map(repr, node.attribute))) for node in nodes}
    return len(computed) == len(nodes) and all(map(stays, nodes))


def _slim(model: ModelProto) -> ModelProto:
    import onnxslim

    copy = ModelProto()
    copy.CopyFrom(model)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return onnxslim.slim(copy)


def _same_interface(first: ModelProto, second: ModelProto) -> bool:
    def names(model: ModelProto) -> list[list[str]]:
        return [[value.name for value in model.graph.input], [value.name for value in model.graph.output]]

    return names(first) == names(second)


def _same_outputs(first: ModelProto, second: ModelProto, batch: int) -> bool:
    inputs = probe_inputs(first, batch)
    expected, found = session(first).run(None, inputs), session(second).run(None, inputs)
    for a, b in zip(expected, found, strict=True):
        if a.shape != b.shape or np.abs(a - b).max(initial=0) > TOLERANCE * (1 + np.abs(a).max(initial=0)):
            return False
    return True


def fold_constants(model: ModelProto) -> ModelProto:
    """The model without operators of constant inputs and without unused operators."""
    result = ModelProto()
    result.CopyFrom(model)
    constants = {item.name: numpy_helper.to_array(item) for item in result.graph.initializer}
    outputs = {value.name for value in result.graph.output}
    kept = []
    for node in result.graph.node:
        if node.op_type.startswith(("Random", "Multinomial", "Bernoulli")) or outputs & set(node.output):
            kept.append(node)
            continue
        values = _evaluate(node, constants, result) if all(not n or n in constants for n in node.input) else None
        if values is None:
            kept.append(node)
        else:
            constants.update(values)
    _replace(result, _used(kept, outputs), constants)
    return result


def without_unused(model: ModelProto) -> ModelProto:
    """The model without operators and constants that lead to no output; changes it."""
    outputs = {value.name for value in model.graph.output}
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    _replace(model, _used(list(model.graph.node), outputs), constants)
    return model


def _evaluate(
    node: onnx.NodeProto, constants: dict[str, npt.NDArray[Any]], model: ModelProto
) -> dict[str, npt.NDArray[Any]] | None:
    """Outputs of one operator, by the reference evaluator or ONNX Runtime; None where neither has the operator."""
    if any(item.type == onnx.AttributeProto.GRAPH for item in node.attribute):
        return None
    feed = {name: constants[name] for name in node.input if name}
    names = [name for name in node.output if name]
    single = _single(node, list(feed), names, model)
    if node.op_type not in KEEPING:
        _check_size(node, single, feed)
    for run in (_by_reference, _by_runtime, _dequantized):
        try:
            results = run(single, feed)
        except Exception:
            continue
        if all(isinstance(value, np.ndarray | np.generic) for value in results):
            return {name: np.asarray(value) for name, value in zip(names, results, strict=True)}
    return None


def _check_size(node: onnx.NodeProto, single: ModelProto, feed: dict[str, npt.NDArray[Any]]) -> None:
    """ModelError for a constant that no memory holds, before it is computed."""
    model = ModelProto()
    model.CopyFrom(single)
    del model.graph.input[:]
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in feed.items())
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value in inferred.graph.output:
        size = prod(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if size > LARGEST_CONSTANT or any(dim.dim_value < 0 for dim in value.type.tensor_type.shape.dim):
            name = printable(node.name) or node.op_type
            raise ModelError(
                f"{node.op_type} {name} gives a constant of {size:,} elements; {LARGEST_CONSTANT:,} are possible"
            )


def _single(node: onnx.NodeProto, inputs: list[str], outputs: list[str], model: ModelProto) -> ModelProto:
    ends = [[onnx.helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, outputs)]
    graph = onnx.helper.make_graph([node], "constant", *ends)
    return onnx.helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)


def _by_reference(model: ModelProto, feed: dict[str, npt.NDArray[Any]]) -> list[Any]:
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, feed))


def _by_runtime(model: ModelProto, feed: dict[str, npt.NDArray[Any]]) -> list[Any]:
    """The evaluator does not have every version of every operator: quantizers of opset 13 for one."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in feed.items())
    del copy.graph.input[:]
    return list(session(copy).run(None, {}))


def _dequantized(model: ModelProto, feed: dict[str, npt.NDArray[Any]]) -> list[Any]:
    """Weights of types that neither has: of four bits, with scales for blocks."""
    (node,) = model.graph.node
    if node.op_type != "DequantizeLinear":
        raise NotImplementedError(node.op_type)
    given = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    values, *numbers = (np.asarray(feed[name], np.float32) for name in node.input if name)
    axis, block = given.get("axis", 1), given.get("block_size", 0)
    shape = [-1 if side == axis % values.ndim else 1 for side in range(values.ndim)]
    for index, number in enumerate(numbers):
        if block:
            numbers[index] = np.repeat(number, block, axis).take(np.arange(values.shape[axis]), axis)
        elif number.size > 1:
            numbers[index] = number.reshape(shape)
    return [(values - (numbers[1] if len(numbers) > 1 else np.float32(0))) * numbers[0]]


def _used(nodes: list[onnx.NodeProto], outputs: set[str]) -> list[onnx.NodeProto]:
    """The operators that lead to an output."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(node.input) | _subgraph_names(node)
    return kept[::-1]


def _subgraph_names(node: onnx.NodeProto) -> set[str]:
    graphs = [item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH]
    inner = [child for graph in graphs for child in graph.node]
    return {name for child in inner for name in [*child.input, *_subgraph_names(child)]}


def _replace(model: ModelProto, nodes: list[onnx.NodeProto], constants: dict[str, npt.NDArray[Any]]) -> None:
    graph = model.graph
    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copies.append(copy)
    needed = {name for node in copies for name in [*node.input, *_subgraph_names(node)]}
    needed |= {value.name for value in graph.output}
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(copies)
    for name in sorted(needed & set(constants)):
        graph.initializer.append(numpy_helper.from_array(np.asarray(constants[name], order="C"), name))


def rewrite_reshapes(model: ModelProto, batches: tuple[int, int], fixed: int = 0) -> ModelProto:
    """The model whose Reshape targets follow the batch.

    A target that is computed from the batch, or that states the ``fixed`` batch of the exported model (0: none),
    becomes a constant with 0 ("as the input") in front. Other targets stay.
    """
    result = ModelProto()
    result.CopyFrom(model)
    if fixed:
        _free_targets(result, fixed)
    targets = [node for node in result.graph.node if node.op_type == "Reshape"]
    try:
        values = [_probe(result, targets, batch) for batch in batches]
    except Exception:
        return model
    for node, (shape, before, after), (second, _, _) in zip(targets, *values, strict=True):
        first_varies = after[:1] == before[:1] == batches[:1] and len(shape) == len(second)
        if not first_varies or list(shape[1:]) != list(second[1:]):
            continue
        name = f"{node.output[0]}_target"
        result.graph.initializer.append(numpy_helper.from_array(np.array([0, *shape[1:]], np.int64), name))
        node.input[1] = name
        _allow_no_zero(node)
    return result


def run_shapes(model: ModelProto, names: list[str], batches: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    """Shapes without the batch of those outputs whose first axis is the batch when the network runs: after a Loop."""
    if not names:
        return {}
    try:
        first, second = (session(model).run(names, probe_inputs(model, batch)) for batch in batches)
    except Exception:
        return {}
    return {
        name: a.shape[1:]
        for name, a, b in zip(names, first, second, strict=True)
        if a.shape[:1] == batches[:1] and b.shape == (batches[1], *a.shape[1:])
    }


def _allow_no_zero(node: onnx.NodeProto) -> None:
    """Make a 0 in the target of a Reshape mean the size of the input."""
    for attribute in [item for item in node.attribute if item.name == "allowzero"]:
        node.attribute.remove(attribute)


def _free_targets(model: ModelProto, fixed: int) -> None:
    """Make constant targets that begin with the exported batch size begin with 0, and a batch of 1 stay in front."""
    for node in model.graph.node if fixed == 1 else []:
        for attribute in node.attribute:
            if node.op_type == "Flatten" and attribute.name == "axis" and attribute.i == 0:
                attribute.i = 1
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    for index, node in enumerate(model.graph.node):
        target = constants.get(node.input[1]) if node.op_type == "Reshape" and len(node.input) > 1 else None
        if target is None or node.input[0] in constants or target.ndim != 1 or target[0] != fixed:
            continue
        name = f"{node.output[0]}_free_target_{index}"
        model.graph.initializer.append(numpy_helper.from_array(np.array([0, *target[1:]], np.int64), name))
        node.input[1] = name
        _allow_no_zero(node)


def _probe(
    model: ModelProto, reshapes: list[onnx.NodeProto], batch: int
) -> list[tuple[npt.NDArray[Any], tuple[int, ...], tuple[int, ...]]]:
    """Target, input shape and output shape of every Reshape at one batch size."""
    if not reshapes:
        return []
    probe = ModelProto()
    probe.CopyFrom(model)
    names = list(dict.fromkeys(name for node in reshapes for name in [node.input[0], node.input[1], node.output[0]]))
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    values = dict(zip(names, session(probe).run(names, probe_inputs(model, batch)), strict=True))
    return [(values[n.input[1]], values[n.input[0]].shape, values[n.output[0]].shape) for n in reshapes]
