"""Clocks of the array's operations, as the kernel's own loops spend them (docs/systolic-array.md, section 6)."""

from __future__ import annotations

from bfpga.contract.configuration import TRANSFER_DEPTH, SystolicConfig, WeightFormat
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Flag, LeadRule, Operation, Policy

#: Operations that the array computes.
ARRAY_OPERATIONS = (Operation.GEMM, Operation.MAX, Operation.SUM)
WORD_BITS = 32


def weight_format(descriptor: Descriptor) -> WeightFormat:
    """Format of the weights that a GEMM multiplies with, from its flags."""
    if descriptor.flags & Flag.POWER_OF_TWO:
        return "power_of_two"
    return "two_hot" if descriptor.flags & Flag.TWO_HOT else "linear"


def active_columns(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Columns that work in an operation: all, unless linear weights leave the shift columns idle."""
    if Operation(descriptor.operation) is not Operation.GEMM:
        return config.columns
    return config.active_columns(weight_format(descriptor))


def fetch_cycles(config: SystolicConfig) -> int:
    """Clocks to read one descriptor from the input stream."""
    return DESCRIPTOR_WORDS * WORD_BITS // config.stream_bits


def column_groups(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Groups of output pixels that the columns compute together."""
    return -(-descriptor.output_pixels // active_columns(config, descriptor))


def passes(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Passes of a computing operation: groups of output pixels times row blocks."""
    return column_groups(config, descriptor) * descriptor.blocks


def kernel_steps(descriptor: Descriptor) -> int:
    """Steps of one pass: words read at all taps."""
    return descriptor.kernel_height * descriptor.kernel_width * descriptor.channel_words


def drain_cycles(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks one pass takes to leave through the output stage, which is the least a pass may take."""
    words = config.block_rows(weight_format(descriptor)) // config.lanes
    return words * max(config.lanes, descriptor.write_slots)


def pass_steps(config: SystolicConfig, descriptor: Descriptor) -> int:
    """What the field ``steps`` of a descriptor must hold: clocks of one pass."""
    streamed = config.beats_per_weight_word if descriptor.flags & Flag.STREAM_WEIGHTS else 1
    slots = max(descriptor.read_slots, streamed)
    return max(kernel_steps(descriptor) * slots, drain_cycles(config, descriptor))


def pixel_groups(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Groups of ``transfer_pixels`` pixels a LOAD or a STORE moves; every row begins with a new group."""
    rows = descriptor.output_pixels // descriptor.output_width
    return rows * -(-descriptor.output_width // config.transfer_pixels)


def pixel_words(descriptor: Descriptor) -> int:
    """Words of one pixel that a LOAD writes or a STORE reads."""
    loads = descriptor.operation == Operation.LOAD
    return descriptor.output_pixel_words if loads else descriptor.input_pixel_words


def tensor_beats(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Beats a LOAD or a STORE moves without its header: its groups, one word of each pixel after the other."""
    words = pixel_groups(config, descriptor) * pixel_words(descriptor) * config.transfer_pixels
    return -(-words // config.words_per_beat)


def selection_cycles(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks in which the collector's bins become a lead, at the end of an operation (docs/kernel-positions.md)."""
    learns = descriptor.policy in (Policy.ROLLING_MAX, Policy.FEEDBACK)
    measures = bool(descriptor.flags & Flag.MEASURE)
    ends = measures or (learns and bool(descriptor.flags & Flag.LAST))
    return config.position_bins if ends and descriptor.lead_rule != LeadRule.LEAD else 0


def operation_cycles(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks of one operation without the fetch of its descriptor. BFP 6, R71.

    ValueError for operations of other engines, which a descriptor alone does not tell.
    """
    operation = Operation(descriptor.operation)
    if operation in (Operation.LOAD, Operation.STORE):
        return 1 + pixel_groups(config, descriptor) * pixel_words(descriptor) + TRANSFER_DEPTH
    if operation is Operation.WEIGHTS:
        return descriptor.parameter_rows + descriptor.weight_words * config.beats_per_weight_word + TRANSFER_DEPTH
    if operation in ARRAY_OPERATIONS:
        tail = drain_cycles(config, descriptor) + max(config.lanes, descriptor.write_slots)
        end = config.operation_depth + selection_cycles(config, descriptor)
        return config.columns + passes(config, descriptor) * descriptor.steps + tail + end
    if operation is not Operation.NONE:
        raise ValueError(f"the clocks of {operation.name} depend on more than its descriptor")
    return 0
