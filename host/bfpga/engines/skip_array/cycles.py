"""Clocks of the skip array: what a pass takes by itself, and what of it decides.

A pass computes ``SkipShape.pixels`` output pixels. While the groups multiply by the entries of a chunk, the window of
the next one is written, and the sums of the chunk before leave: the longest of the three decides. A buffer is not
written anew before all groups have left its chunk: that is a bound of its own where load and products take as long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.skip_array.entries import EntryWords
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import WindowBlock
from bfpga.formats.arrays import Int64Array

#: Clocks of a buffer's turn in which nobody uses it: from its last word's write to the first read, which come from
#: distant stages of the loop, and from the last group's leaving to the first word of the next chunk.
TURN = 21


@dataclass(frozen=True)
class PassClocks:
    """Clocks of one pass by what they are spent on, of each chunk; chunks of all blocks one after the other."""

    load: Int64Array
    multiply: Int64Array
    drain: Int64Array
    buffers: int

    @property
    def total(self) -> int:
        """Clocks of the pass, among many."""
        turns = -(-int((self.load + self.multiply + TURN).sum()) // self.buffers)
        return max(turns, int(np.maximum(np.maximum(self.load, self.multiply), self.drain).sum()))


def pass_clocks(blocks: list[WindowBlock], words: EntryWords, shape: SkipShape, slots: int = 1) -> PassClocks:
    """Clocks of a pass. slots: clocks in which the words of a step reach all columns of a half."""
    load, drain = [], []
    for block in blocks:
        chunks, size = shape.chunks(block.steps), shape.chunk_steps(block.steps)
        steps = np.minimum(size, block.steps - size * np.arange(chunks))
        # A wide word is written a clock; the last word of a step comes with the last slot of its last half.
        load.append(steps * max(shape.lanes + slots - 1, shape.halves * slots))
        drain.append(np.full(chunks, shape.halves * block.kernels + 1))
    return PassClocks(np.concatenate(load), np.concatenate(words.fullest), np.concatenate(drain), shape.buffers)


def operation_work(clocks: PassClocks, pixels: int, shape: SkipShape) -> int:
    """Clocks of a computing operation of ``pixels`` output pixels: its passes, and the load of the first chunk."""
    return -(-pixels // shape.pixels) * clocks.total + int(clocks.load[0])


def entry_bytes(words: EntryWords, shape: SkipShape) -> int:
    """Bytes of a layer's entry words on the weight stream."""
    return len(words.words) * shape.beats * shape.stream_bits // 8


def plain_bytes(blocks: list[WindowBlock], shape: SkipShape) -> int:
    """Bytes of the same weights with their zeros."""
    return sum(block.weights.size for block in blocks) * shape.weight_bits // 8
