"""Scaler, scikit-learn's operator of its own, as a difference and a product: both are fused into the next layer."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes


def plain_scalers(model: ModelProto) -> ModelProto:
    """The model with (x - offset) * scale in place of every Scaler; itself if it has none."""
    if not any(_is_scaler(node) for node in model.graph.node):
        return model
    result, nodes = copied(model), []
    for node in model.graph.node:
        nodes += _plain(result, node) if _is_scaler(node) else [node]
    replace_nodes(result, nodes)
    return result


def _is_scaler(node: NodeProto) -> bool:
    return node.op_type == "Scaler" and str(node.domain) == "ai.onnx.ml"


def _plain(model: ModelProto, node: NodeProto) -> list[NodeProto]:
    values, output, centred = attributes_of(node), node.output[0], f"{node.output[0]}/centred"
    offset, scale = f"{output}/offset", f"{output}/scale"
    for name, numbers in ((offset, values.get("offset", [0.0])), (scale, values.get("scale", [1.0]))):
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.float32), name))
    return [
        helper.make_node("Sub", [node.input[0], offset], [centred], name=f"{node.name}/offset"),
        helper.make_node("Mul", [centred, scale], [output], name=node.name),
    ]
