"""Cycles of the skip array: what a pass takes by itself, and what of it decides.

A pass computes ``SkipShape.pixels`` output pixels. While the groups multiply by the entries of a chunk, the window of
the next one is written, and the sums of the chunk before leave: the longest of the three decides. A buffer is not
written anew before all groups have left its chunk: that is a bound of its own where load and products take as long.
tests/processes/test_skip_array.py compares this with the C++ of the array, clock by clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag
from bfpga.engines.skip_array.entries import EntryWords
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import ChunkKernels
from bfpga.formats.arrays import Int64Array

#: Cycles of a buffer's turn in which it is unused: from its last word's write to the first read, which come from
#: distant stages of the loop, and from the last group's leaving to the first word of the next chunk.
TURN = 14
#: Cycles from the last sum of a chunk to the first one of the next, which no group finishes before all have ended it.
CLOSE = 5
#: Cycles of an operation in addition to its passes and the last sums: from the write of a window's last word to its
#: first product, and from a chunk's last sum to the first one that leaves.
AROUND = 23


@dataclass(frozen=True)
class PassClocks:
    """Cycles of one pass by what they are spent on, of each chunk; as many as ``held`` have room at a time."""

    load: Int64Array
    multiply: Int64Array
    drain: Int64Array
    held: int

    @property
    def total(self) -> int:
        """Cycles of the pass, among many."""
        turns = -(-int((self.load + self.multiply + TURN).sum()) // self.held)
        return max(turns, int(np.maximum(np.maximum(self.load, self.multiply), self.drain).sum()))


def pass_clocks(
    chunks: ChunkKernels, words: EntryWords, shape: SkipShape, slots: int = 1, single: bool = False,
    slid: int | None = None,
) -> PassClocks:  # fmt: skip
    """Cycles of a pass. slots: cycles in which the words of a step reach all columns of a half; single: of one half;
    slid: steps that come of a window in one chunk, if the others are those of the pass before."""
    apart = chunks.lane is not None
    steps = chunks.steps if slid is None else np.array([slid])
    load = steps * shape.step_clocks(slots, apart, single)
    drain = (1 if single else shape.halves) * chunks.counts + CLOSE
    kept = 0 if slid is None else int(chunks.steps[0]) - slid
    return PassClocks(load, words.fullest, drain, shape.held(int(steps[0]), apart, kept))


@dataclass(frozen=True)
class OperationEnd:
    """How an operation ends, whose descriptor this is: with its last pass, of one half or of as many as the others."""

    config: KernelConfig
    descriptor: Descriptor

    @property
    def _shape(self) -> SkipShape:
        return SkipShape.of(self.config)

    @property
    def _blocks(self) -> int:
        return max(1, self.descriptor.blocks)  # a damaged one may have none

    @property
    def _passes(self) -> int:
        return -(-self.descriptor.groups // self.config.array.halves)

    @property
    def _steps(self) -> int:
        """Steps of the window of a block."""
        return self.descriptor.kernel_height * self.descriptor.kernel_width * self.descriptor.channel_words

    @property
    def _chunks(self) -> int:
        return self._blocks * max(1, -(-self._steps // max(1, self.descriptor.chunk_steps)))

    @property
    def _rows(self) -> int:
        return -(-self.descriptor.output_rows // self.config.lanes) * self.config.lanes

    @property
    def _single(self) -> bool:
        """Whether the last pass has one half."""
        return self.descriptor.groups % self.config.array.halves == 1

    def _loaded(self, single: bool) -> int:
        """Cycles in which the window of a pass is written."""
        descriptor = self.descriptor
        apart = bool(descriptor.flags & int(Flag.LANES_APART))
        clocks = self._shape.step_clocks(max(1, descriptor.read_slots), apart, single)
        return self._blocks * self._steps * clocks

    def _added(self, halves: int) -> int:
        """Cycles from the begin of the last chunk's products to its last sum: those of the last round of kernels
        come after the products, or all that wait."""
        kernels = max(1, -(-self._rows // self._blocks))
        rounds = -(-kernels // self.config.array.skip_groups(self.config))
        products = self.descriptor.entry_words // self._chunks
        last_round = kernels - (rounds - 1) * self.config.array.skip_groups(self.config)
        return max(products + halves * last_round, products // rounds + halves * kernels)

    @property
    def read_before(self) -> int:
        """Cycles before the end of all passes in which nothing is read any more; 0 where products or sums decide."""
        several, clocks = self._passes > 1, self.descriptor.steps
        if clocks > self._loaded(self._single and not several):
            return 0
        first = self.descriptor.chunk_steps * self._loaded(self._single and not several) // max(1, self._steps)
        saved = self._loaded(False) - self._loaded(True) if self._single and several else 0
        return min(first // self._blocks + saved, (self._passes - 1) * clocks + first // self._blocks)

    @property
    def last_sums(self) -> int:
        """Cycles from where all passes and the first window have ended to the last sum that leaves.

        ``steps`` is what a pass among many takes. Nothing follows the last of them: its last chunk is multiplied,
        its sums are added, and the rows of the pass leave after those of the pass before.
        """
        clocks, chunk = self.descriptor.steps, self.descriptor.steps // self._chunks
        halves = 1 if self._single else self.config.array.halves
        if self._passes == 1:
            return self._added(halves) - chunk + halves * self._rows + AROUND
        before = self._added(self.config.array.halves) - chunk - clocks
        turn = max(self._loaded(True), self.descriptor.entry_words) if self._single else clocks
        added = max(self._added(halves) - chunk - clocks + turn, before + halves * self._rows)
        return max(added, before + self.config.array.halves * self._rows) + halves * self._rows + AROUND
