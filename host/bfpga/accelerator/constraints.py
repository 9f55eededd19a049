"""Constraints between the numbers of a kernel, and the limits of its board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bfpga.accelerator.boards import Board
from bfpga.accelerator.engine_constraints import Finding, engine_findings
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.functions import Function
from bfpga.engines.resource_units import Resources
from bfpga.engines.resources import array_dsp, estimate_resources

#: Additions the low field of a packed product survives: lanes of one clock add up inside the DSP blocks (BFP 7).
PACKED_TERMS = {"DSP48E1": 4, "DSP48E2": 8, "DSP58": 8}
#: Fewest and most bins of a collector; fewer than a mantissa's bits would tell little.
POSITION_BINS = (8, 64)
#: Keep buffers grow by the depth of one column of look-up-table memory, the smallest piece of a device.
WIDE_WORDS = 64


def config_findings(config: SystolicConfig) -> list[Finding]:
    """Every constraint that ``config`` violates; an empty list for a kernel that can be built."""
    array = [*shape_findings(config), *width_findings(config), *function_findings(config)]
    return [*array, *position_findings(config), *engine_findings(config)]


def shape_findings(config: SystolicConfig) -> Iterator[Finding]:
    if config.rows % config.lanes:
        yield Finding("rows", f"is {config.rows}; must be a multiple of lanes = {config.lanes}")
    if config.parameter_rows < config.accumulator_rows:
        needed = config.accumulator_rows
        yield Finding("parameter_rows", f"is {config.parameter_rows}; must be at least the {needed} channels of a pass")
    if config.multiplier == "shift" and config.shift_columns:
        yield Finding("shift_columns", "are beside columns of DSP blocks; with `multiplier: shift` all columns are")
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


def width_findings(config: SystolicConfig) -> Iterator[Finding]:
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


def function_findings(config: SystolicConfig) -> Iterator[Finding]:
    if "none" not in config.functions:
        yield Finding("functions", "lacks `none`; layers without a function need it")
    if len(set(config.functions)) < len(config.functions):
        yield Finding("functions", "names a function twice; each must be given once")
    for name in config.functions:
        least = Function.named(name).row.least_accumulator_bits
        if config.accumulator_bits < least:
            text = f"has {name}, whose results take accumulators of {least} bits, not {config.accumulator_bits}"
            yield Finding("functions", text)


def position_findings(config: SystolicConfig) -> Iterator[Finding]:
    """Numbers of the collector and of the keep buffer (docs/kernel-positions.md)."""
    least, most = POSITION_BINS
    if config.position_bins and not least <= config.position_bins <= most:
        text = f"is {config.position_bins}; must be {least}..{most}, or 0 for a kernel without a collector"
        yield Finding("position_bins", text)
    if config.wide_words % WIDE_WORDS:
        below = config.wide_words // WIDE_WORDS * WIDE_WORDS
        text = f"is {config.wide_words}; must be a multiple of {WIDE_WORDS}: {below} or {below + WIDE_WORDS}"
        yield Finding("wide_words", text)


def board_findings(config: SystolicConfig, board: Board) -> list[Finding]:
    """What of the board the array exceeds: with the numbers and the largest column count that fits."""
    over = exceeded(estimate_resources(config).total, board)
    if not over:
        return []
    excess = f"an array with {array_dsp(config)} DSP blocks in its dot tiles needs {'; '.join(over)} of {board.title}"
    return [positions_excess(config, board, excess) or columns_excess(config, board, excess)]


def positions_excess(config: SystolicConfig, board: Board, excess: str) -> Finding | None:
    """What the collector or the keep buffer takes too much; None if the array would not fit without it either."""
    if config.wide_words and not exceeded(estimate_resources(replace(config, wide_words=0)).total, board):
        best = largest_wide_words(config, board)
        remedy = f"at most {best} fit" if best else "no keep buffer fits"
        return Finding("wide_words", f"is {config.wide_words}: {excess}; {remedy}")
    if config.position_bins and not exceeded(estimate_resources(replace(config, position_bins=0)).total, board):
        best = largest_position_bins(config, board)
        remedy = f"at most {best} bins fit" if best else "no collector fits: must be 0"
        return Finding("position_bins", f"is {config.position_bins}: {excess}; {remedy}")
    return None


def columns_excess(config: SystolicConfig, board: Board, excess: str) -> Finding:
    """The largest count of columns that fits, of shift columns if those are what is too much."""
    multiplying = config.columns - config.shift_columns
    alone = replace(config, columns=multiplying, shift_columns=0)
    if config.shift_columns and not exceeded(estimate_resources(alone).total, board):
        best = largest_shift_columns(config, board)
        remedy = f"at most {best} shift columns fit" if best else "not even one shift column fits"
        text = f"is {config.shift_columns}: {excess}; {remedy} beside {multiplying} columns of DSP blocks"
        return Finding("shift_columns", text)
    best, least = largest_columns(alone, board), least_columns(config)
    others = " and ".join(config.engines[1:])
    beside, smaller = (f" beside {others}", f"{others}, ") if others else ("", "")
    none = "not even one column fits" if least == 1 else f"not even {least} columns fit"
    none += f"{beside}: make {smaller}the memories or rows smaller"
    remedy = f"at most {best} columns fit{beside}" if best else none
    return Finding("columns", f"is {multiplying}: {excess}; {remedy}")


def largest_wide_words(config: SystolicConfig, board: Board) -> int:
    """Largest keep buffer, all else equal, that the board holds; 0 if none."""
    for words in range(config.wide_words - WIDE_WORDS, 0, -WIDE_WORDS):
        if not exceeded(estimate_resources(replace(config, wide_words=words)).total, board):
            return words
    return 0


def largest_position_bins(config: SystolicConfig, board: Board) -> int:
    """Most bins of a collector, all else equal, that the board holds; 0 if none."""
    for bins in range(config.position_bins - 1, POSITION_BINS[0] - 1, -1):
        if not exceeded(estimate_resources(replace(config, position_bins=bins)).total, board):
            return bins
    return 0


def least_columns(config: SystolicConfig) -> int:
    """Columns that other engines need as ports of the output stage."""
    return config.sparse_cluster.lanes if config.sparse_cluster else 1


def exceeded(needed: Resources, board: Board) -> list[str]:
    """`306 DSP blocks in all, more than the 220`, for every resource of the board that is too small."""
    amounts = [
        ("DSP blocks", needed.dsp, board.dsp),
        ("block memories (36 Kbit)", needed.bram36, board.bram36),
        ("LUTs", needed.lut, board.lut),
        ("flip-flops", needed.ff, board.ff),
    ]
    return [f"{need} {what} in all, more than the {limit}" for what, need, limit in amounts if need > limit]


def largest_columns(config: SystolicConfig, board: Board) -> int:
    """Largest count of columns of one kind, all else equal, that the board holds; 0 if none."""
    for columns in range(config.columns, least_columns(config) - 1, -1):
        if not exceeded(estimate_resources(replace(config, columns=columns)).total, board):
            return columns
    return 0


def largest_shift_columns(config: SystolicConfig, board: Board) -> int:
    """Largest count of shift columns beside the columns of DSP blocks that the board holds; 0 if none."""
    multiplying = config.columns - config.shift_columns
    for columns in range(config.shift_columns, 0, -1):
        mixed = replace(config, columns=multiplying + columns, shift_columns=columns)
        if not exceeded(estimate_resources(mixed).total, board):
            return columns
    return 0
