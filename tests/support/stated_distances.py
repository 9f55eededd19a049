"""Whether memories are written in time for their next read, which a pragma promises for so many iterations later."""

from __future__ import annotations

from bfpga.synthesis.body import LoopBody, Memory, Opcode
from bfpga.synthesis.schedule_types import Schedule


def late_writes(body: LoopBody, schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Memories of a loop whose pragma waives something between iterations: those of which the last write ends after the
    first read of the iteration that may need it. Clocks from that read, of an earlier iteration, and the clocks that
    the pragma states, which are none if it only says `false`."""
    found = {}
    for memory in body.memories:
        stated = [waiver.distance for waiver in memory.waivers if waiver.kind == "inter"]
        reads, writes = _stages(body, schedule, memory)
        if stated and reads and writes:
            clocks = max(writes) + 1 - min(reads)
            if clocks > min(stated) * schedule.interval:
                found[memory.name] = clocks, min(stated) * schedule.interval
    return found


def _stages(body: LoopBody, schedule: Schedule, memory: Memory) -> tuple[list[int], list[int]]:
    reads, writes = (
        [schedule.stage[access] for access in memory.accesses if body.operations[access].opcode is kind]
        for kind in (Opcode.MEMORY_READ, Opcode.MEMORY_WRITE)
    )
    return reads, writes
