"""How the operation before a layer finds its exponent, and what it looks at (FP 3.4, docs/kernel-positions.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Of layers whose exponent is that of their own results; ``static`` and ``delayed`` (policies) measure nothing.
#: ``auto`` is the flow that takes the fewest cycles.
Flow = Literal["auto", "two_pass", "two_pass_sampled", "keep", "keep_sampled"]


def bears_samples(rule: str) -> bool:
    """Whether a rule may look at a sample: it lets a few values saturate in any case (FP 2.3).

    A sample may miss the largest value, on which `max`, `window` and `lead` depend, or the smallest one of `lsb`.
    """
    return rule == "rate"


@dataclass(frozen=True)
class Sample:
    """Outputs that are measured: rows y with (y - offset) mod step = 0 of the channels of the blocks.

    blocks: ranges [m0, m1) of output channels, ascending. A step of 1 takes all rows. apart: an operation of its own
    measures every row, because pixels of rows so far apart collide in the same banks.
    """

    blocks: tuple[tuple[int, int], ...]
    step: int = 1
    offset: int = 0
    apart: bool = False

    def rows(self, height: int) -> range:
        """Measured rows of a result with ``height`` rows."""
        return range(self.offset % self.step, height, self.step)


def everything(channels: int) -> Sample:
    """All outputs."""
    return Sample(((0, channels),))


def samples_of(height: int, channels: int, block_rows: int, period: int, offset: int) -> list[Sample]:
    """The sample of a result, with the ways to measure it.

    Every ``period``-th row, all together or one by one; with few rows every ``period``-th block of output channels, the
    first of them a whole one (of ten scores in blocks of eight the last two say nothing about the others).
    block_rows: output channels of a block; 0 for layers whose channels are not computed block by block (groups).
    Everything, where neither leaves something out. FP R28-R30.
    """
    if period > 1 and height >= 2 * period:
        return [Sample(((0, channels),), period, offset % period, apart) for apart in (False, True)]
    blocks = -(-channels // block_rows) if block_rows else 1
    if period > 1 and blocks >= 2:
        starts = range(offset % min(period, channels // block_rows) * block_rows, channels, period * block_rows)
        return [Sample(tuple((m, min(m + block_rows, channels)) for m in starts))]
    return [everything(channels)]
