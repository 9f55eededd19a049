"""Constraints between the numbers of the array and of the kernel around it."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import ROWS, Function
from bfpga.contract.predicates import MOST_REGISTERS
from bfpga.contract.rows import MANTISSA_BITS, RESULT_BITS
from bfpga.contract.streams import TENSOR_HEADER
from bfpga.engines.interface.finding import Finding
from bfpga.engines.kernel.engine import engine_of

#: Fewest and most bins of a collector; fewer than a mantissa's bits would show little.
POSITION_BINS = (8, 64)
#: Widest values of maps that cross the streams compressed, and fewest and most of them in a beat.
MOST_MAP_BITS, MAP_VALUES = 16, (4, 8)
#: Keep buffers grow by the depth of one column of look-up-table memory, the smallest piece of a device.
WIDE_WORDS = 64
#: Most bits of a word of the activation memory that takes an accumulator (hls: output/accumulator_word.hpp).
WIDE_BITS = 64


def findings(config: KernelConfig) -> Iterator[Finding]:
    """Wrong numbers of a kernel, whatever its array is."""
    yield from shape_findings(config)
    yield from width_findings(config)
    yield from function_findings(config)
    yield from position_findings(config)
    yield from position_stream_findings(config)
    yield from wide_memory_findings(config)
    yield from count_findings(config)
    yield from map_findings(config)
    yield from program_findings(config)
    yield from row_findings(config)
    yield from operand_findings(config)
    yield from add_findings(config)
    yield from static_findings(config)
    yield from slice_findings(config)


def shape_findings(config: KernelConfig) -> Iterator[Finding]:
    if config.rows % config.lanes:
        yield Finding("rows", f"is {config.rows}; must be a multiple of lanes = {config.lanes}")
    if config.parameter_rows < config.accumulator_rows:
        needed = config.accumulator_rows
        yield Finding("parameter_rows", f"is {config.parameter_rows}; must be at least the {needed} channels of a pass")
    yield from engine_of(config).findings(config)


def width_findings(config: KernelConfig) -> Iterator[Finding]:
    least = 2 * config.format.mantissa_bits + 2
    if config.accumulator_bits < least:
        yield Finding(
            "accumulator_bits", f"is {config.accumulator_bits}; must be {least}..58 (2 * mantissa_bits + 2 at least)"
        )
    if config.bias_bits > config.accumulator_bits:
        yield Finding(
            "bias_bits", f"is {config.bias_bits}; must not exceed accumulator_bits = {config.accumulator_bits}"
        )
    if config.stream_bits < config.word_bits:
        yield Finding(
            "stream_bits", f"is {config.stream_bits}; must hold one word of lanes x container = {config.word_bits}"
        )


def function_findings(config: KernelConfig) -> Iterator[Finding]:
    if "none" not in config.functions:
        yield Finding("functions", "lacks `none`; layers without a function need it")
    if len(set(config.functions)) < len(config.functions):
        yield Finding("functions", "names a function twice; each must be given once")
    for name in config.built_in_functions:
        least = Function.named(name).row.least_accumulator_bits
        if config.accumulator_bits < least:
            text = f"has {name}, whose results take accumulators of {least} bits, not {config.accumulator_bits}"
            yield Finding("functions", text)
    least = min(row.least_accumulator_bits for row in ROWS.values() if row.table is not None)
    if config.function_tables and config.accumulator_bits < least:
        text = f"is {config.function_tables}; tables need accumulators of {least} bits, not {config.accumulator_bits}"
        yield Finding("function_tables", text)


def position_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of the collector and of the keep buffer (docs/kernel-positions.md)."""
    least, most = POSITION_BINS
    if config.position_bins and not least <= config.position_bins <= most:
        text = f"is {config.position_bins}; must be {least}..{most}, or 0 for a kernel without a collector"
        yield Finding("position_bins", text)
    if config.wide_words % WIDE_WORDS:
        below = config.wide_words // WIDE_WORDS * WIDE_WORDS
        text = f"is {config.wide_words}; must be a multiple of {WIDE_WORDS}: {below} or {below + WIDE_WORDS}"
        yield Finding("wide_words", text)


def wide_memory_findings(config: KernelConfig) -> Iterator[Finding]:
    """Accumulators as words of the activation memory (FP R24)."""
    if not config.wide_memory:
        return
    word = config.lanes * config.format.mantissa_bits
    if config.accumulator_bits > word:
        text = f"is true; an accumulator of {config.accumulator_bits} bits must fit a word of lanes x mantissa = {word}"
        yield Finding("wide_memory", text)
    elif word > WIDE_BITS:
        text = f"is true; a word of lanes x mantissa = {word} bits must have {WIDE_BITS} bits at most"
        yield Finding("wide_memory", text)


def count_findings(config: KernelConfig) -> Iterator[Finding]:
    """Registers by which operations are skipped (contract/predicates.py)."""
    count, choices = config.count_registers, TENSOR_HEADER["choices"]
    if not count:
        return
    if count > MOST_REGISTERS:
        yield Finding("count_registers", f"is {count}; must be at most {MOST_REGISTERS}")
    if config.stream_bits < choices.first + choices.bits:
        yield Finding("stream_bits", f"is {config.stream_bits}; must be 64 or more to hold what count registers report")


def map_findings(config: KernelConfig) -> Iterator[Finding]:
    """Maps that cross the streams compressed: a beat holds the masks of a chunk and the number of beats that follow."""
    if not config.compressed_maps:
        return
    if config.map_value_bits > MOST_MAP_BITS:
        yield Finding("compressed_maps", f"is true; mantissas must have {MOST_MAP_BITS} bits at most")
        return
    least, most = (number * config.map_value_bits for number in MAP_VALUES)
    if not least <= config.stream_bits <= most:
        text = f"is {config.stream_bits}; must be {least}..{most} for compressed_maps: 4 to 8 values a beat"
        yield Finding("stream_bits", text)


def program_findings(config: KernelConfig) -> Iterator[Finding]:
    """Descriptors that stay on the chip: the length of a tensor is known before it comes, so it is not compressed."""
    if config.program_descriptors and config.compressed_maps:
        text = f"is {config.program_descriptors}; a kernel with compressed_maps has no program memory"
        yield Finding("program_descriptors", text)


def row_findings(config: KernelConfig) -> Iterator[Finding]:
    """The process of rows (contract/rows.py), whose numbers are those of 8-bit mantissas."""
    columns, form = config.row_columns, config.format
    if not columns:
        return
    if columns > config.columns:
        yield Finding("row_columns", f"is {columns}; must be at most columns = {config.columns}")
    if form.mantissa_bits != MANTISSA_BITS or form.saturation != "sym":
        text = f"is {columns}; rows need mantissas of {MANTISSA_BITS} bits and saturation sym, not"
        yield Finding("row_columns", f"{text} {form.mantissa_bits} bits and {form.saturation}")
    if config.accumulator_bits < RESULT_BITS:
        text = f"is {columns}; rows need accumulators of {RESULT_BITS} bits, not {config.accumulator_bits}"
        yield Finding("row_columns", text)
    if config.array.kind != SystolicArray.kind:
        yield Finding("row_columns", f"is {columns}; only a systolic array has a process of rows beside it")
    if config.count_registers:
        yield Finding("row_columns", f"is {columns}; a kernel with count_registers has no process of rows")


def operand_findings(config: KernelConfig) -> Iterator[Finding]:
    """Tensors that become weights: mantissas as an array of linear weights multiplies by."""
    if not config.operand_weights:
        return
    if config.array.kind != SystolicArray.kind or "linear" not in config.weight_formats:
        yield Finding("operand_weights", "is true; only a systolic array of linear weights multiplies two tensors")
    if config.rows > config.columns:
        text = f"is true; rows = {config.rows} pixels are read at once: must be at most columns = {config.columns}"
        yield Finding("operand_weights", text)
    if config.weight_bits < config.format.mantissa_bits:
        bits = config.weight_bits
        yield Finding("operand_weights", f"is true; mantissas must have the {bits} bits of a weight for that")
    if config.format.saturation != "sym":
        text = f"is true; weights are symmetric: saturation must be sym, not {config.format.saturation}"
        yield Finding("operand_weights", text)
    if config.count_registers:
        yield Finding("operand_weights", "is true; a kernel with count_registers multiplies no two tensors")


def add_findings(config: KernelConfig) -> Iterator[Finding]:
    """Tensors that are added to sums."""
    if config.residual_adds and config.array.kind != SystolicArray.kind:
        yield Finding("residual_adds", "is true; only the sums of a systolic array have a tensor added")


def position_stream_findings(config: KernelConfig) -> Iterator[Finding]:
    """Words of exponents between cores."""
    if config.position_stream and config.array.kind != SystolicArray.kind:
        yield Finding("positions", "is stream; only kernels whose array is a systolic one tell each other exponents")


def static_findings(config: KernelConfig) -> Iterator[Finding]:
    """Exponents that are all static: nothing collects statistics, nothing is kept that was measured."""
    if config.static_exponents and config.position_bins:
        yield Finding("position_bins", f"is {config.position_bins}; a kernel with static_exponents has no collector: 0")
    if config.position_stream and config.static_exponents:
        yield Finding("positions", "is stream; a kernel with static_exponents neither finds exponents nor takes any")
    for key, there in (("wide_words", config.wide_words > 0), ("wide_memory", config.wide_memory)):
        if config.static_exponents and there:
            yield Finding(key, "keeps accumulators that are measured, and a kernel with static_exponents measures none")


def slice_findings(config: KernelConfig) -> Iterator[Finding]:
    """Columns that the output stage computes at once."""
    own, columns = config.post_columns, config.columns
    if own and columns % own:
        fitting = ", ".join(str(number) for number in range(1, columns + 1) if columns % number == 0)
        yield Finding("post_columns", f"is {own}; must divide the {columns} columns: {fitting}, or 0 for all of them")
