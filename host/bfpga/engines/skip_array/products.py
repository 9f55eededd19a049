"""The sums of the skip array in numpy, from nothing but the entry words that its groups read.

Exact integers: products of the same weights and operands as those of the systolic array, in another order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.skip_array.entries import EntryWords
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import WindowBlock
from bfpga.formats.arrays import BoolArray, Int64Array


@dataclass(frozen=True)
class ReadEntries:
    """The entries of a pass as the groups take them, group after group; each array: (entries,).

    chunk: of the pass, those of all blocks counted. place: that of the kernel in the order of its block's dealing.
    last: whether the kernel's sums leave.
    """

    chunk: Int64Array
    place: Int64Array
    value: Int64Array
    position: Int64Array
    last: BoolArray


def read_entries(words: Int64Array, shape: SkipShape) -> ReadEntries:
    """What entry words (words, groups) say; entries without a bit are left out."""
    codes = words.T
    used = codes != 0
    group = np.nonzero(used)[0]
    codes = codes[used]
    value = codes & ((1 << shape.weight_bits) - 1)
    sign = 1 << (shape.weight_bits - 1)
    position = codes >> shape.weight_bits & ((1 << shape.position_bits) - 1)
    last, ends = (codes >> bit & 1 == 1 for bit in (shape.last_bit, shape.last_bit + 1))
    chunk = _earlier(ends, group)
    chunks = int(chunk.max(initial=-1)) + 1
    turn = _earlier(last, group * chunks + chunk)
    return ReadEntries(chunk, turn * shape.groups + group, (value ^ sign) - sign, position, last)


def _earlier(marks: BoolArray, run: Int64Array) -> Int64Array:
    """How many marked elements of its own run each element has before it; runs are beside each other."""
    before = np.concatenate([[0], np.cumsum(marks)])[:-1]
    begins = np.flatnonzero(np.concatenate([[True], run[1:] != run[:-1]])) if len(run) else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate([begins, [len(run)]]))
    earlier: Int64Array = before - np.repeat(before[begins], lengths)
    return earlier


def chunk_sums(entries: ReadEntries, windows: list[Int64Array]) -> list[Int64Array]:
    """What leaves the groups after every chunk: (kernels, pixels), kernels in the order of the dealing.

    windows: of each chunk its wide words (positions, pixels).
    """
    return [_sums_of(entries, chunk, window) for chunk, window in enumerate(windows)]


def _sums_of(entries: ReadEntries, chunk: int, window: Int64Array) -> Int64Array:
    mine = np.flatnonzero(entries.chunk == chunk)
    mine = mine[np.argsort(entries.place[mine], kind="stable")]
    place, ending = entries.place[mine], entries.last[mine]
    products = entries.value[mine, None] * window[entries.position[mine]]
    begins = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]]))
    # Sums of a group that has no kernel stay in it.
    leaving = np.add.reduceat(ending.astype(np.int64), begins) > 0
    sums: Int64Array = np.add.reduceat(products, begins, axis=0)[leaving]
    return sums


def layer_sums(words: EntryWords, blocks: list[WindowBlock], windows: list[Int64Array], shape: SkipShape) -> Int64Array:
    """Sums (output channels, pixels) of a layer.

    windows: of each block its operands (pixels, steps, lanes).
    """
    cut = [part for block, window in zip(blocks, windows, strict=True) for part in _cut(block, window, shape)]
    partial = iter(chunk_sums(read_entries(words.words, shape), cut))
    result = np.zeros((sum(block.kernels for block in blocks), windows[0].shape[0]), np.int64)
    for block, order in zip(blocks, words.orders, strict=True):
        result[block.first + order] = sum(next(partial) for _ in range(shape.chunks(block.steps)))
    return result


def _cut(block: WindowBlock, window: Int64Array, shape: SkipShape) -> list[Int64Array]:
    """A window (pixels, steps, lanes) as the wide words of each chunk (positions, pixels)."""
    pixels, size = len(window), shape.chunk_steps(block.steps)
    return [
        window[:, begin : begin + size].reshape(pixels, -1).T.astype(np.int64) for begin in range(0, block.steps, size)
    ]

