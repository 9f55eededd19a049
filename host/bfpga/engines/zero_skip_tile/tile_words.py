"""Stored words of a tile: weights of a block of output channels that are not zero, each with its place (ZS R43, R44).

A word has rows x lanes cells of a weight's bits. An entry is a weight and, in the cells behind it, kx, ky and its
kernel among those in flight, lowest bits first. An entry of weight 0 ends its channel. Entries come channel after
channel; of a channel the first one of each kernel, then the second ones: so a kernel is met again as late as possible.

A block begins with an entry of weight 0 whose place says what follows, entries or plain weights: of a channel all taps,
of each all kernels. A block is in the form that takes fewer cells. All blocks of an operation have as many words; words
of zeros stand in front of one that has fewer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from bfpga.contract.arrays.sparse_cluster import SUM_DISTANCE, map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray

#: What the entry at the beginning of a block says: entries follow, or plain weights.
ENTRIES, PLAIN = 1, 2
#: Clocks of a block in which its first entry is read.
BEGIN = 2
#: Plain weights of a tap that lie beside each other, of which a clock takes the first one that is left; at most.
TOGETHER = 8


@dataclass(frozen=True)
class EntryShape:
    """Bits of a weight, of a place in a kernel along an axis, of a kernel's number; plain weights beside each other;
    cells of a word."""

    weight_bits: int
    tap_bits: int
    plane_bits: int
    together: int
    word_cells: int

    @staticmethod
    def of(config: KernelConfig) -> EntryShape:
        tap, plane = (map_array(config.array).kernel - 1).bit_length(), (config.rows - 1).bit_length()
        together, cells = min(config.rows, TOGETHER), config.rows * config.lanes
        return EntryShape(config.weight_bits, max(1, tap), max(1, plane), together, cells)

    @property
    def cells(self) -> int:
        """Cells of an entry: of its weight, of its place."""
        return 1 - (-(2 * self.tap_bits + self.plane_bits) // self.weight_bits)

    @property
    def entries(self) -> int:
        """Entries of a word."""
        return self.word_cells // self.cells

    @property
    def plain_from(self) -> int:
        """The cell where plain weights of a block begin, behind the entry that says so."""
        return -(-self.cells // self.together) * self.together

    def entry_cells(self, weight: IntArray, ky: IntArray, kx: IntArray, kernel: IntArray) -> IntArray:
        """Entries as their cells (entries, cells), without the signs of places."""
        place = kx | ky << self.tap_bits | kernel << 2 * self.tap_bits
        parts = place[:, None] >> self.weight_bits * np.arange(self.cells - 1)
        cells: IntArray = np.concatenate([weight[:, None], parts & (1 << self.weight_bits) - 1], axis=1)
        return cells


@dataclass(frozen=True)
class BlockWork:
    """What the weights of a block take: products with a group of rows; other steps; clocks in which it is read."""

    weights: int
    others: int
    read: int


@dataclass(frozen=True)
class TileWords:
    """Words of the blocks of an operation (blocks, words, rows * lanes), and what each block takes."""

    words: IntArray
    work: tuple[BlockWork, ...]

    @property
    def of_block(self) -> int:
        """Words of each block."""
        return int(self.words.shape[1])

    def part(self, first: int, last: int) -> TileWords:
        """The words of blocks [first, last)."""
        return TileWords(self.words[first:last], self.work[first:last])


_FOUND: dict[int, dict[Hashable, TileWords]] = {}


def known_words(weights: IntArray, key: Hashable, make: Callable[[], TileWords]) -> TileWords:
    """The words of ``key`` of a layer with these weights, found again as long as the weights are there."""
    number = id(weights)
    if number not in _FOUND:
        _FOUND[number] = {}
        weakref.finalize(weights, _FOUND.pop, number, None)
    found = _FOUND[number]
    if key not in found:
        found[key] = make()
    return found[key]


def tile_words(blocks: IntArray, shape: EntryShape) -> TileWords:
    """The words of blocks (blocks, rows, kernel rows, kernel columns, channels) of weights."""
    made = [_block_cells(block, shape) for block in blocks]
    size = max(len(cells) for cells, _ in made)
    words = np.zeros((len(made), -(-size // shape.word_cells) * shape.word_cells), np.int32)
    for row, (cells, _) in zip(words, made, strict=True):
        row[len(row) - -(-len(cells) // shape.word_cells) * shape.word_cells :][: len(cells)] = cells
    return TileWords(words.reshape(len(made), -1, shape.word_cells), tuple(work for _, work in made))


def _entry_count(block: IntArray, shape: EntryShape) -> int:
    """Cells of a block as entries, with those of a word that hold none."""
    entries = 1 + int(np.count_nonzero(block)) + block.shape[3]
    words, rest = divmod(entries, shape.entries)
    return words * shape.word_cells + rest * shape.cells


def _block_cells(block: IntArray, shape: EntryShape) -> tuple[IntArray, BlockWork]:
    """The cells of a block, and what it takes."""
    plain = shape.plain_from + block.size < _entry_count(block, shape)
    return _plain_cells(block, shape) if plain else _entry_list(block, shape)


def _plain_cells(block: IntArray, shape: EntryShape) -> tuple[IntArray, BlockWork]:
    values = block.transpose(3, 1, 2, 0).reshape(block.shape[3], -1)
    cells = np.zeros(shape.plain_from + values.size, np.int32)
    cells[: shape.cells] = _mark(PLAIN, shape)
    cells[shape.plain_from :] = values.reshape(-1)
    adds = values != 0
    # A clock finds out that weights beside each other are all zero; a step leaves if they are a channel's last ones.
    zeros = ~adds.reshape(len(values), -1, shape.together).any(axis=2)
    sent = adds.copy()
    sent[:, -1] |= zeros[:, -1]
    planes = np.broadcast_to(np.arange(values.shape[1]) % len(block), values.shape)
    work = _work(planes[sent], adds[sent])
    return cells, BlockWork(work.weights, work.others, work.read + int(np.count_nonzero(zeros[:, :-1])))


def _entry_list(block: IntArray, shape: EntryShape) -> tuple[IntArray, BlockWork]:
    used = block.transpose(3, 0, 1, 2).reshape(block.shape[3], len(block), -1) != 0
    channel, kernel, tap = np.nonzero(used)
    rank = used.cumsum(axis=2)[channel, kernel, tap]
    order = np.lexsort((kernel, rank, channel))
    ky, kx = np.divmod(tap[order], block.shape[2])
    channel, kernel = channel[order], kernel[order]
    entries = shape.entry_cells(block[kernel, ky, kx, channel], ky, kx, kernel)
    ends = np.searchsorted(channel, np.arange(block.shape[3]), side="right")
    listed = np.insert(entries, ends, 0, axis=0)
    listed = np.concatenate([_mark(ENTRIES, shape)[None], listed])
    words = np.zeros((-(-len(listed) // shape.entries) * shape.entries, shape.cells), np.int32)
    words[: len(listed)] = listed
    padded = np.zeros((len(words) // shape.entries, shape.word_cells), np.int32)
    padded[:, : shape.entries * shape.cells] = words.reshape(len(padded), -1)
    adds = np.insert(np.ones(len(kernel), np.bool_), ends, False)
    return padded.reshape(-1)[: _entry_count(block, shape)], _work(np.insert(kernel, ends, 0), adds)


def _mark(form: int, shape: EntryShape) -> IntArray:
    """The entry at the beginning of a block."""
    none = np.zeros(1, np.int64)
    cells: IntArray = shape.entry_cells(none, none, none + form, none)[0]
    return cells


def _work(planes: Int64Array, adds: BoolArray) -> BlockWork:
    """What steps take that add to the sums of these kernels, or to none, with the pauses between them."""
    steps, pauses = len(planes), sum(_pauses(np.where(adds, planes, -1)).values())
    weights = int(np.count_nonzero(adds))
    return BlockWork(weights, steps - weights + pauses, BEGIN + steps + pauses)


def _pauses(planes: Int64Array) -> dict[int, int]:
    """Pauses in front of steps: a kernel is met again ``SUM_DISTANCE`` steps later; -1: steps that meet none."""
    found: dict[int, int] = {}
    near = np.zeros(len(planes), np.int64)
    for apart in range(SUM_DISTANCE - 1, 0, -1):
        near[apart:][(planes[apart:] == planes[:-apart]) & (planes[apart:] >= 0)] = apart
    for step in np.flatnonzero(near).tolist():
        # The last step of the kernel decides: those before it are further away.
        apart = int(near[step])
        between = sum(found.get(other, 0) for other in range(step - apart + 1, step))
        if apart + between < SUM_DISTANCE:
            found[step] = SUM_DISTANCE - apart - between
    return found
