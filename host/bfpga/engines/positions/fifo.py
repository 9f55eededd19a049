"""Positions on their way from the preceding to the main side of a pipeline: a bounded queue (FP R42)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from bfpga.errors import ConfigurationError, DeviceError
from bfpga.formats.fixed_point import POSITIONS, require_range

#: Layers that the word of an entry can name.
LAYERS = 256


@dataclass(frozen=True)
class PositionEntry:
    """Position that was selected for the results of a layer; ``ConfigurationError`` if a word cannot hold it."""

    layer: int
    position: int

    def __post_init__(self) -> None:
        if not 0 <= self.layer < LAYERS:
            raise ConfigurationError(f"layer {self.layer} cannot travel with its position; 0 to {LAYERS - 1} can")
        require_range(f"position of layer {self.layer}", self.position, POSITIONS)

    @property
    def word(self) -> int:
        """The 16 bits of the stream: position in bits 0..7, layer in bits 8..15. FP 7."""
        return self.layer << 8 | self.position & 0xFF

    @classmethod
    def from_word(cls, word: int) -> PositionEntry:
        byte = word & 0xFF
        return cls(word >> 8, byte - 256 if byte > POSITIONS[1] else byte)


@dataclass
class PositionFifo:
    """First in, first out, of ``depth`` entries: so far may the preceding side run ahead. FP R42."""

    depth: int
    largest_fill: int = field(default=0, init=False)
    _words: deque[int] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ConfigurationError(f"fifo_depth is {self.depth}; 1 or more layers must fit")

    def push(self, entry: PositionEntry) -> bool:
        """Append an entry; False if it is full and the preceding side has to wait."""
        if len(self._words) == self.depth:
            return False
        self._words.append(entry.word)
        self.largest_fill = max(self.largest_fill, len(self._words))
        return True

    def pop(self, layer: int) -> PositionEntry | None:
        """Entry of ``layer``; None if the main side has to wait for it.

        ``DeviceError`` if the next entry is of another layer: one was lost, or they changed places.
        """
        if not self._words:
            return None
        entry = PositionEntry.from_word(self._words[0])
        if entry.layer != layer:
            raise DeviceError(f"the position of layer {entry.layer} came where that of layer {layer} was due")
        self._words.popleft()
        return entry
