"""Reads and writes of a body's memories: which bank, which word of it, and bytes that are written together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from bfpga.synthesis.body import LoopBody, Memory, Opcode, Operation, Place
from bfpga.synthesis.frontend.cells import Cells, Index, MemoryAccess, shifted
from bfpga.synthesis.frontend.intrinsics import UntranslatedError
from bfpga.synthesis.graph import Graph
from bfpga.synthesis.implication import implies_one_of

#: Value of an index; the second argument: its lowest bits name one of several banks.
IndexValue = Callable[[Index, bool], int]


@dataclass(frozen=True, slots=True)
class _Store:
    """Bytes of a word and when they are stored."""

    first: int
    size: int
    data: int
    enable: int


@dataclass(slots=True)
class _PendingWrite:
    """Stores to one word in program order."""

    address: int
    stores: list[_Store] = field(default_factory=list)
    place: Place | None = None

    def takes(self, address: int, store: _Store, size: int) -> bool:
        """Whether a store joins: to the same word of ``size`` bytes, and not both whole and under other conditions."""
        whole = store.size == size and all(other.size == size for other in self.stores)
        return address == self.address and not (whole and store.enable != self.stores[-1].enable)

    def of_byte(self, byte: int) -> list[_Store]:
        """The stores that touch a byte of the word."""
        return [store for store in self.stores if store.first <= byte < store.first + store.size]


@dataclass(slots=True)
class _Bank:
    """A memory while its accesses are gathered."""

    number: int
    memory: Memory
    element: int  # bytes of an element; a word has several where ARRAY_RESHAPE puts them side by side
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
            store = _Store(access.within, size, data, written)
            if bank.pending is None or not bank.pending.takes(address, store, bank.memory.width // 8):
                self._flush(bank)
                bank.pending = _PendingWrite(address, place=self._graph.place)
            bank.pending.stores.append(store)
            bank.reads.clear()

    def _flush(self, bank: _Bank) -> None:
        """One access for the stores of a word: each part takes the last store whose condition holds."""
        pending, bank.pending = bank.pending, None
        if pending is None:
            return
        graph = self._graph
        enable = reduce(partial(graph.logic, Opcode.OR), (store.enable for store in pending.stores))
        stores = [pending.of_byte(byte) for byte in range(bank.memory.width // 8)]
        self._check_written(bank, enable, stores)
        data = graph.concat([self._stored(byte, of_byte) for byte, of_byte in enumerate(stores)])
        operands = (pending.address, data, enable)
        operation = Operation(Opcode.MEMORY_WRITE, 0, operands, memory=bank.number, place=pending.place)
        bank.memory.accesses.append(graph.add(operation, shared=False))

    def _stored(self, byte: int, stores: list[_Store]) -> int:
        """What the stores leave in a byte of a word, if one of them is executed."""
        graph = self._graph
        values = [graph.slice(store.data, 8 * (byte - store.first), 8) for store in stores]
        value = values[0] if values else graph.constant(0, 8)
        for store, later in zip(stores[1:], values[1:], strict=True):
            value = graph.select(store.enable, later, value)
        return value

    def _check_written(self, bank: _Bank, enable: int, stores: list[list[_Store]]) -> None:
        """A word is written as a whole: a part that keeps what it has would need an enable of its own.

        Raises:
            UntranslatedError: the word may be written without one of the stores to a part. A byte of an element without
                any fills it up, as the eighth of a structure of seven.
        """
        parts = [of_byte for byte, of_byte in enumerate(stores) if of_byte or byte % bank.element == 0]
        for enables in {tuple(store.enable for store in of_byte) for of_byte in parts}:
            if not implies_one_of(self._graph.operations, enable, enables):
                raise UntranslatedError(f"a part of a word of {bank.memory.name} is not stored whenever others are")

    def _bank(self, access: MemoryAccess, bank: tuple[int, ...]) -> _Bank:
        key = (access.array.root, access.array.offset, access.array.extents, bank)
        if key not in self._banks:
            memory = self._cells.memory(access.array, bank)
            self._banks[key] = _Bank(len(self._banks), memory, access.array.element)
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
