"""Cycles of the array's operations, as the kernel's own loops spend them (docs/systolic-array.md, section 6)."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.descriptor import ADDS_SECOND, SECOND_WEIGHS, Descriptor, Flag, Operation
from bfpga.contract.functions import Function
from bfpga.contract.loaded_tables import COLUMNS_OF_A_UNIT, LOADED_TABLE
from bfpga.contract.rows import RowOperation
from bfpga.engines.kernel.engine import engine_of
from bfpga.engines.rows.cycles import operation_cycles as row_cycles

#: Operations that compute.
ARRAY_OPERATIONS = (Operation.GEMM, Operation.MAX, Operation.SUM, Operation.ROWS)
#: Those that the scratchpad counts as computing ones: what reads a tensor as weights too.
COUNTED_OPERATIONS = (*ARRAY_OPERATIONS, Operation.WEIGH)
#: Operations that read parameters.
WITH_PARAMETERS = (Operation.GEMM, Operation.ROWS)
WORD_BITS = 32
#: Flags as numbers: the compiler asks for them a hundred thousand times, and enumerations are slow.
_POWER_OF_TWO, _TWO_HOT, _NEIGHBOURS = int(Flag.POWER_OF_TWO), int(Flag.TWO_HOT), int(Flag.NEIGHBOURS)
_SKIP_ARRAY, _SECOND_WEIGHS = int(Flag.SKIP_ARRAY), int(SECOND_WEIGHS)
_ADDS = int(ADDS_SECOND)
_WIDE_OUT, _WIDE_IN = int(Flag.WIDE | Flag.KEEP), int(Flag.WIDE | Flag.KEPT)


def weight_format(descriptor: Descriptor) -> WeightFormat:
    """Format of the weights that a GEMM multiplies with, from its flags."""
    if descriptor.flags & _POWER_OF_TWO:
        return "power_of_two"
    return "two_hot" if descriptor.flags & _TWO_HOT else "linear"


def active_columns(config: KernelConfig, descriptor: Descriptor) -> int:
    """Columns that work in an operation: all, unless linear weights leave the shift columns idle, or whole rows do."""
    if descriptor.operation == Operation.ROWS:
        return max(1, config.row_columns)
    if descriptor.operation == Operation.WEIGH:
        return max(1, descriptor.group_columns)
    if descriptor.operation != Operation.GEMM:
        return config.columns
    if descriptor.flags & _NEIGHBOURS or skips_zeros(config, descriptor):
        return max(1, descriptor.group_columns)  # a damaged one may have none
    return config.active_columns(weight_format(descriptor))


def multiplies_tensors(descriptor: Descriptor) -> bool:
    """Whether the weights of a GEMM are a tensor."""
    return descriptor.operation == Operation.GEMM and bool(descriptor.flags & _SECOND_WEIGHS)


def adds_tensor(descriptor: Descriptor) -> bool:
    """Whether a GEMM adds a tensor to its sums."""
    return descriptor.operation == Operation.GEMM and bool(descriptor.flags & _ADDS)


def on_skip_array(config: KernelConfig, descriptor: Descriptor) -> bool:
    """Whether a skip array computes a GEMM: every one of a kernel without a systolic array."""
    chosen = not config.array.has_both or bool(descriptor.flags & _SKIP_ARRAY)
    return config.array.zeros != "none" and chosen and descriptor.operation == Operation.GEMM


def skips_zeros(config: KernelConfig, descriptor: Descriptor) -> bool:
    """Whether an operation multiplies without zeros, of weights or of activations: a GEMM of a skip array."""
    return on_skip_array(config, descriptor) and not descriptor.flags & Flag.KEPT


def on_cluster(config: KernelConfig, descriptor: Descriptor) -> bool:
    """Whether a sparse cluster in the place of the array computes an operation."""
    return config.array.reads_maps and skips_zeros(config, descriptor)


def column_groups(config: KernelConfig, descriptor: Descriptor) -> int:
    """Groups of output pixels that the columns compute together."""
    return -(-descriptor.output_pixels // active_columns(config, descriptor))


def takes_single_words(descriptor: Descriptor) -> bool:
    """Whether a pass computes one word of channels, not a block of rows or all words: all but most GEMMs and WEIGH."""
    if descriptor.operation == Operation.WEIGH:
        return False
    return descriptor.operation != Operation.GEMM or bool(descriptor.flags & _NEIGHBOURS)


def row_blocks(config: KernelConfig, descriptor: Descriptor) -> int:
    """Passes over a group of output pixels; a skip array computes all its channels before others."""
    if takes_single_words(descriptor):
        return -(-descriptor.output_rows // config.lanes)
    return 1 if on_skip_array(config, descriptor) else descriptor.blocks


def turns(descriptor: Descriptor) -> int:
    """How often the passes over a group of output pixels are read: rows more than once."""
    return descriptor.blocks if descriptor.operation == Operation.ROWS else 1


def passes(config: KernelConfig, descriptor: Descriptor) -> int:
    """Passes of a computing operation: groups of output pixels times row blocks.

    A skip array computes several groups at a time; here each counts.
    """
    return column_groups(config, descriptor) * row_blocks(config, descriptor)


def kernel_steps(config: KernelConfig, descriptor: Descriptor) -> int:
    """Steps of one pass: words read at all taps."""
    words = 1 if takes_single_words(descriptor) else descriptor.channel_words
    if skips_zeros(config, descriptor):
        words *= descriptor.blocks
    return descriptor.kernel_height * descriptor.kernel_width * words


def drain_cycles(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles one pass takes to leave through the output stage, which is the least a pass may take."""
    if descriptor.operation == Operation.WEIGH:
        return 1  # its words do not pass it
    words = config.block_rows(weight_format(descriptor)) // config.lanes
    if takes_single_words(descriptor):
        words = 1
    elif config.array.stores_entries:
        words = -(-descriptor.output_rows // config.lanes)
    elif on_skip_array(config, descriptor):
        words *= descriptor.blocks
    if sends_accumulators(descriptor):
        return words * config.lanes * descriptor.write_slots
    return words * max(config.lanes, descriptor.write_slots)


def sends_accumulators(descriptor: Descriptor) -> bool:
    """Whether a GEMM writes accumulators to the activation memory, a word each. FP R24."""
    return descriptor.flags & _WIDE_OUT == _WIDE_OUT


def takes_accumulators(descriptor: Descriptor) -> bool:
    """Whether a GEMM takes accumulators from the activation memory. FP R24."""
    return descriptor.flags & _WIDE_IN == _WIDE_IN


def pass_steps(config: KernelConfig, descriptor: Descriptor) -> int:
    """What the field ``steps`` of a descriptor must hold: cycles of one pass. Waits for its weights are none."""
    return max(kernel_steps(config, descriptor) * descriptor.read_slots, drain_cycles(config, descriptor))


def added_reads(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles that a GEMM waits while the tensor that it adds is read, a word of every pixel of a group at a time.

    They come as evenly as results leave, and none waits in the share of a pass in which no operand is read.
    """
    if not adds_tensor(descriptor):
        return 0
    words = column_groups(config, descriptor) * -(-descriptor.output_rows // config.lanes)
    return -(-words * kernel_steps(config, descriptor) * descriptor.read_slots // pass_steps(config, descriptor))


def pixel_groups(config: KernelConfig, descriptor: Descriptor) -> int:
    """Groups of ``transfer_pixels`` pixels a LOAD or a STORE moves; every row begins with a new group."""
    rows = descriptor.output_pixels // descriptor.output_width
    return rows * -(-descriptor.output_width // config.transfer_pixels)


def pixel_words(descriptor: Descriptor) -> int:
    """Words of one pixel that a LOAD writes or a STORE reads."""
    loads = descriptor.operation == Operation.LOAD
    return descriptor.output_pixel_words if loads else descriptor.input_pixel_words


def tensor_beats(config: KernelConfig, descriptor: Descriptor) -> int:
    """Beats a LOAD or a STORE moves without its header: its groups, one word of each pixel after the other."""
    words = pixel_groups(config, descriptor) * pixel_words(descriptor) * config.transfer_pixels
    return -(-words // config.words_per_beat)


def operation_cycles(config: KernelConfig, descriptor: Descriptor) -> int:
    """The work of one operation: the cycles it takes where it never waits (docs/kernel.md). BFP 6, R71.

    ValueError for operations that no kernel has.
    """
    operation = Operation(descriptor.operation)
    if operation in COUNTED_OPERATIONS:
        return computing_cycles(config, descriptor)
    if operation in (Operation.LOAD, Operation.STORE):
        return pixel_groups(config, descriptor) * pixel_words(descriptor)
    if operation is Operation.WEIGHTS:
        return descriptor.parameter_rows + descriptor.weight_words * config.beats_per_weight_word
    if operation in (Operation.NONE, Operation.TABLE):
        return 0
    raise ValueError(f"no kernel computes {operation.name}")


def stage_turns(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles that the output stage takes for a row of an operation.

    It computes slices of the columns after each other, and columns of a slice share units of tables that are loaded.
    """
    if descriptor.operation not in ARRAY_OPERATIONS:
        return 1
    if not config.function_tables:
        return config.row_turns
    loaded = descriptor.function == LOADED_TABLE or Function(descriptor.function).row.table is not None
    return config.row_turns * (COLUMNS_OF_A_UNIT if loaded else 1)


def stage_cycles(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles that the rows of an operation take in the output stage."""
    rows = drain_cycles(config, descriptor) // max(config.lanes, descriptor.write_slots) * config.lanes
    return stage_turns(config, descriptor) * passes(config, descriptor) * rows


def occupied_cycles(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles of one operation by itself: those of its work, unless an array computes it without zeros.

    Its work is what it reads; how long its passes take, entries or activations decide: ``steps`` says it.
    """
    leaves = stage_cycles(config, descriptor) if stage_turns(config, descriptor) > 1 else 0
    if skips_zeros(config, descriptor):
        return max(engine_of(config).occupied_cycles(config, descriptor), leaves)
    work = max(operation_cycles(config, descriptor) + added_reads(config, descriptor), leaves)
    if descriptor.operation == Operation.ROWS:
        operation, groups = RowOperation(descriptor.row_operation), column_groups(config, descriptor)
        return max(work, row_cycles(operation, descriptor.output_rows, groups, config.row_columns, config.lanes))
    return work


def weight_reads(config: KernelConfig, descriptor: Descriptor) -> int:
    """Weight words that a GEMM multiplies by, each as often as it is read."""
    return engine_of(config).weight_reads(config, descriptor)


def map_beats(descriptor: Descriptor) -> int:
    """Beats of cells of a map that are read: for every block, and once more where they are counted."""
    rounds = descriptor.blocks + (descriptor.most_moves > 0)
    return rounds * descriptor.channel_words * descriptor.map_groups * descriptor.read_slots


def computing_cycles(config: KernelConfig, descriptor: Descriptor) -> int:
    """``operation_cycles`` of operations that compute."""
    if on_cluster(config, descriptor):
        return map_beats(descriptor)
    if skips_zeros(config, descriptor):
        # Beats of operands.
        return column_groups(config, descriptor) * kernel_steps(config, descriptor) * descriptor.read_slots
    steps = pass_steps(config, descriptor)
    if on_skip_array(config, descriptor):
        steps = kernel_steps(config, descriptor) * descriptor.read_slots  # of kept sums
    group = turns(descriptor) * row_blocks(config, descriptor) * steps
    # The next group's pixels are found one a cycle meanwhile.
    return column_groups(config, descriptor) * max(group, active_columns(config, descriptor))
