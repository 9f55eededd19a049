"""Registers of the kernel and of the clock counter by name, and a start of the kernel (UG1399, ap_ctrl_hs)."""

from __future__ import annotations

from collections.abc import Mapping

from bfpga.board.dma import Registers
from bfpga.board.wait import wait_until
from bfpga.contract.registers import BLOCK_REGISTERS, Control, counter_offset_of, offset_of

_CONTROL = BLOCK_REGISTERS[0].offset
#: Bit of the interrupt registers for the end of a start.
_DONE = 1


def control_sentence(control: Control | None) -> str:
    """What the control register of the kernel says, in one line."""
    if control is None:
        return "accelerator: its registers cannot be read"
    if control & Control.DONE:
        meaning = "finished"
    elif control & Control.IDLE:
        meaning = "idle, not started" if not control & Control.START else "about to start"
    else:
        meaning = "running"
    return f"accelerator: {meaning} (control {int(control):#x})"


class KernelRegisters:
    """The kernel's AXI-Lite registers. Only Python integers reach PYNQ, which refuses those of numpy."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        self._raises_interrupt = False

    def read(self, name: str) -> int:
        """A register of ``engines.registers`` by name. The remote client of PYNQ 3.1 gives it as a signed number."""
        return int(self._registers.read(offset_of(name))) & 0xFFFFFFFF

    def write(self, name: str, value: int) -> None:
        """Write an argument."""
        self._registers.write(offset_of(name), int(value))

    def control(self) -> Control:
        """The control register. Reading clears its bits DONE and READY."""
        return Control(int(self._registers.read(_CONTROL)))

    def start(self, arguments: Mapping[str, int]) -> None:
        """Write the arguments, then start; the kernel reads them as it starts.

        Its interrupt is low before and rises at the end: the clock counter waits for that edge. The processor does not:
        the interrupt controller passes it on only if it is enabled.
        """
        if not self._raises_interrupt:
            self.write("GIER", 1)
            self.write("IP_IER", _DONE)
            self._raises_interrupt = True
        pending = self.read("IP_ISR")
        if pending:
            self.write("IP_ISR", pending)  # writing 1 toggles
        for name, value in arguments.items():
            self.write(name, value)
        self._registers.write(_CONTROL, int(Control.START))

    def finished(self) -> bool:
        """The start is over. DONE clears when it is read, so IDLE counts too."""
        control = self.control()
        return bool(control & Control.DONE) or control & (Control.START | Control.IDLE) == Control.IDLE

    def probe(self, seconds: float) -> int | None:
        """Identification of the kernel, by a start without descriptors; None if that start does not end."""
        self.start({"descriptor_count": 0, "control": 0})
        return self.read("identification") if wait_until(self.finished, seconds) else None


class CounterRegisters:
    """The clock counter's AXI-Lite registers, which hold the figures of the last start that ended."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers

    def read(self, name: str) -> int:
        """A register of ``COUNTER_REGISTERS`` by name."""
        return int(self._registers.read(counter_offset_of(name))) & 0xFFFFFFFF
