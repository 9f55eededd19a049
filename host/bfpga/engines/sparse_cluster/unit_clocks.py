"""Cycles of a GEMM on a sparse cluster in the place of the array: what is fed, computed, and what leaves.

Block of kernels after block: its map is fed and computed at the same time, then the sums of the units leave. Those of
the whole map are in a memory then, from which outputs leave as soon as their row of blocks has come, and while the
next block is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, gcd

import numpy as np

from bfpga.contract.arrays.sparse_cluster import cluster_array, map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts, part_weights
from bfpga.engines.sparse_cluster.unit_maps import Joined, Kernel, equal_piece, grid_blocks, piece_blocks
from bfpga.engines.sparse_cluster.window_walk import walked_steps
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray

#: Cycles of a value of a channel without weights.
EMPTY_STEPS = 2
#: Cycles from the last cell of a block to its last sum in the units' memories, and from these to the first output.
BLOCK_LATENCY = 48
#: Cycles from one grid that leaves to the next one.
LEAVING = 10
#: Cycles from the last cell of a row that is counted to the next row.
ROW_PAUSE = 8
#: Cycles from the last micro-tile of a word of channels to the first one of the next word.
GATHER_PAUSE = 10
#: Cycles in which the first limits of pieces are weighed, about: a piece of a candidate each, twice.
MOVE_CLOCKS = 200


def steps_of_channels(weights: IntArray, config: KernelConfig) -> Int64Array:
    """Cycles of a value of each channel (channels,), or of a group of values.

    weights: (kernels, rows, columns, channels). A list has the kernels in flight with a weight, but the first ones keep
    their places: no sum is used again too early. A channel has one list, or one for each tap that has weights, or for
    two of them. Rounds that wait because products collide are left out: one in a hundred, with 8 lanes up to ten. Units
    of variant A take several cycles for a kernel.
    """
    if cluster_array(config.array).shifts_window:
        return walked_steps(_placed(weights != 0, config))[1]
    used, least = _listed(weights, config), map_array(config.array).step_distance
    lists = np.maximum(least, used[least - 1 :].sum(axis=0) + least - 1)
    fewest = EMPTY_STEPS + 1 if map_array(config.array).lists_taps else EMPTY_STEPS
    steps: Int64Array = np.where(used.any(axis=0), lists, 0).sum(axis=0)
    return np.maximum(fewest, steps)


def _listed(weights: IntArray, config: KernelConfig) -> BoolArray:
    """Which kernels have a weight in a list of a channel (kernels, lists, channels)."""
    used: BoolArray = weights != 0
    kernels, rows, columns, channels = used.shape
    if not map_array(config.array).lists_taps:
        whole: BoolArray = used.any(axis=(1, 2))[:, None]
        return whole
    taps: BoolArray = _placed(used, config).reshape(kernels, -1, channels)
    if not cluster_array(config.array).merges_products:
        return taps
    even = np.pad(taps, ((0, 0), (0, taps.shape[1] % 2), (0, 0)))
    pairs: BoolArray = even.reshape(kernels, -1, 2, channels).any(axis=2)
    if rows == columns == map_array(config.array).kernel:
        pairs = np.stack([np.roll(each, -number, axis=0) for number, each in enumerate(pairs)])
    return pairs


def _placed(used: BoolArray, config: KernelConfig) -> BoolArray:
    """Kernels in the largest one, after taps without a weight: (kernels, rows, columns, channels)."""
    kernels, rows, columns, channels = used.shape
    kernel = map_array(config.array).kernel
    placed = np.zeros((kernels, kernel, kernel, channels), np.bool_)
    placed[:, kernel - rows :, kernel - columns :] = used
    return placed


def piece_groups(area: float, share: float, config: KernelConfig) -> float:
    """Groups in which the values of a piece and channel are computed; share: of values that are not zero.

    Units of variant E take each value by itself, others up to ``block_values`` of a micro-tile: values are assumed to
    be anywhere in it.
    """
    if not cluster_array(config.array).indexes_products:
        return area * share
    cells, more, share = map_array(config.array).taps, max(share, 1.0), min(share, 1.0)
    chances = [comb(cells, count) * share**count * (1 - share) ** (cells - count) for count in range(cells + 1)]
    groups = sum(chance * -(-count // cluster_array(config.array).block_values) for count, chance in enumerate(chances))
    return more * area / cells * groups


def gather_clocks(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles in which a unit of variants A to D gathers its micro-tiles, all words of channels of a block."""
    if not cluster_array(config.array).indexes_products:
        return 0
    rows, columns = descriptor.input_height, descriptor.input_width
    kernel = descriptor.kernel_height, descriptor.kernel_width
    tiles = piece_blocks(*equal_piece(rows, columns, kernel, config, joined_of(descriptor)), config)
    groups = -(-map_array(config.array).taps // cluster_array(config.array).block_values)
    return descriptor.channel_words * (tiles * config.lanes * groups + GATHER_PAUSE)


def block_steps(node: ArrayNode, m0: int, m1: int, config: KernelConfig) -> list[int]:
    """Cycles of a cell without zeros in each block of output channels [m0, m1)."""
    return [
        sum(int(steps_of_channels(kernels, config).sum()) for kernels in groups)
        for groups in _blocks(node, m0, m1, config)
    ]


def _made_steps(node: ArrayNode, m0: int, m1: int, config: KernelConfig) -> list[int]:
    """Steps that are listed for each block of output channels [m0, m1): a clock of a unit each, but of variant A."""
    if not cluster_array(config.array).shifts_window:
        return block_steps(node, m0, m1, config)
    return [
        sum(int(walked_steps(_placed(kernels != 0, config))[0].sum()) for kernels in groups)
        for groups in _blocks(node, m0, m1, config)
    ]


def _blocks(node: ArrayNode, m0: int, m1: int, config: KernelConfig) -> list[list[IntArray]]:
    """Weights (kernels, rows, columns, channels) of each block of output channels, by groups of the layer.

    Parts of a kernel are channels of their own.
    """
    assert node.weights is not None
    weights = part_weights(node.weights, kernel_parts(node.window, config))
    outputs, found = node.channels // node.groups, []
    for first in range(m0, m1, config.rows):
        last = min(first + config.rows, m1)
        groups = np.arange(first, last) // outputs
        found.append([weights[first:last][groups == group] for group in np.unique(groups).tolist()])
    return found


def made_clocks(config: KernelConfig, descriptor: Descriptor, steps: int) -> int:
    """Cycles in which the steps of a block are made: two weights of a tap a cycle, while the word before is stepped.

    steps: of all channels of the block together.
    """
    taps = descriptor.kernel_height * descriptor.kernel_width
    between = 3 if map_array(config.array).lists_taps else 1
    return max(descriptor.channel_words * (taps * config.rows // 2 + 1), steps + between * descriptor.channel_words)


def left_clocks(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles in which the outputs of a block leave: pixels of a group adjacent in a row, channel by channel.

    As many leave at a time as are in different columns of their blocks.
    """
    parallel = map_array(config.array).kernel if gcd(descriptor.stride_x, map_array(config.array).kernel) == 1 else 1
    pixels = descriptor.output_pixels
    groups = np.arange(0, pixels, descriptor.group_columns)
    ends = np.union1d(groups, np.arange(0, pixels + 1, descriptor.output_width))
    parts = np.diff(np.union1d(ends, [pixels]))
    return int((-(-parts // parallel)).sum()) * config.rows + LEAVING


def joined_of(descriptor: Descriptor) -> Joined:
    """Pieces of the grid that are one in an operation."""
    return max(1, descriptor.joined_rows), max(1, descriptor.joined_columns)


def unit_cells(rows: int, columns: int, kernel: Kernel, config: KernelConfig, joined: Joined) -> float:
    """Cells of a unit, of the largest of equal pieces without a zero."""
    down, across = equal_piece(rows, columns, kernel, config, joined)
    return down * across / (joined[0] * joined[1])


def feed_clocks(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles in which the map comes once, all words of channels of a block: a beat of cells, a cell a cycle."""
    beats = descriptor.map_groups * descriptor.read_slots
    return descriptor.channel_words * (max(beats, descriptor.map_cells) + 1) + 2


def count_pauses(rows: int) -> int:
    """Clocks of a map that is counted beside those of its cells: behind its rows, and while limits move."""
    return rows * ROW_PAUSE + MOVE_CLOCKS


def block_clocks(config: KernelConfig, node: ArrayNode, m0: int, descriptor: Descriptor) -> list[int]:
    """Cycles in which the steps of each block are made and its slowest unit computes; m0: the first output channel."""
    steps = block_steps(node, m0, m0 + descriptor.output_rows, config)
    made = _made_steps(node, m0, m0 + descriptor.output_rows, config)
    units = _unit_clocks(config, descriptor, steps, node.input_share)
    return [max(made_clocks(config, descriptor, step), unit) for step, unit in zip(made, units, strict=True)]


def map_clocks(config: KernelConfig, descriptor: Descriptor, blocks: Sequence[int]) -> int:
    """Cycles of an operation by itself, whose blocks of kernels are computed in so many each."""
    feed = feed_clocks(config, descriptor)
    sums = grid_blocks(descriptor.input_height, descriptor.input_width, config)
    left = left_clocks(config, descriptor)
    computed = [max(feed, clocks) + BLOCK_LATENCY for clocks in blocks]
    rows = descriptor.channel_words * descriptor.input_height
    counted = (feed + count_pauses(rows)) * (descriptor.most_moves > 0)
    return counted + _leaving(computed, sums * config.rows, left, row_clocks(config, descriptor))


def row_clocks(config: KernelConfig, descriptor: Descriptor) -> int:
    """Clocks in which a row of blocks of a grid comes, with all kernels."""
    return grid_blocks(1, descriptor.input_width, config) * config.rows


def _leaving(computed: Sequence[int], sums: int, left: int, row: int) -> int:
    """Clocks to the last output of all blocks, whose sums come in ``sums`` clocks when the units have ``computed``.

    Outputs leave in ``left`` clocks, behind the first ``row`` of blocks; those of the last row when all sums have come.
    Two grids have room.
    """
    last, now, ends = left * row // sums, 0, [0, 0]
    for clocks in computed:
        begin = max(now + clocks, ends[-2])
        now = begin + sums
        ends.append(max(max(ends[-1], begin + row) + left, now + last))
    return ends[-1]


def _unit_clocks(
    config: KernelConfig, descriptor: Descriptor, steps: Sequence[int], share: float
) -> list[int]:
    """Cycles in which the slowest unit computes each block, whose cells take ``steps``; share: of cells not zero."""
    kernel = descriptor.kernel_height, descriptor.kernel_width
    cells = unit_cells(descriptor.input_height, descriptor.input_width, kernel, config, joined_of(descriptor))
    groups = piece_groups(cells, share, config)
    gathered = gather_clocks(config, descriptor)
    return [max(gathered, round(groups * step)) for step in steps]


def most_clocks(config: KernelConfig, descriptor: Descriptor) -> int:
    """The most that ``map_clocks`` may be, whatever the data: one unit has all values, of all kernels."""
    array = map_array(config.array)
    cells = descriptor.map_cells * descriptor.channel_words * config.lanes
    taps = array.taps if array.lists_taps else 1
    steps = max(config.rows, array.step_distance) * taps * array.step_clocks
    moves = array.most_move_clocks(descriptor.most_moves)
    return descriptor.blocks * cells * steps + moves + 2 * descriptor.steps
