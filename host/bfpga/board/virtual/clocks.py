"""Clock and reset registers of the processing systems: what a program reads to know, and writes to set, a clock.

Sources: UG585 (Zynq-7000 SLCR), UG1085 and UG1087 (Zynq UltraScale+ CRL_APB, CRF_APB, GPIO, AFIFM, SLCR).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from bfpga.board.virtual.bus import WORD, PlainRegisters
from bfpga.board.virtual.faults import Faults, WrongClock
from bfpga.board.virtual.hardware_description import PlClock

CLOCKS = 4
_DIVISOR = 0x3F


@dataclass(frozen=True)
class Pll:
    """A PLL: address of its control word, multiplier after boot, the limits that its field and its VCO allow."""

    address: int
    multiplier: int
    lowest: int
    highest: int


class ProcessingSystem(ABC):
    """Registers of one family. ``windows``: base, size and registers for the address map.

    The clocks of the logic are PLL / divisor0 / divisor1.
    """

    reference_mhz: ClassVar[float]
    plls: ClassVar[Mapping[str, Pll]]
    #: PLL of each value of the source selection.
    sources: ClassVar[Mapping[int, str]]
    source_shift: ClassVar[int]
    second_divisor_shift: ClassVar[int]
    boot_divisors: ClassVar[tuple[int, int]]
    halves_pll: ClassVar[bool] = False
    multiplier_shift: ClassVar[int]
    control_base: ClassVar[int]
    control_stride: ClassVar[int]

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        #: Clocks that a fault has set wrong: configuring the logic does not mend them, setting them again does.
        self._wrong: set[int] = set()
        self.windows: list[tuple[int, int, SystemRegisters]] = []

    @property
    @abstractmethod
    def reset_asserted(self) -> bool:
        """Whether the programmable logic is held in reset by the processor."""

    def configure(self, clocks: Sequence[PlClock]) -> None:
        """Set the clocks that a design declares, as a boot image made from the same settings would.

        A PLL that no multiplier can bring to the design's rate keeps its own, and the nearest divisors are taken.
        """
        chosen: dict[str, int] = {}
        kept, self._wrong = self._wrong, set()
        for clock in clocks:
            if not clock.enabled or clock.index in kept:
                continue
            source = clock.source if clock.source in self.plls else self.sources[0]
            divisors = self._divisors(clock, source, chosen)
            select = next(value for value, name in self.sources.items() if name == source)
            word = self.word(self._control(clock.index)) & ~(0x7 << self.source_shift)
            word = self._with_divisors(word | select << self.source_shift, *divisors)
            self.set_word(self._control(clock.index), self._disturbed(clock.index, word))

    def frequency_mhz(self, index: int) -> float:
        """The clock that the registers give now; 0 for a divisor of 0."""
        word = self.word(self._control(index))
        first, second = word >> 8 & _DIVISOR, word >> self.second_divisor_shift & _DIVISOR
        source = self.sources.get(word >> self.source_shift & 0x7, self.sources[0])
        return self.pll_mhz(source) / (first * second) if first and second else 0.0

    def pll_mhz(self, name: str) -> float:
        """Rate of a PLL."""
        multiplier = self.word(self.plls[name].address) >> self.multiplier_shift & 0x7F
        return self.reference_mhz * multiplier / self._half(name)

    def word(self, address: int) -> int:
        """A register without side effects."""
        registers, offset = self._at(address)
        return registers.words.get(offset, 0)

    def set_word(self, address: int, value: int) -> None:
        """Set a register without side effects."""
        registers, offset = self._at(address)
        registers.words[offset] = value

    def before_write(self, address: int, value: int) -> int | None:
        """What a write really stores: a fault may change it; None for nothing."""
        index, rest = divmod(address - self.control_base, self.control_stride)
        if rest or not 0 <= index < CLOCKS:
            return value
        changed = value ^ self.word(address)
        if changed >> 8 & _DIVISOR:
            self._wrong.discard(index)
        # Programs write the two divisors one after the other: only a change counts as a setting.
        if self._with_divisors(changed, 0, 0) == changed:
            return value
        stored = self._disturbed(index, value)
        if stored != value:
            self._wrong.add(index)
        return stored

    def _add(self, base: int, size: int, name: str, words: Mapping[int, int]) -> None:
        self.windows.append((base, size, SystemRegisters(name, base, words, self)))

    def _at(self, address: int) -> tuple[SystemRegisters, int]:
        for base, size, registers in self.windows:
            if base <= address < base + size:
                return registers, address - base
        raise KeyError(address)

    def _control(self, index: int) -> int:
        return self.control_base + index * self.control_stride

    def _half(self, name: str) -> int:
        return 2 if self.halves_pll and self.word(self.plls[name].address) >> 16 & 1 else 1

    def _with_divisors(self, word: int, first: int, second: int) -> int:
        shift = self.second_divisor_shift
        return word & ~(_DIVISOR << 8) & ~(_DIVISOR << shift) | first << 8 | second << shift

    def _divisors(self, clock: PlClock, source: str, chosen: dict[str, int]) -> tuple[int, int]:
        pll = self.plls[source]
        wanted = clock.frequency_mhz * clock.divisor0 * clock.divisor1
        multiplier = round(wanted * self._half(source) / self.reference_mhz)
        near = abs(multiplier * self.reference_mhz / self._half(source) - wanted) <= 0.005 * wanted
        possible = clock.divisor0 and near and pll.lowest <= multiplier <= pll.highest
        if possible and chosen.setdefault(source, multiplier) == multiplier:
            word = self.word(pll.address) & ~(0x7F << self.multiplier_shift)
            self.set_word(pll.address, word | multiplier << self.multiplier_shift)
            return clock.divisor0, clock.divisor1
        rate = self.pll_mhz(source)
        pairs = ((first, second) for first in range(1, 64) for second in range(1, first + 1))
        return min(pairs, key=lambda pair: (abs(rate / (pair[0] * pair[1]) - clock.frequency_mhz), pair[1]))

    def _disturbed(self, index: int, word: int) -> int:
        fault = self._faults.take(WrongClock, lambda f: f.clock == index)
        if fault is None:
            return word
        first = min(_DIVISOR, max(1, (word >> 8 & _DIVISOR) + fault.divisor_change))
        return self._with_divisors(word, first, word >> self.second_divisor_shift & _DIVISOR)


class SystemRegisters(PlainRegisters):
    """A block of registers of the processing system."""

    def __init__(self, name: str, base: int, words: Mapping[int, int], system: ProcessingSystem) -> None:
        super().__init__(name, dict(words))
        self._base = base
        self._system = system

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        merged = self.words.get(offset, 0) & ~mask | value & mask
        stored = self._system.before_write(self._base + offset, merged)
        if stored is not None:
            self.words[offset] = stored


class Zynq7(ProcessingSystem):
    """SLCR of Zynq-7000 with the 50 MHz crystal of the PYNQ boards."""

    reference_mhz = 50.0
    plls: ClassVar[Mapping[str, Pll]] = {
        "IO PLL": Pll(0xF8000108, 20, 13, 66),
        "ARM PLL": Pll(0xF8000100, 26, 13, 66),
        "DDR PLL": Pll(0xF8000104, 21, 13, 66),
    }
    sources: ClassVar[Mapping[int, str]] = {0: "IO PLL", 1: "IO PLL", 2: "ARM PLL", 3: "DDR PLL"}
    source_shift = 4
    second_divisor_shift = 20
    boot_divisors = (10, 1)
    multiplier_shift = 12
    control_base = 0xF8000170
    control_stride = 0x10

    _BASE = 0xF8000000
    _LOCK, _UNLOCK, _LOCK_STATUS = 0x004, 0x008, 0x00C
    _PLL_STATUS = 0x10C
    _FPGA_RESET = 0x240
    _LOCK_KEY, _UNLOCK_KEY = 0x767B, 0xDF0D

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        words = {pll.address - self._BASE: pll.multiplier << self.multiplier_shift for pll in self.plls.values()}
        # ARM_CLK_CTRL: divisor 2, all clocks of the processor active. PLL_STATUS: all locked and stable.
        words |= {0x120: 0x1F000200, self._PLL_STATUS: 0x3F}
        control = self._with_divisors(0, *self.boot_divisors)
        words |= {self._control(index) - self._BASE: control for index in range(CLOCKS)}
        self._add(self._BASE, 0x1000, "slcr", words)

    @property
    def reset_asserted(self) -> bool:
        return bool(self.word(self._BASE + self._FPGA_RESET) & 1)

    def before_write(self, address: int, value: int) -> int | None:
        offset = address - self._BASE
        if offset in (self._LOCK, self._UNLOCK):
            key = self._LOCK_KEY if offset == self._LOCK else self._UNLOCK_KEY
            if value == key:
                self.set_word(self._BASE + self._LOCK_STATUS, int(offset == self._LOCK))
            return None
        # A locked SLCR ignores writes; Linux leaves it unlocked.
        if self.word(self._BASE + self._LOCK_STATUS) or offset in (self._LOCK_STATUS, self._PLL_STATUS):
            return None
        return super().before_write(address, value)


class ZynqMp(ProcessingSystem):
    """CRL_APB, CRF_APB, port widths and the reset GPIO of Zynq UltraScale+, 33.333 MHz reference."""

    reference_mhz = 33.333
    plls: ClassVar[Mapping[str, Pll]] = {
        "IOPLL": Pll(0xFF5E0020, 90, 25, 125),
        "RPLL": Pll(0xFF5E0030, 63, 25, 125),
        "DPLL": Pll(0xFD1A002C, 64, 25, 125),
    }
    sources: ClassVar[Mapping[int, str]] = {0: "IOPLL", 2: "RPLL", 3: "DPLL"}
    source_shift = 0
    second_divisor_shift = 16
    boot_divisors = (15, 1)
    halves_pll = True
    multiplier_shift = 8
    control_base = 0xFF5E00C0
    control_stride = 4

    _CRL, _CRF, _GPIO = 0xFF5E0000, 0xFD1A0000, 0xFF0A0000
    #: pl_resetn0 is EMIO bit 95: bit 31 of bank 5.
    _RESET_BIT = 1 << 31
    _MASKED_HIGH, _DATA, _DIRECTION, _OUTPUT_ENABLE = 0x02C, 0x054, 0x344, 0x348

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        halved = {pll.address: 1 << 16 | pll.multiplier << self.multiplier_shift for pll in self.plls.values()}
        control = self._with_divisors(1 << 24, *self.boot_divisors)
        # PLL_STATUS: all locked and stable.
        low_power = {0x20: halved[self._CRL + 0x20], 0x30: halved[self._CRL + 0x30], 0x40: 0x1B}
        low_power |= {self._control(index) - self._CRL: control for index in range(CLOCKS)}
        # APLL and VPLL; ACPU_CTRL: APLL / 1, all clocks of the processor active.
        full_power = {0x20: 1 << 16 | 72 << 8, 0x2C: halved[self._CRF + 0x2C], 0x38: 1 << 16 | 90 << 8}
        full_power |= {0x44: 0x3F, 0x60: 0x03000100}
        bit = self._RESET_BIT
        self._add(self._CRL, 0x1000, "crl_apb", low_power)
        self._add(self._CRF, 0x1000, "crf_apb", full_power)
        self._add(self._GPIO, 0x1000, "gpio", {self._DATA: bit, self._DIRECTION: bit, self._OUTPUT_ENABLE: bit})
        self._add(0xFD360000, 0x60000, "afifm0_5", {})
        self._add(0xFD610000, 0x10000, "fpd_slcr", {})
        self._add(0xFF410000, 0x10000, "lpd_slcr", {})
        self._add(0xFF9B0000, 0x10000, "afifm6", {})

    @property
    def reset_asserted(self) -> bool:
        driven = self.word(self._GPIO + self._DIRECTION) & self.word(self._GPIO + self._OUTPUT_ENABLE)
        return bool(driven & ~self.word(self._GPIO + self._DATA) & self._RESET_BIT)

    def before_write(self, address: int, value: int) -> int | None:
        if address == self._GPIO + self._MASKED_HIGH:
            # The upper half masks bits out of the write (UG1087, MASK_DATA_5_MSW).
            mask = (~value & 0xFFFF0000) & WORD
            data = self.word(self._GPIO + self._DATA)
            self.set_word(self._GPIO + self._DATA, data & ~mask | value << 16 & mask)
            return None
        if address in (self._CRL + 0x40, self._CRF + 0x44):
            return None
        return super().before_write(address, value)


def processing_system(family: str, faults: Faults) -> ProcessingSystem:
    """The registers of `zynq7` or `zynqmp`."""
    return Zynq7(faults) if family == "zynq7" else ZynqMp(faults)
