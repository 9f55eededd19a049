"""Policy registers: how the exponent of the next result is predicted from the results seen so far (BFP 3.2).

The array's five policies, bit for bit as in section 5 of `docs/systolic-array.md`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from bfpga.contract.descriptor import Policy
from bfpga.contract.limits import RING_LEADS
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.block_float import exponent_from_lead
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.rounding import integer_sqrt, shift_saturate

#: Policies whose slot keeps something from one run of the layer to the next.
LEARNING = (Policy.STATISTICS, Policy.ROLLING_MAX, Policy.FEEDBACK)


def magnitudes(v: Int64Array, e3: IntArray, e4: int, fmt: BlockFormat) -> Int64Array:
    """|v| * 2**(e3 - e4) as the statistics unit sees it: rounded, before saturation, in mantissa_bits + 2 bits.

    Taking it before saturation matters: otherwise overflows are invisible to the prediction. BFP 4.2.
    """
    a, _ = shift_saturate(np.abs(v), e4 - np.asarray(e3, np.int64), fmt.rounding, 0, (1 << (fmt.mantissa_bits + 2)) - 1)
    return a


def predicted_sum(s1: int, s2: int, count: int, factor: int) -> int:
    """Y = count * (mean + k * sigma) of a window, floored; factor is 4k. BFP R27."""
    return s1 + integer_sqrt(factor * factor * (count * s2 - s1 * s1)) // 4


def statistics_lead(s1: int, s2: int, count: int, factor: int, unit: int) -> int | None:
    """Predicted leading position from the sums of a window of values with exponent ``unit``; None: all were zero.

    count is a power of two in hardware (a shift); any other count needs a divider and exists in emulation only (R26).
    """
    total = predicted_sum(s1, s2, count, factor)
    if total == 0:
        return None
    lead = total.bit_length() - count.bit_length()
    # Exact floor(log2(total / count)): the bit lengths leave one of two candidates.
    too_high = total < count << lead if lead >= 0 else total << -lead < count
    return lead - too_high + unit


def format_exponent(lead: int | None, fmt: BlockFormat) -> tuple[int, int]:
    """Exponent and ``Status`` bits for a lead; None is a block of zeros."""
    exponent, status = exponent_from_lead(lead or 0, lead is not None, fmt)
    return int(exponent), int(status)


@dataclass
class PolicySlot:
    """What one policy slot keeps. ``exponent`` is the next e4, valid once ``in_use``."""

    in_use: bool = False
    exponent: int = 0
    #: Open window of STATISTICS: values seen, their sum, the sum of their squares.
    count: int = 0
    s1: int = 0
    s2: int = 0
    #: Leads of ROLLING_MAX, oldest first; None: a block of zeros.
    ring: deque[int | None] = field(default_factory=lambda: deque(maxlen=RING_LEADS))

    def clear_window(self) -> None:
        """Forgets the open window (BFP R34, and whenever the unit of its sums changes)."""
        self.count = self.s1 = self.s2 = 0


class PolicyRegisters:
    """The policy slots of one array."""

    def __init__(self, slots: int, fmt: BlockFormat) -> None:
        self.format = fmt
        self.slots = [PolicySlot() for _ in range(slots)]

    def reset(self) -> None:
        """All slots unused, as after the kernel's reset."""
        self.slots = [PolicySlot() for _ in self.slots]

    def in_use(self, slot: int) -> bool:
        """True once the slot's layer has been learned from."""
        return self.slots[slot].in_use

    def needs_lead(self, policy: int, slot: int, preset: bool) -> bool:
        """True if ``choose`` needs the leading position of the layer's results: MAX, and a first run (BFP R38)."""
        return policy == Policy.MAX or (policy in LEARNING and not preset and not self.in_use(slot))

    def choose(self, policy: int, slot: int, output_exponent: int, preset: bool, lead: int | None) -> tuple[int, int]:
        """e4 of a layer at its first descriptor, and ``Status`` bits. BFP R23, R24, R31, R38.

        lead: leading position of the layer's results, None for a block of zeros; looked at only if ``needs_lead``.
        """
        if policy == Policy.STATIC:
            return output_exponent, 0
        if policy in LEARNING:
            if self.in_use(slot):
                return self.slots[slot].exponent, 0
            if preset:
                return output_exponent, 0
        return format_exponent(lead, self.format)

    def learn(
        self,
        policy: int,
        slot: int,
        e4: int,
        *,
        window: int,
        factor: int,
        lead: int | None,
        margin: int = 0,
        overflows: int = 0,
        drained: Int64Array | None = None,
    ) -> int:
        """The slot's next exponent at the last descriptor of a layer; returns ``Status`` bits of its clamping.

        e4: exponent of this run. window, factor: the descriptor's policy_window and policy_factor. lead: of the
        layer's results, None for zeros (ROLLING_MAX, FEEDBACK); it has its margin. margin: head room of a prediction
        (STATISTICS). overflows: of the layer (FEEDBACK). drained:
        ``magnitudes`` of the values of column 0 in drain order, 1-D (STATISTICS). BFP R26-R29, R33.
        """
        register = self.slots[slot]
        status = 0
        if policy == Policy.STATISTICS:
            values = drained if drained is not None else np.zeros(0, np.int64)
            register.exponent, status = self._statistics(register, e4, 1 << window, factor, margin, values)
        elif policy == Policy.ROLLING_MAX:
            register.exponent, status = self._rolling_max(register, window, lead)
        elif policy == Policy.FEEDBACK:
            register.exponent = self._feedback(e4, factor, lead, overflows)
        else:
            return 0
        register.in_use = True
        return status

    def _statistics(
        self, register: PolicySlot, e4: int, size: int, factor: int, margin: int, values: Int64Array
    ) -> tuple[int, int]:
        """Next exponent from the last full tumbling window; the rest of the values stay in the open window."""
        full = (register.count + len(values)) // size
        exponent, status = e4, 0
        if full:
            end = full * size - register.count
            start = max(0, end - size)  # earlier full windows have no effect any more
            if full > 1:
                register.clear_window()
            last = values[start:end]
            s1, s2 = register.s1 + int(last.sum()), register.s2 + int(last @ last)
            exponent, status = format_exponent(statistics_lead(s1, s2, size, factor, e4 + margin), self.format)
            register.clear_window()
            values = values[end:]
        if exponent != e4:
            register.clear_window()
            return exponent, status
        register.count += len(values)
        register.s1 += int(values.sum())
        register.s2 += int(values @ values)
        return exponent, status

    def _rolling_max(self, register: PolicySlot, window: int, lead: int | None) -> tuple[int, int]:
        register.ring.append(lead)
        kept = [item for item in list(register.ring)[-window:] if item is not None]
        return format_exponent(max(kept, default=None), self.format)

    def _feedback(self, e4: int, tolerated: int, lead: int | None, overflows: int) -> int:
        if overflows > tolerated:
            e4 += 1
        elif lead is not None and lead < e4 + self.format.mantissa_bits - 2:
            e4 -= 1
        return min(max(e4, self.format.exponent_min), self.format.exponent_max)
