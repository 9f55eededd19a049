"""Constraints between the numbers of the array and of the kernel around it."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.contract.limits import largest_coordinate
from bfpga.contract.predicates import MOST_REGISTERS
from bfpga.contract.streams import TENSOR_HEADER
from bfpga.engines.interface.finding import Finding
from bfpga.engines.sparse_cluster.unit_maps import map_fits, run_passes
from bfpga.engines.zero_skip_tile.tile_words import EntryShape

#: Additions the low field of a packed product survives: lanes of one cycle add up inside the DSP blocks (BFP 7).
PACKED_TERMS = {"DSP48E1": 4, "DSP48E2": 8, "DSP58": 8}
#: Widest factors of two products that share a DSP block.
SKIP_MANTISSA_BITS = 8
#: Most output channels of a group that skips activations, and most passes for which it holds weights.
MOST_LANES, MOST_PASSES = 64, 64
#: Fewest words that wait for each of them: a quarter of the queue is sent at a time.
LEAST_QUEUE = 4
#: Groups of columns that a skip array computes at once.
SKIP_HALVES = 2
#: Fewest and most units of a cluster (SC 2.2), fewest kernels in flight, most rows and columns of a kernel.
LEAST_UNITS, MOST_UNITS, LEAST_KERNELS, MOST_KERNEL = 2, 32, 4, 5
#: Fewest and most bins of a collector; fewer than a mantissa's bits would show little.
POSITION_BINS = (8, 64)
#: Widest values of maps that cross the streams compressed, and fewest and most of them in a beat.
MOST_MAP_BITS, MAP_VALUES = 16, (4, 8)
#: Keep buffers grow by the depth of one column of look-up-table memory, the smallest piece of a device.
WIDE_WORDS = 64


def findings(config: KernelConfig) -> Iterator[Finding]:
    """Wrong numbers of a kernel, whatever its array is."""
    yield from shape_findings(config)
    yield from width_findings(config)
    yield from function_findings(config)
    yield from position_findings(config)
    yield from wide_memory_findings(config)
    yield from hop_findings(config)
    yield from count_findings(config)
    yield from map_findings(config)


def shape_findings(config: KernelConfig) -> Iterator[Finding]:
    if config.rows % config.lanes:
        yield Finding("rows", f"is {config.rows}; must be a multiple of lanes = {config.lanes}")
    if config.parameter_rows < config.accumulator_rows:
        needed = config.accumulator_rows
        yield Finding("parameter_rows", f"is {config.parameter_rows}; must be at least the {needed} channels of a pass")
    if config.has_tile:
        yield from tile_findings(config)
    elif config.has_cluster:
        yield from cluster_findings(config)
    elif config.skip_groups:
        yield from skip_findings(config)
    if config.dense_beside and not config.skips_activations:
        text = "is true; only a skip array of source activations has the weight words of a systolic array"
        yield Finding("dense_beside", text)
    if config.skip_groups and not config.dense_beside:
        return
    if config.multiplier == "shift" and config.shift_columns:
        yield Finding("shift_columns", "complement columns of DSP blocks; with `multiplier: shift` all columns shift")
    if config.multiplier != "dsp_packed":
        return
    terms = PACKED_TERMS[config.dsp]
    if config.rows % 2:
        yield Finding("rows", f"is {config.rows}; must be even for dsp_packed: two rows share a DSP block")
    if config.lanes > terms:
        yield Finding("lanes", f"is {config.lanes}; must be at most {terms} for dsp_packed on {config.dsp}")
    if config.format.mantissa_bits > 8:
        bits = config.format.mantissa_bits
        yield Finding("multiplier", f"is dsp_packed, which needs mantissas of 8 bits or less, not {bits}; must be dsp")


def skip_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a skip array."""
    if config.format.mantissa_bits > SKIP_MANTISSA_BITS:
        text = f"has mantissas of {config.format.mantissa_bits} bits; a skip array takes {SKIP_MANTISSA_BITS} at most"
        yield Finding("format", f"{text}: two products share a DSP block")
    if config.skip_halves != SKIP_HALVES:
        text = f"is an array of {config.skip_halves} groups of columns; the reader of operands takes {SKIP_HALVES}"
        yield Finding("kind", text)
    if config.wide_memory:
        yield Finding("wide_memory", "is true; a skip array keeps accumulators in the keep buffer only")
    yield from entry_findings(config) if config.skips_weights else activation_findings(config)


def entry_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a skip array that multiplies by stored weights."""
    if config.columns % 2:
        yield Finding("columns", f"is {config.columns}; must be even for a skip array: two columns share a DSP block")
    if config.rows >= config.skip_chunk:
        text = f"is {config.rows}; must be less than chunk = {config.skip_chunk}: an entry gives a channel as a place"
        yield Finding("rows", text)


def activation_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a skip array that multiplies by activations."""
    pixels = config.skip_halves * config.columns
    if config.skip_groups != pixels:
        text = f"is {config.skip_groups}; source activations has a group for each of the {pixels} pixels of a pass"
        yield Finding("groups", text)
    if config.rows % 2 or config.rows > MOST_LANES:
        text = f"is {config.rows}; must be even and {MOST_LANES} at most for source activations: two share a DSP block"
        yield Finding("rows", text)
    if config.skip_passes > MOST_PASSES or not _is_power(config.skip_passes):
        yield Finding("passes", f"is {config.skip_passes}; must be a power of two, {MOST_PASSES} at most")
    if not _is_power(config.skip_chunk // config.lanes) or config.skip_chunk % config.lanes:
        yield Finding("chunk", f"is {config.skip_chunk}; must be a power of two of words of {config.lanes} channels")
    if config.skip_queue < LEAST_QUEUE or not _is_power(config.skip_queue):
        yield Finding("queue", f"is {config.skip_queue}; must be a power of two, {LEAST_QUEUE} at least")


def cluster_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a sparse cluster in the place of the array."""
    if not LEAST_UNITS <= config.cluster_units <= MOST_UNITS:
        yield Finding("grid", f"has {config.cluster_units} units; must have {LEAST_UNITS}..{MOST_UNITS}")
    yield from unit_findings(config)
    if not 1 <= config.cluster_kernel <= MOST_KERNEL:
        return
    takes_lanes = config.indexes_products and not config.shifts_window
    if not 1 <= config.cluster_products <= config.cluster_kernel**2 and takes_lanes:
        text = f"is {config.cluster_products}; must be 1..{config.cluster_kernel**2}: values of a block of the map"
        yield Finding("products", text)
    if config.merges_products and config.cluster_products % 2:
        text = f"is {config.cluster_products}; must be even: half of the lanes are for the second weight of a round"
        yield Finding("products", text)
    if config.merges_products and config.cluster_kernel < 2:
        yield Finding("kernel", f"is {config.cluster_kernel}; must be 2 at least: a round has two weights of a kernel")
    sizes = {"unit_words": config.cluster_words, "map_lines": config.cluster_lines, "map_blocks": config.cluster_blocks}
    for key, number in sizes.items():
        if not _is_power(number):
            yield Finding(key, f"is {number}; must be a power of two")
    kernel = config.cluster_kernel
    yield from run_findings(config, "map_lines", config.cluster_lines)
    if not map_fits(kernel, kernel, (kernel, kernel), config):
        text = f"is {config.cluster_words}; sums of a map of {kernel} x {kernel} cells must have room in a unit"
        yield Finding("unit_words", text)


def unit_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a unit with kernels in flight, of a cluster's or of a tile."""
    if not LEAST_KERNELS <= config.rows <= MOST_LANES or not _is_power(config.rows):
        text = f"is {config.rows}; must be a power of two, {LEAST_KERNELS}..{MOST_LANES}: kernels in flight of a unit"
        yield Finding("rows", text)
    if config.format.mantissa_bits > SKIP_MANTISSA_BITS:
        text = f"has mantissas of {config.format.mantissa_bits} bits; a unit takes {SKIP_MANTISSA_BITS} at most"
        yield Finding("format", text)
    kernel = config.cluster_kernel
    if not 1 <= kernel <= MOST_KERNEL:
        yield Finding("kernel", f"is {kernel}; must be 1..{MOST_KERNEL}")
    least = 2 * config.format.mantissa_bits + (kernel * kernel - 1).bit_length()
    if config.accumulator_bits < least:
        text = f"is {config.accumulator_bits}; must be {least} at least for products of {kernel} x {kernel} weights"
        yield Finding("accumulator_bits", text)
    if config.wide_memory or config.wide_words:
        name = "a tile" if config.has_tile else "a sparse cluster"
        yield Finding("wide_words", f"is {config.wide_words}; must be 0: {name} keeps no accumulators")


def run_findings(config: KernelConfig, key: str, lines: object) -> Iterator[Finding]:
    """Whether a map of the largest size can be read as one run; key, lines: what the file says of that size."""
    if config.skip_passes < run_passes(config.columns, config.cluster_lines, config.cluster_kernel):
        yield Finding(key, f"is {lines}; a run of {config.skip_passes} passes holds fewer cells")
    if 2 * config.skip_passes > largest_coordinate(config):
        text = f"is {lines}; activation memories of {config.activation_words} words hold no such map"
        yield Finding(key, text)


def tile_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a tile in the place of the array."""
    yield from unit_findings(config)
    kernel, rows, columns = config.cluster_kernel, config.tile_rows, config.tile_columns
    if not 1 <= kernel <= MOST_KERNEL:
        return
    tile = f"is [{rows}, {columns}]"
    if config.tile_parallel % kernel:
        yield Finding("rows_parallel", f"is {config.tile_parallel}; must be a multiple of kernel = {kernel}")
    if rows % config.tile_parallel:
        yield Finding("tile", f"{tile}; its rows must be a multiple of rows_parallel = {config.tile_parallel}")
    if columns % kernel:
        yield Finding("tile", f"{tile}; its columns must be a multiple of kernel = {kernel}")
    if min(rows, columns) < 2 * kernel - 1:
        sums = 2 * kernel - 1
        yield Finding("tile", f"{tile}; a map of {kernel} x {kernel} cells has {sums} rows and columns of sums")
    entry = EntryShape.of(config)
    if entry.plain_from > entry.word_cells:
        text = f"are {config.lanes}; {config.rows} rows of them have no room for an entry of {entry.cells} weights"
        yield Finding("lanes", text)
    yield from run_findings(config, "tile", f"[{rows}, {columns}]")


def _is_power(number: int) -> bool:
    """Whether a number is a power of two."""
    return number > 0 and number & (number - 1) == 0


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
    for name in config.functions:
        least = Function.named(name).row.least_accumulator_bits
        if config.accumulator_bits < least:
            text = f"has {name}, whose results take accumulators of {least} bits, not {config.accumulator_bits}"
            yield Finding("functions", text)


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


def hop_findings(config: KernelConfig) -> Iterator[Finding]:
    """Columns that share a copy of the weights."""
    hop, columns = config.hop_columns, config.columns
    if hop and columns % hop:
        fitting = ", ".join(str(number) for number in range(1, columns + 1) if columns % number == 0)
        yield Finding("hop_columns", f"is {hop}; must divide the {columns} columns: {fitting}, or 0 for all of them")

