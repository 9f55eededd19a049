"""What a schedule says about a loop: when each operation happens, the interval and why it is no smaller."""

from __future__ import annotations

from dataclasses import dataclass, field

from bfpga.synthesis.accumulators import Accumulator
from bfpga.synthesis.body import LoopBody

#: Of a product that is made digit by digit: bits of a digit, unsigned, and its registers: of the factors, of the
#: products in a row of blocks, and of their sum.
DIGIT_BITS, DIGIT_REGISTERS = 17, 3


@dataclass(frozen=True, slots=True)
class Limit:
    """A lower bound of a loop's interval and what causes it.

    ``reason``: "recurrence" (through registers, memories or streams) or "ports" (of a memory or stream). ``cycle``:
    operations of the recurrence in order, or the accesses that share the ports. ``delay``: ns around the recurrence.
    ``distance``: iterations that it spans.
    """

    reason: str
    interval: int
    subject: str
    cycle: tuple[int, ...] = ()
    delay: float = 0.0
    distance: int = 0


@dataclass(slots=True)
class Schedule:
    """Result of scheduling one loop body at a clock.

    ``stage``: cycle of the iteration in which each operation starts; ``arrival``: ns after the beginning of that cycle
    at which its result is there (of the last clock of a multi-clock operation). ``period`` and ``uncertainty`` in ns.
    ``slack``: usable period less the longest path, in ns, negative where even one operation or a recurrence at
    ``interval`` does not fit. ``worst``: operations of that path. ``accumulators``: sums in
    registers of DSP blocks. ``digits``: of products that are made digit by digit, how many they take.
    """

    body: LoopBody
    period: float
    uncertainty: float
    interval: int
    depth: int
    stage: list[int] = field(default_factory=list)
    arrival: list[float] = field(default_factory=list)
    #: Cycles between an operation's start and the one in which its result can be used (0: the same).
    latency: list[int] = field(default_factory=list)
    slack: float = 0.0
    worst: tuple[int, ...] = ()
    limits: list[Limit] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)
    digits: dict[int, int] = field(default_factory=dict)
