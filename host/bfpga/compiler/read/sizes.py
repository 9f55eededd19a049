"""Sizes of inputs that a file leaves open, given by the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from onnx import ModelProto, TensorShapeProto, ValueInfoProto

from bfpga.compiler.read.graphs import copied, graph_inputs
from bfpga.errors import ModelError

#: Shapes by input name, the batch first.
InputShapes = Mapping[str, Sequence[int]]


def with_open_sizes(model: ModelProto) -> ModelProto:
    """The model whose sizes below zero, Paddle's way to leave an axis open, are open; itself if it has none."""
    if not any(dim.dim_value < 0 for dim in _dims(model)):
        return model
    result = copied(model)
    for dim in _dims(result):
        if dim.dim_value < 0:
            dim.Clear()
    return result


def _dims(model: ModelProto) -> Iterator[TensorShapeProto.Dimension]:
    graph = model.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield from value.type.tensor_type.shape.dim


def with_sizes(model: ModelProto, shapes: InputShapes, path: str | Path) -> ModelProto:
    """The model with the sizes that ``shapes`` states; axes of one symbolic name get the same size in all inputs.

    A name that is empty is that of the only input. The first axis is the batch, whatever its number. ModelError for an
    input that there is not, another number of axes, a size that is none, and one that the file contradicts.
    """
    inputs = [value.name for value in graph_inputs(model)]
    if "" in shapes and len(inputs) == 1:
        shapes = {**shapes, inputs[0]: shapes[""]}
        shapes = {name: shape for name, shape in shapes.items() if name}
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        listed = ", ".join(inputs)
        wrong = f"there is no input {unknown[0]!r} to give a shape" if unknown[0] else "a shape is given without a name"
        raise ModelError(f"{path}: {wrong}; inputs are {listed}")
    if not shapes:
        return model
    result = copied(model)
    symbols: dict[str, int] = {}
    for value in graph_inputs(result):
        if value.name in shapes:
            symbols |= _give(value, list(shapes[value.name]), path)
    for value in graph_inputs(result):
        for dim in list(value.type.tensor_type.shape.dim)[1:]:
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]
    del result.graph.value_info[:]
    for value in result.graph.output:
        value.type.tensor_type.ClearField("shape")
    return result


def _give(value: ValueInfoProto, shape: list[int], path: str | Path) -> dict[str, int]:
    """State the sizes of an input; what its symbolic axes are, by symbol."""
    dims = value.type.tensor_type.shape.dim
    if value.type.tensor_type.HasField("shape") and len(dims) != len(shape):
        raise ModelError(
            f"{path}: input {value.name} has {len(dims)} axes; the shape that was given, "
            f"{','.join(map(str, shape))}, has {len(shape)}"
        )
    while len(dims) < len(shape):
        dims.add()
    if min(shape, default=0) < 1:
        raise ModelError(f"{path}: the shape that was given for input {value.name} has a size below 1")
    symbols: dict[str, int] = {}
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        if axis and dim.dim_value > 0 and dim.dim_value != size:
            raise ModelError(
                f"{path}: axis {axis} of input {value.name} is {dim.dim_value} in the file, "
                f"{size} in the shape that was given; only axes that the file leaves open can be chosen"
            )
        if axis:
            symbols |= {dim.dim_param: size} if dim.dim_param else {}
            dim.dim_value = size
    return symbols
