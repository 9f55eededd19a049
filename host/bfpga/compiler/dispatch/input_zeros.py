"""Zeros of what layers read, for an array that takes no time for them: their cycles are those of the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from bfpga.compiler.numbers.sampled_inputs import count_zeros
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, TensorSpec, Tile
from bfpga.engines.kernel.descriptors import blocks_of
from bfpga.engines.kernel.streams import input_window
from bfpga.engines.skip_array.input_share import MOST_SAMPLES, input_share
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts
from bfpga.engines.sparse_cluster.partition.in_kernel import layer_partition, unit_values
from bfpga.engines.sparse_cluster.unit_clocks import block_steps, count_pauses, unit_cells
from bfpga.engines.sparse_cluster.unit_maps import (
    Joined,
    MapPart,
    allowed_moves,
    cells_of_map,
    fitting_parts,
    kernel_of,
    map_part,
    pieces_fit,
    possible_joins,
)
from bfpga.formats.arrays import BoolArray, IntArray
from bfpga.program.layout import fold_columns


def measure_zeros(
    nodes: Iterable[ArrayNode],
    tensors: Mapping[str, TensorSpec],
    config: KernelConfig,
    inputs: Mapping[str, IntArray],
) -> None:
    """Give every layer of products the density of its input and the share of its products that are made.

    inputs: mantissas (samples, height, width, channels) by tensor name; layers without any keep what is theirs. Nothing
    on arrays that multiply by every activation, and on a tile.
    """
    if not config.array.computes_runs or config.array.stores_blocks:
        return
    for node in nodes:
        mantissas, spec = inputs.get(node.inputs[0]), tensors[node.inputs[0]]
        if node.kind != "gemm" or node.weights is None or mantissas is None:
            continue
        node.input_density = count_zeros(mantissas).density
        used = mantissas != 0
        if spec.folded is not None:
            used = fold_columns(used, spec)
        if used.shape[1:] == (spec.height, spec.width, spec.channels):
            if config.array.reads_maps:
                join_pieces(node, used, config)
            else:
                node.input_share = input_share(node, words_read(node, config), used, config)


def join_pieces(node: ArrayNode, used: BoolArray, config: KernelConfig) -> None:
    """Choose which pieces of a cluster's grid are one for a layer and whether its maps are counted, and give it the
    share of its products.

    Chosen is what takes the fewest clocks on samples, and of that the one whose slowest unit has the fewest values:
    maps are not counted where that takes longer than pieces of equal work save. used: as of ``input_share``. The share:
    values of the unit with most of them, over those of a unit with the largest of equal pieces without a zero.
    """
    parts, kernel = _map_parts(node, used, config), kernel_of(node.window, config)
    of_kernel = kernel_parts(node.window, config)
    maps = [cells for part in parts for cells in cells_of_map(part, used[:MOST_SAMPLES], of_kernel, config)]
    found: dict[tuple[Joined, bool], tuple[float, int]] = {}
    for joined, counts in product(possible_joins(config), (True, False)):
        node.joined_pieces, node.counts_maps = joined, counts
        moves = any(allowed_moves(part.rows, part.columns, node, config) for part in parts)
        if counts == moves and all(pieces_fit(part.rows, part.columns, kernel, config, joined) for part in parts):
            found[joined, counts] = _clocks(node, maps, config)
    joined, _ = chosen = node.joined_pieces, node.counts_maps = min(found, key=lambda choice: found[choice])
    cells = sum(unit_cells(part.rows, part.columns, kernel, config, joined) for part in parts)
    node.input_share = found[chosen][1] / (cells * channels_read(node, config) * len(used[:MOST_SAMPLES]))


def _map_parts(node: ArrayNode, used: BoolArray, config: KernelConfig) -> list[MapPart]:
    """The maps that operations of a layer read."""
    height, width, channels = used.shape[1:]
    spec = TensorSpec(node.inputs[0], height, width, channels)
    whole = Tile(0, node.window.output_height, 0, node.channels)
    return [map_part(node.window, tile, height, width, config) for tile in fitting_parts(node, spec, whole, config)]


def _clocks(node: ArrayNode, maps: Sequence[BoolArray], config: KernelConfig) -> tuple[float, int]:
    """Cycles of a layer's maps (rows, columns, channels), about, and values of their slowest units."""
    blocks = words_read(node, config)
    steps = sum(block_steps(node, 0, node.channels, config)) / channels_read(node, config)
    fed = sum(map(len, blocks)) * blocks_of(node, config, node.channels) // len(blocks)
    loads = [_slowest(node, cells, blocks, config) for cells in maps]
    clocks = sum(
        _counted(node, cells, config) + max(steps * load, fed * cells.shape[0] * cells.shape[1])
        for cells, load in zip(maps, loads, strict=True)
    )
    return clocks, sum(loads)


def _slowest(node: ArrayNode, cells: BoolArray, blocks: Sequence[Sequence[int]], config: KernelConfig) -> int:
    """Values of the unit with most of them."""
    partition = layer_partition(node, cells, config).partition
    return int(unit_values(partition, cells, blocks, kernel_of(node.window, config), config).max())


def _counted(node: ArrayNode, cells: BoolArray, config: KernelConfig) -> int:
    """Cycles in which a map is counted and its limits move, about."""
    rows, columns, channels = cells.shape
    if not allowed_moves(rows, columns, node, config):
        return 0
    words = -(-channels // config.lanes)
    return rows * columns * words + count_pauses(rows * words)


def channels_read(node: ArrayNode, config: KernelConfig) -> int:
    """Channels of a layer's maps, of which each part of its kernel has all."""
    assert node.weights is not None
    return int(node.weights.shape[3]) * node.groups * kernel_parts(node.window, config).number


def words_read(node: ArrayNode, config: KernelConfig) -> list[list[int]]:
    """Words of channels that each block of output channels reads at a tap; one list if all read the same.

    Of a kernel in parts the words of all its parts, of which each has all words of the input. What the last block of a
    layer of groups reads beyond a pixel's words is left out: its weights are zero, and no map shows it.
    """
    window = input_window(node, config, 0, node.channels)
    assert node.weights is not None
    words = -(-node.weights.shape[3] * node.groups // config.lanes)
    blocks = blocks_of(node, config, node.channels) if window.block_step else 1
    firsts = [window.first_word + block * window.block_step for block in range(blocks)]
    parts = range(kernel_parts(node.window, config).number)
    return [
        [part * words + word for part in parts for word in range(first, min(first + window.channel_words, words))]
        for first in firsts
    ]
