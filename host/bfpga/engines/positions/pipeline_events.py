"""The pipeline of both sides, event by event: stalls, and a queue of positions that is full or empty (FP R41, R42)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from bfpga.engines.positions.fifo import PositionEntry, PositionFifo
from bfpga.engines.positions.pipeline import StageTimes
from bfpga.errors import ConfigurationError

Side = Literal["preceding", "main"]
#: How long a side stalls before it sends or takes a position.
Stall = Callable[[Side], float]


@dataclass(frozen=True)
class Span:
    """When a side computed a layer."""

    side: Side
    iteration: int
    layer: int
    begin: float
    end: float


@dataclass(frozen=True)
class PipelineRun:
    """What happened: spans in the order of their begin, positions as the main side got them, the fullest queue."""

    spans: tuple[Span, ...]
    delivered: tuple[PositionEntry, ...]
    largest_ahead: int

    @property
    def makespan(self) -> float:
        return max(span.end for span in self.spans)


def no_stall(_side: Side) -> float:
    return 0


def simulate(
    times: StageTimes, positions: Sequence[int], depth: int, iterations: int = 1, stall: Stall = no_stall
) -> PipelineRun:
    """Run both sides over all layers, ``iterations`` times. FP R37-R42.

    positions: what is selected for each layer. depth: of the queue; a preceding side that finds it full waits with its
    position, a main side that finds it empty waits for it. ``ConfigurationError`` if numbers of layers differ.
    """
    if len(positions) != len(times.main):
        raise ConfigurationError(f"{len(positions)} positions for {len(times.main)} layers")
    entries = [PositionEntry(layer, position) for layer, position in enumerate(positions)]
    simulation = _Simulation(times.repeated(iterations), entries * iterations, PositionFifo(depth), stall)
    simulation.run()
    spans = tuple(simulation.span(*item, len(positions)) for item in sorted(simulation.spans))
    return PipelineRun(spans, tuple(simulation.delivered), simulation.fifo.largest_fill)


@dataclass
class _Simulation:
    """State of both sides; ``events`` are (time, order of equal times, what happens)."""

    times: StageTimes
    entries: Sequence[PositionEntry]
    fifo: PositionFifo
    stall: Stall
    events: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    order: count[int] = field(default_factory=count)
    spans: list[tuple[float, float, Side, int]] = field(default_factory=list)
    delivered: list[PositionEntry] = field(default_factory=list)
    sent: int = 0
    full: bool = False
    empty: bool = False

    def run(self) -> None:
        self.precede(0)
        self.later(self.stall("main"), self.take)
        while self.events:
            time, _, happen = heapq.heappop(self.events)
            happen(time)

    def later(self, time: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self.events, (time, next(self.order), happen))

    def precede(self, time: float) -> None:
        """The preceding side begins its next layer."""
        if self.sent == len(self.entries):
            return
        end = time + self.times.preceding[self.sent]
        self.spans.append((time, end, "preceding", self.sent))
        self.later(end + self.stall("preceding"), self.send)

    def send(self, time: float) -> None:
        """The preceding side has a position; it waits with it if the queue is full."""
        self.full = not self.fifo.push(self.entries[self.sent])
        if self.full:
            return
        self.sent += 1
        self.precede(time)
        if self.empty:
            self.take(time)

    def take(self, time: float) -> None:
        """The main side wants its next position; it waits for it if the queue is empty."""
        number = len(self.delivered)
        if number == len(self.entries):
            return
        entry = self.fifo.pop(self.entries[number].layer)
        self.empty = entry is None
        if entry is None:
            return
        self.delivered.append(entry)
        end = time + self.times.main[number]
        self.spans.append((time, end, "main", number))
        self.later(end + self.stall("main"), self.take)
        if self.full:
            self.send(time)

    @staticmethod
    def span(begin: float, end: float, side: Side, number: int, layers: int) -> Span:
        return Span(side, number // layers, number % layers, begin, end)
