"""The numbers that define a skip array (include/bfpga/processes/skip_array/skip_array.hpp)."""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.configuration import KernelConfig

#: Longest chunks of windows that the array has room for, and the most chunks that it holds.
ROOM, MOST_CHUNKS = 2, 4


@dataclass(frozen=True)
class SkipShape:
    """``groups`` groups of ``halves`` x ``columns`` packed lanes; each group multiplies by an entry of its own a cycle.

    A pass computes ``pixels`` output pixels. A step of a window brings a word of ``lanes`` channels of each of them:
    ``lanes`` wide words, each a channel of all pixels. Windows come in chunks of ``chunk_words`` wide words at most,
    for ``ROOM`` of which there is room. A stream of entries holds ``queue`` of them.
    """

    groups: int = 16
    halves: int = 2
    columns: int = 12
    lanes: int = 4
    chunk_words: int = 256
    queue: int = 32
    weight_bits: int = 8
    stream_bits: int = 64

    @staticmethod
    def of(config: KernelConfig) -> SkipShape:
        """The shape of a configuration with a skip array."""
        array = config.array
        return SkipShape(
            array.skip_groups(config), array.halves, config.columns, config.lanes, array.chunk_words(config),
            array.queue_words(), config.weight_bits, config.weight_stream_bits,
        )  # fmt: skip

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
    def field_bits(self) -> int:
        """Bits that weight and position of an entry take on the weight stream: a power of two, so that none of them
        straddles two beats."""
        return 1 << (self.last_bit - 1).bit_length()

    @property
    def beats(self) -> int:
        """Beats of the weight stream that bring one entry for every group."""
        return -(-self.groups * (self.field_bits + 2) // self.stream_bits)

    def chunks(self, steps: int) -> int:
        """Chunks, all but the last of the same number of steps, that a window of ``steps`` steps is cut into."""
        return -(-steps // self.chunk_steps(steps))

    def chunk_steps(self, steps: int) -> int:
        """Steps of each chunk but the last of a window of ``steps`` steps."""
        return -(-steps // -(-steps // self.steps))

    def step_clocks(self, slots: int = 1, apart: bool = False, single: bool = False) -> int:
        """Cycles in which a step of a pass is written, each half of which comes in so many slots.

        A wide word is written a cycle, all of a step where lanes are apart; the last word of a step comes with the
        last slot of its last half. single: the pass has one half.
        """
        coming = slots if single else self.halves * slots
        return coming if apart else max(self.lanes + slots - 1, coming)

    def held(self, chunk_steps: int, apart: bool = False, kept_steps: int = 0) -> int:
        """Chunks of so many steps that the array holds at a time; apart: lanes are apart.

        kept_steps: of passes before, that stay in addition.
        """
        words = 1 if apart else self.lanes
        return min(MOST_CHUNKS, (ROOM * self.chunk_words - kept_steps * words) // (chunk_steps * words))
