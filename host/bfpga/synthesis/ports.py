"""Ports of the memories and streams of a body, and how many cycles an iteration's accesses need on them."""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.synthesis.body import LoopBody, Memory, Opcode
from bfpga.synthesis.dependences import Dependences
from bfpga.synthesis.schedule_types import Limit


@dataclass(frozen=True, slots=True)
class PortGroup:
    """``count`` equal ports and the accesses that go through them, in program order; ``subject``: whose they are."""

    subject: str
    count: int
    accesses: tuple[int, ...]


def port_groups(body: LoopBody) -> list[PortGroup]:
    """The ports that the accesses of ``body`` share."""
    groups = [group for memory in body.memories for group in _memory_ports(body, memory)]
    for stream in body.streams:
        for opcode in (Opcode.STREAM_READ, Opcode.STREAM_WRITE):
            accesses = _of(body, stream.accesses, opcode)
            groups.append(PortGroup(stream.name, 1, accesses))
    return [group for group in groups if group.accesses]


def _memory_ports(body: LoopBody, memory: Memory) -> list[PortGroup]:
    """Ports by the binding's name (UG1399, "bind_storage"); where it names none, what the vendor's tool takes.

    A table without writes is copied as often as it is read, a register file (one word) has as many ports as it needs,
    any other memory two ports that read and write.
    """
    reads = _of(body, memory.accesses, Opcode.MEMORY_READ)
    writes = _of(body, memory.accesses, Opcode.MEMORY_WRITE)
    kind = memory.ports
    if kind == "rom_np" or (kind == "auto" and memory.initial and not writes) or memory.words <= 1:
        return []
    if kind in ("ram_1p", "rom_1p"):
        return [PortGroup(memory.name, 1, tuple(memory.accesses))]
    if kind == "ram_s2p":
        return [PortGroup(memory.name, 1, reads), PortGroup(memory.name, 1, writes)]
    if kind == "ram_1wnr":
        return [PortGroup(memory.name, 1, writes)]
    if kind == "ram_2p":
        return [PortGroup(memory.name, 2, tuple(memory.accesses)), PortGroup(memory.name, 1, writes)]
    return [PortGroup(memory.name, 2, tuple(memory.accesses))]


def _of(body: LoopBody, accesses: list[int], opcode: Opcode) -> tuple[int, ...]:
    return tuple(access for access in accesses if body.operations[access].opcode is opcode)


def port_limits(dependences: Dependences) -> list[Limit]:
    """Least interval of each group of ports: its accesses, those that may share a port counted as one."""
    limits = []
    for group in port_groups(dependences.body):
        turns = _turns(dependences, group)
        interval = -(-turns // group.count)
        limits.append(Limit("ports", interval, group.subject, group.accesses))
    return limits


def _turns(dependences: Dependences, group: PortGroup) -> int:
    """Accesses an iteration where each takes the first place that it may share with all there."""
    turns: list[list[int]] = []
    for access in group.accesses:
        for turn in turns:
            if all(dependences.may_share(access, other) for other in turn):
                turn.append(access)
                break
        else:
            turns.append([access])
    return len(turns)
