"""Gates on what C synthesis reports: the interval of every loop against the stated one, the clock, the size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bfpga.contract.processes import process_kind
from bfpga.vendor.bitstream.failure import BuildError, Kind
from bfpga.vendor.bitstream.gates import TITLES
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.csynth_report import CsynthReport
from bfpga.vendor.kernel_ips import KernelIp
from bfpga.vendor.stated_loops import StatedLoop

#: The loop that a process consists of, by the kind of the process. Others may be absent from a report: the tool
#: dissolves a loop that runs once and drops one that this configuration never enters.
PROCESS_LOOPS = {
    "sequencer": "Sequencer",
    "scratchpad": "Scratchpad",
    "weights": "Weights",
    "array": "Array",
    "post": "Rows",
    "store": "Store",
    # Of some kernels.
    "rows": "RowLanes",
    "row_factors": "RowFactors",
    "skip_array": "Sparse",
    "partition": "Terms",
    "distributor": "Cells",
    "step_maker": "Make",
    "step_reader": "Read",
    "broadcast": "Steps",
    "collector": "Blocks",
    "grid_sums": "Grid",
    "unit": "Unit",
    "gather": "Gather",
    "merge": "Merge",
    "tile": "Tile",
}
#: What replaces a systolic array under its name.
ARRAY_LOOPS = frozenset({"Array", "Skip", "Sparse", "Feed"})
#: Name under which a user accepts the clock; loops and resources have their own.
CLOCK = "clock"
_ADVICE = "see the warnings of C synthesis in its log; `--accept {name}` builds it as it is"
_OWN_ADVICE = "`bfpga synthesize` says what it waits for; `--accept {name}` builds it as it is"


@dataclass(frozen=True)
class IpReport:
    """What C synthesis reports of an IP, and the loops of its sources that state an interval."""

    ip: KernelIp
    loops: Sequence[StatedLoop]
    report: CsynthReport
    path: Path


@dataclass(frozen=True)
class OwnReport:
    """The intervals of an IP that this toolkit has made, and the loops of its sources that state one."""

    ip: KernelIp
    loops: Sequence[StatedLoop]
    intervals: Mapping[str, int]
    path: Path


@dataclass(frozen=True)
class Shortfall:
    """What a report says that a design does not state. ``name``: of the loop or the resource, or `clock`."""

    name: str
    kind: Kind
    sentence: str
    path: Path


def hls_gate(design: BlockDesign, reports: Sequence[IpReport], accepted: Collection[str]) -> list[str]:
    """Remarks on what is accepted or only worth knowing; BuildError with the first shortfall that is not accepted.

    ``reports``: of every IP of the kernel.
    """
    shortfalls = [
        *(item for found in reports for item in (*_loops(found), *_clock(design, found))),
        *_resources(design, reports),
    ]
    return _accepted(shortfalls, accepted, _ADVICE) + [note for found in reports for note in _remarks(found)]


def own_gate(reports: Sequence[OwnReport], accepted: Collection[str]) -> list[str]:
    """As `hls_gate`, for Verilog that this toolkit has made: the interval of every loop against the stated one."""
    return _accepted([item for found in reports for item in _own_loops(found)], accepted, _OWN_ADVICE)


def _accepted(shortfalls: Sequence[Shortfall], accepted: Collection[str], advice: str) -> list[str]:
    """Remarks on accepted shortfalls; BuildError with the first that is not."""
    refused = [item for item in shortfalls if item.name not in accepted]
    if refused:
        first, others = refused[0], refused[1:]
        more = "".join(f"\n  also: {item.sentence}" for item in others)
        said = advice.format(name=first.name)
        raise BuildError(first.kind, f"{first.sentence}{more}\n{said}\nreport: {first.path}", first.path)
    return [f"accepted: {item.sentence}" for item in shortfalls]


def _own_loops(found: OwnReport) -> Iterator[Shortfall]:
    for loop in found.loops:
        interval = found.intervals.get(loop.label)
        if interval is None and loop.label in computing_loops(found.ip):
            sentence = f"loop {loop} states an interval of {loop.interval}, but {found.ip.function} has no such loop"
            yield Shortfall(loop.label, "interval", sentence, found.path)
        elif interval is not None and interval > loop.interval:
            sentence = f"loop {loop} has an interval of {interval} clocks instead of {loop.interval}"
            yield Shortfall(loop.label, "interval", sentence, found.path)


def computing_loops(ip: KernelIp) -> frozenset[str]:
    """Labels of loops without which a report is not that of this IP."""
    kind = process_kind(ip.part)
    return ARRAY_LOOPS if kind == "array" else frozenset({PROCESS_LOOPS[kind]})


def intervals(reports: Iterable[IpReport]) -> dict[str, int | None]:
    """Label of a stated loop -> the longest interval of its copies, None where no report names it."""
    found: dict[str, list[int]] = {}
    for item in reports:
        for stated in item.loops:
            found.setdefault(stated.label, []).extend(loop.interval or 0 for loop in item.report.loops_of(stated.label))
    return {label: max(values, default=None) for label, values in found.items()}


def estimate(reports: Sequence[IpReport]) -> dict[str, float]:
    """The longest path in nanoseconds, and the resources of all IPs together."""
    return {"clock_ns": max(item.report.clock.estimated_ns for item in reports), **_used(reports)}


def _used(reports: Iterable[IpReport]) -> dict[str, int]:
    used: dict[str, int] = {}
    for item in reports:
        for name, number in item.report.used.items():
            used[name] = used.get(name, 0) + number
    return used


def _loops(found: IpReport) -> Iterator[Shortfall]:
    report, computing = found.report, computing_loops(found.ip)
    for loop in found.loops:
        copies = report.loops_of(loop.label)
        if not copies and loop.label in computing:
            sentence = (
                f"loop {loop} states an interval of {loop.interval}, but the report of {report.top} names no such loop"
            )
            yield Shortfall(loop.label, "interval", sentence, found.path)
        for item in copies:
            where = f"loop {loop} in {item.module}"
            if item.interval is None:
                sentence = f"{where} is not pipelined; it states an interval of {loop.interval}"
                yield Shortfall(loop.label, "interval", sentence, found.path)
            elif item.interval > loop.interval:
                sentence = (
                    f"{where} reaches an interval of {item.interval} clocks instead of {loop.interval}: what it "
                    f"computes takes {item.interval / loop.interval:g} times the clocks of the schedule"
                )
                yield Shortfall(loop.label, "interval", sentence, found.path)


def _clock(design: BlockDesign, found: IpReport) -> Iterator[Shortfall]:
    clock, wanted = found.report.clock, design.clock.period_ns
    who = f" of {found.ip.function}"
    if abs(clock.target_ns - wanted) > 0.005 * wanted:
        sentence = f"C synthesis{who} was for a period of {clock.target_ns:g} ns, the design has {wanted:g} ns"
        yield Shortfall(CLOCK, "timing", sentence, found.path)
    elif clock.estimated_ns > clock.target_ns:
        sentence = (
            f"C synthesis{who} estimates a path of {clock.estimated_ns:.3f} ns, {design.accelerator.name} has a clock "
            f"of {clock.target_ns:g} ns: set clock_mhz in {design.accelerator.path} to "
            f"{int(1000 / clock.estimated_ns)} or less"
        )
        yield Shortfall(CLOCK, "timing", sentence, found.path)


def _resources(design: BlockDesign, reports: Sequence[IpReport]) -> Iterator[Shortfall]:
    available = reports[0].report.available
    for name, used in _used(reports).items():
        if available.get(name, 0) and used > available[name]:
            sentence = (
                f"C synthesis estimates {used:,} {_title(name)} for the kernel alone, "
                f"{design.accelerator.board.part} has {available[name]:,}"
            )
            largest = max(reports, key=lambda item: item.report.used.get(name, 0))
            yield Shortfall(name, "utilization", sentence, largest.path)


def _remarks(found: IpReport) -> Iterator[str]:
    report, computing = found.report, computing_loops(found.ip)
    absent = [str(loop) for loop in found.loops if loop.label not in computing and not report.loops_of(loop.label)]
    if absent:
        yield f"loops that state an interval and that the report does not name: {', '.join(absent)}"
    if 0 > report.clock.slack_ns >= -report.clock.uncertainty_ns:
        yield (
            f"the path that C synthesis estimates, {report.clock.estimated_ns:.3f} ns, leaves less than its margin of "
            f"{report.clock.uncertainty_ns:g} ns to {report.clock.target_ns:g} ns"
        )


def _title(name: str) -> str:
    return "BRAM18" if name == "bram18" else TITLES[name]


def known_gates(stated: Iterable[StatedLoop]) -> list[str]:
    """Every name that a user may accept: loops, the clock, resources of C synthesis and of the routed design."""
    return sorted({CLOCK, "bram18", *TITLES, *(loop.label for loop in stated)})
