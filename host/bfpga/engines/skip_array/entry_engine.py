"""The behaviour of a skip array that multiplies by stored entries: weights that are not zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag
from bfpga.contract.process_stream import ARRAY
from bfpga.contract.program import ArrayNode, Tile
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel.cycles import active_columns, drain_cycles
from bfpga.engines.kernel.descriptors import read_window_side
from bfpga.engines.kernel.placement import InputWindow, Placement
from bfpga.engines.kernel.word_engine import WordEngine
from bfpga.engines.skip_array.assignment import even_runs
from bfpga.engines.skip_array.constraints import entry_findings
from bfpga.engines.skip_array.passes import first_window, shared_passes
from bfpga.engines.skip_array.pieces import piece_of
from bfpga.engines.skip_array.resources import skip_resources
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.sliding import fresh_rows, group_pixels
from bfpga.engines.skip_array.windows import piece_window


class EntryEngine(WordEngine):
    """A pass has all channels of its operation, whole words of them; windows may slide."""

    def findings(self, config: KernelConfig) -> Iterator[Finding]:
        return entry_findings(config)

    def parts(self, config: KernelConfig, dense: Resources) -> Mapping[str, Resources]:
        return {ARRAY: skip_resources(config)}

    def smallest_cut(self, node: ArrayNode, config: KernelConfig) -> int:
        return config.lanes

    def input_window(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> InputWindow:
        assert node.weights is not None
        window = piece_window(node.weights, node.groups, m0, m1, SkipShape.of(config))
        return InputWindow(window.first_word, window.channel_words, window.channel_words)

    def pack_weights(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
        return piece_of(node, config, m0, m1).packed

    def weight_words(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> int:
        return piece_of(node, config, m0, m1).words

    def channel_runs(self, node: ArrayNode, config: KernelConfig) -> list[tuple[int, int]]:
        return even_runs(node.channels, config.array.skip_groups(config), config.lanes, config.rows)

    def blocks(self, node: ArrayNode, config: KernelConfig, tile: Tile) -> int:
        return piece_of(node, config, tile.m0, tile.m1).window.blocks

    def group_columns(self, config: KernelConfig, place: Placement, kept: bool) -> int:
        return super().group_columns(config, place, kept) if kept else group_pixels(place.tile, config)

    def read_side(self, config: KernelConfig, place: Placement, result: Descriptor, first_word: int) -> None:
        fresh = fresh_rows(place.node, place.tile, config) if place.flags & Flag.SLIDES else None
        read_window_side(config, place, result, first_word, fresh)

    def weight_steps(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        """Entries come in the order of their words."""
        if place.flags & Flag.KEPT:
            super().weight_steps(config, place, result)

    def finish(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        """Chunks and entry words."""
        if place.flags & Flag.KEPT:
            return
        piece, slid = piece_of(place.node, config, place.tile.m0, place.tile.m1), None
        if result.flags & Flag.SLIDES:
            slid = result.kernel_height * result.kernel_width * result.channel_words
        single = result.groups == 1
        clocks = piece.clocks(result.read_slots, single, slid)
        result.chunk_steps, result.chunk_buffers = piece.chunk_steps if slid is None else slid, clocks.held
        result.entry_words = piece.words
        if piece.window.apart:
            result.flags |= int(Flag.LANES_APART)
        halves = 1 if single else config.array.halves
        # The walk places a pixel a cycle.
        result.steps = max(clocks.total, halves * drain_cycles(config, result), halves * active_columns(config, result))

    def occupied_cycles(self, config: KernelConfig, descriptor: Descriptor) -> int:
        return shared_passes(config, descriptor) * descriptor.steps + first_window(config, descriptor)

    def weight_reads(self, config: KernelConfig, descriptor: Descriptor) -> int:
        return shared_passes(config, descriptor) * descriptor.entry_words


ENGINE = EntryEngine()
