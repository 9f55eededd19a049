"""RotaryEmbedding as a sum of two products: x times cosines, and x with its pairs turned times sines.

Turning a pair (a, b) into (-b, a) is a product with a matrix of a few ones for each head, so a grouped convolution does
it; as the definition has it, with parts of heads that are split and joined, values would move. Exporters write the
turning itself: parts of the last axis, some negated, joined in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.compiler.read.simplify import session
from bfpga.contract.configuration import KernelConfig

Floats = npt.NDArray[np.float32]


def rotated(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write it so; False, and nothing written, where its angles are computed or differ between samples."""
    attributes, shape = attributes_of(node), rewriter.shapes.get(node.input[0], ())
    angles = [_angles(rewriter, node, number) for number in (1, 2)]
    heads = int(attributes.get("num_heads", 0)) if len(shape) == 3 else (shape[1] if len(shape) == 4 else 0)
    if not config.has_rows or heads < 1 or angles[0] is None or angles[1] is None:
        return False
    tokens, size = shape[-2], shape[-1] // (heads if len(shape) == 3 else 1)
    if angles[0].shape[0] != tokens or 2 * angles[0].shape[1] > size:
        return False
    interleaved = bool(attributes.get("interleaved", 0))
    first, second = pairs(angles[0].shape[1], interleaved)
    cosines, sines = np.ones((tokens, size), np.float32), np.zeros((tokens, size), np.float32)
    for place in (first, second):
        cosines[:, place], sines[:, place] = angles[0], angles[1]
    x = node.input[0]
    if len(shape) == 4:
        x = _reshaped(rewriter, rewriter.add("Transpose", x, perm=[0, 2, 1, 3]), tokens, heads * size)
    turned = _of_heads(rewriter, x, turning(first, second, size), heads)
    terms = [rewriter.add("Mul", value, rewriter.constant(np.tile(factor, heads)[None]))
             for value, factor in ((x, cosines), (turned, sines))]  # fmt: skip
    if len(shape) == 3:
        rewriter.add("Add", *terms, output=node.output[0])
    else:
        apart = _reshaped(rewriter, rewriter.add("Add", *terms), tokens, heads, size)
        rewriter.add("Transpose", apart, output=node.output[0], perm=[0, 2, 1, 3])
    return True


def may_turn(graph: Graph, operator: Operator) -> bool:
    """Whether a concatenation may turn pairs: it negates a part of what it joins."""
    makers = {name: other.type for other in graph.operators for name in other.outputs}
    return "Neg" in {makers.get(name) for name in operator.inputs}


def turned_parts(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write parts of one value's last axis, some negated, joined in another order; False where it is none of that."""
    shape = rewriter.shapes.get(node.output[0], ())
    if len(shape) not in (3, 4) or int(attributes_of(node)["axis"]) % len(shape) != len(shape) - 1:
        return False
    makers = {name: other for other in rewriter.model.graph.node for name in other.output}
    x, parts = _origin(node, makers)
    matrix = _matrix(rewriter, x, [*parts, node], shape) if rewriter.shapes.get(x) == shape else None
    if matrix is None:
        return False
    first = len(shape) == 4 and x in makers and attributes_of(makers[x]).get("perm") == [0, 2, 1, 3]
    tokens, heads = (shape[2], shape[1]) if first else (shape[1], shape[2] if len(shape) == 4 else 1)
    value = rewriter.add("Transpose", x, perm=[0, 2, 1, 3]) if first else x
    if len(shape) == 4:
        value = _reshaped(rewriter, value, tokens, heads * shape[-1])
    value = _of_heads(rewriter, value, matrix, heads)
    if len(shape) == 4:
        value = _reshaped(rewriter, value, tokens, heads, shape[-1])
    if first:
        rewriter.add("Transpose", value, output=node.output[0], perm=[0, 2, 1, 3])
    else:
        rewriter.add("Identity", value, output=node.output[0])
    return True


def _origin(node: NodeProto, makers: dict[str, NodeProto]) -> tuple[str, list[NodeProto]]:
    """What all operands of a concatenation are parts of ("" for several values), and the operators that give them."""
    pending, parts, origins = list(node.input), list[NodeProto](), set[str]()
    while pending:
        name = pending.pop()
        maker = makers.get(name)
        if maker is None or maker.op_type not in ("Neg", "Slice", "Split"):
            origins.add(name)
        elif maker not in parts:
            parts.insert(0, maker)
            pending.append(maker.input[0])
    return (origins.pop() if len(origins) == 1 else ""), parts


def _matrix(rewriter: Rewriter, x: str, nodes: list[NodeProto], shape: tuple[int, ...]) -> Floats | None:
    """(outputs, inputs) with a one of some sign in each row that gives the last axis; None if that is not all of it."""
    numbers = np.broadcast_to(np.arange(1, shape[-1] + 1, dtype=np.float32), (1, *shape[1:]))
    drawn = np.random.default_rng(0).normal(size=(2, *shape[1:])).astype(np.float32)
    found, other = (_run(rewriter, x, nodes, values) for values in (numbers, drawn))
    if found is None or other is None or found.shape != numbers.shape:
        return None
    row = found.reshape(-1, shape[-1])[0]
    places = np.abs(row).astype(np.int64) - 1
    result = np.zeros((shape[-1], shape[-1]), np.float32)
    result[np.arange(shape[-1]), places] = np.sign(row)
    return result if np.array_equal(drawn @ result.T, other) else None


def _run(rewriter: Rewriter, x: str, nodes: list[NodeProto], values: Floats) -> Floats | None:
    """What operators make of values; None if they need more than them and constants."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (x, nodes[-1].output[0])]
    used = {name for node in nodes for name in node.input} & set(rewriter.constants)
    constants = [numpy_helper.from_array(np.asarray(rewriter.constants[name]), name) for name in sorted(used)]
    ordered = [node for node in rewriter.model.graph.node if node in nodes]
    graph = helper.make_graph(ordered, "parts", ends[:1], ends[1:], constants)
    imports, version = list(rewriter.model.opset_import), rewriter.model.ir_version
    try:
        model = helper.make_model(graph, opset_imports=imports, ir_version=version)
        return np.asarray(session(model).run(None, {x: values})[0], np.float32)
    except Exception:
        return None


def _of_heads(rewriter: Rewriter, x: str, matrix: Floats, heads: int) -> str:
    """The channels of each head of a value (samples, tokens, channels) times the same matrix (outputs, inputs)."""
    channels = rewriter.add("Transpose", x, perm=[0, 2, 1])
    weights = rewriter.constant(np.tile(matrix, (heads, 1))[:, :, None])
    return rewriter.add("Transpose", rewriter.add("Conv", channels, weights, group=heads), perm=[0, 2, 1])


def pairs(count: int, interleaved: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The places of a head whose elements are turned together: each other one, or those of two halves."""
    numbers = np.arange(count, dtype=np.int64)
    return (2 * numbers, 2 * numbers + 1) if interleaved else (numbers, numbers + count)


def turning(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], size: int) -> Floats:
    """(outputs, inputs) of a head: pairs (a, b) become (-b, a), others zero."""
    result = np.zeros((size, size), np.float32)
    result[first, second], result[second, first] = -1, 1
    return result


def _angles(rewriter: Rewriter, node: NodeProto, number: int) -> npt.NDArray[Any] | None:
    """Cosines or sines (tokens, pairs) of all samples; None if they are computed or differ."""
    cache = rewriter.constants.get(node.input[number])
    if cache is not None and len(node.input) > 3 and node.input[3]:
        places = rewriter.constants.get(node.input[3])
        cache = None if places is None or cache.ndim != 2 else cache[places]
    if cache is None or cache.ndim != 3 or not (cache == cache[:1]).all():
        return None
    return np.asarray(cache[0], np.float32)


def _reshaped(rewriter: Rewriter, value: str, *shape: int) -> str:
    return rewriter.add("Reshape", value, rewriter.constant(np.array([0, *shape], np.int64)))
