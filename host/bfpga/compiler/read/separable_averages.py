"""Averages over many pixels as averages over columns, then over rows: the array has a column for each of the latter.

A window of 25 x 5 pixels keeps one column of the array at work for 125 taps; five columns with 25 taps each and one
with five take a quarter of the cycles. The mean is the same; the means between are rounded like any other activation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from onnx import ModelProto, NodeProto, helper

from bfpga.compiler.read.graphs import attributes_of, copied, replace_nodes

#: Taps of the smallest window that is separated: below, the second pass costs more than the first one saves.
LEAST_TAPS = 32
#: Ending of the name of the value between.
SUFFIX = "/columns"


def separated_averages(model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> ModelProto:
    """The model with its large averages over images, without padding and overlap, in two steps.

    shapes: of its values by name, batch axis first.
    """
    windows = [separable_window(node, shapes) for node in model.graph.node]
    if not any(windows):
        return model
    result = copied(model)
    pairs = zip(model.graph.node, windows, strict=True)
    replace_nodes(result, (step for node, window in pairs for step in (_steps(node, window) if window else [node])))
    return result


def separable_window(node: NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    """Rows and columns of an average that can be separated; None for everything else."""
    shape = shapes.get(node.input[0]) if node.input else None
    if node.op_type not in ("AveragePool", "GlobalAveragePool") or shape is None or len(shape) != 4:
        return None
    values = attributes_of(node)
    window = tuple(values.get("kernel_shape", shape[2:]))
    strides = tuple(values.get("strides", window if window == shape[2:] else (1, 1)))
    plain = (
        not any(values.get("pads", ()))
        and not values.get("ceil_mode", 0)
        and set(values.get("dilations", (1,))) == {1}
        and values.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    )
    return window if plain and separable(window, strides, shape[2:]) else None


def separable(window: Sequence[int], strides: Sequence[int], image: Sequence[int]) -> bool:
    """Whether averages over windows of images, without padding, are taken in two steps."""
    apart = all(step >= size for step, size in zip(strides, window, strict=True)) or tuple(window) == tuple(image)
    return apart and min(window) > 1 and prod(window) >= LEAST_TAPS


def _steps(node: NodeProto, window: Sequence[int]) -> list[NodeProto]:
    """The average along the longer side of the window, then along the other."""
    values = attributes_of(node)
    strides = values.get("strides", window)
    longer = 0 if window[0] >= window[1] else 1
    between = node.output[0] + SUFFIX
    steps = []
    for axis, source, target in ((longer, node.input[0], between), (1 - longer, between, node.output[0])):
        name = node.name + SUFFIX if node.name and target == between else node.name
        chosen = [[size if side == axis else 1 for side, size in enumerate(sizes)] for sizes in (window, strides)]
        steps.append(
            helper.make_node("AveragePool", [source], [target], name, kernel_shape=chosen[0], strides=chosen[1])
        )
    return steps
