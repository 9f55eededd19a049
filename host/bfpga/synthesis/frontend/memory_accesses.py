"""Reads and writes of a body's memories: which bank, which word of it, and bytes that are written together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bfpga.synthesis.body import LoopBody, Memory, Opcode, Operation, Place
from bfpga.synthesis.frontend.cells import Cells, Index, MemoryAccess, shifted
from bfpga.synthesis.frontend.intrinsics import UntranslatedError
from bfpga.synthesis.graph import Graph

#: Value of an index; the second argument: its lowest bits name one of several banks.
IndexValue = Callable[[Index, bool], int]


@dataclass(slots=True)
class _PendingWrite:
    address: int
    enable: int
    parts: dict[int, int] = field(default_factory=dict)
    place: Place | None = None


@dataclass(slots=True)
class _Bank:
    """A memory while its accesses are gathered."""

    number: int
    memory: Memory
    pending: _PendingWrite | None = None
    reads: dict[tuple[int, int], int] = field(default_factory=dict)


class MemoryAccesses:
    """The memories of a body that is being built."""

    def __init__(self, graph: Graph, body: LoopBody, cells: Cells, index: IndexValue) -> None:
        self._graph, self._body, self._cells, self._index = graph, body, cells, index
        self._banks: dict[tuple[object, ...], _Bank] = {}

    def read(self, access: MemoryAccess, size: int, enable: int) -> int:
        """What ``size`` bytes of a memory hold. ``enable``: whether it is read.

        Raises:
            UntranslatedError: they are no whole words.
        """
        return self._graph.concat([self._read_word(part, count, enable) for part, count in _words(access, size)])

    def write(self, access: MemoryAccess, data: int, size: int, enable: int, condition: int) -> None:
        """Writes ``size`` bytes where the block is executed and a condition holds; those of a word become one access.

        Raises:
            UntranslatedError: they are no whole words.
        """
        position = 0
        for part, count in _words(access, size):
            self._write_word(part, self._graph.slice(data, 8 * position, 8 * count), count, enable, condition)
            position += count

    def flush(self) -> None:
        """Makes accesses of all writes that are still gathered."""
        for bank in self._banks.values():
            self._flush(bank)

    def _read_word(self, access: MemoryAccess, size: int, enable: int) -> int:
        banks, address = self._bank_choices(access)
        values = []
        for number, condition in banks:
            bank = self._bank(access, number)
            if bank.pending is not None:
                self._flush(bank)
            key = (address, enable)
            if key not in bank.reads:
                operation = Operation(Opcode.MEMORY_READ, bank.memory.width, key, memory=bank.number)
                bank.reads[key] = self._graph.add(operation, shared=False)
                bank.memory.accesses.append(bank.reads[key])
            values.append((bank.reads[key], condition))
        word = values[-1][0]
        for value, condition in reversed(values[:-1]):
            word = self._graph.select(condition, value, word)
        return self._graph.slice(word, 8 * access.within, 8 * size)

    def _write_word(self, access: MemoryAccess, data: int, size: int, enable: int, condition: int) -> None:
        banks, address = self._bank_choices(access)
        for number, chosen in banks:
            bank = self._bank(access, number)
            written = self._graph.logic(Opcode.AND, enable, self._graph.logic(Opcode.AND, condition, chosen))
            pending = bank.pending
            if pending is None or (pending.address, pending.enable) != (address, written):
                self._flush(bank)
                pending = bank.pending = _PendingWrite(address, written, place=self._graph.place)
            for byte in range(size):
                pending.parts[access.within + byte] = self._graph.slice(data, 8 * byte, 8)
            bank.reads.clear()

    def _flush(self, bank: _Bank) -> None:
        pending, bank.pending = bank.pending, None
        if pending is None:
            return
        zero = self._graph.constant(0, 8)
        data = self._graph.concat([pending.parts.get(byte, zero) for byte in range(bank.memory.width // 8)])
        operands = (pending.address, data, pending.enable)
        operation = Operation(Opcode.MEMORY_WRITE, 0, operands, memory=bank.number, place=pending.place)
        bank.memory.accesses.append(self._graph.add(operation, shared=False))

    def _bank(self, access: MemoryAccess, bank: tuple[int, ...]) -> _Bank:
        key = (access.array.root, access.array.offset, access.array.extents, bank)
        if key not in self._banks:
            memory = self._cells.memory(access.array, bank)
            self._banks[key] = _Bank(len(self._banks), memory)
            self._body.memories.append(memory)
        return self._banks[key]

    def _bank_choices(self, access: MemoryAccess) -> tuple[list[tuple[tuple[int, ...], int]], int]:
        """Banks that an access may touch with the condition of each, and the address within the bank."""
        graph = self._graph
        banks: list[tuple[tuple[int, ...], int]] = [((), graph.constant(1, 1))]
        address = graph.constant(0, 1)
        for dimension, extent in enumerate(access.array.extents):
            split = access.array.splits.get(dimension)
            style = split.style if split else ""
            index = self._index(access.indices[dimension], style in ("cyclic", "block"))
            if style == "reshape":
                continue
            bank, word, words = self._divided(index, style, split.factor if split else 0, extent)
            if bank is not None:
                value = graph.constant_of(bank[0])
                choices = range(bank[1]) if value is None else [value]
                banks = [
                    ((*b, c), graph.logic(Opcode.AND, e, is_choice(graph, bank[0], c)))
                    for b, e in banks
                    for c in choices
                ]
            if word is not None:
                address = self._joined(address, word, words)
        return banks, address

    def _divided(
        self, index: int, style: str, factor: int, extent: int
    ) -> tuple[tuple[int, int] | None, int | None, int]:
        """An index as (bank, number of banks), word of the bank, and words of a bank."""
        graph = self._graph
        if style == "complete":
            return (index, extent), None, 1
        if style not in ("cyclic", "block") or factor <= 1:
            return None, index, extent
        words = -(-extent // factor)
        divisor = factor if style == "cyclic" else words
        width = graph.width(index)
        if divisor & (divisor - 1) == 0:
            bits = divisor.bit_length() - 1
            low = graph.slice(index, 0, min(bits, width)) if bits else graph.constant(0, 1)
            high = graph.slice(index, bits, width - bits) if bits < width else graph.constant(0, 1)
        else:
            by = graph.constant(divisor, width + 1)
            wide = graph.extend(Opcode.ZEXT, index, width + 1)
            low = graph.add(Operation(Opcode.UREM, width + 1, (wide, by)))
            high = graph.add(Operation(Opcode.UDIV, width + 1, (wide, by)))
        return ((low, factor), high, words) if style == "cyclic" else ((high, factor), low, words)

    def _joined(self, address: int, word: int, words: int) -> int:
        """address * words + word."""
        graph = self._graph
        if graph.constant_of(address) == 0:
            return word
        bits = max(1, (words - 1).bit_length())
        if words & (words - 1) == 0:
            return graph.concat(
                [
                    graph.extend(Opcode.ZEXT, word, bits) if graph.width(word) < bits else graph.slice(word, 0, bits),
                    address,
                ]
            )
        width = graph.width(address) + bits + 1
        product = graph.arithmetic(Opcode.MUL, graph.extend(Opcode.ZEXT, address, width), graph.constant(words, width))
        return graph.arithmetic(Opcode.ADD, product, graph.extend(Opcode.ZEXT, word, width))


def is_choice(graph: Graph, index: int, choice: int) -> int:
    """Whether an index is a certain one."""
    return graph.compare(Opcode.EQ, index, graph.constant(choice, graph.width(index)))


def _words(access: MemoryAccess, size: int) -> list[tuple[MemoryAccess, int]]:
    """An access of several words, as a copied structure is, word by word."""
    word = access.array.element
    if access.within + size <= max(word, access.array.word_bytes()):
        return [(access, size)]
    if access.within or size % word:
        raise UntranslatedError(f"{size} bytes of {access.array.name}, whose words have {word}")
    *outer, last = access.indices
    return [(replace(access, indices=(*outer, shifted(last, k))), word) for k in range(size // word)]
