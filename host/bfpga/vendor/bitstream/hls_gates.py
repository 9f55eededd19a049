"""Gates on what C synthesis reports: the interval of every loop against the stated one, the clock, the size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bfpga.vendor.bitstream.failure import BuildError, Kind
from bfpga.vendor.bitstream.gates import TITLES
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.csynth_report import CsynthReport
from bfpga.vendor.stated_loops import StatedLoop

#: The loops that compute, one of each engine: a report without one of them is not of this kernel. Others may be absent:
#: the tool dissolves a loop that runs once and drops one that this configuration never enters.
COMPUTING_LOOPS = frozenset({"Array", "Image", "Word"})
#: Name under which a user accepts the clock; loops and resources have their own.
CLOCK = "clock"
_ADVICE = "see the warnings of C synthesis in its log; `--accept {name}` builds it as it is"


@dataclass(frozen=True)
class Shortfall:
    """What a report says that a design does not state. ``name``: of the loop or the resource, or `clock`."""

    name: str
    kind: Kind
    sentence: str


def hls_gate(
    design: BlockDesign, stated: Iterable[StatedLoop], report: CsynthReport, path: Path, accepted: Collection[str]
) -> list[str]:
    """Remarks on what is accepted or only worth knowing; BuildError with the first shortfall that is not accepted."""
    loops = list(stated)
    shortfalls = [*_loops(loops, report), *_clock(design, report), *_resources(design, report)]
    refused = [item for item in shortfalls if item.name not in accepted]
    if refused:
        first, others = refused[0], refused[1:]
        more = "".join(f"\n  also: {item.sentence}" for item in others)
        advice = _ADVICE.format(name=first.name)
        raise BuildError(first.kind, f"{first.sentence}{more}\n{advice}\nreport: {path}", path)
    return [f"accepted: {item.sentence}" for item in shortfalls] + list(_remarks(loops, report))


def _loops(stated: Iterable[StatedLoop], report: CsynthReport) -> Iterator[Shortfall]:
    for loop in stated:
        found = report.loops_of(loop.label)
        if not found and loop.label in COMPUTING_LOOPS:
            sentence = (
                f"loop {loop} states an interval of {loop.interval}, but the report of {report.top} names no such loop"
            )
            yield Shortfall(loop.label, "interval", sentence)
        for item in found:
            where = f"loop {loop} in {item.module}"
            if item.interval is None:
                sentence = f"{where} is not pipelined; it states an interval of {loop.interval}"
                yield Shortfall(loop.label, "interval", sentence)
            elif item.interval > loop.interval:
                sentence = (
                    f"{where} reaches an interval of {item.interval} clocks instead of {loop.interval}: what it "
                    f"computes takes {item.interval / loop.interval:g} times the clocks of the schedule"
                )
                yield Shortfall(loop.label, "interval", sentence)


def _clock(design: BlockDesign, report: CsynthReport) -> Iterator[Shortfall]:
    clock, wanted = report.clock, design.clock.period_ns
    if abs(clock.target_ns - wanted) > 0.005 * wanted:
        sentence = f"C synthesis was for a period of {clock.target_ns:g} ns, the design has {wanted:g} ns"
        yield Shortfall(CLOCK, "timing", sentence)
    elif clock.estimated_ns > clock.target_ns:
        sentence = (
            f"C synthesis estimates a path of {clock.estimated_ns:.3f} ns, {design.accelerator.name} has a clock of "
            f"{clock.target_ns:g} ns: set clock_mhz in {design.accelerator.path} to {int(1000 / clock.estimated_ns)} "
            "or less"
        )
        yield Shortfall(CLOCK, "timing", sentence)


def _resources(design: BlockDesign, report: CsynthReport) -> Iterator[Shortfall]:
    for name, share in _shares(report):
        if share > 1:
            sentence = (
                f"C synthesis estimates {report.used[name]:,} {_title(name)} for the kernel alone, "
                f"{design.accelerator.board.part} has {report.available[name]:,}"
            )
            yield Shortfall(name, "utilization", sentence)


def _remarks(stated: Iterable[StatedLoop], report: CsynthReport) -> Iterator[str]:
    absent = [str(loop) for loop in stated if loop.label not in COMPUTING_LOOPS and not report.loops_of(loop.label)]
    if absent:
        yield f"loops that state an interval and that the report does not name: {', '.join(absent)}"
    if 0 > report.clock.slack_ns >= -report.clock.uncertainty_ns:
        yield (
            f"the path that C synthesis estimates, {report.clock.estimated_ns:.3f} ns, leaves less than its margin of "
            f"{report.clock.uncertainty_ns:g} ns to {report.clock.target_ns:g} ns"
        )


def _shares(report: CsynthReport) -> Iterator[tuple[str, float]]:
    for name, used in report.used.items():
        available = report.available.get(name, 0)
        if available:
            yield name, used / available


def _title(name: str) -> str:
    return "BRAM18" if name == "bram18" else TITLES[name]


def known_gates(stated: Iterable[StatedLoop]) -> list[str]:
    """Every name that a user may accept: loops, the clock, resources of C synthesis and of the routed design."""
    return sorted({CLOCK, "bram18", *TITLES, *(loop.label for loop in stated)})
