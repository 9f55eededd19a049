"""Networks in half or double precision as networks in float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from bfpga.compiler.read.graphs import all_nodes, copied, subgraphs
from bfpga.compiler.read.model_file import tensors

#: Types that become float32. Every number of the first two is one of float32 too; the third is rounded.
OTHERS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
#: Powers of two that are scales of blocks (MX), which float32 holds exactly.
SCALES = getattr(TensorProto, "FLOAT8E8M0", -1)  # onnx before 1.19 does not know it
#: Attributes that name the type of a result.
TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype")


def in_float32(model: ModelProto) -> ModelProto:
    """The model with weights, values, casts and borders of any floating type in float32; itself if all are already."""
    if not _has_others(model):
        return model
    result = copied(model)
    for tensor in tensors(result):
        if tensor.data_type in (*OTHERS, SCALES):
            with np.errstate(over="ignore"):  # an overflow is infinite, and refused as such
                values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for node in all_nodes(result):
        for item in node.attribute:
            if item.name in TYPE_ATTRIBUTES and item.type == AttributeProto.INT and item.i in OTHERS:
                item.i = TensorProto.FLOAT
    for value in _values(result.graph):
        if value.type.tensor_type.elem_type in OTHERS:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return without_idle_casts(result)


def without_idle_casts(model: ModelProto) -> ModelProto:
    """The model whose casts from float32 to float32 are identities; changes it."""
    casts = [node for node in model.graph.node if node.op_type == "Cast"]
    casts = [node for node in casts if _attribute(node, "to") == TensorProto.FLOAT]
    if not casts:
        return model
    inferred = onnx.shape_inference.infer_shapes(model).graph
    types = {item.name: item.type.tensor_type.elem_type for item in _own_values(inferred)}
    types |= {item.name: item.data_type for item in model.graph.initializer}
    for node in casts:
        if types.get(node.input[0]) == TensorProto.FLOAT:
            node.op_type = "Identity"
            del node.attribute[:]
    return model


def _own_values(graph: GraphProto) -> Iterator[ValueInfoProto]:
    yield from (*graph.input, *graph.value_info, *graph.output)


def _values(graph: GraphProto) -> Iterator[ValueInfoProto]:
    yield from _own_values(graph)
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _values(inner)


def _has_others(model: ModelProto) -> bool:
    return (
        any(tensor.data_type in (*OTHERS, SCALES) for tensor in tensors(model))
        or any(value.type.tensor_type.elem_type in OTHERS for value in _values(model.graph))
        or any(_attribute(node, name) in OTHERS for node in all_nodes(model) for name in TYPE_ATTRIBUTES)
    )


def _attribute(node: NodeProto, name: str) -> int:
    return next((int(item.i) for item in node.attribute if item.name == name), 0)
