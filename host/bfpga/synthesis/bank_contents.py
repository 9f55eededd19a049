"""Words of a loop's memories in the bytes of the variables that the running code has for them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import product

from bfpga.synthesis.body import BankOrigin, LoopBody, Memory, Opcode
from bfpga.synthesis.replay_streams import ReplayDifferenceError


class BankContents:
    """The words of a bank in the bytes of its variable."""

    def __init__(self, memory: Memory, variables: Mapping[str, bytes]) -> None:
        self._memory = memory
        self._words: dict[int, int] = {}
        self._table = memory.initial
        origin = memory.origin
        assert origin is not None or memory.initial
        self._places = _bank_places(origin) if origin is not None and not memory.initial else []
        self._bytes = variables.get(origin.root, b"") if origin is not None else b""

    def read(self, address: int) -> int:
        """A word, as this iteration has written it if it has."""
        if self._table:
            return self._table[address] if address < len(self._table) else 0
        if address in self._words:
            return self._words[address]
        if address >= len(self._places):
            return 0
        return sum(self._bytes[place] << 8 * k for k, place in enumerate(self._places[address]))

    def write(self, address: int, data: int) -> None:
        """A word that the iteration writes."""
        self._words[address] = data

    def check(self, loop: str, after: Mapping[str, bytes]) -> None:
        """What the iteration has written is in the variables after it.

        Raises:
            ReplayDifferenceError: the code has written another word.
        """
        origin = self._memory.origin
        if self._table or origin is None:
            return
        for address in self._words:
            code = sum(after[origin.root][place] << 8 * k for k, place in enumerate(self._places[address]))
            if self._words[address] != code:
                found = f"{self._words[address]:#x}, in the code {code:#x}"
                raise ReplayDifferenceError(f"{loop}: {self._memory.name}[{address}] is {found}")


@functools.cache
def _bank_places(origin: BankOrigin) -> list[tuple[int, ...]]:
    """Byte offsets of each word of a bank, lowest first."""
    banks = iter(origin.bank)
    fixed = {d: next(banks) for d, style in enumerate(origin.splits) if style == "complete"}
    addresses = [d for d, style in enumerate(origin.splits) if style not in ("complete", "reshape")]
    inside = [d for d, style in enumerate(origin.splits) if style == "reshape"]
    base = origin.offset + sum(index * origin.strides[d] for d, index in fixed.items())
    words = []
    for word in product(*(range(origin.extents[d]) for d in addresses)):
        start = base + sum(index * origin.strides[d] for d, index in zip(addresses, word, strict=True))
        word_bytes: list[int] = []
        for part in product(*(range(origin.extents[d]) for d in inside)):
            first = start + sum(index * origin.strides[d] for d, index in zip(inside, part, strict=True))
            word_bytes += range(first, first + origin.strides[-1])
        words.append(tuple(word_bytes))
    return words


def observed_bytes(body: LoopBody) -> dict[str, int]:
    """Bytes of each variable that are looked at: those of registers, of values that stay, and of memories."""
    sizes: dict[str, int] = {}

    def look(root: str, end: int) -> None:
        sizes[root] = max(sizes.get(root, 0), end)

    parts = [(*variable_of(register.name), register.width) for register in body.registers]
    parts += [(o.name, 0, o.width) for o in body.operations if o.opcode is Opcode.INVARIANT]
    for variable, low, width in parts:
        origin = body.origins[variable]
        if origin.offset >= 0:
            look(origin.root, origin.offset + -(-(low + width) // 8))
    for memory in body.memories:
        if memory.origin is not None and not memory.initial:
            look(memory.origin.root, memory.origin.offset + memory.origin.extents[0] * memory.origin.strides[0])
    return sizes


def variable_of(register: str) -> tuple[str, int]:
    """The variable that a register is a part of, and its first bit there."""
    variable, *low = register.split("@")
    return variable, sum(map(int, low))
