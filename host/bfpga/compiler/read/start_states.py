"""Start states of recurrent operators that are zeros, however they come about: the operator has none instead.

Exporters write what the layer of their framework does: ConstantOfShape or Expand of a shape that follows the batch,
cut for every layer; or, exported for one sample, a constant of one sample. Without them the operator takes any batch
and can be computed step by step.
"""

from __future__ import annotations

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, numpy_helper

from bfpga.compiler.read.graphs import copied

#: Inputs of recurrent operators that are states: those of RNN, GRU and LSTM alike, and the cells of LSTM.
STATES = {"RNN": (5,), "GRU": (5,), "LSTM": (5, 6)}
#: Operators whose result has no other values than their first input.
PASSING = frozenset({
    "Expand", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Transpose", "Identity", "Cast", "Gather", "Split", "Tile",
})  # fmt: skip


def without_zero_states(model: ModelProto) -> ModelProto:
    """The model whose recurrent operators have no start states that are zeros; itself if none had."""
    if not any(node.op_type in STATES for node in model.graph.node):
        return model
    result = copied(model)
    zeros = {item.name for item in result.graph.initializer if not numpy_helper.to_array(item).any()}
    for node in result.graph.node:
        if _is_zero(node, zeros):
            zeros.update(node.output)
        for index in STATES.get(node.op_type, ()):
            if index < len(node.input) and node.input[index] in zeros:
                node.input[index] = ""
    return result


def _is_zero(node: NodeProto, zeros: set[str]) -> bool:
    """Whether all values that an operator gives are zeros."""
    if node.op_type == "Constant":
        return _all_zero(node.attribute[0])
    if node.op_type == "ConstantOfShape":
        return all(map(_all_zero, node.attribute))
    if node.op_type == "Concat":
        return all(name in zeros for name in node.input)
    return node.op_type in PASSING and node.input[0] in zeros


def _all_zero(item: AttributeProto) -> bool:
    if item.type == AttributeProto.TENSOR:
        return not numpy_helper.to_array(item.t).any()
    return item.type in (AttributeProto.FLOATS, AttributeProto.FLOAT) and not np.any([*item.floats, item.f])
