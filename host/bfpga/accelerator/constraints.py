"""Constraints between the numbers of a kernel, and the limits of its board."""

from __future__ import annotations

from dataclasses import replace

from bfpga.accelerator.boards import Board
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources, scaled
from bfpga.engines.kernel.constraints import POSITION_BINS, WIDE_WORDS, findings
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.engines.kernel.engine import engine_of


def config_findings(config: KernelConfig) -> list[Finding]:
    """Every constraint that ``config`` violates; an empty list for a kernel that can be built."""
    return list(findings(config))


def board_findings(config: KernelConfig, board: Board) -> list[Finding]:
    """What of the board the array exceeds: with the numbers and the largest column count that fits."""
    over = exceeded(needed(config), board)
    if not over:
        return []
    if config.ultra_ram and not board.uram:
        named = ", ".join(config.ultra_ram)
        return [Finding("ultra_ram", f"is [{named}]: {board.title} has no UltraRAM; must be left out")]
    blocks = engine_of(config).multiplier_dsp(config)
    excess = f"an array with {blocks} DSP blocks in its dot tiles needs {'; '.join(over)} of {board.title}"
    return [positions_excess(config, board, excess) or columns_excess(config, board, excess)]


def cores_excess(config: KernelConfig, board: Board, cores: int) -> str:
    """What so many copies of a kernel that fits the board take too much; empty if they fit too."""
    one = needed(config)
    over = exceeded(scaled(one, cores), board)
    if not over:
        return ""
    best = next(count for count in range(cores - 1, 0, -1) if count == 1 or not exceeded(scaled(one, count), board))
    verb = "fits" if best == 1 else "fit"
    return f"is {cores}: the kernels need {'; '.join(over)} of {board.title}; at most {best} {verb}"


def needed(config: KernelConfig) -> Resources:
    """The least that a kernel takes of a board: a vendor's tool needs up to a seventh less tables than are counted.

    `benchmarks.synthesis.vendor_tables` says where that is known from.
    """
    total = estimate_resources(config).total
    return replace(total, lut=6 * total.lut // 7)


def positions_excess(config: KernelConfig, board: Board, excess: str) -> Finding | None:
    """What the collector or the keep buffer takes too much; None if the array would not fit without it either."""
    if config.wide_words and not exceeded(needed(replace(config, wide_words=0)), board):
        best = largest_wide_words(config, board)
        remedy = f"at most {best} fit" if best else "no keep buffer fits"
        return Finding("wide_words", f"is {config.wide_words}: {excess}; {remedy}")
    if config.position_bins and not exceeded(needed(replace(config, position_bins=0)), board):
        best = largest_position_bins(config, board)
        remedy = f"at most {best} bins fit" if best else "no collector fits: must be 0"
        return Finding("position_bins", f"is {config.position_bins}: {excess}; {remedy}")
    return None


def columns_excess(config: KernelConfig, board: Board, excess: str) -> Finding:
    """The largest count of columns that fits, of shift columns if those are what is too much."""
    multiplying = config.columns - config.shift_columns
    alone = replace(config, columns=multiplying, shift_columns=0)
    if config.shift_columns and not exceeded(needed(alone), board):
        best = largest_shift_columns(config, board)
        remedy = f"at most {best} shift columns fit" if best else "not even one shift column fits"
        text = f"is {config.shift_columns}: {excess}; {remedy} with {multiplying} columns of DSP blocks"
        return Finding("shift_columns", text)
    best = largest_columns(alone, board)
    remedy = f"at most {best} columns fit" if best else "not even one column fits: make the memories or rows smaller"
    return Finding("columns", f"is {multiplying}: {excess}; {remedy}")


def largest_wide_words(config: KernelConfig, board: Board) -> int:
    """Largest keep buffer, all else equal, that the board holds; 0 if none."""
    for words in range(config.wide_words - WIDE_WORDS, 0, -WIDE_WORDS):
        if not exceeded(needed(replace(config, wide_words=words)), board):
            return words
    return 0


def largest_position_bins(config: KernelConfig, board: Board) -> int:
    """Most bins of a collector, all else equal, that the board holds; 0 if none."""
    for bins in range(config.position_bins - 1, POSITION_BINS[0] - 1, -1):
        if not exceeded(needed(replace(config, position_bins=bins)), board):
            return bins
    return 0


def exceeded(needed: Resources, board: Board) -> list[str]:
    """`306 DSP blocks in all, more than the 220`, for every resource of the board that is too small."""
    amounts = [
        ("DSP blocks", needed.dsp, board.dsp),
        ("block memories (36 Kbit)", needed.bram36, board.bram36),
        ("UltraRAMs (288 Kbit)", needed.uram, board.uram),
        ("LUTs", needed.lut, board.lut),
        ("flip-flops", needed.ff, board.ff),
    ]
    return [f"{need} {what} in all, more than the {limit}" for what, need, limit in amounts if need > limit]


def largest_columns(config: KernelConfig, board: Board) -> int:
    """Largest count of columns of one kind, all else equal, that the board holds; 0 if none."""
    step = config.shared_columns
    for columns in range(config.columns // step * step, 0, -step):
        if not exceeded(needed(replace(config, columns=columns)), board):
            return columns
    return 0


def largest_shift_columns(config: KernelConfig, board: Board) -> int:
    """Largest count of shift columns in addition to the columns of DSP blocks that the board holds; 0 if none."""
    multiplying = config.columns - config.shift_columns
    for columns in range(config.shift_columns, 0, -1):
        mixed = replace(config, columns=multiplying + columns, shift_columns=columns)
        if not exceeded(needed(mixed), board):
            return columns
    return 0
