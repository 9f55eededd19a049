"""Wide results on their way to another circuit: signed integers of as few bytes as hold them all (FP R43)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bfpga.formats.arrays import Int64Array, IntArray

Bytes = npt.NDArray[np.uint8]


def narrowest_bytes(values: IntArray) -> int:
    """Bytes of the narrowest signed integers that hold all ``values``, 1 to 8. FP R43.

    Over the bytes of a narrow result this is ``wide_ratio`` of the time model.
    """
    wide = np.asarray(values, np.int64)
    # A negative value takes as many bits as its complement; one more is the sign.
    largest = max(int(wide.max(initial=0)), ~int(wide.min(initial=0)))
    return largest.bit_length() // 8 + 1


def pack_wide(values: IntArray) -> Bytes:
    """(count, bytes) of ``values`` in raster order, little endian, in the narrowest exact type. FP R43."""
    wide = np.ascontiguousarray(values, "<i8").reshape(-1)
    return np.ascontiguousarray(wide.view(np.uint8).reshape(len(wide), 8)[:, : narrowest_bytes(wide)])


def unpack_wide(packed: Bytes) -> Int64Array:
    """Values (count,) of ``pack_wide``, sign extended."""
    count, width = packed.shape
    full = np.repeat(np.where(packed[:, -1:] & 0x80, np.uint8(0xFF), np.uint8(0)), 8, axis=1)
    full[:, :width] = packed
    result: Int64Array = full.view("<i8").reshape(count).astype(np.int64)
    return result
