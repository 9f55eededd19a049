"""The numbers that define a skip array (include/bfpga/processes/skip_array.hpp)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SkipShape:
    """``groups`` groups of ``halves`` x ``columns`` packed lanes; each group multiplies by an entry of its own a clock.

    A pass computes ``pixels`` output pixels. A step of a window brings a word of ``lanes`` channels of each of them:
    ``lanes`` wide words, each a channel of all pixels. A group holds ``buffers`` chunks of a window, of ``chunk_words``
    wide words at most, which it multiplies one after the other.
    wide_rows: rows of sums that the output stage keeps between the chunks of a window.
    """

    groups: int = 16
    halves: int = 2
    columns: int = 12
    lanes: int = 4
    chunk_words: int = 256
    buffers: int = 2
    weight_bits: int = 8
    stream_bits: int = 64
    wide_rows: int = 512

    @property
    def pixels(self) -> int:
        """Output pixels of a pass."""
        return self.halves * self.columns

    @property
    def steps(self) -> int:
        """Steps of the longest chunk."""
        return self.chunk_words // self.lanes

    @property
    def position_bits(self) -> int:
        """Bits of a wide word's position in its chunk."""
        return (self.chunk_words - 1).bit_length()

    @property
    def last_bit(self) -> int:
        """The bit of an entry that ends a kernel's chunk; the one above it ends the chunk of the group."""
        return self.weight_bits + self.position_bits

    @property
    def entry_bits(self) -> int:
        """Bits of an entry: weight, position, two marks."""
        return self.last_bit + 2

    @property
    def beats(self) -> int:
        """Beats of the weight stream that bring one entry for every group."""
        return -(-self.groups * self.entry_bits // self.stream_bits)

    def chunks(self, steps: int) -> int:
        """Chunks, all but the last of the same number of steps, that a window of ``steps`` steps is cut into."""
        return -(-steps // self.chunk_steps(steps))

    def chunk_steps(self, steps: int) -> int:
        """Steps of each chunk but the last of a window of ``steps`` steps."""
        return -(-steps // -(-steps // self.steps))
