"""Words of exponents that a compiled kernel takes from the core before, and tells the next one (FP R42)."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

Octets = npt.NDArray[np.uint8]


class PositionWords:
    """What the bridge of a kernel with `positions: stream` has besides: words of 32 bits, as bytes."""

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, size = ctypes.c_void_p, ctypes.c_uint64
        library.bfpga_give_words.argtypes = [pointer, pointer, size, pointer, size]
        library.bfpga_moved_words.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
        self._library = library
        self._awaited: Octets = np.zeros(0, np.uint8)
        self._told: Octets = np.zeros(0, np.uint8)

    def give(self, kernel: int, awaited: Octets, room: int) -> None:
        """Words for the next start, or its next piece, and room for so many bytes that it tells."""
        self._awaited, self._told = np.array(awaited, np.uint8), np.zeros(max(room, 1), np.uint8)
        given, told = self._awaited, self._told
        self._library.bfpga_give_words(kernel, given.ctypes.data, given.size, told.ctypes.data, room)

    def moved(self, kernel: int) -> tuple[int, Octets]:
        """Bytes that were taken, and those that were told."""
        counts = (ctypes.c_uint64 * 2)()
        self._library.bfpga_moved_words(kernel, counts)
        return int(counts[0]), self._told[: counts[1]]
