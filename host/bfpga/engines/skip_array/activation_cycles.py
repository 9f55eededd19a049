"""Cycles of a skip array that skips activations: what its passes take, from the share of an input that is not zero.

A pass computes ``SkipShape.pixels`` output pixels for the channels of a block. The passes of a run take turns at the
weights of a block's chunk, which are a UNIT: while they are used those of the next unit come, a wide word of ``rows``
weights a cycle. Each pass takes the longest of three: the feed, a word of channels for every column and half; the
products, the activations of the fullest group that are not zero; the sums that leave, a row of each half a cycle.

An operation of one pixel has a group for each lane of its words: a weight word comes in a cycle then, and no group has
more than one activation of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag
from bfpga.engines.skip_array.shape import SkipShape

#: Segments that a pass comes in at a time: the queues have room for so many (skip/activation_words.hpp).
SEGMENTS = 4
#: Cycles from the write of a word of a memory to its first read; of sums, which come late in the pipeline.
GUARD, SUMS_GUARD = 8, 12
#: Cycles around the last sums of an operation: from the last product to the first row that is added, and until one that
#: was added may be read.
AROUND = 15
#: Cycles of a group for a word of which it needs one lane: two words leave its queue in three (skip/sparse_group.hpp).
ONE_LANE = 1.5
_LANES_APART = int(Flag.LANES_APART)


def lanes_apart(config: KernelConfig, pixels: int) -> bool:
    """Whether the lanes of an operation's only pixel have a group each, of a column (skip/activation_words.hpp)."""
    return pixels == 1 and 1 < config.lanes <= config.columns


def half_clocks(config: KernelConfig) -> int:
    """Cycles in which the sums of a half are added up: a row each, and none of them again before it can be read."""
    return max(config.rows, SUMS_GUARD)


def segment_steps(config: KernelConfig) -> int:
    """Steps of a segment, which the end of a chunk cuts."""
    return max(1, config.array.queue_words() // SEGMENTS)


@dataclass(frozen=True)
class SparseOperation:
    """A GEMM on an array that skips activations. groups: of pixels; steps: of the window of a block.

    slots: cycles in which the words of a step reach all columns. channels: that a pixel has at a step, on average,
    where none is zero. share: of these, as the slowest group gets them (``input_share``). apart: each lane of the only
    pixel has a group, whose cycles of a step ``channels`` is.
    """

    config: KernelConfig
    groups: int
    blocks: int
    steps: int
    slots: int = 1
    channels: float = 4.0
    share: float = 1.0
    apart: bool = False

    @staticmethod
    def of(
        config: KernelConfig, descriptor: Descriptor, channels: float = 0.0, share: float = 1.0
    ) -> SparseOperation:
        """The operation of a descriptor. channels: 0 where words are full."""
        steps = descriptor.kernel_height * descriptor.kernel_width * descriptor.channel_words
        groups, slots = descriptor.groups, max(1, descriptor.read_slots)
        apart = bool(descriptor.flags & _LANES_APART)
        channels = channels or (ONE_LANE if apart else config.lanes)
        return SparseOperation(config, groups, descriptor.blocks, steps, slots, channels, share, apart)

    @property
    def chunks(self) -> list[int]:
        """Steps of each chunk of a window."""
        size = SkipShape.of(self.config).chunk_steps(self.steps)
        return [min(size, self.steps - first) for first in range(0, self.steps, size)]

    @property
    def passes(self) -> int:
        """Passes over the pixels, each for all blocks."""
        return -(-self.groups // self.config.array.halves)

    @property
    def runs(self) -> int:
        """Runs of passes: how often the weights come."""
        return -(-self.passes // self.config.array.run_passes(self.config))

    def load(self, steps: int) -> int:
        """Cycles in which the weights of a unit come."""
        return steps if self.apart else steps * self.config.lanes

    def feed(self, groups: int, steps: int) -> int:
        """Cycles in which the words of a unit come for so many groups of pixels."""
        return groups * steps * self.slots

    def leave(self, groups: int) -> int:
        """Cycles in which the sums of a unit leave."""
        return groups * half_clocks(self.config)

    def unit(self, groups: int, steps: int) -> float:
        """Cycles of a unit's passes over so many groups of pixels, once its weights are there."""
        passes = -(-groups // self.config.array.halves)
        products = passes * steps * self.channels * self.share
        return max(self.feed(groups, steps), products, self.leave(groups))

    @property
    def clocks(self) -> int:
        """Cycles of all passes after the first weights; others come while the unit before theirs is multiplied."""
        most = self.config.array.run_passes(self.config) * self.config.array.halves
        last = self.groups - (self.runs - 1) * most
        total = (self.runs - 1) * self._run(most) + self._run(last)
        chunks = self.chunks
        end = self.unit(last, chunks[-1])
        return round(total - max(end, self.load(chunks[0])) + end)

    def _run(self, groups: int) -> float:
        """Cycles of a run, before another one."""
        chunks = self.chunks
        following = [*chunks[1:], chunks[0]]
        units = zip(chunks, following, strict=True)
        return self.blocks * sum(max(self.unit(groups, steps), self.load(other)) for steps, other in units)

    @property
    def pass_clocks(self) -> int:
        """Cycles of one of all passes, for all blocks: field ``steps`` of a descriptor."""
        return -(-self.clocks // self.passes)


def first_weights(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles in which the first weights of an operation come, while nothing of it is multiplied."""
    return descriptor.chunk_steps * (1 if descriptor.flags & _LANES_APART else config.lanes) + GUARD


def last_unit(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles at the end of an operation in which none of its weights come any more."""
    steps = descriptor.kernel_height * descriptor.kernel_width * descriptor.channel_words
    units = descriptor.blocks * -(-steps // max(1, descriptor.chunk_steps))
    return -(-_last_groups(config, descriptor) // config.array.halves) * descriptor.steps // units


def last_sums(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles after the last product in which sums leave: those of the last pass, added and then read."""
    halves = min(descriptor.groups, config.array.halves)
    return halves * half_clocks(config) + AROUND


def _last_groups(config: KernelConfig, descriptor: Descriptor) -> int:
    """Groups of pixels of the last run."""
    most = config.array.run_passes(config) * config.array.halves
    return (descriptor.groups - 1) % most + 1
