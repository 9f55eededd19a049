"""Arrays that multiply by weight words of all rows and lanes, block after block of rows."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode, Tile
from bfpga.contract.streams import WEIGHT_ORDER
from bfpga.engines.kernel.cycles import kernel_steps, operation_cycles, passes
from bfpga.engines.kernel.descriptors import blocks_of, even_blocks, read_window_side
from bfpga.engines.kernel.engine import ArrayEngine
from bfpga.engines.kernel.placement import InputWindow, Placement, read_window
from bfpga.engines.kernel.streams import (
    block_rows,
    block_window,
    ordered_words,
    pack_weight_words,
    placed_weights,
    repeats_words,
    working_columns,
)


class WordEngine(ArrayEngine):
    """What such arrays share."""

    def multiplier_dsp(self, config: KernelConfig) -> int:
        """Two products share a block."""
        return config.array.skip_products(config) // 2

    def shift_tables(self, config: KernelConfig) -> int:
        return 0

    def smallest_cut(self, node: ArrayNode, config: KernelConfig) -> int:
        return block_rows(node, config)

    def input_window(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> InputWindow:
        return block_window(node, config, m0, m1)

    def pack_weights(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
        """In ``WEIGHT_ORDER``, docs/systolic-array.md sections 2 and 3."""
        placed = placed_weights(node, config, m0, m1)
        return pack_weight_words(ordered_words(node, config, placed, WEIGHT_ORDER), config)

    def weight_words(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> int:
        words = self.input_window(node, config, m0, m1).channel_words
        if repeats_words(node, config):
            return words
        return blocks_of(node, config, m1 - m0) * self.taps(node, config) * words

    def channel_runs(self, node: ArrayNode, config: KernelConfig) -> list[tuple[int, int]]:
        return even_blocks(node, config)

    def taps(self, node: ArrayNode, config: KernelConfig) -> int:
        window = read_window(node)
        return window.kernel_height * window.kernel_width

    def blocks(self, node: ArrayNode, config: KernelConfig, tile: Tile) -> int:
        return blocks_of(node, config, tile.m1 - tile.m0)

    def group_columns(self, config: KernelConfig, place: Placement, kept: bool) -> int:
        return working_columns(place.node, config)

    def read_side(self, config: KernelConfig, place: Placement, result: Descriptor, first_word: int) -> None:
        read_window_side(config, place, result, first_word)

    def weight_steps(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        if not repeats_words(place.node, config):
            result.weight_tap_step = result.channel_words
            result.weight_block_step = result.kernel_height * result.kernel_width * result.channel_words

    def finish(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        """Nothing: ``steps`` are those of a pass."""

    def occupied_cycles(self, config: KernelConfig, descriptor: Descriptor) -> int:
        return operation_cycles(config, descriptor)

    def weight_reads(self, config: KernelConfig, descriptor: Descriptor) -> int:
        return passes(config, descriptor) * kernel_steps(config, descriptor)
