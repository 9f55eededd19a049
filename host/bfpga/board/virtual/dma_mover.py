"""The data movers of an AXI DMA: between DDR and a stream, one transfer at a time (PG021, PG022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bfpga.board.axi_dma_registers import Status
from bfpga.board.virtual.faults import Channel as ChannelName
from bfpga.board.virtual.faults import CorruptedTransfer, DmaError, Faults
from bfpga.board.virtual.memory import Memory
from bfpga.board.virtual.stream import Stream

_FAULT_BITS = {
    "internal": Status.INTERNAL_ERROR,
    "slave": Status.SLAVE_ERROR,
    "decode": Status.DECODE_ERROR,
}


class TransferError(Exception):
    """What stops a channel. ``status``: the bit of DMASR; the text says why."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Transfer:
    """A range of DDR to send or to fill.

    ends_packet: MM2S: TLAST on the final byte; S2MM: set when TLAST arrived. one_packet: a packet must end inside
    (register mode); otherwise it goes on in the next descriptor.
    """

    address: int
    length: int
    ends_packet: bool = False
    one_packet: bool = True
    moved: int = 0
    complete: bool = False
    error: DmaError | None = None
    corruption: CorruptedTransfer | None = None

    @property
    def left(self) -> int:
        """Bytes to go, no further than to an injected error."""
        end = self.length if self.error is None else min(self.length, self.error.at_byte)
        return end - self.moved


@dataclass(frozen=True)
class MemoryPort:
    """The memory side of a channel.

    base, size: addresses that its interconnect decodes. alignment: bytes that a start address must be a multiple of.
    """

    memory: Memory
    base: int
    size: int
    alignment: int

    def reaches(self, address: int, count: int) -> bool:
        """Whether the interconnect decodes the whole range."""
        return self.base <= address and address + count <= self.base + self.size


class Mover(Protocol):
    """What a channel needs of a mover."""

    name: ChannelName
    port: MemoryPort
    stream: Stream | None
    stray: str | None

    def begin(self, transfer: Transfer) -> None:
        """Check a transfer; TransferError."""
        ...

    def advance(self, transfer: Transfer) -> bool:
        """Move what can be moved now, set `complete` at the end; whether anything changed. TransferError."""
        ...


class _Mover:
    name: ChannelName

    def __init__(self, dma: str, port: MemoryPort, faults: Faults) -> None:
        self.dma = dma
        self.port = port
        self.stream: Stream | None = None
        #: What the last transfer touched outside the allocated buffers: a board would not say.
        self.stray: str | None = None
        self._faults = faults

    def begin(self, transfer: Transfer) -> None:
        self.stray = None
        if transfer.length == 0:
            raise TransferError(Status.INTERNAL_ERROR, "the length is zero")
        if transfer.address % self.port.alignment:
            # PG021 calls the result undefined; an error shows it instead of moving wrong bytes.
            raise TransferError(
                Status.INTERNAL_ERROR,
                f"address {transfer.address:#x} is not a multiple of {self.port.alignment} bytes, and the DMA has no "
                "realignment engine",
            )
        transfer.error = self._faults.take(DmaError, lambda f: (f.dma, f.channel) == (self.dma, self.name))
        transfer.corruption = self._faults.take(
            CorruptedTransfer, lambda f: (f.dma, f.channel) == (self.dma, self.name)
        )

    def _check_injected(self, transfer: Transfer) -> None:
        fault = transfer.error
        if fault and (transfer.complete or transfer.moved >= fault.at_byte):
            answer = {"internal": "an internal error", "slave": "SLVERR", "decode": "DECERR"}[fault.kind]
            raise TransferError(_FAULT_BITS[fault.kind], f"the memory port answered with {answer}")

    def _unreachable(self, transfer: Transfer) -> TransferError:
        return TransferError(
            Status.DECODE_ERROR, f"no memory answers at {transfer.address + transfer.moved:#x} for its memory port"
        )

    def _note_stray(self, transfer: Transfer, count: int, verb: str) -> None:
        if self.port.memory.owner(transfer.address, count) is None:
            self.stray = f"{verb} {count:,} bytes at {transfer.address:#x}, which are not inside one allocated buffer"

    def _flip(self, transfer: Transfer) -> None:
        fault = transfer.corruption
        size = transfer.moved or transfer.length
        if fault:
            data = self.port.memory.view(transfer.address + fault.byte % size, 1)
            if data is not None:
                data ^= np.uint8(1 << fault.bit)
            transfer.corruption = None


class MemoryToStream(_Mover):
    """MM2S: reads DDR, pushes beats; complete when the stream has accepted everything."""

    name: ChannelName = "mm2s"

    def begin(self, transfer: Transfer) -> None:
        super().begin(transfer)
        self._note_stray(transfer, transfer.length, "reads")
        self._flip(transfer)

    def advance(self, transfer: Transfer) -> bool:
        before = transfer.moved
        self._check_injected(transfer)
        while self.stream is not None and (count := min(transfer.left, self.stream.space)) > 0:
            address = transfer.address + transfer.moved
            data = self.port.memory.read_by_master(address, count) if self.port.reaches(address, count) else None
            if data is None:
                raise self._unreachable(transfer)
            final = transfer.moved + count == transfer.length
            accepted = self.stream.push(data, transfer.ends_packet and final)
            transfer.moved += accepted
            if accepted == 0:
                break
        transfer.complete = transfer.moved == transfer.length
        self._check_injected(transfer)
        return transfer.moved > before


class StreamToMemory(_Mover):
    """S2MM: writes DDR as data arrive; complete at TLAST."""

    name: ChannelName = "s2mm"

    def advance(self, transfer: Transfer) -> bool:
        before = transfer.moved
        self._check_injected(transfer)
        while self.stream is not None and transfer.left > 0 and not transfer.ends_packet:
            data, last = self.stream.pop(transfer.left)
            if not len(data):
                break
            self._store(transfer, data)
            transfer.ends_packet = last
        full = transfer.moved == transfer.length
        transfer.complete = transfer.ends_packet or (full and not transfer.one_packet)
        self._check_injected(transfer)
        if full and not transfer.complete and self.stream is not None and self.stream.level > 0:
            raise TransferError(
                Status.INTERNAL_ERROR, f"the packet is longer than its LENGTH of {transfer.length:,} bytes"
            )
        if transfer.moved > before:
            self._note_stray(transfer, transfer.moved, "wrote")
        if transfer.complete:
            self._flip(transfer)
        return transfer.moved > before

    def _store(self, transfer: Transfer, data: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
        address = transfer.address + transfer.moved
        target = self.port.memory.view(address, len(data)) if self.port.reaches(address, len(data)) else None
        if target is None:
            raise self._unreachable(transfer)
        target[:] = data
        transfer.moved += len(data)
