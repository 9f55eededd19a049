"""Depthwise layers whose columns take taps from adjacent columns: a kernel row a step instead of a tap a step.

Adjacent columns hold adjacent pixels, so the operands of the taps next to the middle one are there already. Row
pair j of the array computes channel j of a word: lane j multiplies the column's own pixel, the two lanes after it
multiply the pixels to its left and right (docs/kernel.md). A group of pixels is a number of whole rows of the output,
so all adjacent pixels within the image are in the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, TensorSpec
from bfpga.formats.arrays import IntArray

#: Of the taps of a kernel row, by how many lanes the one that multiplies it follows that of the middle tap.
LANE_OFFSETS = (1, 0, 2)


def choose_tap_reuse(nodes: Iterable[ArrayNode], tensors: Mapping[str, TensorSpec], config: KernelConfig) -> None:
    """Set ``reuses_taps`` of every layer by its window, its input and the array."""
    for node in nodes:
        node.reuses_taps = config.tap_reuse and may_reuse(node, tensors[node.inputs[0]], config)


def may_reuse(node: ArrayNode, spec: TensorSpec, config: KernelConfig) -> bool:
    """Whether the columns of an array with ``tap_reuse`` may compute a layer from the operands of adjacent columns.

    spec: the layer's input. The image must end with the rows of the output, where the window reads zeros. Sums that may
    be kept are stored in the order of other passes.
    """
    window = node.window
    if node.weights is None or node.uniform_weights or window.spread:
        return False
    alone = node.groups == node.channels and node.weights.shape[3] == 1
    window_fits = (window.kernel_width, window.stride_x, window.dilation_x, window.pad_left) == (3, 1, 1, 1)
    rows = spec.width <= window.output_width <= config.columns
    kept = config.keeps and not node.policy.inherit and node.policy.policy != Policy.STATIC
    return alone and window_fits and rows and not kept


def tap_words(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> IntArray:
    """Weight words of output channels [m0, m1), (blocks, kernel rows, rows, lanes)."""
    assert node.weights is not None
    lanes, height = config.lanes, node.weights.shape[1]
    blocks = -(-(m1 - m0) // lanes)
    taps = np.zeros((blocks * lanes, height, len(LANE_OFFSETS)), np.int32)
    taps[: m1 - m0] = np.asarray(node.weights)[m0:m1, :, :, 0]
    of_word = taps.reshape(blocks, lanes, height, len(LANE_OFFSETS))
    words = np.zeros((blocks, height, config.rows, lanes), np.int32)
    for channel in range(lanes):
        for tap, offset in enumerate(LANE_OFFSETS):
            words[:, :, 2 * channel, (channel + offset) % lanes] = of_word[:, channel, :, tap]
    return words
