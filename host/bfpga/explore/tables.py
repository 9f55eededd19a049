"""Rows of the tables of a search."""

from __future__ import annotations

from typing import Any

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.configuration import ULTRA_MEMORIES, KernelConfig
from bfpga.explore.candidate import unchecked_config
from bfpga.explore.figures import Point
from bfpga.explore.search import Exploration

HEADINGS = (
    "accelerator", "us", "us alone", "mJ", "accuracy %", "lost", "LUT %", "DSP %", "BRAM %", "array", "bits", "MHz",
    "clock",
)  # fmt: skip
#: Columns that fall away on a narrow terminal, in this order.
OPTIONAL = ("clock", "BRAM %", "DSP %", "bits", "MHz", "us alone", "lost", "array", "mJ")


def table_row(found: Exploration, point: Point, name: str) -> tuple[str, ...]:
    """The cells of a point, as ``HEADINGS`` names them."""
    figures, limits = point.figures, found.task.board.resources
    config, clock = _config(point)
    shares = (f"{100 * figures.used[kind] / max(limits[kind], 1):.0f}" for kind in ("lut", "dsp", "bram36"))
    return (
        name,
        f"{1e6 * figures.seconds:.1f}",
        f"{1e6 * figures.latency:.1f}",
        f"{1e3 * figures.joules:.3f}",
        _number(figures.accuracy),
        _number(figures.loss),
        *shares,
        array_words(config),
        str(config.format.mantissa_bits),
        f"{clock:g}",
        state(found, point),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def state(found: Exploration, point: Point) -> str:
    """What is known of the clock; of a ready accelerator that cannot be of the front, why."""
    if point.excess > 0:
        return "too large"
    if (point.figures.loss or 0.0) > found.task.goal.drop:
        return "too inexact"
    return point.clock


def _config(point: Point) -> tuple[KernelConfig, float]:
    if point.candidate.origin:
        accelerator = load_accelerator(point.candidate.origin)
        return accelerator.config, accelerator.clock_mhz
    return unchecked_config(point.candidate.described)[0], point.candidate.described["clock_mhz"]


def array_words(config: KernelConfig) -> str:
    """`12+4 x 8 x 4, adds`: columns, of them shift columns, rows and lanes; after commas what else there is.

    Of UltraRAM the memories that are in it: `URAM activations`, both: `URAM`.
    """
    columns: Any = config.columns
    if config.shift_columns:
        columns = f"{config.columns - config.shift_columns}+{config.shift_columns}"
    shifts = " shift" if config.multiplier == "shift" else ""
    others = ", adds" * config.residual_adds + ", static" * config.static_exponents
    if config.ultra_ram:
        others += ", URAM" if config.ultra_ram == ULTRA_MEMORIES else f", URAM {config.ultra_ram[0]}"
    return f"{columns} x {config.rows} x {config.lanes}{shifts}{others}"
