"""The collector of docs/kernel-positions.md in plain Python integers: every value is kept, nothing is summed up."""

from __future__ import annotations

from dataclasses import dataclass, field

from bfpga.contract.descriptor import Descriptor, Function, LeadRule

TABLE_EXPONENT = -14


def nsb(v: int) -> int:
    """Two's complement of v needs nsb + 2 bits; -1: one bit is enough."""
    bits = 1
    while not -(1 << (bits - 1)) <= v < 1 << (bits - 1):
        bits += 1
    return bits - 2


def lsb(v: int) -> int:
    return next(i for i in range(64) if v >> i & 1)


@dataclass
class ReferenceCollector:
    """Values with their exponents, and exponents of the rows that left."""

    values: list[tuple[int, int]] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    unit: int = 0

    def see(self, d: Descriptor, v: int, e3: int, e_acc: int, row_exponent: int) -> None:
        unit, row = Function(d.function).row.unit, e_acc + row_exponent
        self.unit = TABLE_EXPONENT if unit == "table" else e_acc
        self.rows.add({"table": TABLE_EXPONENT, "finer": min(row, TABLE_EXPONENT), "accumulator": row}[unit])
        self.values.append((v, e3))

    def lead(self, d: Descriptor, bins: int, mantissa_bits: int) -> int:
        """Section 3, rule by rule."""
        fits = mantissa_bits - 2
        positions = [nsb(v) + e3 for v, e3 in self.values if nsb(v) >= 0]
        if not positions:
            return max(self.rows) + fits
        top, low = max(positions), min(lsb(v) + e3 for v, e3 in self.values if v)
        highest = top - fits
        if d.lead_rule == LeadRule.RATE:
            floor = min(highest, min(self.rows) - min(fits, 8))
            found = max(self._reach(d, positions, top, bins) - fits, floor)
        else:
            window = low if low >= highest else highest
            found = {LeadRule.MAX: highest, LeadRule.LSB: low, LeadRule.WINDOW: window}[d.lead_rule]
        found = min(max(found + d.position_margin, min(self.rows) - 8), max(self.rows) + 31)
        return found + fits

    def told(self, base: int, bins: int) -> list[int]:
        """The words that STOREs read (FP R49): values in each bin, all values, the position of bin 0."""
        first = self.unit + base
        places = [min(max(nsb(v) + e3 - first, 0), bins - 1) for v, e3 in self.values if nsb(v) >= 0]
        return [*(places.count(place) for place in range(bins)), len(self.values), first]

    def _reach(self, d: Descriptor, positions: list[int], top: int, bins: int) -> int:
        base = self.unit + d.position_base
        places = [min(max(position - base, 0), bins - 1) for position in positions]
        for k in range(bins):
            above = sum(place > k for place in places)
            if above * 2**d.position_rate <= len(self.values):
                return top if k == bins - 1 else min(base + k, top)
        raise AssertionError("nothing lies above the last bin")
