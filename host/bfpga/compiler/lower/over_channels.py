"""What goes over the channels of each pixel, written with operators that the array has: spatial attention, as of CBAM.

Means and sums are convolutions of one pixel. Maxima are those of pixels: some channels are copied below others, so that
a pooling finds the largest. A map with one channel is written to as many as it multiplies. Channels of maps that begin
within a word are sums of maps, each with zeros where the others are.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import Graph, Operator, activations
from bfpga.contract.configuration import KernelConfig

#: Values that a concatenation is a sum of.
MOST_PLACED = 4


def _axes(rewriter: Rewriter, node: NodeProto) -> list[int] | None:
    """The axes of a reduction, of an image's four."""
    shape, given = rewriter.shapes.get(node.input[0], ()), attributes_of(node).get("axes")
    if len(node.input) > 1 and node.input[1]:
        given = rewriter.constants.get(node.input[1])
    return [int(axis) % 4 for axis in np.atleast_1d(given)] if len(shape) == 4 and given is not None else None


def _mixed(rewriter: Rewriter, value: str, matrix: npt.NDArray[np.floating[Any]], output: str = "") -> str:
    """The channels of each pixel multiplied with a matrix (outputs, inputs)."""
    weights = rewriter.constant(matrix[:, :, None, None].astype(np.float32))
    return rewriter.add("Conv", value, weights, output=output, kernel_shape=[1, 1])


def _kept(rewriter: Rewriter, node: NodeProto) -> str:
    """The name of a reduction's result before its axis goes; empty if it stays."""
    return "" if attributes_of(node).get("keepdims", 1) else rewriter.name(f"{node.output[0]}/kept")


def _without_axis(rewriter: Rewriter, node: NodeProto, value: str) -> None:
    if value != node.output[0]:
        sizes = rewriter.constant(np.array([0, *rewriter.shapes[node.input[0]][2:]], np.int64))
        rewriter.add("Reshape", value, sizes, output=node.output[0])


def sum_of_channels(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write a mean or a sum over the channels of an image."""
    if _axes(rewriter, node) != [1] or "linear" not in config.weight_formats:
        return False
    channels = rewriter.shapes[node.input[0]][1]
    weight = 1 / channels if node.op_type == "ReduceMean" else 1.0
    result = _mixed(rewriter, node.input[0], np.full((1, channels), weight), _kept(rewriter, node) or node.output[0])
    _without_axis(rewriter, node, result)
    return True


def largest_channel(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write a maximum over the channels of an image."""
    if _axes(rewriter, node) != [1] or rewriter.shapes[node.input[0]][1] < 2:
        return False
    channels, height = rewriter.shapes[node.input[0]][1:3]
    value = node.input[0]
    while channels > 1:
        lanes = config.lanes
        group = 1 if channels <= 2 * lanes else max(isqrt(channels) // lanes * lanes, lanes)
        last = _kept(rewriter, node) or node.output[0] if group == 1 else ""
        value, channels = _largest_of_groups(rewriter, value, (channels, group, height), last), group
    _without_axis(rewriter, node, value)
    return True


def _largest_of_groups(rewriter: Rewriter, value: str, sizes: tuple[int, int, int], output: str) -> str:
    """``group`` channels, each the largest of those that lie below each other. sizes: (channels, group, height).

    The last group begins early enough to be whole: a maximum may see a channel twice.
    """
    channels, group, height = sizes
    firsts = [min(first, channels - group) for first in range(0, channels, group)]
    parts = [rewriter.part(value, 1, first, first + group) for first in firsts]
    below = rewriter.add("Concat", *parts, axis=2)
    return rewriter.add("MaxPool", below, output=output, kernel_shape=[len(parts), 1], dilations=[height, 1])


def may_spread(graph: Graph, operator: Operator) -> bool:
    """Whether an operator is of two images, of which one has one channel."""
    shapes = [graph.shapes.get(name, ()) for name in operator.inputs]
    return (
        len(activations(graph, operator)) == 2 and all(len(shape) == 3 for shape in shapes)
        and shapes[0][1:] == shapes[1][1:] and shapes[0][0] != shapes[1][0] and 1 in (shapes[0][0], shapes[1][0])
    )  # fmt: skip


def spread_over_channels(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write a sum or a product of an image and a map with one channel as that of two images."""
    shapes = [rewriter.shapes[name] for name in node.input]
    channels = max(shape[1] for shape in shapes)
    if "linear" not in config.weight_formats:
        return False
    operands = [
        name if shape[1] == channels else _mixed(rewriter, name, np.ones((channels, 1)))
        for name, shape in zip(node.input, shapes, strict=True)
    ]
    rewriter.add(node.op_type, *operands, output=node.output[0])
    return True


def may_place(graph: Graph, operator: Operator) -> bool:
    """Whether a concatenation is of the channels of a few images, for convolutions."""
    shapes = [graph.shapes.get(name, ()) for name in operator.inputs]
    readers = graph.consumers.get(operator.outputs[0], [])
    images = all(len(shape) == 3 for shape in shapes) and operator.attributes["axis"] == 1
    computed = len(set(activations(graph, operator))) == len(operator.inputs)
    return (
        images and computed and 2 <= len(shapes) <= MOST_PLACED and operator.outputs[0] not in graph.outputs
        and bool(readers) and all(reader.type == "Conv" for reader in readers)
    )  # fmt: skip


def placed_channels(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write a concatenation of channels that begin within a word as a sum."""
    counts = [rewriter.shapes[name][1] for name in node.input]
    bounds = np.cumsum([0, *counts])
    if not (bounds[:-1] % config.lanes).any() or "linear" not in config.weight_formats:
        return False
    total, identity = "", np.eye(int(bounds[-1]))
    for number, (name, first, last) in enumerate(zip(node.input, bounds[:-1], bounds[1:], strict=True)):
        placed = _mixed(rewriter, name, identity[:, first:last])
        output = node.output[0] if number == len(counts) - 1 else ""
        total = rewriter.add("Add", total, placed, output=output) if total else placed
    return True
