"""Zeros of what layers read, for an array that takes no time for them: their clocks are those of the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bfpga.compiler.numbers.sampled_inputs import count_zeros
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, TensorSpec, Tile
from bfpga.engines.array.descriptors import blocks_of
from bfpga.engines.array.streams import input_window
from bfpga.engines.skip_array.input_share import MOST_SAMPLES, input_share
from bfpga.engines.skip_array.unit_maps import equal_piece, fitting_parts, map_part
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition
from bfpga.formats.arrays import BoolArray, IntArray
from bfpga.program.layout import fold_columns


def measure_zeros(
    nodes: Iterable[ArrayNode],
    tensors: Mapping[str, TensorSpec],
    config: SystolicConfig,
    inputs: Mapping[str, IntArray],
) -> None:
    """Give every layer of products the density of its input and the share of its products that are made.

    inputs: mantissas (samples, height, width, channels) by tensor name; layers without any keep what is theirs. Nothing
    on arrays that multiply by every activation, and on a tile.
    """
    if not config.skips_activations or config.has_tile:
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
            share = cluster_share if config.has_cluster else input_share
            node.input_share = share(node, words_read(node, config), used, config)


def cluster_share(node: ArrayNode, blocks: Sequence[range], used: BoolArray, config: SystolicConfig) -> float:
    """Values of the unit with most of them, over those of the largest of equal pieces without a zero.

    Arguments as of ``input_share``; where blocks read different channels, limits of pieces do not move.
    """
    height, width, channels = used.shape[1:]
    spec = TensorSpec(node.inputs[0], height, width, channels)
    whole = Tile(0, node.window.output_height, 0, node.channels)
    most = full = 0
    for tile in fitting_parts(node, spec, whole, config):
        part = map_part(node.window, tile, height, width)
        rows, columns = equal_piece(part.rows, part.columns, config)
        for sample in used[:MOST_SAMPLES]:
            cells = sample[part.row : part.row + part.rows, part.column : part.column + part.columns]
            most += max(kernel_partition(cells, config, 0 if len(blocks) > 1 else None).loads)
            full += rows * columns * channels
    return most / full


def words_read(node: ArrayNode, config: SystolicConfig) -> list[range]:
    """Words of channels that each block of output channels reads at a tap; one range if all read the same."""
    window = input_window(node, config, 0, node.channels)
    blocks = blocks_of(node, config, node.channels) if window.block_step else 1
    firsts = [window.first_word + block * window.block_step for block in range(blocks)]
    return [range(first, first + window.channel_words) for first in firsts]
