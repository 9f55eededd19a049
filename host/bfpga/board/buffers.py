"""Buffers that a DMA can reach, allocated once and used again: contiguous memory is scarce on a board.

Buffers are cacheable, so that the processor packs and unpacks at full speed; PYNQ's DMA channel flushes what it sends
and invalidates what it received.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.board.errors import BoardError
from bfpga.errors import DeviceError
from bfpga.program.packets import SampleStream

Octets = bytes | npt.NDArray[np.uint8]

#: XRT 2.17 places smaller buffers where a DMA with 32 address bits does not reach.
MINIMUM_BYTES = 8192
#: Sizes between two powers of two: at most a quarter of a buffer is unused, and flushed for nothing.
STEPS = 4


def size_class(size: int) -> int:
    """The size that is allocated for ``size`` bytes: the next quarter step between powers of two, 8 KiB at least."""
    if size <= MINIMUM_BYTES:
        return MINIMUM_BYTES
    step = (1 << (size - 1).bit_length()) // (2 * STEPS)
    return -(-size // step) * step


#: What PYNQ and a virtual board raise when memory is short.
_SHORTAGE = (RuntimeError, MemoryError, OSError, ValueError, DeviceError)


class BoardBuffer:
    """Memory of one allocation. ``array``: PYNQ's array, never sliced: a remote buffer's slice forgets its place."""

    def __init__(self, array: Any, size: int) -> None:
        self.array = array
        self.size = size
        self.address = int(array.physical_address)
        #: The same bytes as a plain array, for the processor.
        self.bytes: npt.NDArray[np.uint8] = array.view(np.ndarray)
        #: The processor has written since the last flush.
        self.changed = True
        #: Of the input stream that was written last (``SampleStream``), if nothing else was since.
        self.template: Octets | None = None

    def fill(self, data: Octets) -> None:
        """Copy ``data`` to the beginning."""
        source = np.frombuffer(data, np.uint8)
        self.bytes[: source.size] = source
        self.changed, self.template = True, None

    def write(self, stream: SampleStream) -> Octets:
        """Write an input stream to the beginning, of which there may be a part already; where it is."""
        written, there = self.bytes[: len(stream)], self.template is stream.template
        self.template = None  # until all of it is written
        stream.write(written, there)
        self.changed, self.template = True, stream.template
        return written

    def content(self, size: int) -> bytes:
        """A copy of the first ``size`` bytes: the buffer is used again."""
        return self.bytes[:size].tobytes()

    def free(self) -> None:
        """Give the memory back to the board."""
        del self.bytes
        self.array.freebuffer()


class BufferPool:
    """Buffers by size, given out and taken back.

    allocate: bytes -> PYNQ array; whatever it raises when memory runs out is explained. alignment: of the memory side
    of the DMA. address_bits: what the DMA can address.
    """

    def __init__(self, allocate: Callable[[int], Any], alignment: int, address_bits: int = 32) -> None:
        self._allocate = allocate
        self._alignment, self._address_bits = alignment, address_bits
        self._free: dict[int, list[BoardBuffer]] = {}
        self._taken: list[BoardBuffer] = []
        #: Called when memory is short: gives back buffers that are kept for later use only.
        self.spare: Callable[[], None] = lambda: None

    @property
    def held_bytes(self) -> int:
        """Bytes of all buffers, in use or not."""
        return sum(buffer.size for buffer in self._all())

    def take(self, size: int, receives: bool = False, template: Octets | None = None) -> BoardBuffer:
        """A buffer of ``size`` bytes at least, one with the template if there is; BoardError without more memory.

        A buffer that will receive is flushed: a dirty cache line, written back later, would overwrite what arrived.
        """
        wanted = size_class(size)
        buffer = self._free_one(wanted, template) or self._new(wanted)
        self._taken.append(buffer)
        if receives:
            buffer.array.flush()
            buffer.template = None
        return buffer

    def _free_one(self, size: int, template: Octets | None) -> BoardBuffer | None:
        """An unused buffer of a size: with the template, else the one that was given back last."""
        free = self._free.get(size)
        if not free:
            return None
        fitting = (place for place, buffer in enumerate(free) if buffer.template is template)
        return free.pop(next(fitting, -1))

    def give(self, buffer: BoardBuffer) -> None:
        """Take a buffer back for later use."""
        self._taken.remove(buffer)
        self._free.setdefault(buffer.size, []).append(buffer)

    def trim(self) -> None:
        """Free the unused buffers."""
        for buffers in self._free.values():
            for buffer in buffers:
                buffer.free()
        self._free.clear()

    def close(self) -> None:
        """Free all buffers. No DMA may be moving."""
        for buffer in self._taken:
            buffer.free()
        self._taken.clear()
        self.trim()

    def reclaim(self) -> None:
        """All buffers are free again: their holders have dropped them, and no DMA is moving."""
        for buffer in list(self._taken):
            self.give(buffer)

    def abandon(self) -> list[Any]:
        """Forget all buffers without freeing them: their board cannot be reached. Returns PYNQ's arrays."""
        arrays = [buffer.array for buffer in self._all()]
        self._taken.clear()
        self._free.clear()
        return arrays

    def _all(self) -> list[BoardBuffer]:
        return self._taken + [buffer for buffers in self._free.values() for buffer in buffers]

    def _new(self, size: int) -> BoardBuffer:
        try:
            array = self._allocate(size)
        except _SHORTAGE:
            self.spare()
            self.trim()
            array = self._second_try(size)
        buffer = BoardBuffer(array, size)
        if buffer.address % self._alignment or (buffer.address + size - 1) >> self._address_bits:
            buffer.free()
            raise BoardError(
                f"the board gave a buffer at {buffer.address:#x}; the DMA needs a multiple of {self._alignment} bytes "
                f"below {1 << self._address_bits:#x}; free other buffers or restart the board"
            )
        return buffer

    def _second_try(self, size: int) -> Any:
        try:
            return self._allocate(size)
        except _SHORTAGE as error:
            raise BoardError(
                f"the board has no {size} contiguous bytes left ({error}); this program holds {self.held_bytes} bytes "
                f"in {len(self._all())} buffers. Close other notebooks that hold buffers, run fewer samples at once, "
                "or enlarge the contiguous memory (`cma=` in the boot arguments)"
            ) from error
