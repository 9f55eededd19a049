"""Variables that outlive the loops of a function: which of their bits anybody reads.

An object of a process is static, so that every field of it outlives its loop. Most of them are not read again: they are
set anew before the next loop, or only a simulation needs them. A synthesis tool removes those, and so does this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bfpga.synthesis.body import LoopBody, Opcode, Origin
from bfpga.synthesis.graph import mask_of
from bfpga.synthesis.narrow import demanded_bits, narrowed

#: Bits of a variable that are read, by its root in the flat LLVM IR; bit 0 is the lowest of its first byte.
Reads = dict[str, int]


def without_unread(bodies: Sequence[LoopBody], visible: Iterable[str] = ()) -> list[LoopBody]:
    """The loops of one function, and what is outside of them, without what they keep unread.

    ``visible``: roots that are read outside of the function.
    """
    reads = _reads(bodies, dict.fromkeys(visible, -1))
    return [narrowed(leaving(body, reads)) for body in bodies]


def _reads(bodies: Sequence[LoopBody], visible: Reads) -> Reads:
    """Grows until no loop reads more for what others read."""
    reads = dict(visible)
    for body in bodies:
        for memory in body.memories:
            if memory.origin is not None:
                size = memory.origin.offset + memory.origin.extents[0] * memory.origin.strides[0]
                reads[memory.origin.root] = reads.get(memory.origin.root, 0) | mask_of(8 * size)
    while True:
        before = dict(reads)
        for body in bodies:
            known = leaving(body, reads)
            add_reads(reads, known, demanded_bits(known))
        if reads == before:
            return reads


def add_reads(reads: Reads, body: LoopBody, demands: Sequence[int]) -> None:
    """Add what a body reads of variables. ``demands``: of its operations, as `demanded_bits` finds them."""
    for root, mask in _read_by(body, demands):
        reads[root] = reads.get(root, 0) | mask


def _read_by(body: LoopBody, demands: Sequence[int]) -> Iterator[tuple[str, int]]:
    for index, operation in enumerate(body.operations):
        if operation.opcode is Opcode.STATE:
            name = body.registers[operation.register].name
        elif operation.opcode is Opcode.INVARIANT:
            name = operation.name
        else:
            continue
        origin, low = _origin(body, name)
        if origin is not None and demands[index]:
            yield origin.root, demands[index] << 8 * origin.offset + low


def leaving(body: LoopBody, reads: Reads) -> LoopBody:
    """The body with the bits of its registers that are read after it."""
    registers = []
    for register in body.registers:
        origin, low = _origin(body, register.name)
        left = register.left
        if left and origin is not None:
            left &= reads.get(origin.root, 0) >> 8 * origin.offset + low
        registers.append(replace(register, left=left))
    return replace(body, registers=registers)


def _origin(body: LoopBody, name: str) -> tuple[Origin | None, int]:
    """Where a variable's register is, and its first bit there; None for a value that is in no variable."""
    whole, *parts = name.split("@")
    origin = body.origins.get(name)
    low = 0
    if origin is None and whole:
        origin, low = body.origins.get(whole), sum(map(int, parts))
    return (origin, low) if origin is not None and origin.offset >= 0 else (None, 0)
