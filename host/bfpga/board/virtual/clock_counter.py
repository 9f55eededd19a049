"""The clock counter of a design: what a start took, by a model of time, with the registers of the Verilog module.

The kernel of a virtual board is C++ without clocks. The descriptors that it was sent have a schedule; to this the model
adds the clocks in which a stream does not keep up, and what a `SlowKernel` takes longer. Of a model without
descriptors the operations follow each other, each with the clocks and beats that it reports. The rates are assumptions,
none was measured on a board: a stream moves one beat a clock, the first one comes ``FIRST_BEAT_CLOCKS`` after the
start, and ``BUFFERED_BEATS`` wait on the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bfpga.board.virtual.bus import WORD, Slave
from bfpga.board.virtual.faults import Faults, SlowKernel, SlowStream
from bfpga.board.virtual.hls_slave import HlsSlave
from bfpga.board.virtual.kernel_model import KernelModel, OperationTime, OverlappingKernel, RepeatingKernel
from bfpga.board.virtual.process_time import ProcessTime, process_time, told_times
from bfpga.board.virtual.stream_faults import BoardStream
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.position_stream import TOLD_EXPONENTS
from bfpga.contract.predicates import predicate_of
from bfpga.contract.registers import COUNTER_REGISTERS, counter_offset_of
from bfpga.program.start_clocks import FOLLOWED_SAMPLES
from bfpga.program.streamed_exponents import awaiting_operations

#: Clocks from the start to the first beat of an input: the host launches the DMAs after the kernel.
FIRST_BEAT_CLOCKS = 60
#: Beats between memory and kernel when the kernel does not take them.
BUFFERED_BEATS = 64


@dataclass
class StreamPace:
    """How fast a stream goes. ``credit``: beats that could move at once; negative while the first is on its way."""

    clocks_a_beat: float
    credit: float
    waits: int = 0

    def clocks_for(self, beats: int) -> float:
        """Clocks until so many beats have moved."""
        return max(0.0, (beats - self.credit) * self.clocks_a_beat) if beats else 0.0

    def pass_by(self, clocks: int, beats: int) -> None:
        """An operation of so many clocks has moved these beats."""
        self.credit = min(self.credit + clocks / self.clocks_a_beat - beats, BUFFERED_BEATS)


@dataclass(frozen=True)
class Elapsed:
    """Clocks of a start, those of them in which any stream kept it waiting, and those of each stream."""

    clocks: int
    waits: int
    stream_waits: tuple[int, ...]


def elapsed(operations: Iterable[OperationTime], paces: Sequence[StreamPace], interval: float = 1.0) -> Elapsed:
    """Clocks of operations one after another, with streams of these paces in the order of their beats.

    ``interval``: clocks that the hardware takes for each clock of the schedule.
    """
    total = waited = 0
    for operation in operations:
        work = math.ceil(operation.cycles * interval)
        needs = [math.ceil(pace.clocks_for(beats)) for pace, beats in zip(paces, operation.beats, strict=True)]
        clocks = max([work, *needs])
        for pace, beats, need in zip(paces, operation.beats, needs, strict=True):
            pace.waits += max(0, need - work)
            pace.pass_by(clocks, beats)
        total, waited = total + clocks, waited + clocks - work
    return Elapsed(total, waited, tuple(pace.waits for pace in paces))


def _repeated(
    model: RepeatingKernel,
    clocks_a_beat: Sequence[float],
    interval: float,
    works: Sequence[int],
    arrivals: Sequence[float] = (),
) -> ProcessTime:
    """Of a start that repeats operations: a few samples are followed, where nothing decides which operations run."""

    def of(descriptors: Sequence[Descriptor]) -> ProcessTime:
        return process_time(
            model.config, descriptors, clocks_a_beat, FIRST_BEAT_CLOCKS, interval, works, model.opening_beats, arrivals
        )

    received, half = model.received(FOLLOWED_SAMPLES), FOLLOWED_SAMPLES // 2
    if model.repeated_samples <= FOLLOWED_SAMPLES or any(predicate_of(item) is not None for item in received):
        return of(model.received())
    more = model.repeated_samples - FOLLOWED_SAMPLES
    return of(received).followed_by(of(model.received(half)), more, FOLLOWED_SAMPLES - half)


@dataclass
class HostClock:
    """The clock at which the processor acts, which takes no time itself: it knows of no start that ends later."""

    now: float = 0.0


class ClockCounter(Slave):
    """Registers of the clock counter that watches ``kernel``. It counts until the kernel's interrupt rises."""

    def __init__(self, name: str, kernel: HlsSlave, faults: Faults, host: HostClock | None = None) -> None:
        super().__init__(name)
        self.kernel = kernel
        self.faults = faults
        self._values: dict[int, int] = {}
        #: The counter of the core whose exponents this one's kernel awaits.
        self.before: ClockCounter | None = None
        self._host = host or HostClock()
        kernel.watchers.append(self)
        self.reset()

    def reset(self) -> None:
        self._running = False
        #: When the start began, in clocks of the board; when exponents were told, and how many of them were taken.
        self._begin = self._host.now
        self._told: list[float] = []
        self._taken = 0
        self._clear()

    def _clear(self) -> None:
        self._values = dict.fromkeys((register.offset for register in COUNTER_REGISTERS), 0)

    def read(self, offset: int) -> int:
        # Nothing stops a counter whose kernel raises no interrupt: read long after, it has reached its end.
        return WORD if self._running and offset == counter_offset_of("clocks") else self._values.get(offset, 0)

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        """A write is answered and changes nothing."""

    def begins(self) -> None:
        """The kernel was started."""
        self._clear()
        self._running, self._begin = True, self._host.now

    def ends(self) -> None:
        """The kernel's interrupt has risen."""
        self._running = False
        slow = self.faults.take(SlowKernel, lambda fault: fault.kernel == self.kernel.name)
        model = self.kernel.kernel
        paces = [self._pace(port, credit=-FIRST_BEAT_CLOCKS) for port in model.inputs]
        paces += [self._pace(port, credit=BUFFERED_BEATS) for port in model.outputs]
        counted = self._elapsed(model, paces, slow.interval if slow else 1.0)
        values = (counted.clocks, counted.waits, *counted.stream_waits)
        for register, value in zip(COUNTER_REGISTERS, values, strict=False):
            self._values[register.offset] = min(value, WORD)

    def observed(self) -> None:
        """The processor knows that the start has ended."""
        self._host.now = max(self._host.now, self._begin + self._values[counter_offset_of("clocks")])

    def _arrivals(self) -> list[float]:
        """When the exponents that the start awaits came, in clocks from its begin; most await none."""
        model, before = self.kernel.kernel, self.before
        if before is None or not isinstance(model, OverlappingKernel):
            return []
        awaited = len(awaiting_operations(model.received()))
        return [moment - self._begin for moment in before.take(awaited)] if awaited else []

    def take(self, count: int) -> list[float]:
        """When the next so many exponents were told, in clocks of the board."""
        told = self._told + (self._told_now(self._arrivals()) if self._running else [])
        self._taken += count
        return told[self._taken - count : self._taken]

    def _told_now(self, arrivals: Sequence[float]) -> list[float]:
        """When the start tells its exponents, as far as it has come."""
        model = self.kernel.kernel
        if not self.kernel.streams.keys() & {TOLD_EXPONENTS} or not isinstance(model, OverlappingKernel):
            return []
        times = told_times(model.config, model.received(), FIRST_BEAT_CLOCKS, arrivals)
        return [self._begin + moment for moment in times]

    def _elapsed(self, model: KernelModel, paces: Sequence[StreamPace], interval: float) -> Elapsed | ProcessTime:
        arrivals = self._arrivals()
        self._told += self._told_now(arrivals)
        clocks_a_beat = [pace.clocks_a_beat for pace in paces]
        works = [operation.cycles for operation in model.operations()]
        if isinstance(model, RepeatingKernel) and model.repeated_samples:
            return _repeated(model, clocks_a_beat, interval, works, arrivals)
        if isinstance(model, OverlappingKernel) and (received := model.received()):
            return process_time(
                model.config, received, clocks_a_beat, FIRST_BEAT_CLOCKS, interval, works, arrivals=arrivals
            )
        return elapsed(model.operations(), paces, interval)

    def _pace(self, port: str, credit: float) -> StreamPace:
        stream = self.kernel.streams[port]
        ends = stream.ends if isinstance(stream, BoardStream) else ()
        slow = self.faults.take(SlowStream, lambda fault: fault.stream in ends)
        return StreamPace(slow.clocks_a_beat if slow else 1.0, credit)
