"""Which models are plain: whose operators and sizes ONNX's libraries were seen to survive, whatever else they hold.

All others are tried in a process of their own first (`trial.py`). The inference of shapes in `onnx` 1.20 ends the
process for operators of wrong inputs (Conv, ConvTranspose, EyeLike, GatherND, LayerNormalization, OneHot, LSTM ...),
and for functions that call themselves; it turns for ever where an axis has 10^18 elements. Constants may take for ever
to fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto

from bfpga.compiler.read import qonnx
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.opsets import OPSETS, opset_of
from bfpga.compiler.read.ranks import BROADCAST, CONVOLUTIONS, KEEPING, MATRICES, SAME, WEIGHTS, Constants, integers

REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})
PLAIN = SAME | BROADCAST | MATRICES | REDUCTIONS | frozenset({"Constant", "Gather", *KEEPING})
#: Elements of the largest sample, and of the largest constant that is computed.
LARGEST_INPUT, LARGEST_CONSTANT = 1 << 22, 1 << 24
#: Elements of the longest vector: the inference of shapes may take a vector for a shape.
LONGEST = 1 << 20
#: Nodes of a model that no pass takes long for.
MOST_NODES = 2000
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def is_plain(model: ModelProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    """Whether a model can be read without a trial. ranks: of values, as far as known; constants: tensors by name."""
    graph = model.graph
    if model.functions or graph.sparse_initializer or len(graph.node) > MOST_NODES:
        return False
    if not OPSETS[0] <= opset_of(model) <= OPSETS[1]:
        return False
    stated = [value.type.tensor_type.shape for value in (*graph.input, *graph.output, *graph.value_info)]
    if any(prod(dim.dim_value for dim in shape.dim[1:]) > LARGEST_INPUT for shape in stated):
        return False
    if any(dim.dim_value > LONGEST for shape in stated for dim in shape.dim):
        return False
    if any(len(tensor.dims) == 1 and tensor.dims[0] > LONGEST for tensor in constants.values()):
        return False
    folded: dict[str, tuple[int, ...]] = {name: tuple(tensor.dims) for name, tensor in constants.items()}
    return all(_is_plain(node, ranks, constants, folded) for node in graph.node)


def _is_plain(
    node: NodeProto, ranks: Mapping[str, int], constants: Constants, folded: dict[str, tuple[int, ...]]
) -> bool:
    """Whether a node is plain; if it computes a constant its shape is added to ``folded`` (one axis: at most that)."""
    if any(item.type in _GRAPHS or _is_large(item) for item in node.attribute):
        return False
    if node.op_type == "Constant":
        return all(name in constants for name in node.output)
    quantizer = qonnx.is_quantizer(node)
    if node.op_type not in PLAIN and not quantizer:
        return False
    if node.domain not in ("", "ai.onnx") and not quantizer:
        return False
    if all(not name or name in folded for name in node.input):
        return _folds(node, folded)
    if any(name and name not in ranks for name in node.input):
        return False
    return _SIZES.get(node.op_type, _anything)(node, ranks, constants)


def _is_large(item: AttributeProto) -> bool:
    """Whether an attribute has an integer whose products may leave 64 bits."""
    return any(abs(number) > LONGEST for number in (item.i, *item.ints))


def _folds(node: NodeProto, folded: dict[str, tuple[int, ...]]) -> bool:
    shapes = [folded[name] for name in node.input if name]
    if not shapes or not node.output:
        return False
    result: tuple[int, ...]
    if node.op_type == "Concat":
        result = (sum(map(prod, shapes)),)
    elif node.op_type in BROADCAST - {"MatMul"}:
        try:
            result = np.broadcast_shapes(*shapes)
        except ValueError:
            result = (prod(map(prod, shapes)),)
    elif node.op_type in KEEPING or qonnx.is_quantizer(node):
        result = shapes[0]
    elif node.op_type == "Gather" and len(shapes) == 2:
        result = (prod(shapes[0]) * max(1, prod(shapes[1])),)
    else:
        return False
    for name in node.output:
        folded[name] = result
    return prod(result) <= LARGEST_CONSTANT


def _anything(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    return True


def _weights_fit(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    place = WEIGHTS.get(node.op_type, 1)
    return len(node.input) > place and ranks[node.input[0]] == ranks[node.input[place]] >= 3


def _reshapes(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    """Computed targets are those of exported files; they are followed for sizes that the inputs have."""
    target = integers(node, 1, "shape", constants)
    return target is not None and len(target) > 1 and all(abs(size) <= LONGEST for size in target)


def _squeezes(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    axes = integers(node, 1, "axes", constants)
    return axes is not None and ranks[node.input[0]] - len(axes) > 1


def _resizes(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    return all(not name or name in constants for name in node.input[1:])


def _reduces(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    axes = integers(node, 1, "axes", constants)
    kept = attributes_of(node).get("keepdims", 1)
    return bool(kept) or (axes is not None and ranks[node.input[0]] - len(axes) > 1)


def _gathers(node: NodeProto, ranks: Mapping[str, int], constants: Constants) -> bool:
    return len(node.input) == 2 and ranks[node.input[0]] + ranks[node.input[1]] > 2


_SIZES = {
    **dict.fromkeys(CONVOLUTIONS, _weights_fit), **dict.fromkeys(REDUCTIONS, _reduces), "Reshape": _reshapes,
    "Squeeze": _squeezes, "Resize": _resizes, "Pad": _resizes, "Gather": _gathers,
}  # fmt: skip
