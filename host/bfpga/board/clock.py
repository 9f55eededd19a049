"""The clock of the logic, read back from the processor's registers and set if need be.

PYNQ sets dividers for the PLL that the design assumes; a boot image may run the PLL at another rate, and nothing would
show it. Sources: UG585 appendix B (Zynq-7000, SLCR), UG1087 (Zynq UltraScale+, CRL_APB and CRF_APB).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Share by which a clock may differ from the manifest's.
TOLERANCE = 0.01
#: Dividers have six bits.
_DIVISORS = range(1, 64)

Read = Callable[[int], int]
Write = Callable[[int, int], None]


@dataclass(frozen=True)
class Pll:
    """A PLL: address of its control register, position and width of the feedback divider, bit that halves the output.

    ``crossing``: register whose divider comes after it on the way to the low-power domain. ``reference``: field that is
    0 where the PLL runs from the board's crystal.
    """

    control: int
    feedback: tuple[int, int]
    half: int | None = None
    crossing: int | None = None
    reference: tuple[int, int] | None = None


@dataclass(frozen=True)
class ClockRegisters:
    """Where the first clock of the logic is set. ``reference_mhz``: crystal that PYNQ boards have.

    ``divisors``: positions of the two dividers. ``sources``: PLLs by the value of the source field.
    """

    reference_mhz: float
    control: int
    divisors: tuple[int, int]
    source: tuple[int, int]
    sources: dict[int, Pll]


def _zynq7_pll(offset: int) -> Pll:
    return Pll(0xF800_0000 + offset, (12, 7))


def _zynqmp_pll(address: int, crossing: int | None = None) -> Pll:
    return Pll(address, (8, 7), half=16, crossing=crossing, reference=(20, 3))


CLOCK_REGISTERS = {
    "zynq7": ClockRegisters(
        reference_mhz=50.0,
        control=0xF800_0170,
        divisors=(8, 20),
        source=(4, 2),
        sources={0: _zynq7_pll(0x108), 1: _zynq7_pll(0x108), 2: _zynq7_pll(0x100), 3: _zynq7_pll(0x104)},
    ),
    "zynqmp": ClockRegisters(
        reference_mhz=33.333,
        control=0xFF5E_00C0,
        divisors=(8, 16),
        source=(0, 3),
        sources={
            0: _zynqmp_pll(0xFF5E_0020),
            2: _zynqmp_pll(0xFF5E_0030),
            3: _zynqmp_pll(0xFD1A_002C, crossing=0xFD1A_004C),
        },
    ),
}


def _field(value: int, position: tuple[int, int]) -> int:
    low, width = position
    return value >> low & ((1 << width) - 1)


def source_mhz(registers: ClockRegisters, read: Read) -> float | None:
    """Rate of the PLL that feeds the clock; None for a source that is reserved or not fed by the crystal."""
    pll = registers.sources.get(_field(read(registers.control), registers.source))
    if pll is None:
        return None
    control = read(pll.control)
    if pll.reference is not None and _field(control, pll.reference):
        return None
    rate = registers.reference_mhz * _field(control, pll.feedback)
    if pll.half is not None and control >> pll.half & 1:
        rate /= 2
    if pll.crossing is not None:
        rate /= max(1, _field(read(pll.crossing), (8, 6)))
    return rate


def read_clock(registers: ClockRegisters, read: Read) -> float | None:
    """Rate of the clock in MHz; None if source or dividers make no sense."""
    rate, control = source_mhz(registers, read), read(registers.control)
    product = 1
    for position in registers.divisors:
        product *= _field(control, (position, 6))
    return rate / product if rate and product else None


def nearest_divisors(rate: float, mhz: float) -> tuple[int, int]:
    """The dividers that come nearest to ``mhz``; the smaller second one of equals."""
    return min(
        ((first, second) for second in _DIVISORS for first in _DIVISORS),
        key=lambda pair: (abs(rate / (pair[0] * pair[1]) - mhz), pair[1]),
    )


def set_clock(registers: ClockRegisters, read: Read, write: Write, mhz: float) -> None:
    """Set the dividers for ``mhz``; nothing happens with a source that is unknown. Read the clock afterwards."""
    rate = source_mhz(registers, read)
    if not rate:
        return
    control = read(registers.control)
    for position, divisor in zip(registers.divisors, nearest_divisors(rate, mhz), strict=True):
        control = control & ~(0x3F << position) | divisor << position
    write(registers.control, control)


def close_to(mhz: float | None, expected: float) -> bool:
    """Whether a clock is what it should be."""
    return mhz is not None and abs(mhz - expected) <= TOLERANCE * expected
