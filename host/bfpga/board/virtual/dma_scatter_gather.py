"""The scatter-gather mode of the AXI DMA: chains of descriptors in DDR (PG021, Scatter Gather Descriptor)."""

from __future__ import annotations

from bfpga.board.axi_dma_registers import (
    DELAY_SHIFT,
    DESCRIPTOR_ALIGNMENT,
    DESCRIPTOR_BYTES,
    DESCRIPTOR_LENGTH,
    THRESHOLD_SHIFT,
    Descriptor,
    DescriptorControl,
    DescriptorStatus,
    Register,
    Status,
)
from bfpga.board.virtual.bus import WORD
from bfpga.board.virtual.dma_channel import Channel, DmaConfiguration
from bfpga.board.virtual.dma_mover import MemoryPort, Mover, Transfer, TransferError
from bfpga.board.virtual.stream import Bytes

_STATUS_OF = {
    Status.INTERNAL_ERROR: DescriptorStatus.INTERNAL_ERROR,
    Status.SLAVE_ERROR: DescriptorStatus.SLAVE_ERROR,
    Status.DECODE_ERROR: DescriptorStatus.DECODE_ERROR,
}


class ScatterGatherChannel(Channel):
    """A channel that works through descriptors up to the tail. Cyclic mode is not modelled: the bit reads as 0."""

    def __init__(self, dma: str, mover: Mover, configuration: DmaConfiguration, descriptors: MemoryPort) -> None:
        self._descriptors = descriptors
        super().__init__(dma, mover, configuration)

    def reset(self) -> None:
        super().reset()
        self.flags |= Status.SCATTER_GATHER
        self.current = 0
        self.tail = 0
        self._working = False
        self._first = True
        self._packet_open = False
        self._countdown = self.threshold
        self._uncounted = False

    @property
    def busy(self) -> bool:
        return self.transfer is not None or self._working

    @property
    def status(self) -> int:
        return super().status | self._countdown << THRESHOLD_SHIFT | self.delay << DELAY_SHIFT

    def read(self, register: int) -> int:
        words = {
            Register.CURRENT_DESCRIPTOR: self.current & WORD,
            Register.CURRENT_DESCRIPTOR_HIGH: self.current >> 32,
            Register.TAIL_DESCRIPTOR: self.tail & WORD,
            Register.TAIL_DESCRIPTOR_HIGH: self.tail >> 32,
        }
        return words[Register(register)] if register in words else super().read(register)

    def write(self, register: int, value: int) -> None:
        pointer = value & ~(DESCRIPTOR_ALIGNMENT - 1)
        if register == Register.CURRENT_DESCRIPTOR:
            # Read-only while the channel runs.
            self.current = self.current & ~WORD | pointer if self.halted else self.current
        elif register == Register.CURRENT_DESCRIPTOR_HIGH:
            self.current = (self.current & WORD | value << 32) & self._address_mask if self.halted else self.current
        elif register == Register.TAIL_DESCRIPTOR:
            self.tail = self.tail & ~WORD | pointer
            if self._configuration.address_bits <= 32:
                self._fetch()
        elif register == Register.TAIL_DESCRIPTOR_HIGH:
            self.tail = (self.tail & WORD | value << 32) & self._address_mask
            if self._configuration.address_bits > 32:
                self._fetch()
        else:
            super().write(register, value)

    def _write_control(self, value: int) -> None:
        before = self.threshold
        super()._write_control(value)
        if self.threshold != before:
            self._countdown = self.threshold

    def _started(self) -> None:
        self.idle = True
        self._first = True

    def _fetch(self) -> None:
        """The tail pointer was written: start, or go on after the descriptor that was the tail."""
        if not self.halted:
            self._working = True
            self.idle = False

    def _advance(self) -> bool:
        changed = False
        while self._working:
            if self.transfer is None:
                self._next_descriptor()
                changed = True
            assert self.transfer is not None
            changed |= self.mover.advance(self.transfer)
            if not self.transfer.complete:
                return changed
            self._complete()
            changed = True
        return changed or self._expire_delay()

    def _next_descriptor(self) -> None:
        if not self._first:
            self.current = self._word(Descriptor.NEXT) & ~(DESCRIPTOR_ALIGNMENT - 1)
            self.current |= self._word(Descriptor.NEXT_HIGH) << 32 & self._address_mask & ~WORD
        self._first = False
        if self._word(Descriptor.STATUS) & DescriptorStatus.COMPLETED:
            raise TransferError(
                Status.DESCRIPTOR_INTERNAL_ERROR, f"descriptor {self.current:#x} is marked as completed already"
            )
        control = self._word(Descriptor.CONTROL)
        address = self._word(Descriptor.BUFFER) | self._word(Descriptor.BUFFER_HIGH) << 32 & self._address_mask & ~WORD
        length = control & DESCRIPTOR_LENGTH & (1 << self._configuration.length_bits) - 1
        sends = self.mover.name == "mm2s"
        self.transfer = Transfer(
            address, length, ends_packet=sends and bool(control & DescriptorControl.END), one_packet=False
        )
        self.mover.begin(self.transfer)

    def _complete(self) -> None:
        transfer = self.transfer
        assert transfer is not None
        status = DescriptorStatus.COMPLETED
        if self.mover.name == "s2mm":
            status |= DescriptorStatus(0) if self._packet_open else DescriptorStatus.START
            status |= DescriptorStatus.END if transfer.ends_packet else DescriptorStatus(0)
            self._packet_open = not transfer.ends_packet
        self._set_word(Descriptor.STATUS, int(status) | transfer.moved)
        self.transfer = None
        if transfer.ends_packet:
            self._count_packet()
        if self.current == self.tail:
            self._working = False
            self.idle = True
        elif not self.control & 1:
            self._working = False
        self._halt_if_stopped()

    def _count_packet(self) -> None:
        self._countdown -= 1
        self._uncounted = True
        if self._countdown == 0:
            self.flags |= Status.COMPLETE_INTERRUPT
            self._countdown = self.threshold
            self._uncounted = False

    def _expire_delay(self) -> bool:
        """The model has no time: the delay is over as soon as packets wait for the threshold and nothing moves."""
        if not (self.delay and self._uncounted):
            return False
        self.flags |= Status.DELAY_INTERRUPT
        self._uncounted = False
        self._countdown = self.threshold
        return True

    def _fail(self, error: TransferError) -> None:
        if self.transfer is not None and error.status in _STATUS_OF:
            self._set_word(Descriptor.STATUS, int(_STATUS_OF[error.status]) | self.transfer.moved)
        self._working = False
        super()._fail(error)

    def _word(self, offset: Descriptor) -> int:
        return int(self._descriptor()[offset : offset + 4].view("<u4")[0])

    def _set_word(self, offset: Descriptor, value: int) -> None:
        self._descriptor()[offset : offset + 4].view("<u4")[0] = value

    def _descriptor(self) -> Bytes:
        port = self._descriptors
        reached = port.reaches(self.current, DESCRIPTOR_BYTES)
        data = port.memory.view(self.current, DESCRIPTOR_BYTES) if reached else None
        if data is None:
            raise TransferError(Status.DESCRIPTOR_DECODE_ERROR, f"no memory answers at descriptor {self.current:#x}")
        return data
