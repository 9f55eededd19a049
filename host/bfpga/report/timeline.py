"""The timeline: compute, transfers and the host as bars, one row for each that can work at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import HostNode, KernelOperation, LaunchStep, Program
from bfpga.engines.kernel.order import SampleRow
from bfpga.estimate.cores import cores_used
from bfpga.estimate.host import host_seconds
from bfpga.estimate.sample import SampleEstimate
from bfpga.program.cycles import always
from bfpga.program.places import ARRAY_TITLE
from bfpga.report.timing import Timed, start_times

#: Rows that only move data; what computes has the title of the array.
LOADS, STORES, WEIGHTS, HOST = "loads", "stores", "weights", "host"
_TRANSFERS = {
    Operation.LOAD: LOADS, Operation.STORE: STORES, Operation.WEIGHTS: WEIGHTS, Operation.TABLE: WEIGHTS
}  # fmt: skip
#: Bars at most; of more, neighbours of one layer become one.
MOST_BARS = 3000
#: Samples of one start whose overlap is shown.
SHOWN_SAMPLES = 3


@dataclass(frozen=True)
class Bar:
    """One operation, or neighbours of one layer: cycles [begin, end) from the begin of the first sample."""

    lane: str
    layer: str
    what: str
    begin: float
    end: float
    sample: int = 0
    start: int = 0


@dataclass(frozen=True)
class Timeline:
    """Bars of one sample or several."""

    bars: list[Bar]
    cycles: float
    samples: int = 1

    @property
    def lanes(self) -> list[str]:
        """Rows that have a bar: transfers in, what computes, transfers out, the host."""
        used = dict.fromkeys(bar.lane for bar in self.bars)
        computing = [lane for lane in used if lane not in (WEIGHTS, LOADS, STORES, HOST)]
        return [lane for lane in (WEIGHTS, LOADS, *computing, STORES, HOST) if lane in used]

    @property
    def busy(self) -> dict[str, float]:
        """Cycles in which each row works."""
        result = dict.fromkeys(self.lanes, 0.0)
        for bar in self.bars:
            result[bar.lane] += bar.end - bar.begin
        return result


def sample_timeline(work: Sequence[Timed], cycles: float) -> Timeline:
    """One sample alone, from ``timing.sample_times``."""
    bars = [_bar(item) for item in work]
    return Timeline(bars if len(bars) <= MOST_BARS else merged(bars), cycles)


def overlap_timeline(accelerator: Accelerator, program: Program) -> Timeline | None:
    """Some samples that follow each other in one start; None where samples do not share starts."""
    steps = [step for step in program.steps if isinstance(step, LaunchStep)]
    if len(steps) != 1:
        return None
    operations = always(program, steps[0].operations)
    row = SampleRow.of(operations, len(always(program, steps[0].operations[: steps[0].ahead])))
    places = list(row.walk(SHOWN_SAMPLES))
    stream = [operations[row.order[place]] for _, place in places]
    moments, cycles = start_times(accelerator, program, stream)
    previous = range(*row.previous.indices(len(row.order))) if row.extra_rows else range(0)
    bars = [
        Bar(lane_of(item), item.layer, what_of(item), begin, end, number - (place in previous))
        for item, (begin, end), (number, place) in zip(stream, moments, places, strict=True)
    ]
    return Timeline(bars, cycles, SHOWN_SAMPLES) if len(bars) <= MOST_BARS else None


def cores_timeline(accelerator: Accelerator, program: Program, found: SampleEstimate) -> Timeline | None:
    """Starts that follow each other on several cores, a row for each core and one for the host; None for one core.

    A start takes as long as in a stream, longer where the memory that all share is the limit.
    """
    count = cores_used(accelerator, program)
    if count == 1:
        return None
    clock, together = accelerator.clock_mhz * 1e6, found.together
    kernel = found.stream * count * together * clock
    host = (host_seconds(program, accelerator.board.arm_cores) or 0.0) * clock
    free, host_free, bars = [0.0] * count, 0.0, []
    for sample in range(SHOWN_SAMPLES * count):
        core = min(range(count), key=free.__getitem__)
        begin, end = free[core], free[core] + kernel
        bars.append(Bar(f"core {core}", f"core {core}", "a start, with its transfers", begin, end, sample))
        if host:
            end = host_free = max(end, host_free) + host
            bars.append(Bar(HOST, HOST, "operators left to the host", end - host, end, sample))
        free[core] = end
    return Timeline(bars, max(bar.end for bar in bars), SHOWN_SAMPLES * count)


def lane_of(operation: KernelOperation) -> str:
    """The row of an operation."""
    return _TRANSFERS.get(Operation(operation.descriptor.operation), ARRAY_TITLE)


def what_of(operation: KernelOperation) -> str:
    """The operation in words."""
    kind = Operation(operation.descriptor.operation).name.lower()
    moved = operation.transfer
    return kind if moved is None else f"{kind} of {moved.tensor}, rows {moved.y0} to {moved.y1 - 1}"


def _bar(item: Timed) -> Bar:
    if isinstance(item.work, HostNode):
        return Bar(HOST, item.work.name, ", ".join(item.work.operators), item.begin, item.end, start=item.start)
    return Bar(lane_of(item.work), item.work.layer, what_of(item.work), item.begin, item.end, start=item.start)


def merged(bars: Sequence[Bar]) -> list[Bar]:
    """Neighbours of one row and layer as one bar each."""
    result: list[Bar] = []
    last: dict[str, int] = {}
    for bar in bars:
        before = last.get(bar.lane)
        if before is not None and result[before].layer == bar.layer and result[before].start == bar.start:
            result[before] = replace(result[before], end=bar.end, what="several operations")
            continue
        last[bar.lane] = len(result)
        result.append(bar)
    return result
