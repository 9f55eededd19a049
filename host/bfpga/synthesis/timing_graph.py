"""Earliest times of a body's operations at an interval: stages and arrivals, with chaining, recurrences included.

A time is a clock of the iteration (``stage``) and ns after its beginning (``arrival``). An operation that does not fit
the rest of a cycle moves to the next. The value that a register passes to the next iteration may go on within its cycle
where that still fits, as if the register were elsewhere on the circle. Because nothing is ever scheduled earlier than
these times, an interval at which they do not exist is impossible whatever the resources; the operations that push each
other then form the recurrence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from bfpga.synthesis.accumulators import find_accumulators
from bfpga.synthesis.body import Opcode
from bfpga.synthesis.delays import Delays
from bfpga.synthesis.dependences import Dependences, Edge

#: Differences of time below this many ns are rounding.
_EPSILON = 1e-9
#: Rounds around a circle after which its times are known to grow or to stay.
_ROUNDS = 8

Time = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Operations that wait for each other around a circle.

    ``interval``: the least at which it closes; ``distance``: iterations; ``delay``: ns of its operations; ``edges``:
    those of its edges that are no operands.
    """

    operations: tuple[int, ...]
    interval: int
    distance: int
    delay: float
    edges: tuple[Edge, ...]


class ImpossibleError(Exception):
    """No times exist at the interval; ``recurrence`` is a circle that shows it."""

    def __init__(self, recurrence: Recurrence) -> None:
        super().__init__(recurrence)
        self.recurrence = recurrence


class TimingGraph:
    """What waits for what in a body, and how long, at a usable period in ns.

    ``timings``: of each operation. ``sources``: operations whose results an operation's delay starts from, past what is
    grouped with it. ``edges_to`` and ``edges_from``: edges beyond the operands, by target and by source.
    ``accumulators``: sums that nothing sees before a register of a DSP block has them.
    """

    def __init__(self, dependences: Dependences, delays: Delays, usable: float) -> None:
        body = dependences.body
        self.body = body
        self.usable = usable
        self.timings = delays.timings()
        self.live = delays.groups.live
        self.sources = delays.groups.sources
        self.hidden = delays.groups.hidden
        self.edges_to: dict[int, list[Edge]] = {}
        self.edges_from: dict[int, list[Edge]] = {}
        self.accumulators = [] if dependences.forwards else find_accumulators(delays.groups)
        self._following = {each.sum: each.following for each in self.accumulators}
        kept = {body.registers[each.register].current for each in self.accumulators}
        for edge in dependences.edges:
            if edge.kind == "register" and edge.target in kept:
                edge = replace(edge, kind="kept", clocks=1)
            self.edges_to.setdefault(edge.target, []).append(edge)
            self.edges_from.setdefault(edge.source, []).append(edge)
        self.counts_no_carried_path = dependences.forwards
        self.state_delay = delays.technology.state
        #: Operations that are the next value of a register: they pass its multiplexer at the end of their clock.
        self.registered = {register.next for register in body.registers if register.next != register.current}
        self.users: list[list[int]] = [[] for _ in body.operations]
        for index, sources in enumerate(self.sources):
            for source in (*sources, *self.hidden.get(index, ())):
                self.users[source].append(index)

    def place(self, index: int, stage: int, ready: float) -> Time:
        """Start of operation ``index`` with operands ready ``ready`` ns into cycle ``stage``: there or a cycle later.

        The second number is when its first cycle's delay ends.
        """
        delay = self.timings[index].first
        if ready + delay <= self.usable + _EPSILON or ready == 0.0:
            return stage, ready + delay
        return stage + 1, delay

    def result(self, index: int, start: int, end: float) -> Time:
        """When the result of operation ``index`` is there whose first cycle's delay ends ``end`` ns into ``start``."""
        timing = self.timings[index]
        return (start, end) if timing.latency == 0 else (start + timing.latency, timing.last)

    def given(self, source: int, target: int, start: int, end: float) -> Time:
        """When an operation has the result of an operand: as `result`, of an accumulator a cycle later."""
        stage, arrival = self.result(source, start, end)
        if self._following.get(source, target) == target:
            return stage, arrival
        return stage + 1, 0.0

    def across(self, edge: Edge, start: int, end: float) -> Time:
        """The earliest time that ``edge`` allows its target, in the source's iteration."""
        if edge.kind in ("memory", "stream"):
            return start + edge.clocks, 0.0
        stage, arrival = self.result(edge.source, start, end)
        if edge.kind != "register":
            return stage + edge.clocks, 0.0
        if self.counts_no_carried_path or self.body.operations[edge.source].opcode is Opcode.FLOAT:
            # Floating-point units have registers at both ends.
            return stage, 0.0
        arrival += self.state_delay
        return (stage, arrival) if arrival <= self.usable + _EPSILON else (stage + 1, 0.0)


#: No pipeline has so many stages: times that pass it grow for ever.
DEEPEST = 1000


class EarliestTimes:
    """Earliest starts at an interval; grows as operations are pushed to later cycles.

    ``starts``: cycle in which each operation starts; ``ends``: ns into it at which its first cycle's delay ends;
    ``causes``: the operation that each waits for, -1 where it waits for none.
    """

    def __init__(self, graph: TimingGraph, interval: int, members: list[int] | None = None) -> None:
        self.graph = graph
        self.interval = interval
        count = len(graph.body.operations)
        self.starts = [0] * count
        self.ends = [-1.0] * count
        self.causes: list[int] = [-1] * count
        self._cause_edges: list[Edge | None] = [None] * count
        self._release: dict[int, int] = {}
        self._members = None if members is None else set(members)
        self._settle(list(range(count)) if members is None else members)

    def push(self, releases: dict[int, int]) -> None:
        """Start each operation no earlier than the cycle given; ``ImpossibleError`` if that closes a circle."""
        for index, clock in releases.items():
            self._release[index] = max(clock, self._release.get(index, 0))
        self._settle(list(releases))

    def result(self, index: int) -> Time:
        """Clock and ns at which the result of operation ``index`` is there."""
        return self.graph.result(index, self.starts[index], self.ends[index])

    def ready(self, index: int) -> float:
        """ns into its first cycle at which the operands of operation ``index`` are there."""
        return max(self.ends[index] - self.graph.timings[index].first, 0.0)

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
                self._check_circles()
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
        time, cause, cause_edge = (self._release.get(index, 0), 0.0), -1, None
        for there, source, edge in self._allowed(index):
            if there > time:
                time, cause, cause_edge = there, source, edge
        start, end = self.graph.place(index, *time)
        if (start, end) <= (self.starts[index], self.ends[index] + _EPSILON):
            return False
        self.starts[index], self.ends[index] = start, end
        self.causes[index], self._cause_edges[index] = cause, cause_edge
        if start > DEEPEST:
            raise ImpossibleError(self._endless(index))
        return True

    def _endless(self, index: int) -> Recurrence:
        """What drives an operation ever further: circles that no single one of them explains."""
        path = [index]
        while (cause := self.causes[path[-1]]) >= 0 and cause not in path:
            path.append(cause)
        edges = tuple(edge for place in path if (edge := self._cause_edges[place]) is not None)
        distance = max(1, sum(edge.distance for edge in edges))
        delay = sum(self.graph.timings[place].first for place in path)
        return Recurrence(tuple(reversed(path)), self.interval + 1, distance, delay, edges)

    def _allowed(self, index: int) -> Iterator[tuple[Time, int, Edge | None]]:
        """The time that each operand and edge of operation ``index`` allows it, and which that is."""
        graph = self.graph
        members = self._members
        for source in graph.sources[index]:
            if members is None or source in members:
                yield graph.given(source, index, self.starts[source], self.ends[source]), source, None
        for source in graph.hidden.get(index, ()):
            # Grouped operands cost nothing, but none may come in a later clock.
            if members is None or source in members:
                yield (self.result(source)[0], 0.0), source, None
        for edge in graph.edges_to.get(index, ()):
            if members is None or edge.source in members:
                stage, arrival = graph.across(edge, self.starts[edge.source], self.ends[edge.source])
                yield (stage - self.interval * edge.distance, arrival), edge.source, edge

    def _check_circles(self) -> None:
        """Raise ``ImpossibleError`` if operations cause each other's times around a circle on which they grow."""
        colour = [0] * len(self.causes)
        for root in range(len(self.causes)):
            path = []
            index = root
            while index >= 0 and colour[index] == 0:
                colour[index] = 1
                path.append(index)
                index = self.causes[index]
            if index >= 0 and colour[index] == 1:
                self._check_circle(path[path.index(index) :])
            for visited in path:
                colour[visited] = 2

    def _check_circle(self, backwards: list[int]) -> None:
        """``backwards``: operations each of which is caused by the next, the last by the first."""
        operations = backwards[::-1]
        first = next(place for place, index in enumerate(operations) if self._cause_edges[index] is not None)
        operations = operations[first:] + operations[:first]
        into = [self._cause_edges[index] for index in operations]
        edges = tuple(edge for edge in into if edge is not None)
        distance = sum(edge.distance for edge in edges)
        if distance and _closes(self.graph, operations, into, self.interval * distance):
            return
        interval = self.interval + 1
        while distance and not _closes(self.graph, operations, into, interval * distance):
            interval += 1
        delay = sum(self.graph.timings[index].first for index in operations)
        raise ImpossibleError(Recurrence(tuple(operations), interval, distance, delay, edges))


def _closes(graph: TimingGraph, operations: list[int], into: list[Edge | None], clocks: int) -> bool:
    """True if a circle's times stay when it has ``clocks`` cycles; ``into``: the edge into each operation."""
    time: Time = (0, 0.0)
    for _ in range(_ROUNDS):
        stage, ready = time
        for position, index in enumerate(operations):
            start, end = graph.place(index, stage, ready)
            edge = into[(position + 1) % len(operations)]
            user = operations[(position + 1) % len(operations)]
            stage, ready = graph.given(index, user, start, end) if edge is None else graph.across(edge, start, end)
        if (stage - clocks, ready - _EPSILON) <= time:
            return True
        if stage - clocks > 0:
            return False
        time = stage - clocks, ready
    return False
