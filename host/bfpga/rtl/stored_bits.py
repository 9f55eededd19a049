"""Which bits of the words of memories are stored: those that somebody reads and that are no copy of others.

A word of C++ has whole bytes: those of a number of 18 bits are 32, of which 14 repeat its sign; a structure has bytes
between its fields. A bit is left out if no body reads it, if it is the same constant in all words that are ever in the
memory, or if it always equals a lower bit of its word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bfpga.rtl.words import ONE, ZERO, Word
from bfpga.synthesis.body import LoopBody, Opcode, Operation
from bfpga.synthesis.narrow import demanded_bits
from bfpga.synthesis.netlist.significance import significant_bits
from bfpga.synthesis.variables import add_reads, leaving


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is ever in a memory. ``initial``: its words at power-on, none if all are zero; ``places``: number of
    each body that has it, and its number there."""

    width: int
    initial: Sequence[int]
    places: Collection[tuple[int, int]]


def stored_bits(
    bodies: Sequence[LoopBody], memories: Sequence[Contents], visible: Collection[str]
) -> list[Word]:
    """What is stored of the words of memories, which these bodies alone read and write; at least a bit of each.

    ``visible``: variables that others read.
    """
    owned: list[dict[int, int]] = [{} for _ in bodies]
    for number, memory in enumerate(memories):
        for body, own in memory.places:
            owned[body][own] = number
    read = _read_bits(bodies, owned, len(memories), visible)
    words = [_at_power_on(memory, mask) for memory, mask in zip(memories, read, strict=True)]
    # What is so at power-on stays so, if it is so in every word that is written, where it is so in what is read.
    while True:
        before, written = words, _written(bodies, owned, words)
        words = [_refined(word, written[k], read[k]) for k, word in enumerate(words)]
        if words == before:
            return [word if word.stored else Word((0, *word.sources[1:])) for word in words]


def _read_bits(
    bodies: Sequence[LoopBody], owned: Sequence[Mapping[int, int]], count: int, visible: Collection[str]
) -> list[int]:
    """Mask of the bits of each memory on which something outside of all memories depends, through variables too."""
    masks, reads = [0] * count, dict.fromkeys(visible, -1)
    while True:
        before = list(masks), dict(reads)
        for body, own in zip(bodies, owned, strict=True):
            known = leaving(body, reads)
            demands = demanded_bits(known, {number: masks[memory] for number, memory in own.items()})
            add_reads(reads, known, demands)
            for index, operation in enumerate(body.operations):
                if operation.opcode is Opcode.MEMORY_READ:
                    masks[own[operation.memory]] |= demands[index]
        if (masks, reads) == before:
            return masks


def _at_power_on(memory: Contents, read: int) -> Word:
    first: dict[tuple[int, ...], int] = {}
    sources = []
    for bit in range(memory.width):
        column = tuple(word >> bit & 1 for word in memory.initial) if read >> bit & 1 else ()
        is_constant = len(set(column)) <= 1
        sources.append((ONE if any(column) else ZERO) if is_constant else first.setdefault(column, bit))
    return Word(tuple(sources))


def _refined(word: Word, written: Sequence[Sequence[int]], read: int) -> Word:
    """Bits are still equal if they are so in all words that are written. ``written``: names of the bits of each."""
    first: dict[tuple[int, ...], int] = {}
    sources = []
    for bit, (source, *names) in enumerate(zip(word.sources, *written, strict=True)):
        is_constant = source < 0 and all(name == source for name in names)
        sources.append(source if is_constant or not read >> bit & 1 else first.setdefault((source, *names), bit))
    return Word(tuple(sources))


def _written(
    bodies: Sequence[LoopBody], owned: Sequence[Mapping[int, int]], words: Sequence[Word]
) -> list[list[list[int]]]:
    """The words that are written to each memory, as names of their bits."""
    written: list[list[list[int]]] = [[] for _ in words]
    for body, own in zip(bodies, owned, strict=True):
        names = _BitNames(body, {number: words[memory] for number, memory in own.items()})
        for operation in body.operations:
            if operation.opcode is Opcode.MEMORY_WRITE:
                written[own[operation.memory]].append(names.of(operation.operands[1]))
    return written


class _BitNames:
    """Names of the bits of values of an iteration: bits of one name are equal. ``words``: of each memory that is read,
    which of its bits are."""

    def __init__(self, body: LoopBody, words: Mapping[int, Word]) -> None:
        self._operations, self._words = body.operations, words
        self._significant = significant_bits(body)
        self._numbers: dict[tuple[int, ...], int] = {}
        self._known: dict[int, list[int]] = {}

    def of(self, index: int) -> list[int]:
        """Names of the bits of an operation's value, the lowest first."""
        if index not in self._known:
            self._known[index] = self._named(index, self._operations[index])
        return self._known[index]

    def _named(self, index: int, operation: Operation) -> list[int]:
        operands, width = operation.operands, operation.width
        if operation.opcode is Opcode.CONSTANT:
            return [ONE if operation.value >> bit & 1 else ZERO for bit in range(width)]
        if operation.opcode is Opcode.SLICE:
            return self.of(operands[0])[operation.value : operation.value + width]
        if operation.opcode is Opcode.CONCAT:
            return [name for operand in operands for name in self.of(operand)]
        if operation.opcode in (Opcode.ZEXT, Opcode.SEXT):
            names = self.of(operands[0])
            above = names[-1] if operation.opcode is Opcode.SEXT else ZERO
            return [*names, *[above] * (width - len(names))]
        if operation.opcode is Opcode.SELECT:
            arms = zip(self.of(operands[1]), self.of(operands[2]), strict=True)
            return [one if one == other else self._number(operands[0], one, other) for one, other in arms]
        if operation.opcode is Opcode.MEMORY_READ:
            sources = self._words[operation.memory].sources
            return [source if source < 0 else self._number(index, source) for source in sources]
        return list(self._computed(index, width))

    def _computed(self, index: int, width: int) -> Iterator[int]:
        bits = self._significant[index]
        for bit in range(width):
            if bits.is_signed:
                yield self._number(index, min(bit, bits.count - 1))
            else:
                yield self._number(index, bit) if bit < bits.unsigned else ZERO

    def _number(self, *parts: int) -> int:
        return self._numbers.setdefault(parts, len(self._numbers))
