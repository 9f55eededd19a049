"""Columns of input images folded into channels: a word of memory then holds what several taps of a kernel row read.

An image of one to three channels fills a part of the lanes of its words, and each tap of the first layer takes a cycle
for it. The host has to arrange the image anyway; when it puts the columns that an output pixel reads side by side,
their taps share a word. Nothing but the order of exact sums changes, so no value does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import plan_weights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, FoldedColumns, Node, TensorSpec, Window
from bfpga.errors import ModelError
from bfpga.program.cycles import CycleCount


def fold_inputs(
    nodes: Sequence[Node], tensors: dict[str, TensorSpec], inputs: Iterable[str], config: KernelConfig
) -> None:
    """Fold the columns of the network's ``inputs`` where the layers that read them take fewer cycles then.

    Changes the nodes' windows and weights and the tensors' shapes.
    """
    for name in inputs:
        readers = [node for node in nodes if name in node.inputs]
        spec = tensors.get(name)
        layers = [node for node in readers if isinstance(node, ArrayNode) and _can_fold(node)]
        if spec is None or spec.folded is not None or not layers or len(layers) < len(readers):
            continue
        if len({_geometry(node.window) for node in layers}) > 1:
            continue
        folded = _folded_tensor(spec, layers[0].window)
        before = _clocks(spec, layers, tensors, config)
        if _clocks(folded, [_folded(node) for node in layers], tensors, config) < before:
            tensors[name] = folded
            for node in layers:
                _fold(node)


def _can_fold(node: ArrayNode) -> bool:
    product = node.kind == "gemm" and node.groups == 1 and not node.uniform_weights
    return product and len(node.inputs) == 1 and node.window.kernel_width > 1


def _geometry(window: Window) -> tuple[int, ...]:
    return (window.kernel_width, window.stride_x, window.pad_left, window.dilation_x, window.output_width)


def _folded_tensor(spec: TensorSpec, window: Window) -> TensorSpec:
    fold = FoldedColumns(
        spec.width, spec.channels, window.kernel_width, window.stride_x, window.pad_left, window.dilation_x
    )
    return replace(spec, width=window.output_width, channels=spec.channels * fold.taps, folded=fold)


def _folded(node: ArrayNode) -> ArrayNode:
    result = replace(node)
    _fold(result)
    return result


def _fold(node: ArrayNode) -> None:
    assert node.weights is not None
    node.window = replace(node.window, kernel_width=1, stride_x=1, pad_left=0, dilation_x=1)
    shape = node.weights.shape
    node.weights = np.ascontiguousarray(node.weights.reshape(shape[0], shape[1], 1, -1))


def _clocks(
    spec: TensorSpec, layers: Sequence[ArrayNode], tensors: Mapping[str, TensorSpec], config: KernelConfig
) -> float:
    """Of the tensor's way into the array and of the layers that read it, each alone; infinity if one does not fit.

    The longer of both counts: the next sample enters while this one is computed.
    """
    count, known = CycleCount(), {**tensors, spec.name: spec}
    for layer in layers:
        node = layer.unscheduled()
        try:
            steps = Scheduler(config, known, [node], plan_weights([node], config), set()).run()
        except ModelError:
            return math.inf
        for operation in (operation for step in steps for operation in step.operations):
            if operation.descriptor.operation != Operation.STORE and not operation.first_only:
                count.add_operation(config, operation)
    return max(count.compute, count.transfer, count.weights)
