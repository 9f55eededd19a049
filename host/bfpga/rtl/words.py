"""A word of a memory of which some bits are stored: Verilog that takes those from a word, and that puts it together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from bfpga.synthesis.netlist.expressions import vector

#: What a bit of a word is that is no bit of the memory.
ZERO, ONE = -1, -2


@dataclass(frozen=True)
class Word:
    """``sources``: for each bit the stored bit that it equals, itself if it is stored; or a constant, `ZERO`, `ONE`."""

    sources: tuple[int, ...]

    @classmethod
    def whole(cls, width: int) -> Word:
        """A word all of whose bits are stored."""
        return cls(tuple(range(width)))

    @cached_property
    def stored(self) -> tuple[int, ...]:
        """The bits that are stored, lowest first."""
        return tuple(bit for bit, source in enumerate(self.sources) if bit == source)

    @property
    def width(self) -> int:
        """How many bits are stored."""
        return len(self.stored)

    def packed(self, word: int) -> int:
        """What is stored of a word."""
        return sum((word >> bit & 1) << place for place, bit in enumerate(self.stored))

    def packed_text(self, name: str) -> str:
        """What is stored of the word that a net has."""
        if self.width == len(self.sources):
            return name
        return _joined(f"{name}{vector(high, low)}" for low, high in _runs(self.stored))

    def text(self, name: str) -> str:
        """The word of which a net has what is stored."""
        places = {bit: place for place, bit in enumerate(self.stored)}
        found = [places.get(source, source) for source in self.sources]
        return name if found == list(range(self.width)) else _joined(self._pieces(name, found))

    def _pieces(self, name: str, places: list[int]) -> Iterator[str]:
        """Parts of the word, the lowest first: bits one after the other, or one that is repeated."""
        at = 0
        while at < len(places):
            end = at + 1
            if places[at] >= 0 and places[end : end + 1] == [places[at] + 1]:
                while end < len(places) and places[end] == places[end - 1] + 1:
                    end += 1
                yield f"{name}{vector(places[end - 1] + 1, places[at])}"
            else:
                while end < len(places) and places[end] == places[at]:
                    end += 1
                bit = {ZERO: "1'b0", ONE: "1'b1"}.get(places[at], f"{name}[{places[at]}]")
                yield bit if end == at + 1 else f"{{{end - at}{{{bit}}}}}"
            at = end


def _runs(bits: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """First bit of each run of bits, and the one after its last."""
    begin = 0
    for at in range(1, len(bits) + 1):
        if at == len(bits) or bits[at] != bits[at - 1] + 1:
            yield bits[begin], bits[at - 1] + 1
            begin = at


def _joined(parts: Iterator[str]) -> str:
    """Parts, the lowest first, as one word."""
    return "{" + ", ".join(reversed(list(parts))) + "}"
