"""The entries of a skip array in plain integers: what the words of its weight stream say, entry by entry.

A word has a field of weight and position for each group, then two marks for each: the kernel's last entry of the chunk,
the group's last one. A field is as wide as the next power of two. No bit at all: no entry. A weight of 0 without a mark
begins the kernel of an output row, whose number and one is its position. A position is a step and a lane of the chunk;
where lanes stand apart it is a step, and the lane that of the group.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag


@dataclass(frozen=True)
class Term:
    """A product: an output row's weight, and the tap (row, column), word of channels and lane that it multiplies."""

    row: int
    weight: int
    tap: tuple[int, int]
    word: int
    lane: int


def field_bits(config: KernelConfig) -> int:
    """Bits of a field on the stream."""
    needed = config.format.mantissa_bits + len(f"{config.array.chunk_words(config) - 1:b}")
    return next(bits for bits in (4, 8, 16, 32) if bits >= needed)


def entry_beats(config: KernelConfig) -> int:
    """Beats of a word on the stream."""
    return -(-config.array.skip_groups(config) * (field_bits(config) + 2) // config.weight_stream_bits)


def entry_words(config: KernelConfig, data: bytes, count: int) -> list[int]:
    """The first ``count`` words as numbers."""
    size = entry_beats(config) * config.weight_stream_bits // 8
    return [int.from_bytes(data[n * size : (n + 1) * size], "little") for n in range(count)]


def terms(config: KernelConfig, d: Descriptor, words: list[int]) -> list[Term]:
    """All products of a pass; a group without an end of a chunk, or with entries behind the last, is an error."""
    found: list[Term] = []
    for group in range(config.array.skip_groups(config)):
        row = chunk = 0
        for word in words:
            value, position, last, ends = _entry(config, word, group)
            if value == 0 and not last and not ends:
                row = position - 1 if position else row
                continue
            if value:
                found.append(_term(config, d, row, value, chunk, position, group))
            chunk += ends
        assert chunk == _chunks(d)
    return found


def _entry(config: KernelConfig, word: int, group: int) -> tuple[int, int, bool, bool]:
    bits, width = config.format.mantissa_bits, field_bits(config)
    field = word >> group * width & ((1 << width) - 1)
    marks = word >> config.array.skip_groups(config) * width + 2 * group & 3
    value = field & ((1 << bits) - 1)
    return value - (value >> bits - 1 << bits), field >> bits, bool(marks & 1), bool(marks & 2)


def _steps(d: Descriptor) -> int:
    return d.kernel_height * d.kernel_width * d.channel_words


def _chunks(d: Descriptor) -> int:
    """A block is a chunk; one alone may be cut."""
    return d.blocks if d.blocks > 1 else -(-_steps(d) // d.chunk_steps)


def _term(
    config: KernelConfig, d: Descriptor, row: int, value: int, chunk: int, position: int, group: int
) -> Term:
    apart = bool(d.flags & Flag.LANES_APART)
    step, lane = (position, group % config.lanes) if apart else divmod(position, config.lanes)
    assert step < d.chunk_steps
    block, step = (chunk, step) if d.blocks > 1 else (0, chunk * d.chunk_steps + step)
    tap, word = divmod(step, d.channel_words)
    assert tap < d.kernel_height * d.kernel_width
    return Term(row, value, divmod(tap, d.kernel_width), block * d.block_step + word, lane)
