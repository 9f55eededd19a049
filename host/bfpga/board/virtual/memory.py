"""DDR of the board: a pool of contiguous buffers by physical address, and the processor's cache over a buffer."""

from __future__ import annotations

import mmap
import random
import threading
import weakref
from bisect import bisect_left, bisect_right, insort
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bfpga.board.virtual.faults import CorruptedMemory, Faults, LostFlush
from bfpga.board.virtual.stream import Bytes
from bfpga.errors import DeviceError

PAGE_BYTES = 4096
#: Line of the Cortex-A53 (Zynq UltraScale+). The Cortex-A9 has 32 bytes; whole pairs are the stricter common case.
LINE_BYTES = 64

#: Numbers of cache lines of a view.
Lines: TypeAlias = npt.NDArray[np.intp]


class Memory:
    """A pool like Linux' contiguous memory allocator: page aligned, zeroed, first fit; safe for threads."""

    def __init__(self, base: int, size: int, faults: Faults | None = None) -> None:
        if size <= 0 or base % PAGE_BYTES or size % PAGE_BYTES:
            raise DeviceError(
                f"DDR pool of {size} bytes at {base:#x}: base and size must be whole pages of {PAGE_BYTES} bytes"
            )
        self.base = base
        self.size = size
        self.faults = faults or Faults()
        # Anonymous memory: pages cost nothing until they are touched.
        self._bytes: Bytes = np.frombuffer(mmap.mmap(-1, size), np.uint8)
        self._free: list[tuple[int, int]] = [(0, size)]
        self._used: dict[int, int] = {}
        self._starts: list[int] = []
        self._touched = 0
        self._lock = threading.RLock()
        self._views: weakref.WeakSet[CachedView] = weakref.WeakSet()

    @property
    def free_bytes(self) -> int:
        """Bytes that are not allocated, in however many pieces."""
        return sum(size for _, size in self._free)

    @property
    def buffers(self) -> dict[int, int]:
        """Allocated buffers: physical address and size in bytes, whole pages."""
        return {self.base + offset: size for offset, size in self._used.items()}

    def allocate(self, size: int) -> int:
        """Physical address of a zeroed buffer; DeviceError when no piece is large enough."""
        with self._lock:
            return self._allocate(size)

    def _allocate(self, size: int) -> int:
        needed = -(-max(size, 1) // PAGE_BYTES) * PAGE_BYTES
        for index, (offset, piece) in enumerate(self._free):
            if piece >= needed:
                self._free[index : index + 1] = [(offset + needed, piece - needed)] if piece > needed else []
                self._used[offset] = needed
                insort(self._starts, offset)
                # Pages above the highest ever used are zero already.
                self._bytes[offset : min(offset + needed, self._touched)] = 0
                self._touched = max(self._touched, offset + needed)
                return self.base + offset
        raise DeviceError(
            f"no room for a buffer of {size:,} bytes: {self.free_bytes:,} of {self.size:,} bytes of the DDR pool are "
            f"free, the largest piece has {max((piece for _, piece in self._free), default=0):,}; free buffers that "
            "are no longer needed"
        )

    def free(self, physical: int) -> None:
        """Give a buffer back; DeviceError if there is none at that address."""
        with self._lock:
            self._give_back(physical)

    def _give_back(self, physical: int) -> None:
        offset = physical - self.base
        size = self._used.pop(offset, None)
        if size is None:
            raise DeviceError(f"no buffer is allocated at {physical:#x}: freed twice, or never allocated")
        self._starts.remove(offset)
        for view in [view for view in self._views if physical <= view.physical < physical + size]:
            # Lines of a buffer that has a new owner by then must not be written back.
            self._views.discard(view)
        index = bisect_left(self._free, (offset, 0))
        self._free.insert(index, (offset, size))
        self._join(index)
        self._join(index - 1)

    def view(self, physical: int, size: int) -> Bytes | None:
        """The bytes of DDR themselves; None where the pool does not reach (a decode error for a bus master)."""
        offset = physical - self.base
        if offset < 0 or size < 0 or offset + size > self.size:
            return None
        # A DMA may write to pages that were never allocated: they must be zeroed before they are handed out.
        self._touched = max(self._touched, offset + size)
        return self._bytes[offset : offset + size]

    def owner(self, physical: int, size: int) -> int | None:
        """Address of the buffer that holds the whole range; None if it is not inside one buffer."""
        offset = physical - self.base
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or offset + size > self._starts[index] + self._used[self._starts[index]]:
            return None
        return self.base + self._starts[index]

    def read_by_master(self, physical: int, size: int) -> Bytes | None:
        """What a bus master reads: `view`, after faults that corrupt memory took effect."""
        data = self.view(physical, size)
        if data is not None:
            while fault := self.faults.take(CorruptedMemory, lambda f: physical <= f.physical < physical + size):
                data[fault.physical - physical] ^= 1 << fault.bit
                if fault.sticky:
                    break
        return data

    def cached_view(self, physical: int, size: int) -> CachedView:
        """The processor's cached copy of a range; DeviceError outside the pool."""
        view = CachedView(self, physical, size)
        with self._lock:
            self._views.add(view)
        return view

    def evict(self, generator: random.Random, lines: int = 4) -> None:
        """What a cache may do at any time: write some dirty lines back."""
        with self._lock:
            views = sorted(self._views, key=lambda view: view.physical)
        for view in views:
            view.evict(generator, lines)

    def _join(self, index: int) -> None:
        if 0 <= index < len(self._free) - 1:
            (offset, size), (next_offset, next_size) = self._free[index : index + 2]
            if offset + size == next_offset:
                self._free[index : index + 2] = [(offset, size + next_size)]


class CachedView:
    """The processor's copy of a range of DDR. ``data`` is what the processor reads and writes.

    Nothing moves by itself: `flush` writes dirty lines to DDR, `invalidate` reads lines from DDR. Ranges are rounded
    outwards to whole lines, as a cache does.
    """

    def __init__(self, memory: Memory, physical: int, size: int) -> None:
        skew = physical % LINE_BYTES
        ddr = memory.view(physical - skew, -(-(skew + size) // LINE_BYTES) * LINE_BYTES)
        if ddr is None or size < 0:
            raise DeviceError(f"{size} bytes at {physical:#x} are outside the DDR pool")
        self.physical = physical
        self._faults = memory.faults
        self._skew = skew
        self._ddr = ddr.reshape(-1, LINE_BYTES)
        self._copy = self._ddr.copy()
        # What the lines held when they were last equal to DDR: a line that differs is dirty.
        self._clean = self._ddr.copy()
        self.data: Bytes = self._copy.reshape(-1)[skew : skew + size]

    def flush(self, offset: int = 0, size: int | None = None) -> None:
        """Write the dirty lines of a byte range to DDR."""
        first, stop = self._lines(offset, size)
        dirty = self._dirty(first, stop)
        if len(dirty) and (lost := self._faults.take(LostFlush, lambda f: self._holds(f.physical, dirty))):
            line = dirty[0] if lost.physical is None else self._line(lost.physical)
            self._clean[line] = self._copy[line]
            dirty = dirty[dirty != line]
        self._write_back(dirty)

    def invalidate(self, offset: int = 0, size: int | None = None) -> None:
        """Read a byte range from DDR; what the processor wrote there and did not flush is lost."""
        first, stop = self._lines(offset, size)
        self._copy[first:stop] = self._ddr[first:stop]
        self._clean[first:stop] = self._ddr[first:stop]

    def evict(self, generator: random.Random, lines: int) -> None:
        """Write up to ``lines`` dirty lines back, as a cache does when it needs room."""
        dirty = self._dirty(0, len(self._copy))
        self._write_back(np.array(generator.sample(dirty.tolist(), min(lines, len(dirty))), np.intp))

    def _lines(self, offset: int, size: int | None) -> tuple[int, int]:
        """First line of a byte range and the one after its last."""
        stop = len(self.data) if size is None else offset + size
        if not 0 <= offset <= stop <= len(self.data):
            raise DeviceError(
                f"cache range {offset} to {stop} is outside the buffer of {len(self.data)} bytes at {self.physical:#x}"
            )
        first = (self._skew + offset) // LINE_BYTES
        return first, first if offset == stop else -(-(self._skew + stop) // LINE_BYTES)

    def _dirty(self, first: int, stop: int) -> Lines:
        words, clean = (part[first:stop].view(np.uint64) for part in (self._copy, self._clean))
        return np.flatnonzero((words != clean).any(axis=1)) + first

    def _line(self, physical: int) -> int:
        return (physical - self.physical + self._skew) // LINE_BYTES

    def _holds(self, physical: int | None, lines: Lines) -> bool:
        return physical is None or self._line(physical) in lines

    def _write_back(self, lines: Lines) -> None:
        self._ddr[lines] = self._clean[lines] = self._copy[lines]
