"""Earliest times of a body's operations at an interval: stages and arrivals, with chaining, recurrences included.

A time is a clock of the iteration (``stage``) and ns after its beginning (``arrival``). An operation that does not fit
the rest of a clock moves to the next. Because nothing is ever scheduled earlier than these times, an interval at which
they do not exist is impossible whatever the resources; the operations that push each other then form the recurrence.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from bfpga.synthesis.delays import Delays, Timing
from bfpga.synthesis.dependences import Dependences, Edge

#: Differences of time below this many ns are rounding.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Operations that wait for each other around a circle.

    ``clocks``: that pass around it; ``distance``: iterations; ``delay``: ns of its operations; ``edges``: those of its
    edges that cross iterations or order accesses.
    """

    operations: tuple[int, ...]
    clocks: int
    distance: int
    delay: float
    edges: tuple[Edge, ...]

    @property
    def interval(self) -> int:
        """Least interval at which the circle closes."""
        return -(-self.clocks // self.distance)


class ImpossibleError(Exception):
    """No times exist at the interval; ``recurrence`` is a circle that shows it."""

    def __init__(self, recurrence: Recurrence) -> None:
        super().__init__(recurrence)
        self.recurrence = recurrence


class TimingGraph:
    """Who waits for whom in a body, and how long, at a usable period in ns.

    ``timings``: of each operation. ``sources``: operations whose results an operation's delay starts from, past what is
    grouped with it. ``edges_to`` and ``edges_from``: edges beyond the operands, by target and by source.
    """

    def __init__(self, dependences: Dependences, delays: Delays, usable: float) -> None:
        body = dependences.body
        self.body = body
        self.usable = usable
        self.timings = delays.timings()
        self.sources = delays.groups.sources
        self.hidden = delays.groups.hidden
        self.edges_to: dict[int, list[Edge]] = {}
        self.edges_from: dict[int, list[Edge]] = {}
        for edge in dependences.edges:
            self.edges_to.setdefault(edge.target, []).append(edge)
            self.edges_from.setdefault(edge.source, []).append(edge)
        self.state_delay = delays.technology.state
        #: Operations that are the next value of a register: they pass its multiplexer at the end of their clock.
        self.registered = {register.next for register in body.registers if register.next != register.current}
        self.users: list[list[int]] = [[] for _ in body.operations]
        for index, sources in enumerate(self.sources):
            for source in (*sources, *self.hidden.get(index, ())):
                self.users[source].append(index)

    def place(self, index: int, stage: int, ready: float) -> tuple[int, float]:
        """Start of operation ``index`` with operands ready ``ready`` ns into clock ``stage``: there or a clock later.

        The second number is when its first clock's delay ends.
        """
        timing = self.timings[index]
        end = ready + timing.first
        tail = self.state_delay if index in self.registered and timing.latency == 0 else 0.0
        if end + tail <= self.usable + _EPSILON or ready == 0.0:
            return stage, end
        return stage + 1, timing.first

    def result(self, stage: int, end: float, timing: Timing) -> tuple[int, float]:
        """When the result of an operation is there whose first clock's delay ends ``end`` ns into clock ``stage``."""
        return (stage, end) if timing.latency == 0 else (stage + timing.latency, timing.last)


class EarliestTimes:
    """Earliest starts at an interval; grows as operations are pushed to later clocks.

    ``starts``: clock in which each operation starts; ``ends``: ns into it at which its first clock's delay ends.
    """

    def __init__(self, graph: TimingGraph, interval: int, members: list[int] | None = None) -> None:
        self.graph = graph
        self.interval = interval
        count = len(graph.body.operations)
        self.starts = [0] * count
        self.ends = [-1.0] * count
        self._cause: list[int] = [-1] * count
        self._cause_edge: list[Edge | None] = [None] * count
        self._release: dict[int, int] = {}
        self._members = None if members is None else set(members)
        self._settle(list(range(count)) if members is None else members)

    def push(self, releases: dict[int, int]) -> None:
        """Start each operation no earlier than the clock given; ``ImpossibleError`` if that closes a circle."""
        for index, clock in releases.items():
            self._release[index] = max(clock, self._release.get(index, 0))
        self._settle(list(releases))

    def result(self, index: int) -> tuple[int, float]:
        """Clock and ns at which the result of operation ``index`` is there."""
        return self.graph.result(self.starts[index], self.ends[index], self.graph.timings[index])

    def _settle(self, waiting: list[int]) -> None:
        queue = sorted(set(waiting))
        heapify(queue)
        queued = set(queue)
        changes = 0
        limit = 4 * max(len(queue), 64)
        while queue:
            index = heappop(queue)
            queued.discard(index)
            if not self._update(index):
                continue
            changes += 1
            if changes > limit:
                changes = 0
                self._check_circle()
            for user in self._followers(index):
                if user not in queued and (self._members is None or user in self._members):
                    queued.add(user)
                    heappush(queue, user)

    def _followers(self, index: int) -> list[int]:
        edges = self.graph.edges_from.get(index)
        users = self.graph.users[index]
        return users if edges is None else users + [edge.target for edge in edges]

    def _update(self, index: int) -> bool:
        """Move operation ``index`` to where its operands and edges allow it; True if that is later than it was."""
        graph = self.graph
        stage, ready, cause = self._release.get(index, 0), 0.0, -1
        cause_edge = None
        for source in graph.sources[index]:
            if self._members is not None and source not in self._members:
                continue
            there, arrival = self.result(source)
            if there > stage or (there == stage and arrival > ready):
                stage, ready, cause = there, arrival, source
        for source in graph.hidden.get(index, ()):
            # Grouped operands cost nothing, but none may come in a later clock.
            there, arrival = self.result(source)
            if there > stage and (self._members is None or source in self._members):
                stage, ready, cause = there, arrival, source
        for edge in graph.edges_to.get(index, ()):
            if self._members is not None and edge.source not in self._members:
                continue
            clock = self._end_clock(edge) + edge.clocks - self.interval * edge.distance
            if clock > stage:
                stage, ready, cause, cause_edge = clock, 0.0, edge.source, edge
        start, end = graph.place(index, stage, max(ready, 0.0))
        if (start, end) <= (self.starts[index], self.ends[index] + _EPSILON):
            return False
        self.starts[index], self.ends[index] = start, end
        self._cause[index], self._cause_edge[index] = cause, cause_edge
        return True

    def _end_clock(self, edge: Edge) -> int:
        """The clock that an edge counts from: of the source's result for a register, of its start for an access."""
        start = self.starts[edge.source]
        return start + self.graph.timings[edge.source].latency if edge.kind == "register" else start

    def _check_circle(self) -> None:
        """Raise ``ImpossibleError`` if operations cause each other's times around a circle."""
        colour = [0] * len(self._cause)
        for root in range(len(self._cause)):
            path = []
            index = root
            while index >= 0 and colour[index] == 0:
                colour[index] = 1
                path.append(index)
                index = self._cause[index]
            if index >= 0 and colour[index] == 1:
                raise ImpossibleError(self._recurrence(path[path.index(index) :]))
            for visited in path:
                colour[visited] = 2

    def _recurrence(self, backwards: list[int]) -> Recurrence:
        """The circle of causes as a recurrence; ``backwards`` holds its operations, each caused by the next."""
        operations = backwards[::-1]
        edges = {index: self._cause_edge[index] for index in operations}
        # Begin behind an edge: there an operation starts with its clock.
        first = next(place for place, index in enumerate(operations) if edges[index] is not None)
        operations = operations[first:] + operations[:first]
        delay = sum(self.graph.timings[index].first for index in operations)
        crossed = tuple(edge for edge in edges.values() if edge is not None)
        return Recurrence(
            tuple(operations),
            self._clocks_around(operations),
            sum(edge.distance for edge in crossed),
            delay,
            crossed,
        )

    def _clocks_around(self, operations: list[int]) -> int:
        """Clocks from the start of the first operation until the edge into it lets it start again."""
        graph = self.graph
        stage, ready = 0, 0.0
        for index in operations:
            start, end = graph.place(index, stage, ready)
            timing = graph.timings[index]
            following = operations[(operations.index(index) + 1) % len(operations)]
            edge = self._cause_edge[following]
            if edge is None:
                stage, ready = graph.result(start, end, timing)
            else:
                latency = timing.latency if edge.kind == "register" else 0
                stage, ready = start + latency + edge.clocks, 0.0
        return stage
