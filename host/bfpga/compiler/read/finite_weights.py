"""NaN and infinite constants are refused, but for masks: minus infinity that a Softmax turns to zero.

A causal mask holds minus infinity where a token may not look. It may be added, selected and moved on its way to the
operator that makes it finite again; these operators are the host's, which computes with infinities as ONNX says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, numpy_helper

from bfpga.compiler.read.graphs import subgraphs
from bfpga.errors import ModelError

#: Operators that a mask passes, and those after which nothing of it is infinite.
PASSED = frozenset({
    "Add", "Cast", "Concat", "Constant", "ConstantOfShape", "Expand", "Gather", "Identity", "Reshape", "Slice",
    "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
})  # fmt: skip
ENDED = frozenset({"Softmax", "LogSoftmax", "Attention"})


def check_finite(model: ModelProto, path: str | Path) -> None:
    """ModelError for NaN in a constant, and for an infinite one that anything but a Softmax reads in the end."""
    origin = dict(_infinite(model, path))
    for node in model.graph.node:
        read = [name for name in (*node.input, *_captured(node)) if name in origin]
        if not read or node.op_type in ENDED:
            continue
        if node.op_type not in PASSED:
            raise _error(origin[read[0]], f"which {node.op_type} {node.name or node.output[0]} reads", path)
        origin.update((name, origin[read[0]]) for name in node.output)
    for value in model.graph.output:
        if value.name in origin:
            raise _error(origin[value.name], f"which reach output {value.name}", path)


def _infinite(model: ModelProto, path: str | Path) -> Iterator[tuple[str, str]]:
    """(value, name of the constant) of constants with infinite values."""
    for name, tensor in _constants(model):
        if tensor.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor)
        if np.isnan(values).any():
            raise ModelError(f"{path}: weights {name} hold NaN; export finite weights")
        if np.isinf(values).any():
            yield name, name


def _constants(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Constants by the name of the value that they are."""
    yield from ((item.name, item) for item in model.graph.initializer)
    for node in model.graph.node:
        if node.op_type in ("Constant", "ConstantOfShape"):
            yield from ((node.output[0], item.t) for item in node.attribute if item.type == AttributeProto.TENSOR)


def _captured(node: NodeProto) -> list[str]:
    return [name for graph in subgraphs(node) for inner in graph.node for name in (*inner.input, *_captured(inner))]


def _error(name: str, reader: str, path: str | Path) -> ModelError:
    return ModelError(
        f"{path}: weights {name} hold infinite values, {reader}; they may be a mask in front of a Softmax only: "
        "export finite weights"
    )
