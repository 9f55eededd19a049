"""Modulo schedule of a loop body at a clock: the interval, the depth, the worst path, and what limits them.

The interval starts at the bound of ports and recurrences and grows until a schedule exists. At each, operations begin
at their earliest times; where more accesses fall on a cycle than there are ports, some are pushed to later cycles and
everything after them moves along. Where a push closes a circle, another order is tried. Wide registers are then read
rather than passed by where that costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.bypasses import bypassed_variables
from bfpga.synthesis.delays import DEFAULT_UNCERTAINTY, Delays, technology_of
from bfpga.synthesis.dependences import Dependences, Edge, find_dependences
from bfpga.synthesis.lifetimes import delayed_starts, settled
from bfpga.synthesis.placement import NoRoomError, Placement
from bfpga.synthesis.ports import PortGroup, port_groups, port_limits
from bfpga.synthesis.schedule_types import Limit, Schedule
from bfpga.synthesis.timing_graph import EarliestTimes, ImpossibleError, Recurrence, TimingGraph

_ACCESSES = frozenset({Opcode.MEMORY_READ, Opcode.MEMORY_WRITE, Opcode.STREAM_READ, Opcode.STREAM_WRITE})
#: How accesses choose their ports at one interval before the next is tried: sharing first, from the last backwards.
_ATTEMPTS = ((False, False), (True, False), (False, True), (True, True))


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock as the scheduler sees it, in ns: ``uncertainty`` is what the tool keeps free for routing."""

    period: float
    uncertainty: float

    @classmethod
    def default(cls, period: float, tool: str = "vitis_hls") -> Clock:
        """A clock with the uncertainty that ``tool`` takes where none is stated."""
        return cls(period, period * DEFAULT_UNCERTAINTY[tool])

    @property
    def usable(self) -> float:
        """ns for operations between two registers."""
        return self.period - self.uncertainty


def schedule_loop(body: LoopBody, part: str, clock: Clock, forwards: bool = False) -> Schedule:
    """Schedule ``body`` for ``part``; ``ConfigurationError`` if the delays of the part are unknown.

    ``forwards``: see ``find_dependences``; the oldest versions of the tool that the kernels support do not.
    """
    dependences = find_dependences(body, forwards)
    near = replace(dependences, edges=[edge for edge in dependences.edges if not _is_far(edge)])
    if len(near.edges) < len(dependences.edges):
        schedule = _schedule_with(near, part, clock)
        if all(_is_met(schedule, edge) for edge in dependences.edges if _is_far(edge)):
            return schedule
    return _schedule_with(dependences, part, clock)


def _is_far(edge: Edge) -> bool:
    """Whether iterations further apart than two in a row wait for each other through a memory.

    Such a circle has the time of several iterations. Most schedules meet it without having looked, and without it far
    fewer operations are on circles, which take most of the time of a search.
    """
    return edge.kind == "memory" and edge.distance > 1


def _is_met(schedule: Schedule, edge: Edge) -> bool:
    return schedule.stage[edge.target] + schedule.interval * edge.distance >= schedule.stage[edge.source] + edge.clocks


def _schedule_with(dependences: Dependences, part: str, clock: Clock) -> Schedule:
    body = dependences.body
    delays = Delays(body, technology_of(part), clock.usable)
    graph = TimingGraph(dependences, delays, clock.usable)
    limits = port_limits(dependences) + recurrence_limits(graph)
    interval = max((limit.interval for limit in limits), default=1)
    groups = port_groups(body)
    while (times := _scheduled(graph, dependences, groups, interval)) is None:
        interval += 1
    schedule = _described(body, clock, graph, times, limits)
    if dependences.forwards:
        return schedule
    read: frozenset[int] = frozenset()
    for variable in bypassed_variables(body, schedule):
        if variable <= read:
            continue
        of_both = TimingGraph(_read_later(dependences, read | variable), delays, clock.usable)
        later = _scheduled(of_both, dependences, groups, interval)
        other = _described(body, clock, of_both, later, limits) if later is not None else schedule
        if other is not schedule and other.depth <= schedule.depth and other.slack >= schedule.slack:
            schedule, read = other, read | variable
    return schedule


def schedule_segment(body: LoopBody, part: str, clock: Clock) -> Schedule:
    """Schedule code that is executed once: its interval is its depth, and its beats keep the order of the program.

    A beat has a cycle of its own, so that none waits for another's stream. `ConfigurationError` as `schedule_loop`.
    """
    dependences = find_dependences(body, False)
    dependences = replace(dependences, edges=[*dependences.edges, *_order_of_beats(body)])
    delays = Delays(body, technology_of(part), clock.usable, is_once=True)
    graph = TimingGraph(dependences, delays, clock.usable)
    interval = 1 + sum(o.opcode in _ACCESSES for o in body.operations) + len(body.operations)
    times = _scheduled(graph, dependences, port_groups(body), interval)
    if times is None:
        raise ToolError(f"{body.name}: no schedule was found")
    schedule = _described(body, clock, graph, times, [])
    stages = [stage + delay for stage, delay in zip(schedule.stage, schedule.latency, strict=True)]
    digits = {index: number for index in range(len(body.operations)) if (number := delays.digits(index))}
    return replace(schedule, interval=1 + max(stages, default=0), digits=digits)


def _order_of_beats(body: LoopBody) -> list[Edge]:
    """Beats and questions of whether there is one, of any two streams, in the order of the program."""
    beats = sorted(access for stream in body.streams for access in stream.accesses)
    return [Edge(one, other, 1, 0, "stream", "order of beats", "order") for one, other in pairwise(beats)]


def _read_later(dependences: Dependences, states: frozenset[int]) -> Dependences:
    """The same with registers whose values are used a cycle after they have arisen."""
    edges = [
        replace(edge, kind="kept", clocks=1) if edge.kind == "register" and edge.target in states else edge
        for edge in dependences.edges
    ]
    return replace(dependences, edges=edges)


def recurrence_limits(graph: TimingGraph) -> list[Limit]:
    """Recurrences in the order in which they were found binding, each with a longer interval than the last."""
    found: list[Recurrence] = []
    members = _circular(graph)
    interval = 1
    while members:
        try:
            EarliestTimes(graph, interval, members)
            break
        except ImpossibleError as error:
            found.append(error.recurrence)
            interval = error.recurrence.interval
    return [_limit(recurrence, graph) for recurrence in found]


def _limit(recurrence: Recurrence, graph: TimingGraph) -> Limit:
    edges = sorted(recurrence.edges, key=lambda edge: edge.kind == "register")
    named = edges[0]
    subject = f"{named.subject} ({named.hazard})" if named.hazard else named.subject
    return Limit(
        "recurrence",
        recurrence.interval,
        subject,
        tuple(index for index in recurrence.operations if not _is_wire(graph, index)),
        recurrence.delay,
        recurrence.distance,
    )


def _is_wire(graph: TimingGraph, index: int) -> bool:
    timing = graph.timings[index]
    return timing.latency == 0 and timing.first == 0.0 and graph.body.operations[index].opcode is not Opcode.STATE


def _circular(graph: TimingGraph) -> list[int]:
    """Operations on circles: members of strongly connected components of more than one operation (Tarjan)."""
    count = len(graph.body.operations)
    number = [-1] * count
    lowest = [0] * count
    on_stack = [False] * count
    stack: list[int] = []
    members: list[int] = []
    counter = 0
    for root in range(count):
        if number[root] >= 0:
            continue
        work = [(root, iter(_targets(graph, root)))]
        number[root] = lowest[root] = counter
        counter += 1
        stack.append(root)
        on_stack[root] = True
        while work:
            index, targets = work[-1]
            advanced = False
            for target in targets:
                if number[target] < 0:
                    number[target] = lowest[target] = counter
                    counter += 1
                    stack.append(target)
                    on_stack[target] = True
                    work.append((target, iter(_targets(graph, target))))
                    advanced = True
                    break
                if on_stack[target]:
                    lowest[index] = min(lowest[index], number[target])
            if advanced:
                continue
            work.pop()
            if work:
                lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[index])
            if lowest[index] == number[index]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack[member] = False
                    component.append(member)
                    if member == index:
                        break
                if len(component) > 1 or index in _targets(graph, index):
                    members.extend(component)
    return sorted(members)


def _targets(graph: TimingGraph, index: int) -> list[int]:
    return graph.users[index] + [edge.target for edge in graph.edges_from.get(index, ())]


def _scheduled(
    graph: TimingGraph, dependences: Dependences, groups: list[PortGroup], interval: int
) -> EarliestTimes | None:
    """Times at ``interval`` that respect the ports, None if none were found."""
    for shares_first, backwards in _ATTEMPTS:
        try:
            times = EarliestTimes(graph, interval)
            Placement(dependences, groups, shares_first, backwards).settle(times)
        except (ImpossibleError, NoRoomError):
            continue
        return times
    return None


def _described(body: LoopBody, clock: Clock, graph: TimingGraph, times: EarliestTimes, limits: list[Limit]) -> Schedule:
    results = [times.result(index) for index in range(len(body.operations))]
    worst, longest = _worst_path(graph, times)
    late = delayed_starts(graph, times, min(longest, clock.usable))
    starts, arrivals = settled(graph, list(times.starts), [arrival for _, arrival in results], late)
    return Schedule(
        body,
        clock.period,
        clock.uncertainty,
        times.interval,
        1 + max((stage for index, (stage, _) in enumerate(results) if graph.live[index]), default=0),
        starts,
        arrivals,
        [timing.latency for timing in graph.timings],
        clock.usable - longest,
        worst,
        sorted(limits, key=lambda limit: -limit.interval),
        graph.accumulators,
    )


def _worst_path(graph: TimingGraph, times: EarliestTimes) -> tuple[tuple[int, ...], float]:
    """Operations of the longest path between two registers, and its ns."""
    longest, last, in_first = 0.0, -1, True
    for index, timing in enumerate(graph.timings):
        if not graph.live[index]:
            continue
        ends = [(times.ends[index], True)]
        if timing.latency:
            ends += [(timing.last, False), (timing.between, False)]
        if index in graph.registered:
            # The register's multiplexer follows where it still fits; else it begins the next cycle.
            last_end, in_first_clock = ends[0] if timing.latency == 0 else ends[1]
            through = last_end + graph.state_delay
            ends.append((through if through <= graph.usable else last_end, in_first_clock))
        for end, first in ends:
            if end > longest:
                longest, last, in_first = end, index, first
    return (() if last < 0 else _chain(graph, times, last, in_first)), longest


def _chain(graph: TimingGraph, times: EarliestTimes, last: int, in_first: bool) -> tuple[int, ...]:
    """Operations chained before ``last`` in its cycle; ``in_first``: its first cycle, where operands matter."""
    path = [last]
    while in_first and times.ready(path[-1]) > 1e-6:
        before = times.causes[path[-1]]
        if before < 0 or before in path:
            break
        path.append(before)
        in_first = graph.timings[before].latency == 0
    return tuple(reversed(path))
