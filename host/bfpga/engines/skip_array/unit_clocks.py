"""Clocks of a GEMM on a sparse cluster in the place of the array: what is fed, computed, and what leaves.

Block of kernels after block: its map is fed and computed at the same time, then the sums of the units leave. Those of
the whole map lie in a memory then, from which outputs leave while the next block is computed.
"""

from __future__ import annotations

from math import comb, gcd

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode
from bfpga.engines.skip_array.unit_maps import Joined, equal_piece, grid_blocks, piece_blocks
from bfpga.formats.arrays import Int64Array, IntArray

#: Clocks of a value at least: of a channel without weights, of one with some; from a sum of a kernel to its next one.
EMPTY_STEPS, LEAST_STEPS = 2, 4
#: Clocks from the last cell of a block to its last sum in the units' memories, and from these to the first output.
BLOCK_LATENCY = 48
#: Clocks from one grid that leaves to the next one.
LEAVING = 10
#: Clocks from the last cell of a row that is counted to the next row.
ROW_PAUSE = 8
#: Clocks from the last micro-tile of a word of channels to the first one of the next word.
GATHER_PAUSE = 10
#: Clocks in which the first limits of pieces are weighed, about: a piece of a candidate each, twice.
MOVE_CLOCKS = 200


def steps_of_channels(weights: IntArray, config: SystolicConfig) -> Int64Array:
    """Clocks of a value of each channel (channels,), or of a group of values; weights: (kernels, taps, channels).

    A list has the kernels in flight with a weight, but kernels 0 to 2 keep their places: no sum is met again too early.
    A channel has one list, or with units of variant B one for each tap that has weights.
    """
    used = weights != 0
    if not config.indexes_products:
        used = used.any(axis=1, keepdims=True)
    lists = np.maximum(LEAST_STEPS, used[3:].sum(axis=0) + LEAST_STEPS - 1)
    fewest = EMPTY_STEPS + 1 if config.indexes_products else EMPTY_STEPS
    steps: Int64Array = np.where(used.any(axis=0), lists, 0).sum(axis=0)
    return np.maximum(fewest, steps)


def piece_groups(area: float, share: float, config: SystolicConfig) -> float:
    """Groups in which the values of a piece and channel are computed; share: of values that are not zero.

    Units of variant E take each value by itself, those of variant B up to ``cluster_products`` of a micro-tile: values
    are taken to lie anywhere in it.
    """
    if not config.indexes_products:
        return area * share
    cells, more, share = config.cluster_kernel * config.cluster_kernel, max(share, 1.0), min(share, 1.0)
    chances = [comb(cells, count) * share**count * (1 - share) ** (cells - count) for count in range(cells + 1)]
    groups = sum(chance * -(-count // config.cluster_products) for count, chance in enumerate(chances))
    return more * area / cells * groups


def gather_clocks(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks in which a unit of variant B gathers the micro-tiles of its piece, all words of channels of a block."""
    if not config.indexes_products:
        return 0
    rows, columns = descriptor.input_height, descriptor.input_width
    tiles = piece_blocks(*equal_piece(rows, columns, config, joined_of(descriptor)), config)
    groups = -(-config.cluster_kernel * config.cluster_kernel // config.cluster_products)
    return descriptor.channel_words * (tiles * config.lanes * groups + GATHER_PAUSE)


def block_steps(node: ArrayNode, m0: int, m1: int, config: SystolicConfig) -> list[int]:
    """Clocks of a cell without zeros in each block of output channels [m0, m1)."""
    assert node.weights is not None
    weights = node.weights.reshape(node.channels, -1, node.weights.shape[3])
    outputs, found = node.channels // node.groups, []
    for first in range(m0, m1, config.rows):
        last = min(first + config.rows, m1)
        groups = np.arange(first, last) // outputs
        found.append(
            sum(
                int(steps_of_channels(weights[first:last][groups == group], config).sum())
                for group in np.unique(groups).tolist()
            )
        )
    return found


def made_clocks(config: SystolicConfig, descriptor: Descriptor, steps: int) -> int:
    """Clocks in which the steps of a block are made: two weights of a tap a clock, beside the steps of the word before.

    steps: of all channels of the block together.
    """
    taps = descriptor.kernel_height * descriptor.kernel_width
    between = 3 if config.indexes_products else 1
    return max(descriptor.channel_words * (taps * config.rows // 2 + 1), steps + between * descriptor.channel_words)


def left_clocks(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks in which the outputs of a block leave: pixels of a group beside each other in a row, channel by channel.

    As many leave at a time as lie in different columns of their blocks.
    """
    beside = config.cluster_kernel if gcd(descriptor.stride_x, config.cluster_kernel) == 1 else 1
    pixels = descriptor.output_pixels
    groups = np.arange(0, pixels, descriptor.group_columns)
    ends = np.union1d(groups, np.arange(0, pixels + 1, descriptor.output_width))
    parts = np.diff(np.union1d(ends, [pixels]))
    return int((-(-parts // beside)).sum()) * config.rows + LEAVING


def joined_of(descriptor: Descriptor) -> Joined:
    """Pieces of the grid that are one in an operation."""
    return max(1, descriptor.joined_rows), max(1, descriptor.joined_columns)


def unit_cells(rows: int, columns: int, config: SystolicConfig, joined: Joined) -> float:
    """Cells of a unit, of the largest of equal pieces without a zero."""
    down, across = equal_piece(rows, columns, config, joined)
    return down * across / (joined[0] * joined[1])


def feed_clocks(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks in which the map comes once, all words of channels of a block: a beat of cells, a cell a clock."""
    beats = descriptor.map_groups * descriptor.read_slots
    return descriptor.channel_words * (max(beats, descriptor.map_cells) + 1) + 2


def beats(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Beats of cells that are read: for every block, and once more where they are counted."""
    rounds = descriptor.blocks + (descriptor.most_moves > 0)
    return rounds * descriptor.channel_words * descriptor.map_groups * descriptor.read_slots


def cluster_clocks(config: SystolicConfig, node: ArrayNode, m0: int, descriptor: Descriptor) -> int:
    """Clocks of an operation by itself: field ``steps`` of its descriptor; m0: its first output channel."""
    cells = unit_cells(descriptor.input_height, descriptor.input_width, config, joined_of(descriptor))
    feed, gathered = feed_clocks(config, descriptor), gather_clocks(config, descriptor)
    groups = piece_groups(cells, node.input_share, config)
    steps = block_steps(node, m0, m0 + descriptor.output_rows, config)
    sums = grid_blocks(descriptor.input_height, descriptor.input_width, config)
    left = left_clocks(config, descriptor)
    computed = [
        max(feed, made_clocks(config, descriptor, step), gathered, round(groups * step))
        + sums * config.rows
        + BLOCK_LATENCY
        for step in steps
    ]
    counted = feed + descriptor.channel_words * descriptor.input_height * ROW_PAUSE + MOVE_CLOCKS
    counted *= descriptor.most_moves > 0
    return counted + computed[0] + sum(max(each, left) for each in computed[1:]) + left


def most_clocks(config: SystolicConfig, descriptor: Descriptor) -> int:
    """The most that ``cluster_clocks`` may be, whatever the data: one unit has all values, of all kernels."""
    cells = descriptor.map_cells * descriptor.channel_words * config.lanes
    taps = config.cluster_kernel * config.cluster_kernel if config.indexes_products else 1
    moves = descriptor.most_moves * (2 * config.cluster_units + 2) * config.cluster_lines
    return descriptor.blocks * cells * max(config.rows, LEAST_STEPS) * taps + moves + 2 * descriptor.steps
