"""One channel of an AXI DMA in simple mode: registers as data, transfers in pieces, a reset that ends (PG021).

Data moves through PYNQ's own channel objects, which flush and invalidate; they are never asked to wait, because their
waits do not end when the hardware does not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from bfpga.board.axi_dma_registers import ERRORS, S2MM_OFFSET, Control, Register, Status
from bfpga.board.buffers import BoardBuffer
from bfpga.board.errors import BoardError
from bfpga.board.wait import wait_until

#: Seconds a soft reset or a start of a channel may take; the hardware needs microseconds.
RESET_SECONDS = 0.5


#: Register offsets within a channel and of the channels.
CONTROL, STATUS, ADDRESS, ADDRESS_HIGH, LENGTH = (
    int(register)
    for register in (Register.CONTROL, Register.STATUS, Register.ADDRESS, Register.ADDRESS_HIGH, Register.LENGTH)
)
MM2S, S2MM = 0x00, S2MM_OFFSET


class Registers(Protocol):
    """The part of ``pynq.MMIO`` that is used. Values are Python integers: PYNQ refuses those of numpy."""

    def read(self, offset: int = 0, length: int = 4) -> int: ...

    def write(self, offset: int, data: int) -> None: ...


@dataclass(frozen=True)
class ChannelState:
    """What a channel's registers say. name: as `tensor_dma S2MM`; length: bytes moved by the last finished transfer."""

    name: str
    control: Control
    status: Status
    length: int

    @property
    def idle(self) -> bool:
        """The last transfer is finished and nothing went wrong."""
        return bool(self.status & Status.IDLE) and not self.failed

    @property
    def failed(self) -> bool:
        """An error bit is set, or the engine stopped by itself."""
        return bool(self.status & (ERRORS | Status.HALTED))

    def sentence(self) -> str:
        """Registers and what they mean, in one line."""
        return f"{self.name}: {self.meaning()} (DMACR {int(self.control):#x}, DMASR {int(self.status):#x})"

    def meaning(self) -> str:
        """What the registers mean."""
        receiving = self.name.endswith("S2MM")
        if self.status & Status.DECODE_ERROR:
            return "halted by a decode error: no memory answers at the address"
        if self.status & Status.SLAVE_ERROR:
            return "halted by a slave error: the memory refused the access"
        if self.status & Status.INTERNAL_ERROR:
            reason = "the packet is longer than the buffer, or its length is 0" if receiving else "the length is 0"
            return f"halted by an internal error: {reason}"
        if self.status & Status.HALTED:
            return "halted without an error bit: it was reset or never started"
        if self.status & Status.IDLE:
            return f"idle after {self.length} bytes"
        return "transfer not finished" if self.control & Control.RUN else "stopping"


class ChannelError(Exception):
    """A channel stopped with an error; within the driver only."""

    def __init__(self, state: ChannelState) -> None:
        self.state = state
        super().__init__(state.sentence())


@dataclass(frozen=True)
class _Piece:
    buffer: BoardBuffer
    start: int
    size: int


class BoardChannel:
    """A direction of one DMA.

    ``channel``: PYNQ's object for it. ``limit``: most bytes of a transfer, rounded down to ``alignment`` so that the
    next piece begins aligned (there is no realignment engine).
    """

    def __init__(self, channel: Any, registers: Registers, name: str, offset: int, limit: int, alignment: int) -> None:
        self.name, self.alignment = name, alignment
        self.limit = limit // alignment * alignment
        self.transferred = 0
        self.expected = 0
        self.channel = channel
        self._registers, self._offset = registers, offset
        self._pieces: deque[_Piece] = deque()
        self._moving: _Piece | None = None

    @property
    def receives(self) -> bool:
        return self._offset == S2MM

    @property
    def busy(self) -> bool:
        """Something that was begun has not been seen to finish."""
        return self._moving is not None

    def state(self) -> ChannelState:
        """Registers as they are now."""
        read, base = self._registers.read, self._offset
        status, control = int(read(base + STATUS)), int(read(base + CONTROL))
        return ChannelState(self.name, Control(control), Status(status), int(read(base + LENGTH)))

    def seen(self, state: ChannelState | None) -> int:
        """Bytes that moved, with a piece that has just finished."""
        just_finished = state.length if state is not None and state.idle and self.busy else 0
        return self.transferred + just_finished

    def begin(self, buffer: BoardBuffer, size: int, repeats: int = 1) -> None:
        """Move ``size`` bytes of the buffer, ``repeats`` times one after the other.

        What is sent may be cut anywhere, because the kernel ignores where packets end. What is received may not: one
        packet is one transfer; BoardError beyond the limit.
        """
        if self.receives and size > self.limit:
            raise BoardError(
                f"{self.name}: an output packet of {size} bytes does not fit one transfer of at most {self.limit}; "
                "run fewer samples in one start"
            )
        self.transferred, self.expected = 0, size * repeats
        self._pieces = deque(
            _Piece(buffer, start, min(self.limit, size - start))
            for _ in range(repeats)
            for start in range(0, size, self.limit)
        )
        self._next()

    def advance(self) -> bool:
        """Look once: begin the next piece if one is finished. True when all is moved; ChannelError on an error."""
        if self._moving is None:
            return True
        status = Status(int(self._registers.read(self._offset + STATUS)))
        if status & (ERRORS | Status.HALTED):
            raise ChannelError(self.state())
        if not status & Status.IDLE:
            return False
        self.complete()
        return self._moving is None

    def complete(self) -> None:
        """Bookkeeping of a finished piece, then the next. PYNQ's wait returns at once: the channel is idle."""
        self.channel.wait()
        self.transferred += int(self.channel.transferred)
        self._next()

    def _next(self) -> None:
        self._moving = self._pieces.popleft() if self._pieces else None
        piece = self._moving
        if piece is None:
            return
        if self.receives or piece.buffer.changed:
            self.channel.transfer(piece.buffer.array, piece.start, piece.size)
            piece.buffer.changed = False
        else:  # PYNQ would flush the whole buffer once more, and over a network send it once more
            self._write(ADDRESS, piece.buffer.address + piece.start & 0xFFFFFFFF)
            self._write(ADDRESS_HIGH, piece.buffer.address + piece.start >> 32)
            self._write(LENGTH, piece.size)

    def _write(self, register: int, value: int) -> None:
        self._registers.write(self._offset + register, value)

    def clear_interrupt(self) -> None:
        """Take the completion interrupt back; its bit clears by writing one."""
        self._registers.write(self._offset + STATUS, int(Status.COMPLETE_INTERRUPT))

    @property
    def interrupt_pending(self) -> bool:
        """The channel has raised its completion interrupt."""
        return bool(int(self._registers.read(self._offset + STATUS)) & Status.COMPLETE_INTERRUPT)

    def forget(self) -> None:
        """Drop what was begun, after the hardware was reset."""
        self._pieces.clear()
        self._moving = None


def reset_dma(registers: Registers, offset: int) -> bool:
    """Soft reset of a DMA through one channel: it stops both (PG021, DMACR bit 2). False if it does not end."""
    control = offset + CONTROL
    registers.write(control, int(Control.RESET))
    return wait_until(lambda: not int(registers.read(control)) & Control.RESET, RESET_SECONDS)


def starts(registers: Registers, offset: int) -> bool:
    """True if a channel leaves the halted state when asked to run, which PYNQ's constructor awaits without a limit."""
    registers.write(offset + CONTROL, int(Control.RUN))
    return wait_until(lambda: not int(registers.read(offset + STATUS)) & Status.HALTED, RESET_SECONDS)
