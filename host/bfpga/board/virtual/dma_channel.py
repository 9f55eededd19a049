"""A channel of the AXI DMA v7.1: what both modes share, and simple (register) mode (PG021)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from bfpga.board.axi_dma_registers import (
    BYTE,
    DELAY_SHIFT,
    ERROR_NAMES,
    ERRORS,
    INTERRUPTS,
    THRESHOLD_SHIFT,
    Control,
    Register,
    Status,
)
from bfpga.board.virtual.bus import WORD
from bfpga.board.virtual.dma_mover import Mover, Transfer, TransferError
from bfpga.board.virtual.faults import Channel as ChannelName
from bfpga.errors import DeviceError

_ENABLES = Control.COMPLETE_INTERRUPT | Control.DELAY_INTERRUPT | Control.ERROR_INTERRUPT


@dataclass(frozen=True)
class DmaConfiguration:
    """Parameters of the core. ``memory_bits``: width of the memory side by channel; a channel may be absent."""

    scatter_gather: bool
    length_bits: int
    address_bits: int
    memory_bits: Mapping[ChannelName, int]
    realignment: Mapping[ChannelName, bool]

    @staticmethod
    def from_parameters(name: str, parameters: Mapping[str, str]) -> DmaConfiguration:
        """From the parameters of a handoff, in either case; DeviceError for values that the core does not have."""
        values = {key.lower(): value for key, value in parameters.items()}

        def number(key: str, default: int) -> int:
            try:
                return int(values.get(key, str(default)), 0)
            except ValueError:
                raise DeviceError(f"{name}: parameter {key} is {values[key]!r}; a number is needed") from None

        channels: list[ChannelName] = ["mm2s", "s2mm"]
        present = [channel for channel in channels if number(f"c_include_{channel}", 1)]
        length_bits = number("c_sg_length_width", 14)
        if not 8 <= length_bits <= 26:
            raise DeviceError(f"{name}: c_sg_length_width is {length_bits}; PG021 allows 8 to 26")
        return DmaConfiguration(
            scatter_gather=bool(number("c_include_sg", 1)),
            length_bits=length_bits,
            address_bits=number("c_addr_width", 32),
            memory_bits={channel: number(f"c_m_axi_{channel}_data_width", 32) for channel in present},
            realignment={channel: bool(number(f"c_include_{channel}_dre", 0)) for channel in present},
        )


class Channel(ABC):
    """Control, status, errors and interrupts of one channel; subclasses say where transfers come from."""

    def __init__(self, dma: str, mover: Mover, configuration: DmaConfiguration) -> None:
        self.dma = dma
        self.mover = mover
        self._configuration = configuration
        self._address_mask = (1 << configuration.address_bits) - 1
        self.reset()

    def reset(self) -> None:
        """The state after power-up or soft reset; the link's FIFO is emptied with the engine's."""
        self.control = Control.ALWAYS_ONE
        self.threshold = 1
        self.delay = 0
        self.flags = Status(0)
        self.halted = True
        self.idle = False
        self.error: str | None = None
        self.transfer: Transfer | None = None
        if self.mover.stream is not None:
            self.mover.stream.clear()

    @property
    def name(self) -> str:
        """`tensor_dma MM2S`."""
        return f"{self.dma} {self.mover.name.upper()}"

    @property
    def status(self) -> int:
        """DMASR."""
        status = self.flags
        status |= Status.HALTED if self.halted else Status.IDLE if self.idle else Status(0)
        return int(status)

    @property
    def interrupt(self) -> bool:
        """The introut pin."""
        return bool(self.flags & INTERRUPTS & Status(int(self.control & _ENABLES)))

    @property
    def busy(self) -> bool:
        """Whether a transfer is under way."""
        return self.transfer is not None

    def read(self, register: int) -> int:
        """A register by its offset in the channel; reserved ones read as zero."""
        if register == Register.CONTROL:
            return int(self.control) | self.threshold << THRESHOLD_SHIFT | self.delay << DELAY_SHIFT
        return self.status if register == Register.STATUS else 0

    def write(self, register: int, value: int) -> None:
        """Write a register; reserved ones ignore it."""
        if register == Register.CONTROL:
            self._write_control(value)
        elif register == Register.STATUS:
            self._acknowledge(Status(value & int(INTERRUPTS)))

    def step(self) -> bool:
        """Move data; whether anything changed."""
        try:
            return self._advance()
        except TransferError as error:
            self._fail(error)
            return True

    @abstractmethod
    def _advance(self) -> bool:
        """Go on with the transfers; raises TransferError."""

    def _started(self) -> None:  # noqa: B027 - simple transfers begin with LENGTH
        """RS was set while halted."""

    def _acknowledge(self, flags: Status) -> None:
        self.flags &= ~flags

    def _write_control(self, value: int) -> None:
        kept = _ENABLES | Control.KEYHOLE
        self.control = Control(value) & kept | Control.ALWAYS_ONE | self.control & Control.RUN
        # A threshold of zero has no effect.
        self.threshold = value >> THRESHOLD_SHIFT & BYTE or self.threshold
        self.delay = value >> DELAY_SHIFT & BYTE
        if not value & Control.RUN:
            self.control &= ~Control.RUN
            self._halt_if_stopped()
        elif not self.flags & ERRORS:
            # After an error only a reset brings the engine back.
            self.control |= Control.RUN
            if self.halted:
                self.halted = False
                self._started()

    def _halt_if_stopped(self) -> None:
        """A stop takes effect when the current transfer has ended."""
        if not self.control & Control.RUN and not self.busy:
            self.halted = True
            self.idle = False

    def _fail(self, error: TransferError) -> None:
        self.flags |= error.status | Status.ERROR_INTERRUPT
        self.control &= ~Control.RUN
        self.halted = True
        self.idle = False
        self.transfer = None
        self.error = f"{ERROR_NAMES[error.status]}: {error}"


class SimpleChannel(Channel):
    """Register mode: address, then LENGTH, which starts one transfer of one packet."""

    def reset(self) -> None:
        super().reset()
        self.address = 0
        self.length = 0
        #: A LENGTH that was written while the channel was halted and did nothing.
        self.ignored_length = 0

    def read(self, register: int) -> int:
        if register == Register.ADDRESS:
            return self.address & WORD
        if register == Register.ADDRESS_HIGH:
            return self.address >> 32
        return self.length if register == Register.LENGTH else super().read(register)

    def write(self, register: int, value: int) -> None:
        if register == Register.ADDRESS:
            self.address = self.address & ~WORD | value
        elif register == Register.ADDRESS_HIGH:
            self.address = (self.address & WORD | value << 32) & self._address_mask
        elif register == Register.LENGTH:
            self._begin(value & (1 << self._configuration.length_bits) - 1)
        else:
            super().write(register, value)

    def _started(self) -> None:
        self.ignored_length = 0

    def _begin(self, length: int) -> None:
        if self.halted:
            self.ignored_length = length
        if self.halted or self.busy:
            return
        self.length = length
        self.idle = False
        self.transfer = Transfer(self.address, length, ends_packet=self.mover.name == "mm2s")
        try:
            self.mover.begin(self.transfer)
        except TransferError as error:
            self._fail(error)

    def _advance(self) -> bool:
        if self.transfer is None:
            return False
        moved = self.mover.advance(self.transfer)
        if not self.transfer.complete:
            return moved
        if self.mover.name == "s2mm":
            self.length = self.transfer.moved
        self.transfer = None
        self.idle = True
        self.flags |= Status.COMPLETE_INTERRUPT
        self._halt_if_stopped()
        return True
