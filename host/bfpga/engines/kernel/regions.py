"""Activation memory: regions of words for whole tensors or strips of rows, first fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import MemoryUse


@dataclass
class Region:
    """Rows [y0, y1) of a tensor in memory: pixel 0 of row y0 is ``origin`` pixels after bank 0 at word ``base``.

    A negative pitch: the rows follow each other towards lower addresses.
    """

    tensor: str
    base: int
    words: int
    pitch: int
    width: int
    channels: int
    pixel_words: int
    slot: int
    y0: int
    y1: int
    origin: int = 0

    def pixel(self, row: int) -> int:
        """Place of the first pixel of a row of the tensor, in pixels from bank 0 at ``base``."""
        return self.origin + (row - self.y0) * self.pitch

    def words_of(self, config: KernelConfig, y0: int, y1: int, read: bool) -> tuple[int, int]:
        """Words [first, last) in every bank that rows [y0, y1) use; read: with those after the last pixel's."""
        if read and (y0, y1) == (self.y0, self.y1):
            return self.base, self.base + self.words
        first, last = sorted((self.pixel(y0), self.pixel(y1 - 1)))
        trailing = trailing_words(config, self.channels) if read else 0
        words = (last + self.width - 1) // config.banks + 1
        return self.base + first // config.banks * self.pixel_words, self.base + words * self.pixel_words + trailing


def pixel_words(config: KernelConfig, channels: int) -> int:
    return -(-channels // config.lanes)


def region_words(config: KernelConfig, rows: int, pitch: int, width: int, channels: int) -> int:
    """Words a region takes in every bank.

    Whole row blocks are read, so a pixel's last block may reach beyond its last word: the region ends after it.
    """
    pixels = (rows - 1) * pitch + width
    return -(-pixels // config.banks) * pixel_words(config, channels) + trailing_words(config, channels)


def trailing_words(config: KernelConfig, channels: int) -> int:
    """Words that the last row block of a pixel may read past the pixel; blocks of a skip array are parts of it."""
    if config.array.stores_entries:
        return 0
    largest = config.accumulator_rows
    if channels <= config.rows:
        return 0
    return -(-channels // largest) * largest // config.lanes - pixel_words(config, channels)


def memory_use(reads: Iterable[Region], writes: Iterable[Region]) -> MemoryUse:
    """Words of the activation memories that an operation uses, from the regions of its operands and results."""
    return MemoryUse(_ranges(reads), _ranges(writes))


def _ranges(regions: Iterable[Region]) -> tuple[tuple[int, int], ...]:
    return tuple(dict.fromkeys((region.base, region.base + region.words) for region in regions))


class ActivationMemory:
    """Regions and exponent registers in use."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self.regions: list[Region] = []

    def place(
        self, tensor: str, rows: tuple[int, int], pitch: int, width: int, channels: int, at_end: bool = False
    ) -> Region | None:
        """A region for rows [y0, y1) of a tensor; None if no gap is large enough or no exponent register is free.

        at_end: words and register as far back as possible, away from what is placed first.
        """
        words = region_words(self.config, rows[1] - rows[0], pitch, width, channels)
        base, slot = self.first_word(words, at_end), self.free_slot(at_end)
        if base is None or slot is None:
            return None
        region = Region(
            tensor, base, words, pitch, width, channels, pixel_words(self.config, channels), slot, rows[0], rows[1]
        )
        self.regions.append(region)
        return region

    def first_word(self, words: int, at_end: bool = False) -> int | None:
        """Where so many words are free: in the first gap with room, or at the end of the last one; None: none has."""
        fitting = [(first, last) for first, last in self.gaps() if last - first >= words]
        if not fitting:
            return None
        return fitting[-1][1] - words if at_end else fitting[0][0]

    def gaps(self) -> list[tuple[int, int]]:
        """Words [first, last) that no region has, in ascending order."""
        found, start = [], 0
        for region in sorted(self.regions, key=lambda item: item.base):
            if region.base > start:
                found.append((start, region.base))
            start = max(start, region.base + region.words)
        return found + [(start, self.config.activation_words)] * (start < self.config.activation_words)

    def free_slot(self, at_end: bool = False) -> int | None:
        """The first exponent register that no region has, or the last one; None: all are taken."""
        used, slots = {region.slot for region in self.regions}, range(self.config.tensor_slots)
        return next((number for number in (reversed(slots) if at_end else slots) if number not in used), None)

    def copy(self) -> ActivationMemory:
        """The same regions, to try what else fits."""
        result = ActivationMemory(self.config)
        result.regions = list(self.regions)
        return result

    def release(self, region: Region) -> None:
        self.regions.remove(region)
