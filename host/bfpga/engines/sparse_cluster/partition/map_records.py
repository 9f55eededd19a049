"""What a kernel tells of the maps of a layer, from the map alone: the twin of what its processes count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, Tile
from bfpga.engines.kernel.descriptors import blocks_of
from bfpga.engines.kernel.records import MapRecords, packed_record
from bfpga.engines.kernel.streams import input_window
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts
from bfpga.engines.sparse_cluster.partition.exchange import BalancedPartition
from bfpga.engines.sparse_cluster.partition.in_kernel import layer_partition, unit_values
from bfpga.engines.sparse_cluster.unit_maps import MapPart, allowed_moves, cells_of_map, kernel_of, map_part
from bfpga.formats.arrays import BoolArray, Int64Array


def layer_records(node: ArrayNode, nonzero: BoolArray, config: KernelConfig) -> MapRecords | None:
    """The records of a layer's operations; nonzero: of its input (samples, height, width, channels).

    None if blocks of output channels read beyond a pixel's words, as the last one of a layer of groups may: what lies
    there is multiplied by zeros, but it is work that no map shows.
    """
    words = -(-nonzero.shape[3] // config.lanes)
    if any(reads.stop > words for tile in node.tiles for reads in _blocks(node, tile, config)):
        return None
    return MapRecords(np.array([_sample(node, sample, config) for sample in nonzero], np.int64))


def _sample(node: ArrayNode, nonzero: BoolArray, config: KernelConfig) -> list[list[int]]:
    """A record for each operation. Operations of other output channels may read the same map, which is cut once."""
    cuts: dict[MapPart, BalancedPartition] = {}
    records, parts = [], kernel_parts(node.window, config)
    words = -(-nonzero.shape[2] // config.lanes)
    for tile in node.tiles:
        part = map_part(node.window, tile, nonzero.shape[0], nonzero.shape[1], config)
        cells = cells_of_map(part, nonzero, parts, config)
        if part not in cuts:
            cuts[part] = layer_partition(node, cells, config)
        blocks = [_of_parts(read, words, parts.number) for read in _blocks(node, tile, config)]
        records.append(_record(node, blocks, cells, cuts[part], config))
    return records


def _record(
    node: ArrayNode, blocks: Sequence[tuple[int, ...]], cells: BoolArray, cut: BalancedPartition, config: KernelConfig
) -> list[int]:
    values = _values(node, blocks, cells, cut, config).tolist()
    if not allowed_moves(cells.shape[0], cells.shape[1], node, config):
        return packed_record(0, False, False, 0, 0, values)
    return packed_record(cut.moves, cut.reached, True, max(cut.loads), min(cut.loads), values)


def _values(
    node: ArrayNode, blocks: Sequence[tuple[int, ...]], cells: BoolArray, cut: BalancedPartition, config: KernelConfig
) -> Int64Array:
    """Values other than zero of each unit (units,), for every block of output channels."""
    alike = len(blocks) if len(set(blocks)) == 1 else 1
    kernel = kernel_of(node.window, config)
    return alike * unit_values(cut.partition, cells, blocks[: len(blocks) // alike], kernel, config)


def _of_parts(read: range, words: int, parts: int) -> tuple[int, ...]:
    """Words of a map that a block reads, with those of all parts of its kernel, of which each has all of the input."""
    return tuple(part * words + word for part in range(parts) for word in read)


def _blocks(node: ArrayNode, tile: Tile, config: KernelConfig) -> list[range]:
    """Words of the input's channels that each block of output channels of an operation reads."""
    window, blocks = input_window(node, config, tile.m0, tile.m1), blocks_of(node, config, tile.m1 - tile.m0)
    firsts = [window.first_word + block * window.block_step for block in range(blocks)]
    return [range(first, first + window.channel_words) for first in firsts]
