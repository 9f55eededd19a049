"""Operators on integers (QLinearConv and its relatives) as operators on floats between quantizers.

An operator that computes on integers with scales means: dequantize the operands, compute, quantize the result. Written
so, the passes that know quantizers serve these networks too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes
from bfpga.errors import ModelError
from bfpga.formats.files import printable

Constants = Mapping[str, npt.NDArray[np.generic]]
Rewrite = Callable[["_Call"], None]


class _Call:
    """One operator that is written anew: ``nodes`` take its place."""

    def __init__(self, node: NodeProto, constants: Constants, model: ModelProto, path: str | Path) -> None:
        self.node, self.constants, self.model, self.path = node, constants, model, path
        self.attributes = attributes_of(node)
        self.nodes: list[NodeProto] = []

    def input(self, index: int) -> str:
        """The name of an input, empty if it is left out."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def number(self, index: int) -> npt.NDArray[np.float64]:
        """A constant input; ModelError for one that is computed."""
        name = self.input(index)
        if name not in self.constants:
            raise ModelError(
                f"{self.path}: {self.node.op_type} {printable(self.node.name)}: input {index} ({printable(name)}) must "
                "be a constant"
            )
        return np.asarray(self.constants[name], np.float64)

    def constant(self, values: npt.ArrayLike) -> str:
        """A new float32 constant."""
        name = f"{self.node.output[0]}/number{len(self.model.graph.initializer)}"
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def dequantized(self, index: int, axis: int = 1) -> str:
        """The value of the integers at ``index``, whose scale and zero point follow; constants at once, exactly.

        axis: of the channels, where each has a scale of its own.
        """
        if self.input(index) in self.constants:
            zero_point = self.number(index + 2) if self.input(index + 2) else np.zeros(())
            return self.constant(values_of(self.number(index), self.number(index + 1), zero_point, axis))
        names = [self.input(index + offset) for offset in range(3)]
        return self.add("DequantizeLinear", [name for name in names if name], f"value{index}")

    def add(self, kind: str, inputs: list[str], suffix: str, **attributes: object) -> str:
        """An operator; the name of its result."""
        name = f"{self.node.output[0]}/{suffix}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{self.node.name}/{suffix}", **attributes))
        return name

    def compute(self, kind: str, inputs: list[str], scale: int, drop: tuple[str, ...] = (), **added: object) -> None:
        """The operator on floats, and its quantizer: scale and zero point at ``scale``; none: the result is float."""
        kept = {name: value for name, value in self.attributes.items() if name not in drop} | added
        quantized = bool(self.input(scale))
        value = self.add(kind, inputs, "float", **kept)
        self.nodes[-1].name = self.node.name
        if not quantized:
            self.nodes[-1].output[0] = self.node.output[0]
            return
        names = [name for name in (value, self.input(scale), self.input(scale + 1)) if name]
        self.nodes.append(
            helper.make_node("QuantizeLinear", names, [self.node.output[0]], name=f"{self.node.name}/quantizer")
        )


def values_of(
    integers: npt.NDArray[np.float64], scale: npt.NDArray[np.float64], zero_point: npt.NDArray[np.float64], axis: int
) -> npt.NDArray[np.float64]:
    """The values that integers represent. scale, zero_point: one number, or one for each index of ``axis``."""
    shape = [1] * integers.ndim
    if max(scale.size, zero_point.size) > 1:
        shape[axis] = -1
    parts = [part.reshape(shape if part.size > 1 else ()) for part in (scale, zero_point)]
    return np.asarray((integers - parts[1]) * parts[0])


def _conv(call: _Call) -> None:
    inputs = [call.dequantized(0), call.dequantized(3, axis=0)]
    if call.input(8):
        inputs.append(call.constant(call.number(8) * call.number(1) * call.number(4)))
    call.compute("Conv", inputs, 6)


def _matmul(call: _Call) -> None:
    call.compute("MatMul", [call.dequantized(0), call.dequantized(3, axis=-1)], 6)


def _gemm(call: _Call) -> None:
    inputs = [call.dequantized(0), call.dequantized(3, axis=0 if call.attributes.get("transB", 0) else 1)]
    if call.input(6):
        alpha = call.attributes.get("alpha", 1.0)
        inputs.append(call.constant(call.number(6) * alpha * call.number(1) * call.number(4)))
    call.compute("Gemm", inputs, 7)


def _binary(kind: str) -> Rewrite:
    return lambda call: call.compute(kind, [call.dequantized(0), call.dequantized(3)], 6)


def _unary(kind: str, *drop: str) -> Rewrite:
    return lambda call: call.compute(kind, [call.dequantized(0)], 3, drop)


def _pool(kind: str) -> Rewrite:
    def rewrite(call: _Call) -> None:
        if call.attributes.get("channels_last", 0):
            raise ModelError(
                f"{call.path}: {call.node.op_type} {printable(call.node.name)} has channels_last 1; export the network "
                "with channels first, or as QDQ"
            )
        call.compute(kind, [call.dequantized(0)], 3, ("channels_last",))

    return rewrite


def _concat(call: _Call) -> None:
    parts = [call.dequantized(index) for index in range(2, len(call.node.input), 3)]
    call.compute("Concat", parts, 0)


def _dynamic_matmul(call: _Call) -> None:
    """MatMul whose first operand is quantized by its own range: the float operand itself."""
    result = call.add("MatMul", [call.input(0), call.dequantized(1, axis=-1)], "float")
    if call.input(4):
        result = call.add("Add", [result, call.input(4)], "biased")
    call.nodes[-1].output[0] = call.node.output[0]


#: By the operator's name; those that ONNX itself does not have are of ONNX Runtime's domain.
REWRITES: dict[str, Rewrite] = {
    "QLinearConv": _conv,
    "QLinearMatMul": _matmul,
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearSoftmax": _unary("Softmax", "opset"),
    "QLinearAveragePool": _pool("AveragePool"),
    "QLinearGlobalAveragePool": _pool("GlobalAveragePool"),
    "QLinearConcat": _concat,
    "DynamicQuantizeMatMul": _dynamic_matmul,
}


def between_quantizers(model: ModelProto, constants: Constants, path: str | Path) -> ModelProto:
    """The model with each operator on integers written as floats between quantizers; itself if it has none.

    ModelError for scales that are computed where they must be constants.
    """
    if not any(node.op_type in REWRITES for node in model.graph.node):
        return model
    result = copied(model)
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node.op_type in REWRITES:
            call = _Call(node, constants, result, path)
            REWRITES[node.op_type](call)
            nodes += call.nodes
        else:
            nodes.append(node)
    replace_nodes(result, nodes)
    return result
