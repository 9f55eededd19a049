"""Products with weights in blocks that ONNX Runtime packs into bytes (MatMulNBits) as products with their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes
from bfpga.compiler.read.ranks import constants_of
from bfpga.errors import ModelError
from bfpga.formats.files import printable

Array = npt.NDArray[np.generic]
#: Bits of packed weights; others are no even part of a byte.
BITS = (2, 4, 8)


def with_unpacked_weights(model: ModelProto, path: str | Path) -> ModelProto:
    """The model whose packed products are MatMul and Add; itself if it has none. ModelError for what cannot be read."""
    if not any(node.op_type == "MatMulNBits" for node in model.graph.node):
        return model
    result, constants = copied(model), constants_of(model)
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node.op_type != "MatMulNBits":
            nodes.append(node)
            continue
        names = [*node.input, "", "", "", ""][:6]
        weights = f"{node.output[0]}/weights"
        numbers = [numpy_helper.to_array(constants[name]) if name in constants else None for name in names[1:5]]
        values = _values(node, numbers, path)
        result.graph.initializer.append(numpy_helper.from_array(values, weights))
        product = f"{node.output[0]}/product" if names[5] else node.output[0]
        nodes.append(helper.make_node("MatMul", [names[0], weights], [product], name=node.name))
        if names[5]:
            nodes.append(helper.make_node("Add", [product, names[5]], [node.output[0]], name=f"{node.name}/bias"))
    replace_nodes(result, nodes)
    return result


def _values(node: NodeProto, numbers: list[Array | None], path: str | Path) -> npt.NDArray[np.float32]:
    """Weights (inputs, outputs) of a product. numbers: packed weights, scales, zero points, block of each input."""
    given = attributes_of(node)
    bits, block = int(given.get("bits", 4)), int(given.get("block_size", 0))
    inputs, outputs = int(given.get("K", 0)), int(given.get("N", 0))
    packed, scales, zero_points, groups = numbers
    name = f"{path}: {node.op_type} {printable(node.name or node.output[0])}"
    computed = [n for n, value in zip(node.input[1:5], numbers, strict=False) if n and value is None]
    if packed is None or scales is None or computed:
        others = printable(", ".join(computed)) or "none of them"
        raise ModelError(f"{name}: its weights and scales must be constants; it reads {others}")
    blocks = -(-inputs // block) if block > 0 else 0
    if bits not in BITS or not blocks or outputs < 1 or packed.size * 8 != outputs * blocks * block * bits:
        wanted = f"{outputs} rows of {inputs} weights of {bits} bits in blocks of {block}"
        raise ModelError(f"{name}: {packed.size} bytes are not {wanted}; bits may be {', '.join(map(str, BITS))}")
    codes = _unpacked(packed.reshape(outputs, -1), bits)[:, :inputs]
    which = np.arange(inputs) // block if groups is None else groups.astype(np.int64)
    factors = scales.astype(np.float32).reshape(outputs, blocks)
    if zero_points is None:
        zeros = np.full((outputs, blocks), 1 << (bits - 1), np.float32)
    elif zero_points.dtype == np.uint8:
        zeros = _unpacked(zero_points.reshape(outputs, -1), bits)[:, :blocks]
    else:
        zeros = zero_points.astype(np.float32).reshape(outputs, blocks)
    return np.ascontiguousarray(((codes - zeros[:, which]) * factors[:, which]).T)


def _unpacked(rows: Array, bits: int) -> npt.NDArray[np.float32]:
    """Codes of bytes (rows, bytes), lowest bits first."""
    codes = rows.astype(np.uint8)[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)
    return codes.reshape(len(rows), -1).astype(np.float32)
