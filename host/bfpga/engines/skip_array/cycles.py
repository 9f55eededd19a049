"""Clocks of the skip array: what a pass takes by itself, and what of it decides.

A pass computes ``SkipShape.pixels`` output pixels. While the groups multiply by the entries of a chunk, the window of
the next one is written, and the sums of the chunk before leave: the longest of the three decides. A buffer is not
written anew before all groups have left its chunk: that is a bound of its own where load and products take as long.
tests/processes/test_skip_array.py compares this with the C++ of the array, clock by clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.engines.skip_array.entries import EntryWords
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import ChunkKernels
from bfpga.formats.arrays import Int64Array

#: Clocks of a buffer's turn in which nobody uses it: from its last word's write to the first read, which come from
#: distant stages of the loop, and from the last group's leaving to the first word of the next chunk.
TURN = 14
#: Clocks from the last sum of a chunk to the first one of the next, which no group finishes before all have ended it.
CLOSE = 5
#: Clocks of an operation beside those of its passes and of the last sums: from the write of a window's last word to its
#: first product, and from a chunk's last sum to the first one that leaves.
AROUND = 23


@dataclass(frozen=True)
class PassClocks:
    """Clocks of one pass by what they are spent on, of each chunk; as many as ``held`` have room at a time."""

    load: Int64Array
    multiply: Int64Array
    drain: Int64Array
    held: int

    @property
    def total(self) -> int:
        """Clocks of the pass, among many."""
        turns = -(-int((self.load + self.multiply + TURN).sum()) // self.held)
        return max(turns, int(np.maximum(np.maximum(self.load, self.multiply), self.drain).sum()))


def pass_clocks(
    chunks: ChunkKernels, words: EntryWords, shape: SkipShape, slots: int = 1, single: bool = False,
    slid: int | None = None,
) -> PassClocks:  # fmt: skip
    """Clocks of a pass. slots: clocks in which the words of a step reach all columns of a half; single: of one half;
    slid: steps that come of a window in one chunk, if the others are those of the pass before."""
    apart = chunks.lane is not None
    steps = chunks.steps if slid is None else np.array([slid])
    load = steps * shape.step_clocks(slots, apart, single)
    drain = (1 if single else shape.halves) * chunks.counts + CLOSE
    kept = 0 if slid is None else int(chunks.steps[0]) - slid
    return PassClocks(load, words.fullest, drain, shape.held(int(steps[0]), apart, kept))


def last_sums(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks from where an operation's passes and its first window have ended to its last sum that leaves.

    ``steps`` is what one pass among many takes. Behind the last of them nothing comes: its last chunk is multiplied, the
    sums of the last round of kernels, or of all that wait, are added, and the rows of the pass leave.
    """
    halves = 1 if descriptor.groups % config.skip_halves == 1 else config.skip_halves
    rows = -(-descriptor.output_rows // config.lanes) * config.lanes
    window = descriptor.kernel_height * descriptor.kernel_width * descriptor.channel_words
    blocks = max(1, descriptor.blocks)  # a damaged one may have none
    chunks = max(1, blocks * -(-window // max(1, descriptor.chunk_steps)))
    kernels = max(1, -(-rows // blocks))
    rounds = -(-kernels // config.skip_groups)
    products, clocks = descriptor.entry_words // chunks, descriptor.steps // chunks
    last_round = kernels - (rounds - 1) * config.skip_groups
    added = max(products + halves * last_round, products // rounds + halves * kernels)
    return added - clocks + halves * rows + AROUND
