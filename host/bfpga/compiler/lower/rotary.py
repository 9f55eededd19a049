"""RotaryEmbedding as a sum of two products: x times cosines, and x with its pairs turned times sines.

Turning a pair (a, b) into (-b, a) is a product with a matrix of a few ones for each head, so a grouped convolution does
it; as the definition has it, with parts of heads that are split and joined, values would move.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.read.graphs import attributes_of
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
    channels = rewriter.add("Transpose", x, perm=[0, 2, 1])
    weights = rewriter.constant(np.tile(turning(first, second, size), (heads, 1))[:, :, None])
    turned = rewriter.add("Transpose", rewriter.add("Conv", channels, weights, group=heads), perm=[0, 2, 1])
    terms = [rewriter.add("Mul", value, rewriter.constant(np.tile(factor, heads)[None]))
             for value, factor in ((x, cosines), (turned, sines))]  # fmt: skip
    if len(shape) == 3:
        rewriter.add("Add", *terms, output=node.output[0])
    else:
        apart = _reshaped(rewriter, rewriter.add("Add", *terms), tokens, heads, size)
        rewriter.add("Transpose", apart, output=node.output[0], perm=[0, 2, 1, 3])
    return True


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
