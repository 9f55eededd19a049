"""What ZERO_SKIP and SPARSE have in common, in plain Python integers, straight from docs/engines.md.

With `reference_tiles` and `reference_strips` the judge between numpy and C++. Nothing of the product computes here:
weights are read bit by bit from the bytes of the stream, sums are added product by product, clocks are those of
section 8. What a build cannot hold is an assertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.engine_numbers import ENGINE_DEPTH

#: (kernel, row, column) of an output -> sum.
Sums = dict[tuple[int, int, int], int]
#: [row][column][channel] of the rectangle that an operation reads, its padding lanes included.
Rectangle = list[list[list[int]]]
#: Reads a word of `lanes` mantissas at (bank, word).
ReadWord = Callable[[tuple[int, int]], list[int]]


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def pixel_address(d: Descriptor, side: str, row: int, column: int, banks: int) -> tuple[int, int]:
    """(bank, word) of a pixel: `column` steps to the right and `row` wraps down from the first one."""
    word, bank = (
        getattr(d, f"{side}_{part}")
        + column * getattr(d, f"{side}_step_{part}")
        + row * getattr(d, f"{side}_wrap_{part}")
        for part in ("word", "bank")
    )
    return bank % banks, word + bank // banks * getattr(d, f"{side}_pixel_words")


def read_rectangle(d: Descriptor, read: ReadWord, banks: int) -> Rectangle:
    """The input of a tile or a strip."""
    rectangle = []
    for row in range(d.input_height):
        line = []
        for column in range(d.input_width):
            bank, word = pixel_address(d, "input", row, column, banks)
            line.append([value for j in range(d.channel_words) for value in read((bank, word + j))])
        rectangle.append(line)
    return rectangle


class WeightStream:
    """The bytes of an operation, beat by beat and word by word."""

    def __init__(self, data: bytes, config: SystolicConfig) -> None:
        self.data, self.beat_bytes, self.place = data, config.weight_stream_bits // 8, 0

    def number(self, size: int) -> int:
        """The next ``size`` bytes, little-endian."""
        assert self.place + size <= len(self.data), "the weight stream ends too early"
        self.place += size
        return int.from_bytes(self.data[self.place - size : self.place], "little")

    def beat(self) -> int:
        return self.number(self.beat_bytes)

    def pad(self) -> None:
        """On to the next whole beat; what is passed is zero."""
        assert self.number(-self.place % self.beat_bytes) == 0

    def end(self) -> None:
        assert self.place == len(self.data), "bytes are left on the weight stream"


@dataclass
class Computed:
    """What an operation computed, and its clocks without the fetch of its descriptor."""

    sums: Sums
    clocks: int


@dataclass
class Part:
    """One image (ZERO_SKIP) or channel word (SPARSE) of a group of kernels: clocks of what runs at the same time."""

    compute: int
    incoming: int


def group_clocks(parts: list[Part], header: int) -> int:
    """Section 8: part k is computed while part k + 1 comes in; a group without parts takes its header."""
    if not parts:
        return header
    clocks = 0
    for k in range(len(parts) + 1):
        compute = parts[k - 1].compute if k else 0
        incoming = header + max(compute, parts[k].incoming) if k < len(parts) else compute
        clocks += incoming + ENGINE_DEPTH
    return clocks


def drain_clocks(config: SystolicConfig, d: Descriptor, kernels: int, ports: tuple[int, int]) -> int:
    """Section 8; ports: rows and columns of the outputs that leave side by side."""
    window = max(config.lanes, d.write_slots)
    rows = ceil_div(d.output_pixels // d.output_width, ports[0])
    columns = ceil_div(d.output_width, ports[1])
    return rows * columns * ceil_div(kernels, config.lanes) * window + window


def kernel_groups(d: Descriptor, in_flight: int) -> Iterator[tuple[int, int]]:
    """First kernel and number of kernels of each group."""
    assert d.blocks == ceil_div(d.output_rows, in_flight)
    assert d.output_pixels == d.group_rows * d.output_width
    for first in range(0, d.output_rows, in_flight):
        yield first, min(in_flight, d.output_rows - first)
