"""Several samples side by side: one a column of the array, for networks of fully connected layers (BFP R82: batch).

A fully connected layer has one output pixel, so a single sample keeps one column busy. The network is rewritten for
samples as rows of a matrix; weights are read once for all of them. Exponents must be static: one that is found from the
data would be shared by samples that happen to be processed together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of
from bfpga.errors import ModelError

#: Operators that treat every row of a matrix by itself, whatever comes before the last axis.
ROW_WISE = {
    "MatMul", "Gemm", "Add", "Sub", "Mul", "Div", "Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh", "Softmax", "Identity",
    "Dropout", "Elu", "Selu", "Gelu", "HardSigmoid", "Softplus", "Exp", "Log", "Sqrt", "Neg", "Abs", "Constant",
}  # fmt: skip
GEMM_DEFAULTS = {"alpha": 1.0, "beta": 1.0, "transA": 0}


def widen(model: ModelProto, count: int, path: object) -> ModelProto:
    """The network on ``count`` samples at once: (N, K) becomes (N, count, K).

    ModelError if an input is not a vector or an operator mixes samples or axes.
    """
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    result = ModelProto()
    result.CopyFrom(model)
    for value in result.graph.input:
        if value.name not in constants:
            _widen_value(value, count, path)
    for value in result.graph.output:
        value.type.tensor_type.ClearField("shape")
    del result.graph.value_info[:]
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        _check(node, path)
        nodes += _as_product(node, constants, result, path) if node.op_type == "Gemm" else [node]
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return onnx.shape_inference.infer_shapes(result)


def _widen_value(value: onnx.ValueInfoProto, count: int, path: object) -> None:
    dimensions = value.type.tensor_type.shape.dim
    if len(dimensions) != 2:
        raise ModelError(
            f"{path}: samples side by side are vectors; input {value.name} has {len(dimensions)} axes with its batch"
        )
    last = dimensions[1].dim_value
    del dimensions[1:]
    dimensions.add().dim_value = count
    dimensions.add().dim_value = last


def _check(node: NodeProto, path: object) -> None:
    mixes = node.op_type not in ROW_WISE
    if node.op_type == "Softmax":
        axis = next((item.i for item in node.attribute if item.name == "axis"), -1)
        mixes = axis not in (-1, 1)
        for item in node.attribute:
            item.i = -1 if item.name == "axis" else item.i
    if mixes:
        raise ModelError(
            f"{path}: samples side by side need a network of fully connected layers; operator "
            f"{node.name or node.op_type} ({node.op_type}) is none of their kind"
        )


def _as_product(
    node: NodeProto, constants: Mapping[str, TensorProto], model: ModelProto, path: object
) -> list[NodeProto]:
    """Gemm takes matrices only: MatMul and Add take more axes."""
    attributes = attributes_of(node)
    plain = all(attributes.get(name, default) == default for name, default in GEMM_DEFAULTS.items())
    if not plain or node.input[1] not in constants:
        raise ModelError(f"{path}: Gemm {node.name} scales or transposes its operands; side by side it cannot run")
    weights = numpy_helper.to_array(constants[node.input[1]])
    name = f"{node.output[0]}/weights"
    matrix = np.ascontiguousarray(weights.T if attributes.get("transB", 0) else weights)
    model.graph.initializer.append(numpy_helper.from_array(matrix, name))
    if len(node.input) < 3 or not node.input[2]:
        return [helper.make_node("MatMul", [node.input[0], name], [node.output[0]], name=node.name)]
    product = f"{node.output[0]}/product"
    return [
        helper.make_node("MatMul", [node.input[0], name], [product], name=node.name),
        helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=f"{node.name}/bias"),
    ]
