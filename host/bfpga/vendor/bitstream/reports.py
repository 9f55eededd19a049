"""Vivado's text reports: utilization (`report_utilization`) and timing (`report_timing_summary`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bfpga.vendor.bitstream.failure import BuildError

#: Resource of a board file -> its row in the reports of 7-series and UltraScale+ devices.
ROWS = {
    "lut": ("Slice LUTs", "CLB LUTs"),
    "ff": ("Slice Registers", "CLB Registers"),
    "bram36": ("Block RAM Tile",),
    "uram": ("URAM",),
    "dsp": ("DSPs",),
}
#: Rows that a report of any device has.
REQUIRED = ("lut", "ff", "bram36", "dsp")


@dataclass(frozen=True)
class Usage:
    """One resource: what the design uses of what the device has. Block memories are counted in halves."""

    used: float
    available: float

    @property
    def share(self) -> float:
        return self.used / self.available if self.available else math.inf if self.used else 0.0


@dataclass(frozen=True)
class Timing:
    """Slack in nanoseconds: worst and total, of setup, hold and pulse width. ``failing``: setup endpoints."""

    wns: float
    tns: float
    failing: int
    whs: float
    wpws: float

    @property
    def met(self) -> bool:
        return self.wns >= 0 and self.whs >= 0 and self.wpws >= 0


def read_utilization(path: Path) -> dict[str, Usage]:
    """Resources of a utilization report; BuildError if it holds none."""
    rows = {name.rstrip("*").strip(): usage for name, usage in _table_rows(_text(path))}
    found = {key: rows[name] for key, names in ROWS.items() for name in names if name in rows}
    missing = [" or ".join(ROWS[key]) for key in REQUIRED if key not in found]
    if missing:
        raise BuildError("artefact", f"{path} is no utilization report: it has no row {', '.join(missing)}", path)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise BuildError("artefact", f"{path}: {error.strerror}; the tool has not written its report", path) from error


def _table_rows(text: str) -> Iterator[tuple[str, Usage]]:
    """Rows of the tables with the columns Used and Available, which newer versions part with a column Prohibited."""
    header: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|\n ").split("|")]
        if "Used" in cells and "Available" in cells:
            header = cells
        elif header and len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            used, available = _number(row["Used"]), _number(row["Available"])
            if used is not None and available is not None:
                yield cells[0], Usage(used, available)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def read_timing(path: Path) -> Timing:
    """The design timing summary of a report; BuildError if there is none or no path is constrained."""
    lines = iter(_text(path).splitlines())
    header = next((line for line in lines if line.lstrip().startswith("WNS(ns)")), None)
    # The rule below the header is not to be taken for the row, nor a negative slack for the rule.
    values = next((line.split() for line in lines if line.strip(" -\t")), [])
    if header is None or not values:
        raise BuildError("artefact", f"{path} is no timing summary: it has no column WNS(ns)", path)
    row = dict(zip(re.split(r"\s{2,}", header.strip()), values, strict=False))
    slack = {name: _number(row.get(f"{name}(ns)", "")) for name in ("WNS", "TNS", "WHS", "WPWS")}
    if slack["WNS"] is None or slack["TNS"] is None:
        raise BuildError("timing", f"{path}: no path is constrained; the design has lost its clock", path)
    failing = int(_number(row.get("TNS Failing Endpoints", "")) or 0)
    return Timing(slack["WNS"], slack["TNS"], failing, slack["WHS"] or 0.0, slack["WPWS"] or 0.0)
