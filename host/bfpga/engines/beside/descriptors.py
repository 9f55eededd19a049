"""What the descriptors of all engines beside the array have in common: tiles in the terms of docs/engines.md, 3."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.engine_numbers import EngineNumbers
from bfpga.engines.array.descriptors import Placement, operation_flags, output_stage
from bfpga.engines.array.pitch import split
from bfpga.engines.beside.embedded_kernels import embedded_size
from bfpga.engines.beside.tiles import InputRectangle, input_rectangle, output_columns


def tile_descriptor(
    config: SystolicConfig, place: Placement, operation: Operation, numbers: EngineNumbers, group: int
) -> Descriptor:
    """The descriptor of one tile of a node, but for fields that only one engine has.

    group: columns of the output that a group of ports covers.
    """
    node, window = place.node, place.node.window
    rectangle = input_rectangle(window, place.spec, place.tile)
    result = Descriptor(operation=int(operation), flags=int(operation_flags(place)))
    result.input_slot = result.second_slot = place.inputs[0].slot
    result.output_slot = place.output.slot
    result.kernel_height, result.kernel_width = embedded_size(window, place.spec)
    result.stride_y, result.stride_x = window.stride_y, window.stride_x
    result.output_rows = place.tile.m1 - place.tile.m0
    result.blocks = -(-result.output_rows // numbers.kernels_in_flight)
    _read_side(config, place, result, rectangle, numbers.load_pixels)
    _write_side(config, place, result, group)
    result.parameter_base = place.parameter_base
    output_stage(node, result)
    return result


def _read_side(
    config: SystolicConfig, place: Placement, result: Descriptor, rectangle: InputRectangle, pixels: int
) -> None:
    region = place.inputs[0]
    words = region.pixel_words
    result.input_height, result.input_width = rectangle.y1 - rectangle.y0, rectangle.x1 - rectangle.x0
    result.pad_top, result.pad_left = rectangle.pad_top, rectangle.pad_left
    result.channel_words = result.input_pixel_words = words
    word, bank = split(config, (rectangle.y0 - region.y0) * region.pitch + rectangle.x0, words)
    result.input_word, result.input_bank = region.base + word, bank
    result.input_step_word, result.input_step_bank = split(config, 1, words)
    result.input_group_word, result.input_group_bank = split(config, pixels, words)
    result.input_wrap_word, result.input_wrap_bank = split(config, region.pitch, words)


def _write_side(config: SystolicConfig, place: Placement, result: Descriptor, group: int) -> None:
    """group: columns that a group of ports covers."""
    region, tile = place.output, place.tile
    words, channel = region.pixel_words, (place.node.channel_offset + tile.m0) // config.lanes
    x0, x1 = output_columns(place.node.window, tile)
    result.group_rows, result.output_width = tile.y1 - tile.y0, x1 - x0
    result.output_pixels = result.group_rows * result.output_width
    result.output_pixel_words = words
    word, bank = split(config, (tile.y0 - region.y0) * region.pitch + x0, words)
    result.output_word, result.output_bank = region.base + word + channel, bank
    result.output_step_word, result.output_step_bank = split(config, 1, words)
    result.output_group_word, result.output_group_bank = split(config, group, words)
    result.output_wrap_word, result.output_wrap_bank = split(config, region.pitch, words)
