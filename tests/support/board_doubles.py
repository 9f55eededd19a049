"""Doubles for the driver's own logic: a DMA that the test plays, memory that runs out, a clock that jumps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bfpga.board.axi_dma_registers import Status
from bfpga.board.dma import ADDRESS, CONTROL, LENGTH, MM2S, S2MM, STATUS, BoardChannel


class StandInMemory(np.ndarray):
    """The part of a PYNQ buffer that the driver uses. ``physical_address``, and counts of flushes and frees."""

    physical_address: int
    flushes: int
    freed: bool

    @classmethod
    def of(cls, size: int, address: int) -> StandInMemory:
        memory = np.zeros(size, np.uint8).view(cls)
        memory.physical_address, memory.flushes, memory.freed = address, 0, False
        return memory

    def flush(self) -> None:
        self.flushes += 1

    def freebuffer(self) -> None:
        assert not self.freed, "freed twice"
        self.freed = True


@dataclass
class StandInAllocator:
    """Gives memory one after the other until ``capacity`` bytes are held."""

    capacity: int = 1 << 30
    given: list[StandInMemory] = field(default_factory=list)
    address: int = 0x1000_0000

    def __call__(self, size: int) -> StandInMemory:
        if self.held + size > self.capacity:
            raise RuntimeError("BO allocation failed: Cannot allocate memory")
        memory = StandInMemory.of(size, self.address)
        self.address += -(-size // 4096) * 4096
        self.given.append(memory)
        return memory

    @property
    def held(self) -> int:
        return sum(memory.size for memory in self.given if not memory.freed)


@dataclass
class StandInDma:
    """Registers of a DMA whose status the test sets. Reads of registers that were never written give 0."""

    values: dict[int, int] = field(default_factory=dict)
    reset_ends: bool = True
    lengths: list[tuple[int, int]] = field(default_factory=list)

    def read(self, offset: int = 0, length: int = 4) -> int:
        return self.values.get(offset, 0)

    def write(self, offset: int, data: int) -> None:
        assert type(data) is int, "PYNQ takes no integers of numpy"
        self.values[offset] = 0 if data == 4 and self.reset_ends else data
        if offset in (MM2S + LENGTH, S2MM + LENGTH):  # writing the length begins a transfer
            channel = offset - LENGTH
            self.lengths.append((self.values[channel + ADDRESS], data))
            self.set_status(Status(0), channel)

    def set_status(self, status: Status, offset: int = MM2S) -> None:
        self.values[offset + STATUS] = int(status)


@dataclass
class StandInChannel:
    """PYNQ's channel: notes transfers; ``wait`` fails the test unless the engine is idle, where PYNQ would spin."""

    dma: StandInDma
    offset: int = MM2S
    transfers: list[tuple[Any, int, int]] = field(default_factory=list)
    transferred: int = 0
    short: int = 0

    def transfer(self, array: Any, start: int = 0, nbytes: int = 0) -> None:
        assert nbytes > 0, "0 means everything to PYNQ"
        self.transfers.append((array, start, nbytes))
        self.dma.values[self.offset + CONTROL] = 1
        self.dma.write(self.offset + ADDRESS, array.physical_address + start)
        self.dma.write(self.offset + LENGTH, nbytes)

    def wait(self) -> None:
        assert self.dma.values[self.offset + STATUS] & Status.IDLE, "PYNQ would wait for ever"
        self.transferred = self.dma.lengths[-1][1] - self.short
        self.dma.values[self.offset + LENGTH] = self.transferred

    def finish(self) -> None:
        """The hardware has moved the transfer at hand."""
        self.dma.set_status(Status.IDLE | Status.COMPLETE_INTERRUPT, self.offset)


def stand_in_channel(
    limit: int = 1 << 20, offset: int = MM2S, alignment: int = 8
) -> tuple[BoardChannel, StandInChannel]:
    """A channel of the driver on doubles."""
    inner = StandInChannel(StandInDma(), offset)
    name = "tensor_dma MM2S" if offset == MM2S else "tensor_dma S2MM"
    return BoardChannel(inner, inner.dma, name, offset, limit, alignment), inner


class JumpingClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
