"""Shapes of a model's values as the `onnx` package infers them, without its weights, which are most of its bytes."""

from __future__ import annotations

from math import prod

import onnx
from onnx import ModelProto, ValueInfoProto, helper

#: Elements of the largest constant whose values may say a shape; of larger ones the inference gets type and shape.
MOST_ELEMENTS = 1024


def inferred_values(model: ModelProto, batch: int, strict: bool = False) -> list[ValueInfoProto]:
    """Inputs, inner values and outputs of a model with what is known of their types and shapes.

    batch: samples of every input. strict: whatever ``onnx`` raises where shapes do not fit together is raised.
    """
    outline = _outline(model, batch)
    weights = {value.name for value in outline.graph.input} - {value.name for value in model.graph.input}
    graph = onnx.shape_inference.infer_shapes(outline, strict_mode=strict, data_prop=True).graph
    return [item for item in (*graph.input, *graph.value_info, *graph.output) if item.name not in weights]


def inferred_shapes(model: ModelProto, batch: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all values whose dimensions are numbers, by name; batch: as for ``inferred_values``."""
    return {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in inferred_values(model, batch)
        if all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
    }


def inferred_types(model: ModelProto) -> dict[str, int]:
    """Element types of all values, by name, as far as they are known."""
    graph = onnx.shape_inference.infer_shapes(_outline(model)).graph
    return {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info, *graph.output)}


def _outline(model: ModelProto, batch: int | None = None) -> ModelProto:
    """The model whose large constants are inputs. batch: samples of every input; None: as the model says."""
    result, graph = ModelProto(ir_version=model.ir_version), model.graph
    result.opset_import.extend(model.opset_import)
    result.functions.extend(model.functions)
    result.graph.name = graph.name
    result.graph.node.extend(graph.node)
    result.graph.input.extend(graph.input)
    result.graph.output.extend(graph.output)
    result.graph.value_info.extend(graph.value_info)
    result.graph.sparse_initializer.extend(graph.sparse_initializer)
    for value in result.graph.input if batch is not None else ():
        value.type.tensor_type.shape.dim[0].Clear()
        value.type.tensor_type.shape.dim[0].dim_value = batch
    fed = {value.name for value in graph.input}
    for constant in graph.initializer:
        if prod(constant.dims) <= MOST_ELEMENTS:
            result.graph.initializer.append(constant)
        elif constant.name not in fed:
            result.graph.input.append(helper.make_tensor_value_info(constant.name, constant.data_type, constant.dims))
    return result
