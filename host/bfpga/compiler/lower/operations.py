"""Operations of ONNX operators for one sample: two a multiply-accumulate, one an addition or copied element.

The table is our own: `onnx-tool` 1.0.1, the counter on PyPI, has no number for much of what stays on the host. Over the
tests of single operators in the `onnx` package it fails for GRU and LSTM without a bias and for most of Einsum, and
gives zero for RNN, If, Loop, Scan, DeformConv, ArgMax, GroupNormalization, GlobalMaxPool, Erf and others. Functions of
one element count what the polynomials take that ONNX Runtime's kernels (MLAS) and Cephes evaluate in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, log2, prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.inliner import inline_local_functions

from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import with_batch

Shape = tuple[int, ...]

DIVIDE, EXP, LOG, SIGMOID, TANH, ERF, SINE = 4, 12, 16, 24, 24, 30, 16
#: Nothing is computed or copied, or only numbers about tensors.
FREE = frozenset({
    "Constant", "Dropout", "Flatten", "Identity", "Optional", "OptionalGetElement", "OptionalHasElement", "Reshape",
    "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "Shape",
    "Size", "Squeeze", "Unsqueeze",
})  # fmt: skip
#: Operations an element of the result; one where an operator is not listed.
PER_RESULT = {
    "Acos": 20, "Acosh": LOG + 8, "Asin": 20, "Asinh": LOG + 8, "Atan": 20, "Atanh": LOG + DIVIDE + 2, "Celu": EXP + 4,
    "Clip": 2, "Cos": SINE, "Cosh": EXP + DIVIDE + 2, "Div": DIVIDE, "Elu": EXP + 2, "Erf": ERF, "Exp": EXP,
    "Gelu": ERF + 4, "HardSigmoid": 4, "HardSwish": 5, "LeakyRelu": 2, "Log": LOG, "Mish": EXP + LOG + TANH + 2,
    "Mod": DIVIDE + 2, "PRelu": 2, "Reciprocal": DIVIDE, "Selu": EXP + 4, "Shrink": 3,
    "Sigmoid": SIGMOID, "Sin": SINE, "Sinh": EXP + DIVIDE + 2, "Softplus": EXP + LOG + 1, "Softsign": DIVIDE + 2,
    "Sqrt": DIVIDE, "Swish": SIGMOID + 1, "Tan": SINE + DIVIDE, "Tanh": TANH, "ThresholdedRelu": 2,
}  # fmt: skip
#: Operations an element of the first input.
PER_INPUT = {
    "ArgMax": 1, "ArgMin": 1, "BatchNormalization": 2, "CumSum": 1, "GlobalAveragePool": 1, "GlobalLpPool": 2,
    "GlobalMaxPool": 1, "GroupNormalization": 7, "Hardmax": 2, "InstanceNormalization": 7,
    "LRN": EXP + LOG + DIVIDE + 6, "LayerNormalization": 7, "LogSoftmax": EXP + 4, "LpNormalization": DIVIDE + 2,
    "MeanVarianceNormalization": 7, "NonZero": 1, "RMSNormalization": 4, "ReduceL1": 2, "ReduceL2": 2,
    "ReduceLogSum": 1, "ReduceLogSumExp": EXP + 1, "ReduceMax": 1, "ReduceMean": 1, "ReduceMin": 1,
    "ReduceProd": 1, "ReduceSum": 1, "ReduceSumSquare": 2, "Softmax": EXP + DIVIDE + 3,
}  # fmt: skip
#: Gates of recurrent cells, and the operations of one hidden element beyond its products.
CELLS = {"RNN": (1, TANH), "GRU": (3, 2 * SIGMOID + TANH + 6), "LSTM": (4, 3 * SIGMOID + 2 * TANH + 4)}


def count_operations(model: ModelProto) -> dict[str, int]:
    """Operations of every operator of a network for one sample, by the name of its first result.

    model: its inputs have a batch axis, first. Loops whose number of turns is not a constant count one turn, values
    whose shape depends on data count nothing.
    """
    return count_fixed(with_batch(model, 1))


def count_fixed(model: ModelProto) -> dict[str, int]:
    """``count_operations`` of a network whose inputs have numbers for all axes."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    scope = _Scope.of(inferred.graph, inferred)
    return {_first_result(node): _operations(node, scope) for node in inferred.graph.node}


def _first_result(node: NodeProto) -> str:
    return next((name for name in node.output if name), "")


@dataclass(frozen=True)
class _Scope:
    """What is known of the values that operators of one graph read."""

    shapes: Mapping[str, Shape]
    constants: Mapping[str, Any]
    model: ModelProto

    @staticmethod
    def of(graph: GraphProto, model: ModelProto, outer: _Scope | None = None) -> _Scope:
        shapes, constants = (dict(outer.shapes), dict(outer.constants)) if outer else ({}, {})
        for value in [*graph.input, *graph.value_info, *graph.output]:
            tensor = value.type.tensor_type
            if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
                shapes[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
        nodes = [node for node in graph.node if node.op_type == "Constant"]
        made = [(node.output[0], item.t) for node in nodes for item in node.attribute if item.name == "value"]
        for name, tensor in [*made, *((item.name, item) for item in graph.initializer)]:
            shapes[name], constants[name] = tuple(tensor.dims), tensor
        return _Scope(shapes, constants, model)


class _Call:
    """One operator with the shapes of what it reads and gives."""

    def __init__(self, node: NodeProto, scope: _Scope) -> None:
        self.node, self.scope = node, scope
        self.attributes = attributes_of(node)
        self.inputs = [scope.shapes.get(name) if name else None for name in node.input]
        self.outputs = [scope.shapes[name] for name in node.output if name in scope.shapes]

    def input(self, index: int) -> Shape | None:
        """Shape of an input; None if it is left out or not known."""
        return self.inputs[index] if index < len(self.inputs) else None

    def size(self, index: int) -> int:
        """Elements of an input."""
        shape = self.input(index)
        return 0 if shape is None else prod(shape)

    @property
    def results(self) -> int:
        """Elements of all results."""
        return sum(map(prod, self.outputs))

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)


def _operations(node: NodeProto, scope: _Scope) -> int:
    """Operations of one operator, subgraphs and functions included."""
    call = _Call(node, scope)
    functions = {(function.domain, function.name) for function in scope.model.functions}
    if (node.domain, node.op_type) in functions:
        return _of_function(call)
    if node.op_type in FREE:
        return 0
    if node.op_type in RULES:
        return RULES[node.op_type](call)
    if node.op_type in PER_INPUT:
        return call.size(0) * PER_INPUT[node.op_type]
    return (call.results if call.outputs else call.size(0)) * PER_RESULT.get(node.op_type, 1)


def _of_graph(graph: GraphProto, scope: _Scope) -> int:
    inner = _Scope.of(graph, scope.model, scope)
    return sum(_operations(node, inner) for node in graph.node)


def _of_function(call: _Call) -> int:
    """The body of a function of the model, written out for the shapes of this call."""
    node, model = call.node, call.scope.model
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in zip(node.input, call.inputs, strict=True)
        if name and name not in call.scope.constants
    ]
    constants = []
    for name in dict.fromkeys(node.input):
        if name in call.scope.constants:
            constants.append(onnx.TensorProto())
            constants[-1].CopyFrom(call.scope.constants[name])
            constants[-1].name = name
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "call", inputs, outputs, constants)
    caller = helper.make_model(graph, functions=model.functions, opset_imports=model.opset_import)
    inferred = onnx.shape_inference.infer_shapes(inline_local_functions(caller), data_prop=True)
    return _of_graph(inferred.graph, _Scope({}, {}, inferred))


def _subgraphs(call: _Call) -> list[int]:
    graphs = [item.g for item in call.node.attribute if item.type == AttributeProto.GRAPH]
    return [_of_graph(graph, call.scope) for graph in graphs]


def _if(call: _Call) -> int:
    return max(_subgraphs(call), default=0)


def _loop(call: _Call) -> int:
    """A turn takes one operation at least, so that endless loops over nothing are no small work."""
    limit = call.scope.constants.get(call.node.input[0])
    turns = numpy_helper.to_array(limit) if limit is not None else np.ones(1)
    return int(turns.max(initial=0)) * max(1, sum(_subgraphs(call)))


def _scan(call: _Call) -> int:
    scanned = int(call.attributes["num_scan_inputs"])
    axis = call.attributes.get("scan_input_axes", [0])[0]
    first = call.inputs[-scanned]
    return (1 if first is None else first[axis]) * sum(_subgraphs(call))


def _bias(call: _Call, index: int) -> int:
    """An addition a result, where there is a bias."""
    return call.results if index < len(call.node.input) and call.node.input[index] else 0


def _conv(call: _Call) -> int:
    weights = call.input(1)
    return 0 if weights is None else 2 * call.results * prod(weights[1:]) + _bias(call, 2)


def _deformed_conv(call: _Call) -> int:
    """A convolution whose every pixel is a bilinear sample."""
    weights = call.input(1)
    if weights is None:
        return 0
    samples = call.results // max(1, weights[0]) * prod(weights[1:]) * int(call.attributes.get("group", 1))
    return 2 * call.results * prod(weights[1:]) + _bias(call, 3) + 8 * samples


def _transposed_conv(call: _Call) -> int:
    weights = call.input(1)
    return 0 if weights is None else 2 * call.size(0) * prod(weights[1:]) + _bias(call, 2)


def _matmul(call: _Call) -> int:
    first = call.input(0)
    return 2 * call.results * first[-1] if first else 0


def _gemm(call: _Call) -> int:
    first = call.input(0)
    if first is None:
        return 0
    return 2 * call.results * first[0 if call.attributes.get("transA") else 1] + _bias(call, 2)


def _einsum(call: _Call) -> int:
    """One product and one sum for every combination of indices."""
    terms = call.text("equation", "").replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, call.inputs, strict=True):
        if shape is None:
            return 0
        # The axes of an ellipsis are the same in every term, counted from its end.
        rest = len(shape) - len(term.replace("...", ""))
        axes = term.replace("...", "".join(chr(0x400 + index) for index in reversed(range(rest))))
        for axis, size in zip(axes, shape, strict=True):
            sizes[axis] = max(size, sizes.get(axis, 1))
    return max(1, len(terms)) * prod(sizes.values())


def _power(call: _Call) -> int:
    """Squares and cubes are products, other powers an exponential of a logarithm."""
    exponent = call.scope.constants.get(call.node.input[1])
    value = numpy_helper.to_array(exponent) if exponent is not None else np.zeros(0)
    if value.size == 1 and value.item() in (2, 3):
        return call.results * int(value.item() - 1)
    return call.results * (EXP + LOG + 1)


def _cell(call: _Call) -> int:
    """Products with the input and the hidden state for each step, then the gates' functions."""
    x, weights, recurrent = call.input(0), call.input(1), call.input(2)
    if x is None or weights is None or recurrent is None:
        return 0
    gates, element = CELLS[call.node.op_type]
    steps, hidden = prod(x[:2]), weights[0] * recurrent[2]
    sums = 2 * gates * hidden if len(call.node.input) > 3 and call.node.input[3] else 0
    return steps * (2 * prod(weights) + 2 * prod(recurrent) + sums + gates * hidden + element * hidden)


def _pool(call: _Call) -> int:
    first = call.outputs[:1]
    each = 2 if call.node.op_type == "LpPool" else 1
    return each * sum(map(prod, first)) * int(prod(call.attributes.get("kernel_shape", ())))


def _taps(mode: str, axes: int) -> int:
    """Operations of one interpolated value between its neighbours along each axis."""
    if mode.endswith("linear"):
        return int(2 * 2**axes)
    return int(2 * 4**axes) if mode.endswith("cubic") else 1


def _resize(call: _Call) -> int:
    source, target = call.input(0), call.outputs[0] if call.outputs else None
    if source is None or target is None:
        return call.results
    axes = sum(a != b for a, b in zip(source, target, strict=True))
    return call.results * _taps(call.text("mode", "nearest"), max(1, axes))


def _grid_sample(call: _Call) -> int:
    source = call.input(0)
    return call.results * _taps(call.text("mode", "linear"), len(source) - 2 if source else 2)


def _roi_align(call: _Call) -> int:
    samples = int(call.attributes.get("sampling_ratio", 0)) or 2
    return call.results * samples * samples * _taps("linear", 2)


def _sort(call: _Call) -> int:
    return call.size(0) * max(1, ceil(log2(max(2, call.size(0)))))


def _fourier(call: _Call) -> int:
    """5 n log2(n), as fast transforms are counted."""
    return 5 * call.results * max(1, ceil(log2(max(2, call.results))))


RULES: dict[str, Callable[[_Call], int]] = {
    "AveragePool": _pool, "Conv": _conv, "ConvTranspose": _transposed_conv, "DFT": _fourier,
    "DeformConv": _deformed_conv, "Einsum": _einsum, "FusedMatMul": _matmul, "GRU": _cell, "Gemm": _gemm,
    "GridSample": _grid_sample, "If": _if, "LSTM": _cell, "Loop": _loop, "LpPool": _pool, "MatMul": _matmul,
    "MaxPool": _pool, "NonMaxSuppression": _sort, "Pow": _power, "RNN": _cell, "Resize": _resize,
    "RoiAlign": _roi_align, "STFT": _fourier, "Scan": _scan, "SequenceMap": lambda call: sum(_subgraphs(call)),
    "TopK": _sort, "Unique": _sort, "Upsample": _resize,
}  # fmt: skip
