"""Descriptors of single operations: the address arithmetic of docs/systolic-array.md, done on the host."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import ADDS_SECOND, SECOND_WEIGHS, Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, MemoryUse
from bfpga.engines.kernel.cycles import (
    active_columns,
    column_groups,
    pass_steps,
)
from bfpga.engines.kernel.engine import engine_of
from bfpga.engines.kernel.pitch import read_slots, split, write_steps
from bfpga.engines.kernel.placement import InputWindow, Placement, read_window
from bfpga.engines.kernel.regions import Region, memory_use
from bfpga.engines.kernel.streams import (
    block_rows,
    input_window,
    working_columns,
)
from bfpga.engines.rows.layers import fill_row_fields
from bfpga.errors import ProgramError

_OPERATIONS = {"gemm": Operation.GEMM, "max": Operation.MAX, "sum": Operation.SUM, "rows": Operation.ROWS}


def channel_runs(node: ArrayNode, config: KernelConfig) -> list[tuple[int, int]]:
    """Output channels cut into runs that one descriptor computes each. Runs start at whole words of the output."""
    return engine_of(config).channel_runs(node, config) if node.kind == "gemm" else [(0, node.channels)]


def even_blocks(node: ArrayNode, config: KernelConfig) -> list[tuple[int, int]]:
    """Runs whose row blocks read evenly spaced words; only grouped convolutions need more than one."""
    if node.groups == 1:
        return [(0, node.channels)]
    outputs = node.channels // node.groups
    candidates = [[(0, node.channels)]]
    if outputs % config.lanes == 0 and outputs >= block_rows(node, config):
        candidates.append([(m, m + outputs) for m in range(0, node.channels, outputs)])
    for runs in candidates:
        if all(_even(node, config, run) for run in runs):
            return runs
    return single_blocks(node, config)


def single_blocks(node: ArrayNode, config: KernelConfig) -> list[tuple[int, int]]:
    """Runs of one block."""
    size = block_rows(node, config)
    return [(m, min(m + size, node.channels)) for m in range(0, node.channels, size)]


def _even(node: ArrayNode, config: KernelConfig, run: tuple[int, int]) -> bool:
    try:
        input_window(node, config, *run)
    except ProgramError:
        return False
    return True


def taps(node: ArrayNode, config: KernelConfig) -> int:
    """Taps at which a pass of products reads operands."""
    return engine_of(config).taps(node, config)


def reduction(node: ArrayNode, config: KernelConfig, m0: int, m1: int, input_words: int) -> InputWindow:
    """The channel words that each row block of channels [m0, m1) reads at a tap."""
    if node.kind == "gemm":
        return input_window(node, config, m0, m1)
    per_block = config.words_per_block
    return InputWindow(m0 // config.lanes, per_block, min(per_block, input_words))


def weight_words(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> int:
    """Weight words of output channels [m0, m1), as ``pack_weights`` gives them."""
    return engine_of(config).weight_words(node, config, m0, m1)


def blocks_of(node: ArrayNode, config: KernelConfig, channels: int) -> int:
    return -(-channels // block_rows(node, config))


def load_descriptor(config: KernelConfig, region: Region) -> Descriptor:
    """LOAD of all rows of a region."""
    pixels, width = _transfer_walk(region)
    wrap = split(config, region.pitch - region.width, region.pixel_words)
    return Descriptor(
        operation=int(Operation.LOAD), output_slot=region.slot, output_pixels=pixels,
        output_width=width, output_rows=region.channels, output_pixel_words=region.pixel_words,
        output_word=region.base, output_wrap_word=wrap[0], output_wrap_bank=wrap[1],
    )


def store_descriptor(config: KernelConfig, region: Region) -> Descriptor:
    """STORE of all rows of a region."""
    pixels, width = _transfer_walk(region)
    wrap = split(config, region.pitch - region.width, region.pixel_words)
    step = split(config, 1, region.pixel_words)
    return Descriptor(
        operation=int(Operation.STORE), input_slot=region.slot, output_pixels=pixels,
        output_width=width, input_pixel_words=region.pixel_words, input_word=region.base,
        input_step_word=step[0], input_step_bank=step[1], input_wrap_word=wrap[0], input_wrap_bank=wrap[1],
    )


def _transfer_walk(region: Region) -> tuple[int, int]:
    """(pixels, pixels in a row) of a transfer. Rows without a gap between them are moved as one long row."""
    pixels = (region.y1 - region.y0) * region.width
    return pixels, pixels if region.pitch == region.width else region.width


def weights_descriptor(weight_base: int, words: int, parameter_base: int, rows: int) -> Descriptor:
    """WEIGHTS: rows of bias and exponent, then weight words."""
    return Descriptor(
        operation=int(Operation.WEIGHTS), weight_base=weight_base, weight_words=words,
        parameter_base=parameter_base, parameter_rows=rows,
    )


def weigh_descriptor(config: KernelConfig, node: ArrayNode, second: Region, m0: int, m1: int, base: int) -> Descriptor:
    """WEIGH: the second tensor becomes the weight words of output channels [m0, m1), from word ``base`` on.

    Pixels are read in groups. Of scores ``rows`` pixels are a row block, and each of their words is a weight word; of
    values ``lanes`` pixels are the terms of a word, and so many of their words as make ``rows`` channels become one.
    """
    operand, lanes = node.operand, config.lanes
    assert operand is not None
    by_pixels = operand.by_pixels
    first, pixels = (m0, m1 - m0) if by_pixels else (0, operand.terms)
    first += operand.first_pixel
    channels = operand.terms if by_pixels else m1 - m0
    first_channel = operand.first_weight + (0 if by_pixels else m0)
    group = config.rows if by_pixels else lanes
    groups, words, blocks = -(-pixels // group), -(-channels // lanes), 1 if by_pixels else -(-channels // config.rows)
    if second.pitch != second.width and second.y1 - second.y0 > 1:
        raise ProgramError(f"layer {node.name}: there are gaps between the rows of {second.tensor}, which weighs")
    word, bank = split(config, second.pixel(second.y0) + first, second.pixel_words)
    step = split(config, 1, second.pixel_words)
    return Descriptor(
        operation=int(Operation.WEIGH), input_slot=second.slot, second_slot=second.slot, output_slot=second.slot,
        output_pixels=pixels, output_width=pixels, group_columns=group, groups=groups, output_rows=channels,
        channel_words=words, input_width=pixels,
        input_pixel_words=second.pixel_words, input_word=second.base + word + first_channel // lanes, input_bank=bank,
        input_step_word=step[0], input_step_bank=step[1],
        weight_base=base, weight_words=groups * (words if by_pixels else blocks), weight_tap_step=int(not by_pixels),
        weight_block_step=1 if by_pixels else groups,
    )  # fmt: skip


def compute_descriptor(config: KernelConfig, place: Placement) -> Descriptor:
    """The operation that computes one tile of a node."""
    node, tile = place.node, place.tile
    operation = _OPERATIONS[node.kind]
    result = Descriptor(operation=int(operation), flags=int(operation_flags(place)), output_slot=place.output.slot)
    result.input_slot, result.second_slot = place.inputs[0].slot, place.inputs[-1].slot
    window = reduction(node, config, tile.m0, tile.m1, place.inputs[0].pixel_words)
    result.channel_words, result.block_step = window.channel_words, window.block_step
    engine = engine_of(config)
    gemm = node.kind == "gemm"
    result.blocks = engine.blocks(node, config, tile) if gemm else blocks_of(node, config, tile.m1 - tile.m0)
    result.output_rows = tile.m1 - tile.m0
    if result.blocks == 1:
        result.block_step = 0
    _walk(config, place, result)
    (engine.read_side if gemm else read_window_side)(config, place, result, window.first_word)
    _write_side(config, place, result)
    if place.flags & Flag.KEPT:
        result.kernel_height = result.kernel_width = result.channel_words = 1
        if config.array.zeros != "none":
            result.blocks, result.block_step = 1, 0
    if place.kept is not None:
        _accumulators(config, place, place.kept, result)
    _steps(config, place, result)
    if gemm:
        result.weight_base, result.parameter_base = place.weight_base, place.parameter_base
        engine.weight_steps(config, place, result)
        engine.finish(config, place, result)
    if node.adds_second:
        _added(config, place, result)
    if node.kind == "rows":
        result.parameter_base = place.parameter_base
        fill_row_fields(node, result)
        _check_rows(place, result)
    output_stage(node, result)
    return result


def _check_rows(place: Placement, result: Descriptor) -> None:
    """ProgramError for what the process of rows cannot get: its columns read a word of each pixel in one cycle."""
    tile, name = place.tile, place.node.name
    if result.read_slots > 1:
        raise ProgramError(f"layer {name}: its rows lie in the same memories, {result.read_slots} side by side")
    if (tile.m0, tile.m1) != (0, place.node.channels):
        raise ProgramError(f"layer {name}: channels {tile.m0} to {tile.m1} of {place.node.channels} are no whole rows")


def computed_use(config: KernelConfig, place: Placement) -> MemoryUse:
    """Words that a computing operation uses: if it only measures it writes none, of kept results it reads none."""
    kept = [] if place.kept is None else [place.kept]
    # A second tensor that weighs has been read before.
    operands = place.inputs if place.node.operand is None else place.inputs[:1]
    reads = kept if place.flags & Flag.KEPT else operands
    writes = kept if place.flags & Flag.MEASURE else [place.output]
    if kept:
        return memory_use(reads, writes)
    tile, window = place.tile, place.node.window
    if tile.step > 1 or window.spread or (tile.y0, tile.y1) == (0, window.output_height):
        return memory_use(reads, writes)
    read = window.input_rows(place.spec.height, tile.y0, tile.y1)
    rows = [read for _ in reads]
    if place.node.adds_second:
        rows[-1] = (tile.y0, tile.y1)
    used = (region.words_of(config, *of_it, read=True) for region, of_it in zip(reads, rows, strict=True))
    return MemoryUse(
        tuple(dict.fromkeys(used)),
        tuple(region.words_of(config, tile.y0, tile.y1, read=False) for region in writes),
    )


def operation_flags(place: Placement) -> Flag:
    """Flags of an operation that computes; FIRST and LAST are the schedule's."""
    node, flags = place.node, place.flags
    if node.bias is not None:
        flags |= Flag.BIAS
    if node.weight_exponents is not None:
        flags |= Flag.ROW_EXPONENTS
    if node.function_first:
        flags |= Flag.FUNCTION_FIRST
    if node.negate_second:
        flags |= Flag.NEGATE_SECOND
    if node.operand is not None:
        flags |= SECOND_WEIGHS
    if node.adds_second:
        flags |= ADDS_SECOND
    if node.policy.preset:
        flags |= Flag.PRESET
    if node.policy.inherit:
        flags |= Flag.COPY_EXPONENT
    if node.reuses_taps:
        flags |= Flag.NEIGHBOURS
    if place.stream:
        flags |= Flag.STREAM_WEIGHTS
    flags |= {"linear": Flag.NONE, "two_hot": Flag.TWO_HOT, "power_of_two": Flag.POWER_OF_TWO}[node.weight_format]
    return flags


def _walk(config: KernelConfig, place: Placement, result: Descriptor) -> None:
    x0, x1 = place.tile.columns(place.node.window.output_width)
    width = x1 - x0
    result.output_pixels = place.tile.rows * width
    result.output_width = width
    if place.node.kind == "gemm":
        result.group_columns = engine_of(config).group_columns(config, place, bool(result.flags & Flag.KEPT))
    else:
        result.group_columns = working_columns(place.node, config)


def read_window_side(
    config: KernelConfig, place: Placement, result: Descriptor, first_word: int, fresh_rows: int | None = None
) -> None:
    """What an operation reads of windows that move over its input; fresh_rows: of the kernel, if not all of them."""
    window, region = read_window(place.node), place.inputs[0]
    words, pitch = region.pixel_words, region.pitch
    stride = window.stride_y * place.tile.step
    fresh = window.kernel_height if fresh_rows is None else fresh_rows
    x0, x1 = place.tile.columns(window.output_width)
    top = place.tile.y0 * window.stride_y - window.pad_top + (window.kernel_height - fresh) * window.dilation_y
    left = x0 * window.stride_x - window.pad_left
    first_row, first_column = max(top, 0), max(left, 0)
    result.kernel_height, result.kernel_width = fresh, window.kernel_width
    result.stride_y, result.stride_x = stride, window.stride_x
    result.pad_top, result.pad_left = first_row - top, first_column - left
    result.input_height, result.input_width = place.spec.height - first_row, place.spec.width - first_column
    result.input_pixel_words = words
    word, bank = split(config, region.pixel(top) + left, words)
    result.input_word, result.input_bank = region.base + word + first_word, bank
    result.input_step_word, result.input_step_bank = split(config, window.stride_x, words)
    wrap = stride * pitch - (x1 - x0) * window.stride_x
    result.input_wrap_word, result.input_wrap_bank = split(config, wrap, words)
    if place.node.kind in ("sum", "rows"):
        _operands(config, place, result)
        return
    result.dilation_y, result.dilation_x = window.dilation_y, window.dilation_x
    result.tap_x_word, result.tap_x_bank = split(config, window.dilation_x, words)
    result.tap_y_word, result.tap_y_bank = split(config, window.dilation_y * pitch, words)


def _operands(config: KernelConfig, place: Placement, result: Descriptor) -> None:
    """The taps of SUM and ROWS are their operands: the second is a fixed distance from the first."""
    result.dilation_y = result.dilation_x = 0
    result.kernel_height, result.kernel_width = 1, len(place.inputs)
    first, last = place.inputs[0], place.inputs[-1]
    if first.pitch != last.pitch or first.pixel_words != last.pixel_words:
        raise ProgramError(f"layer {place.node.name}: its operands have different pitches in memory")
    word, bank = split(config, last.pixel(first.y0) - first.pixel(first.y0), first.pixel_words)
    result.tap_x_word, result.tap_x_bank = last.base - first.base + word, bank


def _added(config: KernelConfig, place: Placement, result: Descriptor) -> None:
    """Where the tensor lies that is added to the sums: the pixels of the output, which must follow each other.

    Raises ProgramError where they do not, and for what no kernel adds a tensor to.
    """
    node, tile, region = place.node, place.tile, place.inputs[-1]
    width = node.window.output_width
    if region.pitch != width or tile.columns(width) != (0, width) or tile.step > 1 or node.window.spread:
        raise ProgramError(f"layer {node.name}: the pixels of {region.tensor}, which it adds, do not follow each other")
    if place.flags & (Flag.MEASURE | Flag.KEEP | Flag.KEPT):
        raise ProgramError(f"layer {node.name}: it adds {region.tensor}, so no pass measures its sums before")
    word, bank = split(config, region.pixel(tile.y0), region.pixel_words)
    result.added_pixel_words = region.pixel_words
    result.added_word, result.added_bank = region.base + word + tile.m0 // config.lanes, bank


def _write_side(config: KernelConfig, place: Placement, result: Descriptor) -> None:
    region, width, window = place.output, result.output_width, place.node.window
    words, channel = region.pixel_words, (place.node.channel_offset + place.tile.m0) // config.lanes
    first_row, _ = window.tensor_rows(place.tile.y0, place.tile.y1)
    x0, _ = place.tile.columns(window.output_width)
    word, bank = split(config, region.pixel(first_row) + window.first_x + x0, words)
    result.output_pixel_words = words
    result.output_word, result.output_bank = region.base + word + channel, bank
    pitch = region.pitch * place.tile.step * window.spread_y
    result.output_wrap_word, result.output_wrap_bank = split(config, pitch - width, words)


def _accumulators(config: KernelConfig, place: Placement, region: Region, result: Descriptor) -> None:
    """KEEP writes and KEPT reads a word for each output of each pixel; the pixels follow each other without a gap."""
    words, step = region.pixel_words, split(config, 1, region.pixel_words)
    if place.flags & Flag.KEEP:
        result.output_pixel_words = words
        result.output_word, result.output_bank = region.base, 0
        result.output_wrap_word = result.output_wrap_bank = 0
        return
    result.channel_words = block_rows(place.node, config)
    result.block_step = result.channel_words if result.blocks > 1 else 0
    result.stride_y = result.stride_x = result.dilation_y = result.dilation_x = 1
    result.pad_top = result.pad_left = 0
    result.input_height, result.input_width = place.tile.rows, region.width
    result.input_pixel_words = words
    result.input_word, result.input_bank = region.base, 0
    result.input_step_word, result.input_step_bank = step
    result.input_wrap_word = result.input_wrap_bank = 0
    result.tap_x_word = result.tap_x_bank = result.tap_y_word = result.tap_y_bank = 0


def _steps(config: KernelConfig, place: Placement, result: Descriptor) -> None:
    """Cycles of a pass: the kernel's steps, or the drain of the pass before if that takes longer."""
    pixels, width = result.output_pixels, result.output_width
    columns, output_pitch = active_columns(config, result), place.output.pitch * place.tile.step
    if place.kept is not None and place.flags & Flag.KEEP:
        output_pitch = width
    result.read_slots, result.read_runs = read_slots(
        columns, config.banks, *_walked(place, result), place.inputs[0].pitch
    )
    if place.flags & Flag.KEPT:
        result.read_slots, result.read_runs = 1, 0
    spread = place.node.window.spread_y
    result.write_slots, result.write_runs = write_steps(columns, width, pixels, output_pitch * spread)
    result.steps = pass_steps(config, result)
    result.groups = column_groups(config, result)


def _walked(place: Placement, result: Descriptor) -> tuple[int, int, int, int]:
    """What the columns read side by side: pixels of a row, pixels in all, strides along a row and across rows."""
    if result.flags & Flag.CLUSTER:
        window = place.node.window
        stride_x, stride_y = window.stride_x // result.stride_x, window.stride_y * place.tile.step // result.stride_y
        return result.input_width, result.map_cells, stride_x, stride_y
    return result.output_width, result.output_pixels, result.stride_x, result.stride_y


def output_stage(node: ArrayNode, result: Descriptor) -> None:
    """Fill in what the output stage does with sums: bias, function, exponent."""
    result.bias_exponent = node.bias_exponent
    result.function, result.function_argument = int(node.function), node.function_argument
    result.function_exponent = node.function_exponent
    policy = node.policy
    result.policy, result.policy_slot, result.output_exponent = int(policy.policy), policy.slot, policy.exponent
    result.policy_window, result.policy_factor = policy.window, policy.factor
    result.lead_rule, result.position_rate = int(policy.rule), policy.rate
    result.position_margin, result.position_base = policy.margin, policy.base
