"""What a define-by-run session did: one record for each operation, and their sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bfpga.engines.output.collector import PositionHistogram

Place = Literal["device", "host"]


@dataclass(frozen=True)
class OperationRecord:
    """One operation after it ran (FP R18, R49).

    where: `device`, or `host` for what numpy computed. exponent: of the result, found from its own data;
    first_exponent: the one assumed while that was measured, of the operation before. share: of its results that were
    measured, 0 where it passes an exponent through. saturated, underflows, status: what the kernel counted. compiled:
    whether it had to be compiled first. histogram: of the results that were measured; of kernels in sessions that
    ask for it. reason: why the host computed it.
    """

    name: str
    where: Place
    input_shapes: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    input_exponents: tuple[int, ...] = ()
    first_exponent: int = 0
    exponent: int | None = None
    measured: bool = False
    share: float = 0.0
    saturated: int = 0
    underflows: int = 0
    status: int = 0
    macs: int = 0
    cycles: int = 0
    seconds: float = 0.0
    compiled: bool = False
    reason: str = ""
    histogram: PositionHistogram | None = None

    @property
    def position(self) -> int | None:
        """The position (number of fraction bits) of the result; None if it is no array."""
        return None if self.exponent is None else -self.exponent


@dataclass(frozen=True)
class Report:
    """The operations of a session in order, and their sums."""

    accelerator: str
    device: str
    clock_mhz: float
    operations: Sequence[OperationRecord]

    def __iter__(self) -> Iterator[OperationRecord]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def on_device(self) -> int:
        """Operations that ran on the device."""
        return sum(record.where == "device" for record in self.operations)

    @property
    def on_host(self) -> int:
        """Operations that numpy computed."""
        return len(self.operations) - self.on_device

    @property
    def compiled(self) -> int:
        """Operations that had to be compiled; the others were known."""
        return sum(record.compiled for record in self.operations)

    @property
    def cycles(self) -> int:
        """Clocks of the kernel, weights and transfers included."""
        return sum(record.cycles for record in self.operations)

    @property
    def macs(self) -> int:
        """Multiply-accumulates on the device."""
        return sum(record.macs for record in self.operations)

    @property
    def saturated(self) -> int:
        """Results that saturated."""
        return sum(record.saturated for record in self.operations)

    @property
    def seconds(self) -> float:
        """What the clocks would take at the accelerator's rate."""
        return self.cycles / (self.clock_mhz * 1e6)

    def __str__(self) -> str:
        """A table with a line for operations of one name, place and shape."""
        groups: dict[tuple[object, ...], list[OperationRecord]] = {}
        for record in self.operations:
            groups.setdefault((record.name, record.where, record.shape, record.reason), []).append(record)
        rows = [_cells(records) for records in groups.values()]
        widths = [max(len(cells[column]) for cells in (_TITLES, *rows)) for column in range(len(_TITLES))]
        lines = [_line(_TITLES, widths), *(_line(cells, widths) for cells in rows)]
        lines.append(
            f"{self.on_device} operations on {self.device} ({self.accelerator}), {self.on_host} on the host, "
            f"{self.compiled} compiled; {self.cycles} cycles, {self.saturated} results saturated"
        )
        return "\n".join(lines)


_TITLES = ("operation", "where", "result", "times", "exponents", "saturated", "cycles", "")
#: Columns of text; numbers are aligned right.
_TEXT = (0, 1, 2, 7)


def _cells(records: Sequence[OperationRecord]) -> tuple[str, ...]:
    first = records[0]
    exponents = sorted({record.exponent for record in records if record.exponent is not None})
    span = "" if not exponents else " .. ".join(map(str, dict.fromkeys((exponents[0], exponents[-1]))))
    saturated, cycles = sum(record.saturated for record in records), sum(record.cycles for record in records)
    shape = " x ".join(map(str, first.shape)) or "number"
    return first.name, first.where, shape, str(len(records)), span, str(saturated), str(cycles), first.reason


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.ljust(width) if column in _TEXT else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()
