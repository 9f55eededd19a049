"""Weight streams that stay in the board's memory: starts that give the same bytes need no second copy."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from bfpga.board.buffers import BoardBuffer
from bfpga.board.hardware import BoardHardware
from bfpga.contract.checksum import repeated_checksum, stream_checksum
from bfpga.devices.kernel_start import KernelStart, Octets

#: Most bytes of weight streams that are kept beyond those in flight.
KEPT_BYTES = 32 << 20


@dataclass
class PlacedWeights:
    """A stream in memory. ``source`` keeps the object alive by whose identity it is found; pins: starts in flight."""

    source: Octets
    buffer: BoardBuffer
    checksum: int
    pins: int = 0


class ResidentWeights:
    """Buffers of weight streams by the identity of the bytes; the oldest are given up first."""

    def __init__(self, hardware: BoardHardware) -> None:
        self._hardware = hardware
        self._entries: OrderedDict[int, PlacedWeights] = OrderedDict()
        hardware.pool.spare = lambda: self._make_room(KEPT_BYTES)

    def place(self, start: KernelStart) -> PlacedWeights | None:
        """The weights of a start in a buffer, held until ``release``; None for a start without weights."""
        if not len(start.weights) or not start.weight_repeats:
            return None
        entry = self._entries.get(id(start.weights))
        if entry is None:
            entry = self._load(start.weights)
        entry.pins += 1
        return entry

    def checksum(self, start: KernelStart, placed: PlacedWeights | None) -> int:
        """Checksum of the whole weight stream of a start, repeats included."""
        if placed is None:
            return 0
        beats = len(start.weights) * 8 // self._hardware.weight_stream_bits
        return repeated_checksum(placed.checksum, beats, start.weight_repeats)

    def release(self, placed: PlacedWeights | None) -> None:
        """A start is over. Bytes stay for the next one; an array does not, because it may change."""
        if placed is None:
            return
        placed.pins -= 1
        if id(placed.source) not in self._entries and not placed.pins:
            self._hardware.pool.give(placed.buffer)

    def _load(self, weights: Octets) -> PlacedWeights:
        self._make_room(len(weights))
        buffer = self._hardware.pool.take(len(weights))
        buffer.fill(weights)
        entry = PlacedWeights(weights, buffer, stream_checksum(weights, self._hardware.weight_stream_bits))
        if isinstance(weights, bytes):
            self._entries[id(weights)] = entry
        return entry

    def _make_room(self, size: int) -> None:
        kept = size + sum(entry.buffer.size for entry in self._entries.values())
        for key in [key for key, entry in self._entries.items() if not entry.pins]:
            if kept <= KEPT_BYTES:
                return
            buffer = self._entries.pop(key).buffer
            kept -= buffer.size
            self._hardware.pool.give(buffer)
