"""What the sizes of inputs must be, and which would serve where a file leaves them open, by shape inference alone."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto, NodeProto, ValueInfoProto

from bfpga.compiler.read.shapes import inferred_shapes, inferred_values
from bfpga.compiler.read.sizes import with_sizes
from bfpga.errors import ModelError

#: Sizes of images, windows and vectors that are tried, the usual ones first.
USUAL = (224, 32, 28, 64, 96, 128, 160, 192, 256, 299, 320, 416, 512, 640, 16, 8)


def check_shape(model: ModelProto, value: ValueInfoProto, path: str | Path) -> None:
    """ModelError for an input that has no batch and 1 to 4 further axes of known sizes."""
    tensor = value.type.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
    if not tensor.HasField("shape") or not 2 <= len(dims) <= 5:
        raise ModelError(
            f"{path}: input {value.name} has {len(dims)} axes; supported are 2 to 5, the first being the batch"
        )
    unknown = [axis for axis, size in enumerate(dims[1:], 1) if size <= 0]
    if unknown:
        pattern = ["1", *(str(size) if size > 0 else "SIZE" for size in dims[1:])]
        shape = serving_shape(model, value, path)
        example = ",".join(map(str, shape) if shape else pattern)
        raise ModelError(
            f"{path}: axis {unknown[0]} of input {value.name} is dynamic; only the first axis (batch) may be: "
            f"choose its size with --input-shape {value.name}={example}, or export the network with fixed sizes"
        )


def serving_shape(model: ModelProto, value: ValueInfoProto, path: str | Path) -> list[int] | None:
    """The first shape of an input, batch 1, with which all products of the network fit; None if no usual one does."""
    for size in USUAL:
        shape = [1, *(dim.dim_value or size for dim in list(value.type.tensor_type.shape.dim)[1:])]
        if len(shape) > 2 and not value.type.tensor_type.shape.dim[1].dim_value:
            shape[1] = _channels(model, value.name) or shape[1]
        if _fits(with_sizes(model, {value.name: shape}, path)):
            return shape
    return None


def _channels(model: ModelProto, name: str) -> int:
    """Channels that a convolution of an input reads; 0 if none says."""
    weights = {item.name: item.dims for item in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Conv" and node.input[0] == name and node.input[1] in weights:
            groups = next((item.i for item in node.attribute if item.name == "group"), 1)
            return int(weights[node.input[1]][1]) * groups
    return 0


def _fits(model: ModelProto) -> bool:
    try:
        inferred_values(model, 1, strict=True)
    except Exception:  # whatever `onnx` raises where shapes do not fit together
        return False
    shapes = inferred_shapes(model, 1) | {item.name: tuple(item.dims) for item in model.graph.initializer}
    return all(_operands_fit(node, shapes) for node in model.graph.node)


def _operands_fit(node: NodeProto, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether both sides of a product or a convolution fit, as far as they are known; inference checks few."""
    if node.op_type not in ("Gemm", "MatMul", "Conv") or not all(name in shapes for name in node.input[:2]):
        return True
    left, right = shapes[node.input[0]], shapes[node.input[1]]
    given = {item.name: item.i for item in node.attribute}
    if min(len(left), len(right)) < 2:
        return True
    if min(left) < 1:
        return False
    if node.op_type == "Conv":
        return bool(left[1] == right[1] * given.get("group", 1))
    inner = left[0] if given.get("transA") else left[-1]
    return bool(inner == (right[-1] if given.get("transB") else right[-2]))
