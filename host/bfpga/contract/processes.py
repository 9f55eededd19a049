"""The processes of a kernel and the streams between them: their sources, sinks, widths and depths.

Rendered from here: the streams of the C++ kernel (bfpga/processes/), the block design, its handoff and the manifest.
Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bfpga.contract.commands import commands
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, TOP_FUNCTION, WEIGHT_STREAM

SEQUENCER, SCRATCHPAD, WEIGHTS, ARRAY, POST, STORE = PROCESSES = (
    "sequencer", "scratchpad", "weights", "array", "post", "store",
)  # fmt: skip
#: The process of a skip array in parallel with a systolic array.
SKIP_ARRAY = "skip_array"
#: The processes of a sparse cluster in the place of the array, without its units; the array feeds and controls them.
PARTITION, DISTRIBUTOR, STEP_MAKER, BROADCAST, COLLECTOR, GRID_SUMS = CLUSTER = (
    "partition", "distributor", "step_maker", "broadcast", "collector", "grid_sums",
)  # fmt: skip

#: The processes of a tile in the place of the array, beside that of a sparse cluster that keeps sums.
STEP_READER, TILE = "step_reader", "tile"

#: The processes of compressed maps, before the sequencer and after the store process.
MAP_SPLITTER, MAP_EXPANDER, MAP_COMPRESSOR, MAP_JOINER = MAPS = (
    "map_splitter", "map_expander", "map_compressor", "map_joiner",
)  # fmt: skip
#: Streams from and to the host, each with the process that reads or writes it. The registers are the sequencer's.
HOST_STREAMS = {INPUT_STREAM: SEQUENCER, WEIGHT_STREAM: WEIGHTS, OUTPUT_STREAM: STORE}
#: The same of a kernel with compressed maps.
MAP_STREAMS = {**HOST_STREAMS, INPUT_STREAM: MAP_SPLITTER, OUTPUT_STREAM: MAP_JOINER}
#: Bits of a word of a command, of a report and of an exponent.
COMMAND_BITS = 32
#: Operations that may wait in the commands of a process.
WAITING_OPERATIONS = 8
#: Groups of pixels that a STORE may have sent without a credit.
STORE_CREDITS = 64
#: Passes whose results the scratchpad may await: as many short ones as go on while the first one's results pass the
#: array and the output stage.
AWAITED_PASSES = 16
#: Of a kernel with a skip array: further bits of an operand beat about its chunk; words of results that wait,
#: because vectors come only when all results of windows are back; rows of parameters ahead of their sums, as many as a
#: block of memory has.
SKIP_FLAGS, SKIP_RESULTS, SKIP_PARAMETERS = 5, 64, 1024
#: Of a sparse cluster: bits of a map to cut, further ones with a halo, of the limits of a piece without the turns of
#: its units, of a map to compute, of the outputs of a map; steps that wait for a unit; words of operands for which
#: there is room before a credit, for each column.
PARTITION_BITS, HALO_BITS, LIMITS_BITS, MAP_BITS, OUTPUT_BITS = 95, 6, 132, 64, 102
CLUSTER_AHEAD, COLUMN_OPERANDS = 64, 8
#: Words of records of maps that may wait for a STORE: a block of memory.
TOLD_WORDS = 1024
#: Cycles between the last access of what an operation of the scratchpad needs and its begin: more than any pipeline
#: has between the stage that writes and the stage that reads; counts are compared in them.
START_GUARD = 24
#: Stages that the longest pipelined loop may have between a read and a write, or between two writes of an iteration. No
#: loop waits for a word while it holds others (bfpga/processes/held_beat.hpp), so streams hold what the order of the
#: program needs. Where a loop waits for room in a stream whose reader waits for words of the same loop in another one,
#: these may lag by that many cycles: such a stream holds so many words more than the order of the program needs.
LONGEST_PIPELINE = 40
#: Counts that may await the sequencer: those of the operations whose commands it has sent to `post` while it waits for
#: room in the commands of another process, and that of the one at work.
WAITING_COUNTS = WAITING_OPERATIONS + 2
#: The smallest FIFO that the vendor's IP makes, and the deepest that is made of look-up tables.
SHALLOW, DEEPEST_DISTRIBUTED = 16, 64
#: Groups of a tensor that may wait for the scratchpad, whose command the sequencer has sent before.
WAITING_GROUPS = SHALLOW + LONGEST_PIPELINE


@dataclass(frozen=True)
class ProcessStream:
    """A stream from one process to another: its name, the bits of a word, the words it must be able to hold.

    A kernel with fewer words of room might wait for ever; more change nothing but time.
    """

    name: str
    source: str
    target: str
    bits: int
    depth: int

    @property
    def octets(self) -> int:
        """Bytes of a word on the wire."""
        return -(-self.bits // 8)

    @property
    def fifo_words(self) -> int:
        """Words of the FIFO in the stream: a power of two (PG085)."""
        return max(SHALLOW, 1 << (self.depth - 1).bit_length())

    @property
    def is_in_blocks(self) -> bool:
        """Whether the FIFO is made of block memory."""
        return self.fifo_words > DEEPEST_DISTRIBUTED


def process_function(process: str) -> str:
    """The top function of a process, which names its IP: the one with the registers is the kernel to the host."""
    return TOP_FUNCTION if process == SEQUENCER else f"bfpga_{process}"


def host_streams(config: KernelConfig) -> dict[str, str]:
    """The streams from and to the host, each with the process of a kernel that reads or writes it."""
    return MAP_STREAMS if config.compressed_maps else HOST_STREAMS


def kernel_processes(config: KernelConfig) -> tuple[str, ...]:
    """The processes of a kernel."""
    return (*_computing_processes(config), *(MAPS if config.compressed_maps else ()))


def _computing_processes(config: KernelConfig) -> tuple[str, ...]:
    """Those that a kernel has whether its maps are compressed or not."""
    if config.has_tile:
        return (*PROCESSES, STEP_READER, TILE, GRID_SUMS)
    if config.has_cluster:
        return (
            *PROCESSES, *CLUSTER, *cluster_gathers(config), *cluster_units(config), *cluster_merges(config),
        )  # fmt: skip
    return (*PROCESSES, SKIP_ARRAY) if config.dense_beside else PROCESSES


def cluster_units(config: KernelConfig) -> tuple[str, ...]:
    """The processes of the units of a sparse cluster, band by band."""
    return tuple(f"unit_{unit}" for unit in range(0 if config.has_tile else config.cluster_units))


def cluster_gathers(config: KernelConfig) -> tuple[str, ...]:
    """The processes in front of units of variants A to D, which put micro-tiles together."""
    return tuple(f"gather_{unit}" for unit in range(config.cluster_units if config.indexes_products else 0))


def cluster_merges(config: KernelConfig) -> tuple[str, ...]:
    """The processes after units of variants C and D, which add products and hold back those that collide."""
    return tuple(f"merge_{unit}" for unit in range(config.cluster_units if config.merges_products else 0))


def process_kind(process: str) -> str:
    """The kind of a process: the name of those that a kernel has several of, without its number."""
    name, _, number = process.rpartition("_")
    return name if number.isdigit() else process


def process_streams(config: KernelConfig) -> tuple[ProcessStream, ...]:
    """The streams of a kernel; bits as in bfpga/processes/wires.hpp."""
    return tuple(_streams(config))


def _streams(config: KernelConfig) -> Iterator[ProcessStream]:
    word = config.lanes * config.format.mantissa_bits
    columns, group = config.columns * word, config.transfer_pixels * word
    pass_words = config.accumulator_rows // (1 if config.wide_memory else config.lanes)
    for command in commands(config):
        depth = WAITING_OPERATIONS * (len(command.fields) + 1)
        yield ProcessStream(f"{command.process}_commands", SEQUENCER, command.process, COMMAND_BITS, depth)
    yield ProcessStream("loads", SEQUENCER, SCRATCHPAD, group, WAITING_GROUPS)
    extra = SKIP_FLAGS if config.skip_groups else config.columns + 1 if config.tap_reuse else 0
    waiting = max(SHALLOW, COLUMN_OPERANDS * config.columns) if config.has_cluster else SHALLOW
    yield ProcessStream("operands", SCRATCHPAD, ARRAY, columns + config.columns + 4 + extra, waiting)
    if config.dense_beside:
        yield ProcessStream("skip_operands", SCRATCHPAD, SKIP_ARRAY, columns + config.columns + 4 + extra, SHALLOW)
    yield ProcessStream("vectors", SCRATCHPAD, POST, columns + 2 * config.columns + 1, SHALLOW)
    yield from _entry_streams(config) if config.skips_weights else _weight_streams(config)
    if config.has_cluster:
        yield from _cluster_streams(config)
    if config.skip_groups:
        yield ProcessStream("windows", SKIP_ARRAY if config.dense_beside else ARRAY, SCRATCHPAD, 1, SHALLOW)
    adds = GRID_SUMS if config.has_cluster else ARRAY
    yield ProcessStream("sums", adds, POST, config.columns * config.accumulator_bits, SHALLOW)
    if config.dense_beside:
        yield ProcessStream("skip_sums", SKIP_ARRAY, POST, config.columns * config.accumulator_bits, SHALLOW)
    results = SKIP_RESULTS if config.skip_groups else SHALLOW
    if config.dense_beside or not config.skip_groups:
        results = max(results, AWAITED_PASSES * pass_words)
    yield ProcessStream("results", POST, SCRATCHPAD, columns, results)
    yield ProcessStream("exponents", POST, STORE, COMMAND_BITS, SHALLOW)
    yield ProcessStream("stored", SCRATCHPAD, STORE, group, STORE_CREDITS)
    yield ProcessStream("credits", STORE, SCRATCHPAD, 1, STORE_CREDITS)
    if config.count_registers:
        yield ProcessStream("counts", POST, SEQUENCER, COMMAND_BITS, WAITING_COUNTS)
    for process in (SCRATCHPAD, WEIGHTS, POST, STORE):
        yield ProcessStream(f"{process}_reports", process, SEQUENCER, COMMAND_BITS, SHALLOW)
    if config.compressed_maps:
        yield from _map_streams(config)


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
    yield ProcessStream("stored_values", MAP_COMPRESSOR, MAP_JOINER, beat, max(SHALLOW, config.map_value_bits + 1))


def _weight_streams(config: KernelConfig) -> Iterator[ProcessStream]:
    """What the weights process sends."""
    weights = config.rows * config.lanes * config.weight_bits
    multiplies = STEP_READER if config.has_tile else STEP_MAKER if config.has_cluster else ARRAY
    yield ProcessStream("weight_words", WEIGHTS, multiplies, weights + 2, SHALLOW)
    if config.has_cluster:
        # Rows of a block leave after all its weights: what they wait for are sums of blocks whose weights have gone.
        yield ProcessStream("parameters", WEIGHTS, POST, config.bias_bits + 16, SKIP_PARAMETERS)
        return
    if config.dense_beside:
        yield ProcessStream("skip_words", WEIGHTS, SKIP_ARRAY, weights + 2, SHALLOW)
    if config.skips_activations:
        # Rows of a run leave after all its weights of a block, in parallel with those of the block before.
        rows = 2 * config.skip_halves * config.skip_passes * config.rows
        yield ProcessStream("parameters", WEIGHTS, POST, config.bias_bits + 16, max(SKIP_PARAMETERS, rows))
        return
    # The parameters of a pass leave with its weights, before there are sums that need them: its last weights must not
    # wait for its parameters, nor for those of sums that are on their way through the blocks of columns.
    blocks = -(-config.columns // (config.hop_columns or config.columns))
    parameters = config.accumulator_rows + blocks + LONGEST_PIPELINE
    yield ProcessStream("parameters", WEIGHTS, POST, config.bias_bits + 16, parameters)


def _entry_streams(config: KernelConfig) -> Iterator[ProcessStream]:
    """What the weights process sends to the groups of a skip array that multiplies by stored entries."""
    for group in range(config.skip_groups):
        yield ProcessStream(f"entries_{group}", WEIGHTS, ARRAY, config.entry_bits, config.skip_queue)
    # A row waits only for rows of passes before its own, whose entries have all been sent.
    parameters = max(SKIP_PARAMETERS, config.skip_halves * config.rows)
    yield ProcessStream("parameters", WEIGHTS, POST, config.bias_bits + 16, parameters)


def _cluster_streams(config: KernelConfig) -> Iterator[ProcessStream]:
    """The streams between the processes of a sparse cluster, or of a tile; bits as in sparse_cluster."""
    cell = config.lanes * config.format.mantissa_bits
    taps = config.cluster_kernel * config.cluster_kernel
    place, phase = (config.cluster_words - 1).bit_length(), (config.cluster_kernel - 1).bit_length() + 1
    piece, step = cell + place + 2 * phase + 5, taps * config.weight_bits + (config.rows - 1).bit_length() + 4
    block = taps * config.accumulator_bits
    lane = max(1, (config.lanes - 1).bit_length())
    # Of all cells of a block none says where it is.
    value = config.format.mantissa_bits + (0 if config.shifts_window else 2 * phase)
    tile = config.block_values * value + lane + place + 6
    yield ProcessStream("kernels", ARRAY, STEP_READER if config.has_tile else STEP_MAKER, COMMAND_BITS, SHALLOW)
    yield ProcessStream("outputs", ARRAY, GRID_SUMS, OUTPUT_BITS, SHALLOW)
    if config.has_tile:
        yield from _tile_streams(config, cell, block)
        return
    yield ProcessStream("partitions", ARRAY, PARTITION, PARTITION_BITS + HALO_BITS * config.has_halo, SHALLOW)
    yield ProcessStream("counted", ARRAY, PARTITION, cell, SHALLOW)
    limits = LIMITS_BITS + 2 * config.cluster_units.bit_length()
    yield ProcessStream("limits", PARTITION, DISTRIBUTOR, limits, SHALLOW)
    yield ProcessStream("grid_limits", PARTITION, COLLECTOR, limits, SHALLOW)
    yield ProcessStream("cuts", PARTITION, DISTRIBUTOR, COMMAND_BITS, SHALLOW)
    yield ProcessStream("told", DISTRIBUTOR, STORE, COMMAND_BITS, TOLD_WORDS)
    yield ProcessStream("maps", ARRAY, DISTRIBUTOR, MAP_BITS, SHALLOW)
    yield ProcessStream("grid_maps", ARRAY, COLLECTOR, MAP_BITS, SHALLOW)
    yield ProcessStream("cells", ARRAY, DISTRIBUTOR, cell, SHALLOW)
    yield ProcessStream("steps", STEP_MAKER, BROADCAST, step, SHALLOW)
    units = cluster_units(config)
    takers, adders = cluster_gathers(config) or units, cluster_merges(config) or units
    for number, (taker, unit, adder) in enumerate(zip(takers, units, adders, strict=True)):
        yield ProcessStream(f"pieces_{number}", DISTRIBUTOR, taker, piece, config.cluster_queue)
        if taker != unit:
            yield ProcessStream(f"tiles_{number}", taker, unit, tile, SHALLOW)
        yield ProcessStream(f"steps_{number}", BROADCAST, unit, step, CLUSTER_AHEAD)
        if adder != unit:
            yield ProcessStream(f"rounds_{number}", unit, adder, _round_bits(config), SHALLOW)
        yield ProcessStream(f"sums_{number}", adder, COLLECTOR, block, SHALLOW)
    yield ProcessStream("blocks", COLLECTOR, GRID_SUMS, block, SHALLOW)


def _tile_streams(config: KernelConfig, cell: int, block: int) -> Iterator[ProcessStream]:
    """The streams of a tile; cell, block: bits of their words."""
    step = config.weight_bits + 2 * ((config.cluster_kernel - 1).bit_length() + 1) + (config.rows - 1).bit_length() + 3
    yield ProcessStream("maps", ARRAY, TILE, MAP_BITS, SHALLOW)
    yield ProcessStream("cells", ARRAY, TILE, cell, SHALLOW)
    yield ProcessStream("steps", STEP_READER, TILE, step, SHALLOW)
    yield ProcessStream("blocks", TILE, GRID_SUMS, block, SHALLOW)


def _round_bits(config: KernelConfig) -> int:
    """Bits of the products of a round, each with its bank and block; of the clashes of banks, and of a block itself."""
    taps = config.cluster_kernel * config.cluster_kernel
    place, plane = (config.cluster_words - 1).bit_length(), max(1, (config.rows - 1).bit_length())
    bank = max(1, (taps - 1).bit_length())
    product = config.format.mantissa_bits + config.weight_bits + bank + place + 1
    return config.block_values * config.step_weights * product + place + plane + taps + 3
