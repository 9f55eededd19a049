"""The AXI-Lite bus: slaves, address decode, and what a processor may not do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from enum import Enum, auto

from bfpga.errors import DeviceError

WORD_BYTES = 4
WORD = 0xFFFFFFFF


class BusError(DeviceError):
    """An access that no slave can answer: a board would freeze or end the program with SIGBUS."""


class Poll(Enum):
    """What a program may wait for by reading a register again and again."""

    #: Not a status register, or the wait is over.
    NOTHING = auto()
    #: Something under way.
    UNDER_WAY = auto()
    #: Something that was never begun.
    NOT_BEGUN = auto()


class Slave(ABC):
    """A block of registers: every access is one 32-bit word at an offset that is a multiple of 4.

    ``byte_strobes``: whether it honours WSTRB; many Xilinx cores take whole words only.
    """

    byte_strobes = True
    #: A program reads it again and again, and time passes meanwhile.
    restless = False

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def read(self, offset: int) -> int:
        """A word; reading may change the slave."""

    @abstractmethod
    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        """Write the bits of ``mask``."""

    def poll(self, offset: int) -> Poll:
        """What a reader of this register may be waiting for."""
        return Poll.NOTHING

    def hint(self, offset: int) -> str:
        """Advice for a program that polls this register in vain; a sentence or nothing."""
        return ""

    def step(self) -> bool:
        """Go on as far as possible; whether anything changed."""
        return False

    def interrupt(self, pin: str) -> bool:
        """Level of an interrupt output."""
        return False

    def reset(self) -> None:  # noqa: B027 - some have nothing to reset
        """The reset input: back to the state after configuration."""


class PlainRegisters(Slave):
    """Words that keep what is written: the model of a slave whose behaviour is unknown."""

    def __init__(self, name: str, initial: dict[int, int] | None = None) -> None:
        super().__init__(name)
        self._initial = dict(initial or {})
        self.words = dict(self._initial)

    def read(self, offset: int) -> int:
        return self.words.get(offset, 0)

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        self.words[offset] = self.words.get(offset, 0) & ~mask | value & mask

    def reset(self) -> None:
        self.words = dict(self._initial)


@dataclass(order=True)
class Window:
    """The addresses of a slave: ``base`` to ``base + size - 1``."""

    base: int
    size: int
    slave: Slave = field(compare=False)

    def __str__(self) -> str:
        return f"{self.slave.name} at {self.base:#010x} to {self.base + self.size - 1:#010x}"


class AddressMap:
    """Which slave answers an address."""

    def __init__(self) -> None:
        self._windows: list[Window] = []

    def add(self, base: int, size: int, slave: Slave) -> None:
        """Put a slave at a range; DeviceError where one is already."""
        window = Window(base, size, slave)
        for other in self._windows:
            if base < other.base + other.size and other.base < base + size:
                raise DeviceError(f"address ranges overlap: {window} and {other}")
        insort(self._windows, window)

    def find(self, address: int) -> tuple[Slave, int]:
        """The slave at an address and the offset in it; BusError names the nearest."""
        index = bisect_right(self._windows, address, key=lambda window: window.base) - 1
        if index >= 0 and address < self._windows[index].base + self._windows[index].size:
            return self._windows[index].slave, address - self._windows[index].base
        raise BusError(f"no slave at {address:#010x}; {self._nearest(address)}")

    def _nearest(self, address: int) -> str:
        if not self._windows:
            return "the board has none"

        def distance(window: Window) -> int:
            return max(window.base - address, address - (window.base + window.size - 1))

        return f"the nearest is {min(self._windows, key=distance)}"


def check_read(address: int, length: int) -> None:
    """BusError for a read that AXI-Lite does not have: part words must be inside one word."""
    offset = address % WORD_BYTES
    if length < 1 or (offset and offset + length > WORD_BYTES) or (length > WORD_BYTES and length % WORD_BYTES):
        raise BusError(
            f"read of {length} bytes at {address:#010x}: whole aligned words, or 1 to 3 bytes inside one word"
        )


def check_write(address: int, length: int, slave: Slave) -> None:
    """BusError for a write that AXI-Lite or the slave does not take."""
    offset = address % WORD_BYTES
    if length < 1 or (offset and offset + length > WORD_BYTES) or (length > WORD_BYTES and length % WORD_BYTES):
        raise BusError(
            f"write of {length} bytes at {address:#010x}: whole aligned words, or 1 to 3 bytes inside one word"
        )
    if length < WORD_BYTES and not slave.byte_strobes:
        raise BusError(
            f"write of {length} bytes at {address:#010x}: {slave.name} ignores byte strobes and takes whole words only"
        )
