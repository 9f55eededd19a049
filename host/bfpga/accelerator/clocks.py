"""Clocks of the logic: what the dividers of a processing system make of its PLL.

Sources: UG585 (Zynq-7000, FPGAx_CLK_CTRL), UG1087 (Zynq UltraScale+, PLx_REF_CTRL): two dividers of 6 bits each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from bfpga.contract.processes import process_kind
from bfpga.errors import ConfigurationError

#: MHz of the IO PLL, which PYNQ images leave as it is, by processing system.
PLL_MHZ = {"zynq7": 1000.0, "zynqmp": 1500.0}
LARGEST_DIVIDER = 63
#: Percent of a clock that C synthesis leaves for wires by default (UG1399, ``set_clock_uncertainty``).
WIRE_PERCENT = 27
#: That of the output stage on UltraScale+, by the name of its IP. Its chains there are of many short levels, each of
#: which the tool takes for half of what it has with its wire: such a chain fits the clock and is too long when it is
#: mapped (docs/synthesis.md). So are the products of what rows need, between differences and a leading one; the
#: comparisons of work in the partition of a sparse cluster; and selections of cells where its micro-tiles are
#: gathered, which each unit of variant B has a numbered IP for.
_WIDER = {("zynqmp", part): 46 for part in ("post", "row_factors", "partition", "gather")}
#: The same there above ``FAST_MHZ``, since wires are as long at any clock: on all devices, and on those of speed grade
#: -2, for which the tool takes cells for faster than for those of -2LV.
FAST_MHZ = 200.0
_FAST = {"rows": 40}
_FAST_OF_GRADE_2 = {"post": 56, "row_factors": 56, "scratchpad": 42}
#: How far the clock may be from what an accelerator asks for, as a part of it.
TOLERANCE = 0.02


@dataclass(frozen=True)
class ClockSetting:
    """The clock of the logic: PLL of ``pll_mhz`` divided by two dividers. ``actual_mhz`` is what comes out."""

    requested_mhz: float
    pll_mhz: float
    divisor0: int
    divisor1: int

    @property
    def actual_mhz(self) -> float:
        return self.pll_mhz / (self.divisor0 * self.divisor1)

    @property
    def period_ns(self) -> float:
        """Period in nanoseconds, rounded down to a picosecond so that no script asks for less speed."""
        return int(1e6 / max(self.actual_mhz, self.requested_mhz)) / 1000


def wire_percent(system: str, part: str, device: str = "", mhz: float = 0.0) -> int:
    """Percent of a clock that C synthesis of the IP of a process leaves for wires on a processing system.

    device: the name that the board's file gives its part, with its speed grade.
    """
    kind = process_kind(part)
    usual = _WIDER.get((system, kind), WIRE_PERCENT)
    if system != "zynqmp" or mhz <= FAST_MHZ:
        return usual
    fast = _FAST | (_FAST_OF_GRADE_2 if speed_grade(device) == 2 else {})
    return fast.get(kind, usual)


def speed_grade(device: str) -> float:
    """How fast a device is beside others of its family, by the name of its part: low voltage is between two grades."""
    grade = re.search(r"-([123])(LV?)?(?=-|$)", device)
    return 1.0 if grade is None else int(grade[1]) - (0.5 if grade[2] else 0.0)


def clock_setting(system: str, mhz: float) -> ClockSetting:
    """The dividers whose clock is nearest to ``mhz`` on a processing system.

    ConfigurationError, with the nearest clocks, for a clock beyond the tolerance.
    """
    problem = clock_problem(system, mhz)
    if problem:
        raise ConfigurationError(f"clock_mhz: {problem}")
    return _nearest(system, mhz)


def clock_problem(system: str, mhz: float, low: float = 0.0, high: float = float("inf")) -> str:
    """Why no divider makes ``mhz``, with the nearest clocks from ``low`` to ``high``; empty if one does."""
    if abs(_nearest(system, mhz).actual_mhz - mhz) <= TOLERANCE * mhz:
        return ""
    possible = possible_clocks(system, low, high)
    below = max((clock for clock in possible if clock < mhz), default=None)
    above = min((clock for clock in possible if clock > mhz), default=None)
    nearest = " and ".join(f"{clock:.6g}" for clock in (below, above) if clock is not None)
    return (
        f"is {mhz:g}, which cannot be divided from the {PLL_MHZ[system]:g} MHz of the processing system; "
        f"the nearest possible: {nearest or 'none'}"
    )


def possible_clocks(system: str, low: float = 0.0, high: float = float("inf")) -> list[float]:
    """All clocks in MHz from ``low`` to ``high`` that the dividers of a processing system make, slow ones first."""
    return sorted(clock for clock in (PLL_MHZ[system] / divisor for divisor in _divisors()) if low <= clock <= high)


def _nearest(system: str, mhz: float) -> ClockSetting:
    """The setting nearest to ``mhz``; of those alike the one with the smallest second divider."""
    pll = PLL_MHZ[system]
    divisor = min(_divisors(), key=lambda product: abs(pll / product - mhz))
    return ClockSetting(mhz, pll, *_divisors()[divisor])


@cache
def _divisors() -> dict[int, tuple[int, int]]:
    """What both dividers can divide by together, with the first and the second; the second as small as possible."""
    result: dict[int, tuple[int, int]] = {}
    for second in range(1, LARGEST_DIVIDER + 1):
        for first in range(second, LARGEST_DIVIDER + 1):
            result.setdefault(first * second, (first, second))
    return result
