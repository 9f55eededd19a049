"""A stream that can be harmed: short packets, lost TLAST, a link that stops."""

from __future__ import annotations

import numpy as np

from bfpga.board.virtual.faults import Faults, MissingLast, ShortPacket, StuckStream
from bfpga.board.virtual.stream import Bytes, Stream, StreamData, as_bytes


class BoardStream(Stream):
    """A link of the board. ``ends``: source and sink as `cell/port`; ``beat_bytes``: width at its source."""

    def __init__(self, ends: tuple[str, str], capacity: int, beat_bytes: int, faults: Faults) -> None:
        super().__init__(" -> ".join(ends), capacity)
        self.ends = ends
        self.beat_bytes = beat_bytes
        self._faults = faults
        self._in_packet = False
        self._stop_at: int | None = None
        # A packet to be cut: what is held back until its end is known, and how many bytes that is at most.
        self._held: Bytes | None = None
        self._hold = 0

    @property
    def stuck(self) -> bool:
        """Whether a fault keeps the link from accepting more."""
        return self._stop_at is not None and self.accepted >= self._stop_at

    @property
    def space(self) -> int:
        """Bytes that it would accept now; a fault that stops the link takes effect here."""
        if self._stop_at is None and (stuck := self._faults.take(StuckStream, lambda f: f.stream in self.ends)):
            self._stop_at = self.accepted + stuck.after_bytes
        free = super().space
        return free if self._stop_at is None else max(0, min(free, self._stop_at - self.accepted))

    def push(self, data: StreamData, last: bool) -> int:
        offered = as_bytes(data)
        if not len(offered):
            return 0
        self._begin()
        accepted = self._push_cut(offered, last) if self._held is not None else self._push_whole(offered, last)
        if accepted:
            self._in_packet = not (last and accepted == len(offered))
        return accepted

    def clear(self) -> None:
        super().clear()
        self._in_packet = False
        self._stop_at = self._held = None

    def _begin(self) -> None:
        if not self._in_packet and (short := self._faults.take(ShortPacket, lambda f: f.stream in self.ends)):
            self._held = np.empty(0, np.uint8)
            self._hold = (short.beats + 1) * self.beat_bytes

    def _push_whole(self, offered: Bytes, last: bool) -> int:
        if last and len(offered) <= self.space and self._faults.take(MissingLast, lambda f: f.stream in self.ends):
            last = False
        return super().push(offered, last)

    def _push_cut(self, offered: Bytes, last: bool) -> int:
        """Forward all but the last bytes seen so far; at the end of the packet one beat of them, with TLAST."""
        assert self._held is not None
        accepted = min(len(offered), self.space)
        if accepted == 0:
            return 0
        seen = np.concatenate([self._held, offered[:accepted]])
        if last and accepted == len(offered):
            # The one beat may go over the capacity: the source saw it accepted earlier.
            self._append(seen[: max(0, len(seen) - self._hold) + self.beat_bytes], True)
            self._held = None
        else:
            forward = max(0, len(seen) - self._hold)
            self._held = seen[forward:]
            if forward:
                self._append(seen[:forward], False)
        return accepted
