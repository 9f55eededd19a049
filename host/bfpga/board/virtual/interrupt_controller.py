"""The AXI interrupt controller v4.1 in its normal mode (PG099): fast and nested interrupts are not modelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from bfpga.board.virtual.bus import WORD, Slave
from bfpga.board.virtual.faults import DroppedInterrupt, Faults


class Register(IntEnum):
    """Offsets."""

    STATUS = 0x00
    PENDING = 0x04
    ENABLE = 0x08
    ACKNOWLEDGE = 0x0C
    SET_ENABLE = 0x10
    CLEAR_ENABLE = 0x14
    VECTOR = 0x18
    MASTER_ENABLE = 0x1C


#: Bits of MER.
MASTER_ENABLE = 1 << 0
HARDWARE_ENABLE = 1 << 1


class InterruptController(Slave):
    """Up to 32 inputs, one output. ``edges``: inputs that are captured at their rising edge; the others are levels."""

    byte_strobes = False

    def __init__(self, name: str, faults: Faults, edges: int = 0) -> None:
        super().__init__(name)
        self._faults = faults
        self._edges = edges
        #: Name (`cell/pin`) and level of every input.
        self.inputs: list[tuple[str, Callable[[], bool]]] = []
        self._missed = 0
        self._levels = 0
        self.reset()

    def reset(self) -> None:
        self.status = 0
        self.enabled = 0
        self.master = 0

    def connect(self, inputs: Sequence[tuple[str, Callable[[], bool]]]) -> None:
        """Wire the inputs, lowest bit first."""
        self.inputs = list(inputs)

    @property
    def pending(self) -> int:
        """IPR: what is both active and enabled."""
        return self.status & self.enabled

    @property
    def output(self) -> bool:
        """The irq pin."""
        return bool(self.master & MASTER_ENABLE and self.pending)

    def interrupt(self, pin: str) -> bool:
        return self.output

    def read(self, offset: int) -> int:
        if offset == Register.STATUS:
            return self.status
        if offset == Register.PENDING:
            return self.pending
        if offset == Register.ENABLE:
            return self.enabled
        if offset == Register.VECTOR:
            # Bit 0 is the most urgent; all ones mean that nothing is pending.
            return (self.pending & -self.pending).bit_length() - 1 if self.pending else WORD
        return self.master if offset == Register.MASTER_ENABLE else 0

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        value &= (1 << max(1, len(self.inputs))) - 1 if offset != Register.MASTER_ENABLE else 3
        if offset == Register.STATUS and not self.master & HARDWARE_ENABLE:
            # For tests by software, before the hardware inputs are enabled.
            self.status = value
        elif offset == Register.ENABLE:
            self.enabled = value
        elif offset == Register.ACKNOWLEDGE:
            self.status &= ~value
            self._sample_levels()
        elif offset == Register.SET_ENABLE:
            self.enabled |= value
        elif offset == Register.CLEAR_ENABLE:
            self.enabled &= ~value
        elif offset == Register.MASTER_ENABLE:
            # HIE can be set once; only a reset clears it.
            self.master = value | self.master & HARDWARE_ENABLE
            self._sample_levels()

    def sample(self) -> None:
        """Look at the inputs: an active level or a rising edge sets its status bit until it is acknowledged."""
        levels = sum(1 << index for index, (_, level) in enumerate(self.inputs) if level())
        rising = levels & ~self._levels
        self._missed &= levels
        for index, (source, _) in enumerate(self.inputs):
            if rising >> index & 1 and self._faults.take(DroppedInterrupt, lambda f, s=source: f.source == s):  # type: ignore[misc]
                self._missed |= 1 << index
        self._levels = levels
        if self.master & HARDWARE_ENABLE:
            self.status |= rising & self._edges & ~self._missed
            self._sample_levels()

    def _sample_levels(self) -> None:
        if self.master & HARDWARE_ENABLE:
            self.status |= self._levels & ~self._edges & ~self._missed
