"""One AXI4-Stream link: a bounded queue of bytes with packet ends (TLAST) and back-pressure."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
StreamData: TypeAlias = memoryview | bytes | bytearray | Bytes

_NOTHING = np.empty(0, np.uint8)


class Stream:
    """A link from one source to one sink. ``capacity``: bytes that the FIFOs on the way hold.

    ``accepted`` and ``delivered`` count bytes since the link was made; they never go back.
    """

    def __init__(self, name: str, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"stream {name}: a capacity of {capacity} bytes holds nothing")
        self.name = name
        self.capacity = capacity
        self.accepted = 0
        self.delivered = 0
        self._chunks: deque[tuple[Bytes, bool]] = deque()
        self._level = 0

    @property
    def level(self) -> int:
        """Bytes in the link."""
        return self._level

    @property
    def space(self) -> int:
        """Bytes that it would accept now."""
        return self.capacity - self._level

    @property
    def has_packet_end(self) -> bool:
        """Whether a TLAST is in the link."""
        return any(last for _, last in self._chunks)

    def push(self, data: StreamData, last: bool) -> int:
        """Offer bytes; how many were accepted. TLAST belongs to the final byte and is kept only if that is accepted."""
        offered = as_bytes(data)
        count = min(len(offered), self.space)
        if count > 0:
            self._append(offered[:count].copy(), last and count == len(offered))
        return count

    def pop(self, limit: int) -> tuple[Bytes, bool]:
        """Take up to ``limit`` bytes, none beyond a TLAST; second: whether they end a packet."""
        parts: list[Bytes] = []
        last = False
        while limit > 0 and self._chunks and not last:
            chunk, last = self._chunks.popleft()
            if len(chunk) > limit:
                self._chunks.appendleft((chunk[limit:], last))
                chunk, last = chunk[:limit], False
            parts.append(chunk)
            limit -= len(chunk)
        data = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else _NOTHING
        self._level -= len(data)
        self.delivered += len(data)
        return data, last

    def peek(self, limit: int) -> Bytes:
        """The next bytes, up to ``limit``, beyond packet ends too; they stay in the link."""
        parts: list[Bytes] = []
        for chunk, _ in self._chunks:
            if limit <= 0:
                break
            parts.append(chunk[:limit])
            limit -= len(chunk)
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else _NOTHING

    def drop(self, count: int) -> None:
        """Take ``count`` bytes that were looked at with ``peek``; their packet ends are forgotten."""
        while count > 0 and self._chunks:
            count -= len(self.pop(count)[0])

    def clear(self) -> None:
        """Reset: drop what is in the link."""
        self._chunks.clear()
        self._level = 0

    def _append(self, chunk: Bytes, last: bool) -> None:
        self._chunks.append((chunk, last))
        self._level += len(chunk)
        self.accepted += len(chunk)


def as_bytes(data: StreamData) -> Bytes:
    """Any buffer as a flat array of bytes, without a copy where its memory is contiguous."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)
