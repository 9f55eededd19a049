"""Which words that bodies share are still needed where, and which are always the same constant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.frontend.segments import RETURN, Bodies

Word = TypeVar("Word")


def live_words(
    bodies: Bodies, reads: Mapping[int, set[Word]], replaces: Mapping[int, set[Word]], after: set[Word]
) -> tuple[list[set[Word]], list[set[Word]]]:
    """Words whose value is needed where each body begins, and where it ends.

    ``reads``: words whose first value a body needs; ``replaces``: words that it overwrites whatever they were;
    ``after``: words that are needed when the function has ended, besides those that its next call needs.
    """
    count = len(bodies.bodies)
    begins: list[set[Word]] = [set(reads.get(k, ())) for k in range(count)]
    ends: list[set[Word]] = [set() for _ in range(count)]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(count)):
            needed: set[Word] = set()
            for edge in bodies.leaving(number):
                needed |= begins[0] | after if edge.target == RETURN else begins[edge.target]
            before = reads.get(number, set()) | (needed - replaces.get(number, set()))
            if needed != ends[number] or before != begins[number]:
                ends[number], begins[number], changed = needed, before, True
    return begins, ends


def used_states(body: LoopBody) -> set[int]:
    """Registers of a body whose word at its beginning matters."""
    used = {operand for operation in body.operations for operand in operation.operands}
    used |= {*body.exports.values(), body.leaves}
    used |= {register.next for register in body.registers if register.next != register.current}
    return {number for number, register in enumerate(body.registers) if register.current in used}


def only(words: Iterable[int | None]) -> int | None:
    """The constant that all words are; None where one is not constant or two differ."""
    found = set(words)
    return found.pop() if len(found) == 1 else None


