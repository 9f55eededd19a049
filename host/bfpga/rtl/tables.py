"""Tables of constants of which one at most is read at a time, as one memory.

Each lane of an output stage reads the table of the function that its layer has. A memory for each function would be
there as often as one for all, and blocks have two ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bfpga.synthesis.body import LoopBody, Memory
from bfpga.synthesis.dependences import Dependences
from bfpga.synthesis.netlist.expressions import fitted, literal


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of as many words each: a power of two, or one more, which then stands behind those of all tables."""

    memories: tuple[Memory, ...]

    @property
    def room(self) -> int:
        """Tables that there is room for, a power of two, so that every address is one of a word."""
        return 1 << (len(self.memories) - 1).bit_length()

    @property
    def deep(self) -> int:
        """Words of a table before the one behind."""
        return 1 << self.memories[0].words.bit_length() - 1

    @property
    def pieces(self) -> list[int]:
        """Words of the memories that hold all tables; few words behind many are no block."""
        return [self.room * self.deep, *([self.room] if self.memories[0].words > self.deep else [])]

    def memory(self) -> Memory:
        """All words."""
        contents = [(*each.initial, *[0] * each.words)[: self.deep + 1] for each in self.memories]
        words = [word for content in contents for word in content[: self.deep]]
        words += [0] * (self.pieces[0] - len(words)) + [content[-1] for content in contents]
        words = [*words, *[0] * self.room][: sum(self.pieces)]
        return replace(self.memories[0], name="tables", words=len(words), initial=tuple(words), accesses=[])

    def address(self, table: int, name: str, width: int) -> str:
        """Where a word is of which a net of ``width`` bits is the address in one table."""
        bits = (sum(self.pieces) - 1).bit_length()
        own = self.deep.bit_length() - 1
        within = f"{{{literal(table, bits - own)}, {fitted(name, width, own)}}}"
        if len(self.pieces) == 1 or width <= own:
            return within
        return f"({name}[{own}] ? {literal(self.pieces[0] + table, bits)} : {within})"


def joinable(
    body: LoopBody, dependences: Dependences, stage: Callable[[int], int], own: Sequence[int]
) -> list[list[int]]:
    """Groups of some memories of a body that are tables of which one at most is read at a time.

    ``stage``: of an operation; ``own``: numbers of tables that no other body reads.
    """
    groups: list[list[int]] = []
    for number in own:
        memory = body.memories[number]
        for group in groups:
            others = [body.memories[other] for other in group]
            if _alike(memory, others[0], stage) and all(_exclude(dependences, memory, other) for other in others):
                group.append(number)
                break
        else:
            groups.append([number])
    return [group for group in groups if len(group) > 1]


def _alike(one: Memory, other: Memory, stage: Callable[[int], int]) -> bool:
    """Whether two tables have as many words, and as many accesses in each stage."""
    places = [sorted(map(stage, each.accesses)) for each in (one, other)]
    return (one.words, one.width) == (other.words, other.width) and places[0] == places[1]


def _exclude(dependences: Dependences, one: Memory, other: Memory) -> bool:
    return all(dependences.exclusive(first, second) for first in one.accesses for second in other.accesses)
