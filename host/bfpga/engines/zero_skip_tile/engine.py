"""The behaviour of a tile, which reads weights as stored words: block after block, entries or plain weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bfpga.contract.arrays.zero_skip_tile import tile_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel.descriptors import blocks_of
from bfpga.engines.kernel.placement import Placement
from bfpga.engines.kernel.streams import block_rows, pack_weight_words
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts
from bfpga.engines.sparse_cluster.map_engine import MapEngine, placed_parts
from bfpga.engines.sparse_cluster.unit_clocks import feed_clocks
from bfpga.engines.zero_skip_tile.constraints import tile_findings
from bfpga.engines.zero_skip_tile.resources import tile_resources
from bfpga.engines.zero_skip_tile.tile_words import EntryShape, TileWords, known_words, tile_words


class TileEngine(MapEngine):
    """All blocks of an operation have as many words."""

    def findings(self, config: KernelConfig) -> Iterator[Finding]:
        return tile_findings(config)

    def own_parts(self, config: KernelConfig) -> Mapping[str, Resources]:
        return tile_resources(config)

    def pack_weights(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
        return pack_weight_words(words_of_tile(node, config, m0, m1).words, config)

    def weight_words(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> int:
        return blocks_of(node, config, m1 - m0) * words_of_tile(node, config, m0, m1).of_block

    def weight_steps(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        result.weight_block_step = words_of_tile(place.node, config, place.tile.m0, place.tile.m1).of_block

    def weight_reads(self, config: KernelConfig, descriptor: Descriptor) -> int:
        return descriptor.blocks * descriptor.weight_block_step

    def block_clocks(self, config: KernelConfig, place: Placement, result: Descriptor) -> Sequence[int]:
        """A group of rows a clock for each weight, other steps one."""
        groups = row_groups(config, result)
        work = words_of_tile(place.node, config, place.tile.m0, place.tile.m1).work
        return [max(block.read, groups * block.weights + block.others) for block in work]

    def first_clocks(self, config: KernelConfig, result: Descriptor) -> int:
        """A tile begins with a whole word of channels; later ones come while the sums of the block before leave."""
        return feed_clocks(config, result) // result.channel_words


def row_groups(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles of a weight: groups of rows of sums that the map has."""
    array = tile_array(config.array)
    rows = -(-(descriptor.input_height + array.kernel - 1) // array.kernel) * array.kernel
    return -(-rows // array.parallel)


def words_of_tile(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> TileWords:
    """The stored words of output channels [m0, m1), whole blocks of them.

    Blocks that read the same channels have as many words, whichever of them an operation computes.
    """
    size, parts = block_rows(node, config), kernel_parts(node.window, config)
    first, last = (0, node.channels) if node.groups == 1 else (m0, m1)
    shape = EntryShape.of(config)

    def made() -> TileWords:
        placed = placed_parts(node, config, first, last)
        return tile_words(placed.reshape(-1, size, parts.down.size, parts.across.size, placed.shape[2]), shape)

    assert node.weights is not None
    words = known_words(node.weights, (node.groups, first, last, shape, parts), made)
    return words.part((m0 - first) // size, -(-(m1 - first) // size))


ENGINE = TileEngine()
