"""Static timing of a mapped design: its longest path between registers, and the least clock that its recurrences allow.

The graph of nets with delays between them comes from mapped cells (`cell_arcs`). Paths begin at registers, memories and
ports and end there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bfpga.synthesis.body import Place

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class End:
    """A register bit, port or memory at the end of a path. ``place``: the source line of what it holds."""

    name: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """A path: ns from clock to clock, levels of logic, and where it begins and ends."""

    delay: float
    levels: int
    begin: End
    end: End


@dataclass(frozen=True, slots=True)
class RecurrenceClock:
    """The least clock in ns at the design's interval, however it is pipelined; ``cycle``: registers it goes through."""

    period: float
    cycle: tuple[End, ...] = ()


@dataclass(slots=True)
class NetGraph:
    """Nets of a design. Arcs ``source -> target`` with ``delay`` and whether they are a level of logic.

    ``starts``: ns after the clock at which nets begin, by net; ``stops``: nets with ns before the clock, and the end.
    ``registers``: net of each bit of a register that keeps its word for an interval, with the (net, ns) that it takes
    its next value from: carried state and, at an interval of one cycle, values that wait.
    """

    count: int = 0
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    delay: list[float] = field(default_factory=list)
    level: list[int] = field(default_factory=list)
    starts: dict[int, float] = field(default_factory=dict)
    stops: list[tuple[int, float, End]] = field(default_factory=list)
    ends: dict[int, End] = field(default_factory=dict)
    registers: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    #: Registers in which values wait for some cycles of a longer interval, as arcs: they count as no iteration.
    rows: list[tuple[int, int, float]] = field(default_factory=list)

    def arc(self, source: int, target: int, delay: float, level: int = 0) -> None:
        self.source.append(source)
        self.target.append(target)
        self.delay.append(delay)
        self.level.append(level)


def longest_path(graph: NetGraph) -> Path | None:
    """The longest path between two cycles; None for a design without one."""
    order = _Levels(graph)
    arrival, before = order.longest(graph.starts)
    stops = [(arrival[net] + delay, net, end) for net, delay, end in graph.stops if arrival[net] > -np.inf]
    if not stops:
        return None
    delay, net, end = max(stops, key=lambda stop: stop[0])
    begin, levels = order.trace(net, before)
    return Path(float(delay), levels, graph.ends.get(begin, End("")), end)


def recurrence_clock(graph: NetGraph, interval: int = 1) -> RecurrenceClock:
    """The least clock of the loop's recurrences: most ns around a cycle for each register on it.

    Registers can be moved along a cycle, but their number stays (Leiserson and Saxe 1991, "Retiming synchronous
    circuitry"), and it is the number of iterations that the cycle spans: a word stays in each for one interval.

    Howard's algorithm: every register bit follows one bit that it waits for; the worst cycle of these gives a clock,
    and registers follow another bit as long as one makes them wait longer at this clock.
    """
    order = _Levels(graph, rows=True)
    circular = order.circular()
    bits = [net for net in graph.registers if circular[net]]
    number = {net: index for index, net in enumerate(bits)}
    period, cycle = 0.0, list[int]()
    potential = np.zeros(len(bits))
    for _ in range(60):
        begin = {net: graph.starts.get(net, 0.0) + potential[number[net]] for net in bits}
        arrival, before = order.longest(begin)
        worst = np.full(len(bits), -np.inf)
        chosen = np.full(len(bits), -1, dtype=np.int64)
        last = np.full(len(bits), -1, dtype=np.int64)
        for index, net in enumerate(bits):
            for data, setup in graph.registers[net]:
                if circular[data] and arrival[data] + setup > worst[index]:
                    worst[index], last[index] = arrival[data] + setup, data
        for index in np.flatnonzero(last >= 0):
            origin, _ = order.trace(int(last[index]), before)
            chosen[index] = number[origin]
        weight = np.array(
            [worst[index] - potential[chosen[index]] if chosen[index] >= 0 else -np.inf for index in range(len(bits))]
        )
        mean, found = _worst_cycle(chosen, weight)
        if mean <= period + 1e-6:
            break
        period, cycle = mean, found
        potential = _potentials(chosen, weight, period, found)
    ends = [graph.ends[bits[index]] for index in cycle]
    return RecurrenceClock(period / interval, tuple(dict.fromkeys(ends)))


def _worst_cycle(follows: Ints, weight: Floats) -> tuple[float, list[int]]:
    """Greatest mean weight of a cycle of a graph in which every node follows one, with its nodes."""
    best, nodes = 0.0, list[int]()
    seen = np.zeros(len(follows), dtype=np.int64)
    for start in range(len(follows)):
        walk: list[int] = []
        node = start
        while node >= 0 and not seen[node]:
            seen[node] = start + 1
            walk.append(node)
            node = int(follows[node])
        if node >= 0 and seen[node] == start + 1:
            cycle = walk[walk.index(node) :]
            mean = float(sum(weight[index] for index in cycle) / len(cycle))
            if mean > best:
                best, nodes = mean, cycle
    return best, nodes


def _potentials(follows: Ints, weight: Floats, period: float, cycle: list[int]) -> Floats:
    """How much later than one node of the worst cycle each node is, if each waits for the one it follows."""
    result = np.full(len(follows), np.nan)
    result[cycle[0]] = 0.0
    for start in range(len(follows)):
        walk: list[int] = []
        node = start
        while node >= 0 and np.isnan(result[node]) and node not in walk:
            walk.append(node)
            node = int(follows[node])
        known = result[node] if node >= 0 and not np.isnan(result[node]) else 0.0
        for index in reversed(walk):
            known = max(known + weight[index] - period, -1e6) if np.isfinite(weight[index]) else 0.0
            result[index] = known
    return result


class _Levels:
    """Arcs in an order in which the nets before a net are done before it, as arrays."""

    def __init__(self, graph: NetGraph, rows: bool = False) -> None:
        self.graph = graph
        waits = graph.rows if rows else []
        source = np.array(graph.source + [data for data, _, _ in waits], dtype=np.int64)
        target = np.array(graph.target + [net for _, net, _ in waits], dtype=np.int64)
        delay = np.array(graph.delay + [time for _, _, time in waits])
        levels = np.array(graph.level + [0] * len(waits), dtype=np.int64)
        depth = np.zeros(graph.count, dtype=np.int64)
        if len(source):
            depth = _depths(graph.count, source, target)
        order = np.lexsort((target, depth[target])) if len(source) else np.zeros(0, dtype=np.int64)
        self.source, self.target = source[order], target[order]
        self.delay, self.level = delay[order], levels[order]
        level = depth[self.target]
        self.bounds = np.flatnonzero(np.r_[True, level[1:] != level[:-1], True]) if len(source) else np.zeros(1, int)

    def longest(self, starts: Mapping[int, float]) -> tuple[Floats, Ints]:
        """Latest arrival at every net (-inf: none) from nets that begin at given times, and the arc by which it comes
        (-1: the net begins itself)."""
        arrival = np.full(self.graph.count, -np.inf)
        for net, time in starts.items():
            arrival[net] = time
        before = np.full(self.graph.count, -1, dtype=np.int64)
        for first, end in zip(self.bounds[:-1], self.bounds[1:], strict=True):
            target = self.target[first:end]
            value = arrival[self.source[first:end]] + self.delay[first:end]
            heads = np.flatnonzero(np.r_[True, target[1:] != target[:-1]])
            most = np.maximum.reduceat(value, heads)
            sizes = np.diff(np.r_[heads, len(target)])
            places = np.flatnonzero(value == np.repeat(most, sizes))
            arcs = places[np.searchsorted(places, heads)]
            nets = target[heads]
            later = most > arrival[nets]
            arrival[nets[later]] = most[later]
            before[nets[later]] = first + arcs[later]
        return arrival, before

    def circular(self) -> NDArray[np.bool_]:
        """Nets on a circle through registers, or between two: what leads only into or out of one does not."""
        pairs = [(data, net) for net, inputs in self.graph.registers.items() for data, _ in inputs]
        back = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        source, target = np.r_[self.source, back[:, 0]], np.r_[self.target, back[:, 1]]
        return _peeled(self.graph.count, source, target) & _peeled(self.graph.count, target, source)

    def trace(self, net: int, before: Ints) -> tuple[int, int]:
        """The net at which the latest path to a net begins, and its levels of logic."""
        levels = 0
        while before[net] >= 0:
            levels += int(self.level[before[net]])
            net = int(self.source[before[net]])
        return net, levels


def _layers(count: int, source: Ints, target: Ints) -> Iterator[Ints]:
    """The nets without an arc into them, then those with none but from these, and so on; no net of a circle."""
    waiting = np.bincount(target, minlength=count)
    order = np.argsort(source, kind="stable")
    heads = np.searchsorted(source[order], np.arange(count + 1))
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        yield ready
        arcs = np.concatenate([order[heads[net] : heads[net + 1]] for net in ready])
        reached, times = np.unique(target[arcs], return_counts=True)
        waiting[reached] -= times
        ready = reached[waiting[reached] == 0]


def _peeled(count: int, source: Ints, target: Ints) -> NDArray[np.bool_]:
    """Nets on a circle or downstream of one."""
    left = np.ones(count, dtype=bool)
    for layer in _layers(count, source, target):
        left[layer] = False
    return left


def _depths(count: int, source: Ints, target: Ints) -> Ints:
    """Most arcs before each net; what is in a circle without a register has an order of its own."""
    depth = np.zeros(count, dtype=np.int64)
    for step, layer in enumerate(_layers(count, source, target)):
        depth[layer] = step
    return depth
