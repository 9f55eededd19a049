"""Inputs and outputs of other types than float32: the border is float32, followed by a cast."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from bfpga.compiler.read.graphs import copied, graph_inputs, nested, rename, replace_nodes
from bfpga.errors import ModelError

#: Types that float32 replaces at the border.
INTEGERS = (
    TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT32, TensorProto.UINT64, TensorProto.BOOL,
)  # fmt: skip
#: Outputs that may be as they are.
OUTPUTS = (TensorProto.FLOAT, TensorProto.INT64)


def float_inputs(model: ModelProto, path: str | Path) -> ModelProto:
    """The model whose integer inputs take float32, cast to their type at once; ModelError for text and the like."""
    found = [value for value in graph_inputs(model) if _kind(value) != TensorProto.FLOAT]
    if not found:
        return model
    result = copied(model)
    casts = []
    for value in (item for item in graph_inputs(result) if _kind(item) != TensorProto.FLOAT):
        _check(value, path, "inputs")
        inner = f"{value.name}_integers"
        for node in nested(result.graph.node):
            rename(node.input, value.name, inner)
        casts.append(helper.make_node("Cast", [value.name], [inner], name=f"{value.name}_cast", to=_kind(value)))
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    replace_nodes(result, [*casts, *result.graph.node])
    return result


def float_outputs(model: ModelProto, path: str | Path) -> ModelProto:
    """The model whose outputs of small integers and truth values are cast to float32; ModelError as above."""
    found = [value for value in model.graph.output if _kind(value) not in OUTPUTS]
    if not found:
        return model
    result = copied(model)
    for value in (item for item in result.graph.output if _kind(item) not in OUTPUTS):
        _check(value, path, "outputs")
        inner = f"{value.name}_integers"
        for node in nested(result.graph.node):
            rename(node.input, value.name, inner)
            rename(node.output, value.name, inner)
        cast = helper.make_node("Cast", [inner], [value.name], name=f"{value.name}_cast", to=TensorProto.FLOAT)
        result.graph.node.append(cast)
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    return result


def _kind(value: ValueInfoProto) -> int:
    return int(value.type.tensor_type.elem_type)


def _check(value: ValueInfoProto, path: str | Path, what: str) -> None:
    if _kind(value) not in INTEGERS:
        name = TensorProto.DataType.Name(_kind(value)) if _kind(value) in TensorProto.DataType.values() else "unknown"
        raise ModelError(f"{path}: {value.name} is of type {name}; {what} must be float32, or integers")
