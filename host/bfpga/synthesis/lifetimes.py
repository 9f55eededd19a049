"""Operations begun later where values then wait in fewer registers.

A schedule of earliest times computes everything as soon as it can and keeps the results: the products of a chain of
sums would all wait for their turn, each in registers of its own. Begun when its turn comes, a product waits as two
factors that it shares with others. No interval, depth or longest path changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.synthesis.body import Opcode
from bfpga.synthesis.grouping import live_operations
from bfpga.synthesis.timing_graph import EarliestTimes, TimingGraph

_WIRING = {Opcode.ZEXT, Opcode.SEXT, Opcode.SLICE, Opcode.CONCAT}
_FIXED = {Opcode.CONSTANT, Opcode.INVARIANT}
_EXTERNAL = {
    Opcode.MEMORY_READ, Opcode.MEMORY_WRITE, Opcode.STREAM_READ, Opcode.STREAM_WRITE, Opcode.STREAM_STATUS,
    Opcode.FLOAT, Opcode.CALL,
}  # fmt: skip


def delayed_starts(graph: TimingGraph, times: EarliestTimes, longest: float) -> dict[int, int]:
    """Later starts of operations: index -> clock. ``longest``: ns of the longest path, which none exceeds."""
    return _Lifetimes(graph, times, longest).run()


def settled(
    graph: TimingGraph, starts: list[int], arrivals: list[float], late: dict[int, int]
) -> tuple[list[int], list[float]]:
    """Starts and arrivals of all operations once those in ``late`` have moved: what is made of them follows."""
    starts, arrivals = list(starts), list(arrivals)
    followers = set(late)
    for index, operation in enumerate(graph.body.operations):
        sources = graph.sources[index]
        follows = index in late or not followers.isdisjoint((*sources, *operation.operands))
        if operation.opcode is Opcode.STATE or not follows:
            continue
        before = (*operation.operands, *sources)
        clocks = {operand: starts[operand] + graph.timings[operand].latency for operand in before}
        start = max(late.get(index, starts[index]), *clocks.values())
        ready = max((arrivals[source] for source in sources if clocks[source] == start), default=0.0)
        # An unused result blocks nothing: only it may have to wait for the next cycle.
        starts[index], arrivals[index] = graph.result(index, *graph.place(index, start, ready))
        starts[index] -= graph.timings[index].latency
        followers.add(index)
    return starts, arrivals


class _Lifetimes:
    def __init__(self, graph: TimingGraph, times: EarliestTimes, longest: float) -> None:
        self.graph, self.body, self.longest = graph, graph.body, longest
        self.interval = times.interval
        self.starts = list(times.starts)
        self._roots: dict[int, frozenset[int]] = {}
        self._tails: dict[int, float] = {}
        self.users: dict[int, list[int]] = {}
        live = live_operations(self.body, registers=True)
        for index, operation in enumerate(self.body.operations):
            if live[index] and operation.opcode not in _WIRING:
                for operand in self._operands(index):
                    self.users.setdefault(operand, []).append(index)
        self.captures = [self._capture(register.next) for register in self.body.registers]
        #: Cycles in which registers take a value, or in which it leaves the loop: these do not move.
        self.taken: dict[int, int] = {}
        for register, clock in zip(self.body.registers, self.captures, strict=True):
            for root in self.roots(register.next):
                self.taken[root] = max(clock, self.taken.get(root, 0))
        ends = [*self.body.outputs, *([self.body.leaves] if self.body.leaves >= 0 else []), *graph.edges_from]
        for index in ends:
            for root in self.roots(index):
                self.taken.setdefault(root, self._ready(root))

    def run(self) -> dict[int, int]:
        """Users before what they use, so that all of a chain can move."""
        moved = {}
        for index in range(len(self.body.operations) - 1, -1, -1):
            start = self._later_start(index) if self._moves(index) else None
            if start is not None:
                self.starts[index] = moved[index] = start
                self._tails.clear()
        return moved

    def _moves(self, index: int) -> bool:
        opcode = self.body.operations[index].opcode
        stays = opcode in _WIRING or opcode in _FIXED or opcode in _EXTERNAL or opcode is Opcode.STATE
        return not stays and index not in self.taken and index in self.users

    def _later_start(self, index: int) -> int | None:
        """The clock in which an operation's first user begins or the one before it, if that saves registers."""
        timing = self.graph.timings[index]
        first = min(self.starts[user] for user in self.users[index])
        tail = max(self._tail(user) for user in self.users[index] if self.starts[user] == first)
        arrival = timing.last if timing.latency else timing.first
        # What is there when a cycle begins comes as a register would.
        fits = arrival == 0.0 or arrival + tail <= self.longest
        start = first - timing.latency - (0 if fits else 1)
        if start <= self.starts[index]:
            return None
        gain = self._gain(index, start)
        # Products of one factor move one by one: the first of them gains nothing yet.
        return start if gain > 0 or (gain == 0 and timing.latency) else None

    def _gain(self, index: int, start: int) -> int:
        """Bits of registers that an operation saves by a later start."""
        touched = [index, *self._operands(index)]
        before = sum(map(self._bits, touched))
        old, self.starts[index] = self.starts[index], start
        after = sum(map(self._bits, touched))
        self.starts[index] = old
        return before - after

    def _bits(self, index: int) -> int:
        """Bits of the registers in which a value waits for its users."""
        ready = self._ready(index)
        clocks = [self.starts[user] - ready for user in self.users.get(index, ())]
        if index in self.taken:
            clocks.append(self.taken[index] - ready)
        operation = self.body.operations[index]
        registers = -(-max(clocks, default=0) // self.interval) - int(operation.opcode is Opcode.STATE)
        return max(registers, 0) * operation.width

    def _ready(self, index: int) -> int:
        """Clock in which a value arises."""
        operation = self.body.operations[index]
        if operation.opcode is Opcode.STATE:
            return self.captures[operation.register] - self.interval
        return self.starts[index] + self.graph.timings[index].latency

    def _capture(self, following: int) -> int:
        roots = [root for root in self.roots(following) if self.body.operations[root].opcode is not Opcode.STATE]
        return max((self.starts[root] + self.graph.timings[root].latency for root in roots), default=0)

    def _tail(self, index: int) -> float:
        """ns from the first cycle's beginning of an operation to the next register."""
        if index not in self._tails:
            graph, timing = self.graph, self.graph.timings[index]
            after = 0.0
            if timing.latency == 0:
                start = self.starts[index]
                after = max((self._tail(user) for user in self._chained(index, start)), default=0.0)
                if index in self.taken:
                    after = max(after, graph.state_delay)
            self._tails[index] = timing.first + after
        return self._tails[index]

    def _chained(self, index: int, start: int) -> Iterator[int]:
        return (user for user in self.users.get(index, ()) if self.starts[user] == start)

    def _operands(self, index: int) -> list[int]:
        """Values of which the operands of an operation are made, without those that never change."""
        found = dict.fromkeys(root for operand in self.body.operations[index].operands for root in self.roots(operand))
        return [root for root in found if self.body.operations[root].opcode not in _FIXED]

    def roots(self, index: int) -> frozenset[int]:
        """Values whose wires a value is made of."""
        if index not in self._roots:
            operation = self.body.operations[index]
            found = frozenset((index,))
            if operation.opcode in _WIRING:
                found = frozenset().union(*(self.roots(operand) for operand in operation.operands))
            self._roots[index] = found
        return self._roots[index]
