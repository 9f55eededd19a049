"""What collectors counted, as text: of the command's JSON, for its table and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bfpga.report.model import Report
from bfpga.report.page import MEASURED, Section, Table

HISTOGRAM_HEADINGS = ("layer", "rule", "exponents", "measured", "0 and -1", "saturated", "positions", "histogram")
#: Of these what falls away on a narrow terminal, in this order.
HISTOGRAM_DROPPED = ("rule", "0 and -1", "measured")
#: Of these what is aligned to the right.
_NUMERIC = frozenset({3, 4, 5})
#: Shares of the fullest bin; a bin that is not empty shows at least the first of them.
_BARS = "▁▂▃▄▅▆▇█"


def histogram_cells(layer: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of ``HISTOGRAM_HEADINGS``. layer: its histogram in the JSON of `bfpga run`."""
    counts = {int(position): int(count) for position, count in layer["counts"].items()}
    return (
        layer["layer"], layer["rule"], _span(*layer["exponents"]), f"{layer['measured']:,}",
        f"{layer['without_bit']:,}", f"{layer['saturated']:,}",
        _span(min(counts), max(counts)) if counts else "-", bars(counts),
    )  # fmt: skip


def bars(counts: Mapping[int, int]) -> str:
    """A line with a bar for each position from the smallest to the largest; a blank where nothing was counted."""
    if not counts:
        return ""
    most = max(counts.values())
    heights = [counts.get(position, 0) * len(_BARS) for position in range(min(counts), max(counts) + 1)]
    return "".join(_BARS[max(0, -(-height // most) - 1)] if height else " " for height in heights)


def histograms_section(report: Report) -> Section | None:
    """Highest bits of what preceded each layer; None where nobody asked for them. FP R49."""
    found = report.histograms
    if not found.get("histograms"):
        return None
    lead = f"On {found['histogram_samples']} samples, as {found['histogram_device']} counts them."
    difference = found["histogram_difference"]
    table = Table(
        "Highest bits of what preceded each layer", MEASURED, HISTOGRAM_HEADINGS,
        [histogram_cells(layer) for layer in found["histograms"]], _NUMERIC,
        "Positions are absolute; the rule finds the exponent of a layer from these counts.",
    )  # fmt: skip
    remarks = [f"Not as the emulator counts them: {difference}"] if difference else []
    return Section("histograms", "Positions found by the data", lead, [], [table], remarks)


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} .. {high}"
