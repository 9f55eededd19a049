"""The processes of a kernel and the streams between them: their sources, sinks, widths and depths.

Rendered from here: the streams of the C++ kernel (bfpga/processes/), the block design, its handoff and the manifest.
Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from bfpga.contract import rows
from bfpga.contract.commands import commands
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import (
    ADDED_WORDS,
    COMMAND_BITS,
    FACTORS,
    LONGEST_PIPELINE,
    MAP_COMPRESSOR,
    MAP_EXPANDER,
    MAP_JOINER,
    MAP_SPLITTER,
    MAPS,
    POST,
    PROCESSES,
    PROGRAM,
    ROW_PROCESSES,
    ROWS,
    SCRATCHPAD,
    SEQUENCER,
    SHALLOW,
    STORE,
    STORE_CREDITS,
    WAITING_COUNTS,
    WAITING_GROUPS,
    WAITING_OPERATIONS,
    WEIGHTS,
    ProcessStream,
)
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, TOP_FUNCTION, WEIGHT_STREAM

#: Streams from and to the host, each with the process that reads or writes it. The registers are the sequencer's.
HOST_STREAMS = {INPUT_STREAM: SEQUENCER, WEIGHT_STREAM: WEIGHTS, OUTPUT_STREAM: STORE}
#: The same of a kernel with compressed maps.
MAP_STREAMS = {**HOST_STREAMS, INPUT_STREAM: MAP_SPLITTER, OUTPUT_STREAM: MAP_JOINER}
#: The same of a kernel with a program memory.
PROGRAM_STREAMS = {**HOST_STREAMS, INPUT_STREAM: PROGRAM}


def process_function(process: str) -> str:
    """The top function of a process, which names its IP: the one with the registers is the kernel to the host."""
    return TOP_FUNCTION if process == SEQUENCER else f"bfpga_{process}"


def host_streams(config: KernelConfig) -> dict[str, str]:
    """The streams from and to the host, each with the process of a kernel that reads or writes it."""
    if config.program_descriptors:
        return PROGRAM_STREAMS
    return MAP_STREAMS if config.compressed_maps else HOST_STREAMS


def kernel_processes(config: KernelConfig) -> tuple[str, ...]:
    """The processes of a kernel."""
    rest = (*(ROW_PROCESSES if config.has_rows else ()), *(MAPS if config.compressed_maps else ()))
    rest = (*rest, PROGRAM) if config.program_descriptors else rest
    return (*PROCESSES, *config.array.processes(config), *rest)


def process_kind(process: str) -> str:
    """The kind of a process: the name of those that a kernel has several of, without its number."""
    name, _, number = process.rpartition("_")
    return name if number.isdigit() else process


@lru_cache(maxsize=64)
def process_streams(config: KernelConfig) -> tuple[ProcessStream, ...]:
    """The streams of a kernel; bits as in bfpga/processes/wires.hpp."""
    return tuple(_streams(config))


def _streams(config: KernelConfig) -> Iterator[ProcessStream]:
    array, word = config.array, config.lanes * config.format.mantissa_bits
    columns, group = config.columns * word, config.transfer_pixels * word
    for command in commands(config):
        words = len(command.fields) + 1
        depth = WAITING_OPERATIONS * words
        yield ProcessStream(f"{command.process}_commands", SEQUENCER, command.process, COMMAND_BITS, depth, words)
    yield ProcessStream("loads", SEQUENCER, SCRATCHPAD, group, WAITING_GROUPS)
    yield from array.operand_streams(config)
    added = ADDED_WORDS if config.residual_adds else 1
    yield ProcessStream("vectors", SCRATCHPAD, POST, columns + 2 * config.columns + 1, max(SHALLOW, added), added)
    yield from array.weight_streams(config)
    yield from array.inner_streams(config)
    yield from array.sum_streams(config)
    results = array.result_words(config)
    yield ProcessStream("results", POST, SCRATCHPAD, columns, results, results)
    yield ProcessStream("exponents", POST, STORE, COMMAND_BITS, SHALLOW)
    yield ProcessStream("stored", SCRATCHPAD, STORE, group, STORE_CREDITS, STORE_CREDITS)
    yield ProcessStream("credits", STORE, SCRATCHPAD, 1, STORE_CREDITS)
    if config.count_registers:
        yield ProcessStream("counts", POST, SEQUENCER, COMMAND_BITS, WAITING_COUNTS, WAITING_COUNTS)
    for process in (SCRATCHPAD, WEIGHTS, POST, STORE):
        yield ProcessStream(f"{process}_reports", process, SEQUENCER, COMMAND_BITS, SHALLOW)
    if config.has_rows:
        yield from _row_streams(config)
    if config.operand_weights:
        yield _operand_words(config)
    if config.compressed_maps:
        yield from _map_streams(config)
    if config.program_descriptors:
        yield ProcessStream("program_beats", PROGRAM, SEQUENCER, config.stream_bits, SHALLOW)
        yield ProcessStream("program_reports", PROGRAM, SEQUENCER, COMMAND_BITS, SHALLOW)


def _row_streams(config: KernelConfig) -> Iterator[ProcessStream]:
    """The streams around the processes of rows; bits as in bfpga/processes/rows/beats.hpp.

    The gains of lanes leave with their parameters, of which one loop waits for room, and the other loop for both: they
    may lag by its pipeline.
    """
    columns = config.row_columns
    word, sums = columns * config.lanes * config.format.mantissa_bits, config.columns * config.accumulator_bits
    yield ProcessStream("row_operands", SCRATCHPAD, ROWS, word, SHALLOW)
    yield ProcessStream("row_gains", WEIGHTS, ROWS, rows.GAIN_BITS, 1 + LONGEST_PIPELINE)
    yield ProcessStream("row_totals", ROWS, FACTORS, rows.TOTAL_BEAT_BITS, max(SHALLOW, columns), columns)
    yield ProcessStream("row_factors", FACTORS, ROWS, rows.FACTOR_BEAT_BITS, max(SHALLOW, columns), columns)
    yield ProcessStream("row_sums", ROWS, POST, sums, SHALLOW)
    yield ProcessStream("row_exponents", POST, FACTORS, COMMAND_BITS, SHALLOW)


def _operand_words(config: KernelConfig) -> ProcessStream:
    """Words of a tensor that becomes weights; bits as in bfpga/processes/operand_words.hpp.

    `weights` takes them when operations before have read what they overwrite, which needs operands of the same loop.
    """
    bits = config.rows * config.lanes * config.format.mantissa_bits
    return ProcessStream("operand_words", SCRATCHPAD, WEIGHTS, bits, 1 + LONGEST_PIPELINE)


def _map_streams(config: KernelConfig) -> Iterator[ProcessStream]:
    """The streams around the processes of compressed maps; bits as in bfpga/processes/maps/beats.hpp."""
    beat = config.stream_bits
    chunk = beat + 3
    yield ProcessStream("map_masks", MAP_SPLITTER, MAP_EXPANDER, chunk, SHALLOW)
    yield ProcessStream("map_values", MAP_SPLITTER, MAP_EXPANDER, beat, SHALLOW)
    yield ProcessStream("input_beats", MAP_EXPANDER, SEQUENCER, beat, SHALLOW)
    yield ProcessStream("output_beats", STORE, MAP_COMPRESSOR, beat + 4, SHALLOW)
    yield ProcessStream("stored_masks", MAP_COMPRESSOR, MAP_JOINER, chunk, SHALLOW)
    # All values of a chunk come before its masks, in parallel with the last ones of the chunk before.
    values = config.map_value_bits + 1
    yield ProcessStream("stored_values", MAP_COMPRESSOR, MAP_JOINER, beat, max(SHALLOW, values), values)
