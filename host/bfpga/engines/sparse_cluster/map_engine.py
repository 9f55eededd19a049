"""What a sparse cluster and a tile share: GEMMs read whole maps, cell by cell, part for part of their kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag
from bfpga.contract.process_stream import ARRAY
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel.pitch import split
from bfpga.engines.kernel.placement import Placement
from bfpga.engines.kernel.streams import placed_weights
from bfpga.engines.skip_array.run_engine import RunEngine
from bfpga.engines.sparse_cluster.kernel_parts import KernelParts, kernel_parts, part_weights
from bfpga.engines.sparse_cluster.unit_clocks import map_clocks
from bfpga.engines.sparse_cluster.unit_maps import allowed_moves, imbalance_tolerance, joined_pieces, map_part
from bfpga.engines.sparse_cluster.unit_resources import cells_logic
from bfpga.formats.arrays import IntArray


class MapEngine(RunEngine):
    """Kernels in parts, maps instead of windows, one block of kernels after the other."""

    @abstractmethod
    def own_parts(self, config: KernelConfig) -> Mapping[str, Resources]:
        """Resources of the processes after the one that reads cells."""

    @abstractmethod
    def block_clocks(self, config: KernelConfig, place: Placement, result: Descriptor) -> Sequence[int]:
        """Cycles in which each block of kernels is computed."""

    def first_clocks(self, config: KernelConfig, result: Descriptor) -> int:
        """Cycles before the first block is computed."""
        return 0

    def parts(self, config: KernelConfig, dense: Resources) -> Mapping[str, Resources]:
        return {ARRAY: cells_logic(config), **self.own_parts(config)}

    def taps(self, node: ArrayNode, config: KernelConfig) -> int:
        """Those of all parts of the kernel."""
        return kernel_parts(node.window, config).taps

    def read_side(self, config: KernelConfig, place: Placement, result: Descriptor, first_word: int) -> None:
        """What outputs take of a map's sums, window and padding say."""
        node, tile, region, window = place.node, place.tile, place.inputs[0], place.node.window
        down, across = part = map_part(window, tile, place.spec.height, place.spec.width, config)
        result.flags |= int(Flag.CLUSTER)
        result.stride_y, result.stride_x = window.stride_y * tile.step // down.step, window.stride_x // across.step
        result.pad_top, result.pad_left = down.pad, across.pad
        result.input_height, result.input_width = part.rows, part.columns
        result.read_height, result.read_width = down.read, across.read
        words = result.input_pixel_words = region.pixel_words
        parts = _read_parts(config, place, result)
        # A map with zeros around it begins with them.
        top = down.first - (down.pad if parts.down.number > 1 else 0)
        left = across.first - (across.pad if parts.across.number > 1 else 0)
        word, result.input_bank = split(config, region.pixel(top) + left, words)
        result.input_word = region.base + word + first_word
        result.input_step_word, result.input_step_bank = split(config, across.step, words)
        wrap = down.step * region.pitch - part.columns * across.step
        result.input_wrap_word, result.input_wrap_bank = split(config, wrap, words)
        result.map_cells = part.rows * part.columns
        result.map_groups = -(-result.map_cells // result.group_columns)
        joined = result.joined_rows, result.joined_columns = joined_pieces(part.rows, part.columns, node, config)
        result.most_moves = allowed_moves(part.rows, part.columns, node, config)
        if result.most_moves:
            channels = result.channel_words * config.lanes
            result.work_difference = imbalance_tolerance(part.rows, part.columns, channels, config, joined)

    def finish(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        clocks = self.block_clocks(config, place, result)
        result.steps = self.first_clocks(config, result) + map_clocks(config, result, clocks)

    def occupied_cycles(self, config: KernelConfig, descriptor: Descriptor) -> int:
        return descriptor.steps


def placed_parts(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> IntArray:
    """``placed_weights`` of the parts of kernels, whose channels follow each other."""
    placed = placed_weights(node, config, m0, m1)
    window: Window = node.window
    shape = (len(placed), window.kernel_height, window.kernel_width, placed.shape[2])
    cut = part_weights(placed.reshape(shape), kernel_parts(window, config))
    return cut.reshape(len(placed), -1, cut.shape[3])


def _read_parts(config: KernelConfig, place: Placement, result: Descriptor) -> KernelParts:
    """The parts of a kernel, read as words of channels; whole kernels are one."""
    parts, words = kernel_parts(place.node.window, config), result.input_pixel_words
    result.kernel_height, result.kernel_width = parts.down.size, parts.across.size
    result.parts_down, result.parts_across = parts.down.number, parts.across.number
    result.dilation_y, result.dilation_x = parts.down.step, parts.across.step
    result.tap_x_word, result.tap_x_bank = split(config, parts.across.step, words)
    result.tap_y_word, result.tap_y_bank = split(config, parts.down.step * place.inputs[0].pitch, words)
    result.part_words = result.channel_words
    result.channel_words *= parts.number
    return parts
