"""Descriptors of the engines beside the array: tiles and strips in the terms of docs/engines.md, section 3."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.engine_numbers import ClusterBuild
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.array.descriptors import Placement, operation_flags, output_stage
from bfpga.engines.array.pitch import split
from bfpga.engines.beside.embedded_kernels import embedded_size
from bfpga.engines.beside.tiles import InputRectangle, input_rectangle, output_columns

#: Channel words that the sparse cluster counts to find its partition, if a pixel has as many.
COUNTED_WORDS = 4


def engine_descriptor(config: SystolicConfig, place: Placement) -> Descriptor:
    """ZERO_SKIP or SPARSE for one tile of a node, without its order of entries and the limits of its pieces."""
    node, window = place.node, place.node.window
    zero_skip = node.engine == "zero_skip"
    build = config.zero_skip if zero_skip else config.sparse_cluster
    assert build is not None
    rectangle = input_rectangle(window, place.spec, place.tile)
    operation = Operation.ZERO_SKIP if zero_skip else Operation.SPARSE
    result = Descriptor(operation=int(operation), flags=int(operation_flags(place)))
    result.input_slot = result.second_slot = place.inputs[0].slot
    result.output_slot = place.output.slot
    result.kernel_height, result.kernel_width = embedded_size(window, place.spec)
    result.stride_y, result.stride_x = window.stride_y, window.stride_x
    result.output_rows = place.tile.m1 - place.tile.m0
    result.blocks = -(-result.output_rows // build.kernels_in_flight)
    _read_side(config, place, result, rectangle, build.load_pixels)
    _write_side(config, place, result, build.kernel if isinstance(build, ClusterBuild) else config.columns)
    if isinstance(build, ClusterBuild):
        result.write_slots = block_slots(config, window, place.output.pitch)
        result.count_step = count_step(build, result.channel_words)
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


def block_slots(config: SystolicConfig, window: Window, pitch: int) -> int:
    """Clocks in which the pixels of a block of outputs are written: 1 if all lie in different banks, else a row each.

    Which pixels of a block meet in a bank does not depend on where the block lies.
    """
    build = config.sparse_cluster
    assert build is not None
    rows, columns = min(build.kernel, window.output_height), min(build.kernel, window.output_width)
    banks = {(row * pitch + column) % config.banks for row in range(rows) for column in range(columns)}
    return 1 if len(banks) == rows * columns else build.kernel


def engine_write_clocks(node: ArrayNode, config: SystolicConfig, pitch: int | None) -> int:
    """Clocks in which the results of a node leave its engine, if rows of its output have this pitch.

    Nothing else depends on a pitch: pixels of one row lie in different banks whatever it is. None: of no concern.
    """
    if pitch is None or node.engine != "sparse_cluster":
        return 0
    build, window = config.sparse_cluster, node.window
    assert build is not None
    blocks = -(-window.output_height // build.kernel) * -(-window.output_width // build.kernel)
    words = -(-node.channels // config.lanes)
    return blocks * words * max(config.lanes, block_slots(config, window, pitch))


def count_step(build: ClusterBuild, channel_words: int) -> int:
    """Every which channel word is counted to balance the pieces; 0: there is one piece, nothing to balance."""
    return 0 if build.units == 1 else -(-channel_words // COUNTED_WORDS)
