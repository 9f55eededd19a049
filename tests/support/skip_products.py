"""The sums of the skip array in numpy, from nothing but the entry words that its groups read.

Exact integers: products of the same weights and operands as those of the systolic array, in another order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.skip_array.shape import SkipShape
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray


@dataclass(frozen=True)
class ReadEntries:
    """The entries of a pass as the groups take them, group after group; each array: (entries,).

    chunk: of the pass. row: the output row of the kernel that the entry is of, -1 where there is none. last: whether
    the kernel's sums leave. begins: whether the entry says the row. lane: of the group, where lanes stand apart.
    """

    chunk: Int64Array
    row: Int64Array
    lane: Int64Array
    value: Int64Array
    position: Int64Array
    last: BoolArray
    begins: BoolArray


def read_entries(words: IntArray, shape: SkipShape) -> ReadEntries:
    """What entry words (words, groups) say; entries without a bit are left out."""
    codes = np.asarray(words, np.int64).T
    used = codes != 0
    group = np.nonzero(used)[0]
    codes = codes[used]
    value = codes & ((1 << shape.weight_bits) - 1)
    sign = 1 << (shape.weight_bits - 1)
    position = codes >> shape.weight_bits & ((1 << shape.position_bits) - 1)
    last, ends = (codes >> bit & 1 == 1 for bit in (shape.last_bit, shape.last_bit + 1))
    begins = (value == 0) & ~last & ~ends
    chunk = _earlier(ends, group)
    row = np.where(begins, position - 1, -1)
    latest = np.maximum.accumulate(np.where(begins, np.arange(len(row)), -1))
    row = np.where(latest >= 0, row[latest], -1)
    alone = (value == 0) & ends & ~last
    lane = group % shape.lanes
    return ReadEntries(chunk, np.where(alone, -1, row), lane, (value ^ sign) - sign, position, last, begins)


def _earlier(marks: BoolArray, run: Int64Array) -> Int64Array:
    """How many marked elements of its own run each element has before it; runs are beside each other."""
    before = np.concatenate([[0], np.cumsum(marks)])[:-1]
    begins = np.flatnonzero(np.concatenate([[True], run[1:] != run[:-1]])) if len(run) else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate([begins, [len(run)]]))
    earlier: Int64Array = before - np.repeat(before[begins], lengths)
    return earlier


def pass_sums(words: IntArray, windows: list[Int64Array], shape: SkipShape) -> Int64Array:
    """Sums (output rows, pixels) of a pass.

    windows: of each chunk its wide words (positions, pixels); where lanes stand apart (lanes, positions, pixels).
    """
    entries = read_entries(words, shape)
    rows = int(entries.row.max(initial=-1)) + 1
    result = np.zeros((rows, windows[0].shape[-1]), np.int64)
    for chunk, window in enumerate(windows):
        mine = (entries.chunk == chunk) & (entries.value != 0)
        places = entries.position[mine] if window.ndim == 2 else (entries.lane[mine], entries.position[mine])
        np.add.at(result, entries.row[mine], entries.value[mine, None] * window[places])
    return result
