"""Kernels on the register bus: what all of them have, and those that answer accesses of their registers themselves."""

from __future__ import annotations

from abc import abstractmethod

from bfpga.board.virtual.bus import WORD, Poll, Slave
from bfpga.board.virtual.kernel_model import Kernel, KernelWithRegisters
from bfpga.board.virtual.stream import Stream
from bfpga.contract.registers import Control, offset_of

_CONTROL = offset_of("CTRL")


class KernelSlave(Slave):
    """A kernel with its registers; ``streams`` by port name."""

    def __init__(self, name: str, kernel: Kernel) -> None:
        super().__init__(name)
        self.kernel = kernel
        self.streams: dict[str, Stream] = {}

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether a start has begun and not finished."""

    @property
    @abstractmethod
    def starts(self) -> int:
        """Starts since the last reset."""

    @property
    def withheld(self) -> bool:
        """Whether a fault keeps the kernel from finishing."""
        return False


class RegisterPort(KernelSlave):
    """The register port of a kernel that has its registers itself: every access is one of the kernel's."""

    kernel: KernelWithRegisters

    def __init__(self, name: str, kernel: KernelWithRegisters) -> None:
        super().__init__(name, kernel)
        self._starts = 0
        self._done_read = False
        #: A program waits, and the kernel has not had all the time that it may need since anything changed.
        self.restless = False
        self._waited = False

    @property
    def running(self) -> bool:
        return not self.kernel.idle

    @property
    def starts(self) -> int:
        return self._starts

    def read(self, offset: int) -> int:
        value = self.kernel.read_register(offset)
        if offset == _CONTROL:
            self._done_read |= bool(value & Control.DONE)
            self.restless = not value & (Control.DONE | Control.IDLE) and not self._waited
        return value

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        if offset == _CONTROL and value & mask & Control.START:
            self._starts += 1
            self._done_read = False
        self._waited = False
        self.kernel.write_register(offset, value, mask)

    def poll(self, offset: int) -> Poll:
        if offset != _CONTROL:
            return Poll.NOTHING
        return Poll.UNDER_WAY if self.running else Poll.NOT_BEGUN

    def hint(self, offset: int) -> str:
        if offset == _CONTROL and self._done_read and not self.running:
            return "AP_DONE of the last start was read already, and reading clears it."
        return ""

    def step(self) -> bool:
        patient, self.restless = self.restless, False
        moved = self.kernel.step(self.streams, patient=patient)
        self._waited = (self._waited or patient) and not moved
        return moved

    def interrupt(self, pin: str) -> bool:
        return self.kernel.interrupt

    def reset(self) -> None:
        self.kernel.reset()
        self._starts = 0
        self._done_read = self._waited = self.restless = False


class CounterPort(Slave):
    """The register port of a kernel's own clock counter."""

    def __init__(self, name: str, kernel: KernelWithRegisters) -> None:
        super().__init__(name)
        self._kernel = kernel

    def read(self, offset: int) -> int:
        return self._kernel.read_register(offset, of_counter=True)

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        self._kernel.write_register(offset, value, mask, of_counter=True)
