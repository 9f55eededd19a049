"""Blocks that the memories of a kernel take, from their words, their bits and what binds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bfpga.engines.interface.resource_units import half_blocks, lut_memory_tables, ultra_blocks
from bfpga.estimate.hardware import Area
from bfpga.synthesis.body import LoopBody, Memory, Opcode
from bfpga.synthesis.delays import Technology, implementation_of


def memory_area(memory: Memory, technology: Technology, reads: int) -> Area:
    """Cells of one memory; a table that is read at ``reads`` places has so many ports, two of them in a block."""
    bits = memory.bits or memory.width
    implementation = implementation_of(memory, technology)
    if implementation == "uram":
        return Area(uram=ultra_blocks(memory.words, bits))
    copies = -(-reads // 2) if memory.initial and reads > 2 else 1
    if implementation == "lutram":
        return Area(lut_memory=copies * lut_memory_tables(memory.words, bits))
    return Area(bram18=copies * half_blocks(memory.words, bits))


def memories_area(bodies: Iterable[LoopBody], technology: Technology) -> Area:
    """Cells of all memories of a kernel, each once however many loops use it.

    Tables of constants of one shape are one behind the other in a memory: functions, of which an operation has one
    (rtl/tables.py).
    """
    found: dict[object, tuple[Memory, int]] = {}
    for body in bodies:
        for memory in body.memories:
            reads = sum(body.operations[k].opcode is Opcode.MEMORY_READ for k in memory.accesses)
            # Tables of constants may have no name of their own.
            key = memory.name, memory.initial
            known = found.get(key)
            found[key] = (memory, max(reads, known[1]) if known else reads)
    own = [(memory, reads) for memory, reads in found.values() if not memory.initial]
    tables: dict[tuple[int, int, int], list[Memory]] = {}
    for memory, reads in found.values():
        if memory.initial:
            tables.setdefault((memory.words, memory.bits or memory.width, reads), []).append(memory)
    joined = [(replace(same[0], words=len(same) * words), reads) for (words, _, reads), same in tables.items()]
    return sum((memory_area(memory, technology, reads) for memory, reads in (*own, *joined)), Area())
