"""What has to wait for what in a loop body: edges through values, registers, memories and streams.

An edge says that its target starts no earlier than so many cycles after its source, ``distance`` iterations later.
Edges through values and registers come straight from the graph. Memories: a write is seen by reads whose address is
presented a cycle later, a read may share the cycle of a later write (block memories return the old word), two writes
keep their order. An edge falls away where the addresses of the two accesses can never be equal, where their enables
exclude each other in one iteration, or where a ``DEPENDENCE`` pragma waives it; one that states a distance makes no
edge shorter than that. Streams keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bfpga.synthesis.addresses import Addresses
from bfpga.synthesis.body import LoopBody, Memory, Opcode
from bfpga.synthesis.predicates import Predicates

#: Accesses of two kinds, first then second: the edge's name and the cycles that must be between them.
_ORDER: dict[tuple[bool, bool], tuple[str, int]] = {
    (True, False): ("RAW", 1),
    (False, True): ("WAR", 0),
    (True, True): ("WAW", 1),
}
_WIRING = {Opcode.ZEXT, Opcode.SEXT, Opcode.SLICE, Opcode.CONCAT}


@dataclass(frozen=True, slots=True)
class Edge:
    """``target`` starts at least ``clocks`` after ``source``, whose iteration is ``distance`` earlier.

    ``kind``: "register" (the source's result goes on as the target), "kept" (the same, through a register), "exit" and
    "forward" (cycles after the source's result), "memory" and "stream" (cycles between the starts of two accesses).
    ``subject``: name of the register, the memory or the stream; ``hazard``: RAW, WAR, WAW or "order".
    """

    source: int
    target: int
    clocks: int
    distance: int
    kind: str
    subject: str
    hazard: str = ""


@dataclass(slots=True)
class Dependences:
    """Edges of a body beyond those between an operation and its operands, and which exclude which."""

    body: LoopBody
    forwards: bool = False
    edges: list[Edge] = field(default_factory=list)
    predicates: Predicates = field(init=False)

    def __post_init__(self) -> None:
        self.predicates = Predicates(self.body)

    def exclusive(self, first: int, second: int) -> bool:
        """True if in one iteration at most one of the two accesses is enabled."""
        return self.predicates.exclusive(enable_of(self.body, first), enable_of(self.body, second))

    def may_share(self, first: int, second: int) -> bool:
        """True if one port serves both accesses in one cycle of an iteration: one at most is enabled, or both read the
        same word."""
        return self.exclusive(first, second) or self._read_alike(*sorted((first, second)))

    def _read_alike(self, first: int, second: int) -> bool:
        """Whether two accesses read one address with no write of the memory between them."""
        one, other = (self.body.operations[access] for access in (first, second))
        if not one.opcode is other.opcode is Opcode.MEMORY_READ or one.operands[0] != other.operands[0]:
            return False
        between = (access for access in self.body.memories[one.memory].accesses if first < access < second)
        return one.memory == other.memory and all(
            self.body.operations[access].opcode is Opcode.MEMORY_READ for access in between
        )


def find_dependences(body: LoopBody, forwards: bool = False) -> Dependences:
    """All edges of ``body`` that its operands do not show.

    ``forwards``: as Vitis HLS does from 2022.1 on, the word that was written last is kept in a register and given to a
    read of the same address an iteration later, and what a register carries is used in the cycle in which it is
    computed without counting that path. Only for comparison with reports of such versions: the path is there.
    """
    found = Dependences(body, forwards)
    addresses = Addresses(body)
    found.edges.extend(_register_edges(body))
    found.edges.extend(_exit_edges(body))
    for memory in body.memories:
        found.edges.extend(_memory_edges(found, memory, addresses))
    found.edges.extend(_stream_edges(found))
    return found


def enable_of(body: LoopBody, access: int) -> int:
    """Index of the operation that enables an access of a memory or stream, -1 for a status, which has none."""
    operation = body.operations[access]
    return -1 if operation.opcode is Opcode.STREAM_STATUS else operation.operands[-1]


def _register_edges(body: LoopBody) -> Iterator[Edge]:
    """A register's next value of one iteration is its value in the following one."""
    for register in body.registers:
        if register.next != register.current:
            yield Edge(register.next, register.current, 0, 1, "register", register.name)


def _exit_edges(body: LoopBody) -> Iterator[Edge]:
    """An iteration begins when it is known that there is one: nothing is done and taken back."""
    if body.leaves < 0 or body.operations[body.leaves].opcode is Opcode.CONSTANT:
        return
    begins = {Opcode.STATE, Opcode.MEMORY_WRITE, Opcode.STREAM_READ, Opcode.STREAM_WRITE}
    for index, operation in enumerate(body.operations):
        if operation.opcode in begins:
            yield Edge(body.leaves, index, 1, 1, "exit", "exit")


def _memory_edges(found: Dependences, memory: Memory, addresses: Addresses) -> Iterator[Edge]:
    operations = found.body.operations
    writes = [access for access in memory.accesses if operations[access].opcode is Opcode.MEMORY_WRITE]
    if not writes:
        return
    waived = {(waiver.kind, waiver.direction) for waiver in memory.waivers if not waiver.distance}
    for write in writes:
        for other in memory.accesses:
            if other == write or (other in writes and other < write):
                continue
            first, second = min(write, other), max(write, other)
            yield from _pair_edges(found, memory, addresses, waived, first, second)
        yield from _own_edge(memory, addresses, waived, write)


def _is_waived(waived: set[tuple[str, str]], kind: str, hazard: str) -> bool:
    return (kind, "") in waived or (kind, hazard) in waived


def _least(memory: Memory, hazard: str) -> int:
    """Iterations between two accesses that a pragma states, 1 if none does."""
    stated = (waiver.distance for waiver in memory.waivers if waiver.direction in ("", hazard))
    return max([1, *stated])


def _pair_edges(
    found: Dependences,
    memory: Memory,
    addresses: Addresses,
    waived: set[tuple[str, str]],
    first: int,
    second: int,
) -> Iterator[Edge]:
    """Edges between two different accesses, ``first`` before ``second`` in the program, one of them a write."""
    operations = found.body.operations
    writes = tuple(operations[access].opcode is Opcode.MEMORY_WRITE for access in (first, second))
    hazard, clocks = _ORDER[writes[0], writes[1]]
    if (
        not _is_waived(waived, "intra", hazard)
        and not found.exclusive(first, second)
        and addresses.distance(first, second, least=0) == 0
    ):
        yield Edge(first, second, clocks, 0, "memory", memory.name, hazard)
    for source, target in ((first, second), (second, first)):
        hazard, clocks = _ORDER[writes[source is second], writes[target is second]]
        distance = addresses.distance(source, target, least=_least(memory, hazard))
        if distance is None or _is_waived(waived, "inter", hazard):
            continue
        if hazard == "RAW" and found.forwards and distance == 1:
            # The written word, registered, meets the one that was read where that is used.
            for user in _first_users(found.body, target):
                yield Edge(operations[source].operands[1], user, 1, 1, "forward", memory.name, hazard)
            distance = 2
        yield Edge(source, target, clocks, distance, "memory", memory.name, hazard)


def _first_users(body: LoopBody, index: int) -> list[int]:
    """Operations that use a result, past wiring."""
    carriers, users = {index}, []
    for user in range(index + 1, len(body.operations)):
        operation = body.operations[user]
        if carriers.isdisjoint(operation.operands):
            continue
        if operation.opcode in _WIRING:
            carriers.add(user)
        else:
            users.append(user)
    return users


def _own_edge(memory: Memory, addresses: Addresses, waived: set[tuple[str, str]], write: int) -> Iterator[Edge]:
    """A write waits for itself of the iterations before: one port needs no edge, a multi-clock start would."""
    distance = addresses.distance(write, write, least=_least(memory, "WAW"))
    if distance is not None and not _is_waived(waived, "inter", "WAW"):
        yield Edge(write, write, 1, distance, "memory", memory.name, "WAW")


def _stream_edges(found: Dependences) -> Iterator[Edge]:
    """Accesses of a stream of one direction keep the program's order, also from iteration to iteration; so does its
    status around them."""
    body = found.body
    for stream in body.streams:
        accesses = stream.accesses
        for position, first in enumerate(accesses):
            for second in accesses[position + 1 :]:
                if _same_side(body, first, second):
                    clocks = _stream_clocks(body, first, second)
                    distance = int(found.exclusive(first, second))
                    yield Edge(first, second, clocks, distance, "stream", stream.name, "order")
            for second in accesses[: position + 1]:
                if _same_side(body, first, second):
                    clocks = _stream_clocks(body, first, second)
                    yield Edge(first, second, clocks, 1, "stream", stream.name, "order")


def _same_side(body: LoopBody, first: int, second: int) -> bool:
    sides = set()
    for access in (first, second):
        operation = body.operations[access]
        reads = operation.opcode is Opcode.STREAM_READ or operation.name == "empty"
        sides.add("read" if reads else "write")
    return len(sides) == 1


def _stream_clocks(body: LoopBody, first: int, second: int) -> int:
    """A beat a cycle; a status may be polled in the cycle of the beat after it or of another status."""
    is_status = [body.operations[access].opcode is Opcode.STREAM_STATUS for access in (first, second)]
    return 0 if is_status[0] else 1
