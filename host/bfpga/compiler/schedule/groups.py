"""What layers cost a group of output pixels, and which of them may be computed part after part."""

from __future__ import annotations

import math

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode
from bfpga.engines.kernel.descriptors import blocks_of, channel_runs, reduction, taps
from bfpga.engines.kernel.regions import pixel_words
from bfpga.engines.kernel.streams import block_rows
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import piece_window


def group_clocks(config: KernelConfig, node: ArrayNode, channels: int, reads: int = 1, writes: int = 1) -> int:
    """Cycles of a group of output pixels; channels: of the input; reads, writes: slots of a step and of a word."""
    if config.array.stores_entries and node.kind == "gemm":
        return sum(_skipping_clocks(config, node, run, reads, writes) for run in channel_runs(node, config))
    size = block_rows(node, config)
    words = reduction(node, config, 0, min(size, node.channels), pixel_words(config, channels)).channel_words
    steps = taps(node, config) * words * reads
    if config.array.computes_runs and node.kind == "gemm":
        # Passes of several groups multiply as long as the fullest pixel has activations.
        products = taps(node, config) * words * config.lanes * node.input_share / config.array.halves
        steps = max(steps, math.ceil(products))
    drain = size // config.lanes * max(config.lanes, writes)
    return blocks_of(node, config, node.channels) * max(steps, drain)


def _skipping_clocks(config: KernelConfig, node: ArrayNode, run: tuple[int, int], reads: int, writes: int) -> int:
    """Cycles of a group of output pixels that a skip array takes to read a run of output channels, or to write it."""
    shape = SkipShape.of(config)
    window = piece_window(np.asarray(node.weights), node.groups, *run, shape)
    loaded = -(-window.steps * window.blocks * shape.step_clocks(reads, window.apart) // shape.halves)
    return max(loaded, -(-(run[1] - run[0]) // config.lanes) * max(config.lanes, writes))


def unmeasured(node: ArrayNode) -> bool:
    """Whether the parts of a layer may be computed at any time: nothing of its exponent is measured, and it needs no
    tensor as a whole."""
    static = node.policy.inherit or node.policy.policy == Policy.STATIC
    return static and not node.window.spread and node.operand is None


def rows_read(node: ArrayNode, name: str, height: int, y0: int, y1: int) -> tuple[int, int]:
    """Rows [first, last) of an input, ``height`` rows high, that rows [y0, y1) of the results need."""
    added = node.adds_second and name == node.inputs[1]
    if added and name != node.inputs[0]:
        return y0, y1
    first, last = node.window.input_rows(height, y0, y1)
    return (min(first, y0), max(last, y1)) if added else (first, last)
