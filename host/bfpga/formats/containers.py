"""Integers in containers of whole nibbles or bytes, as streams and files hold them (BFP 2.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bfpga.formats.arrays import IntArray


def pack_elements(values: IntArray, bits: int) -> bytes:
    """Integers of any shape as bytes: the low bits of each in a container, little-endian.

    bits: 4, 8, 16 or 32. 4-bit elements share a byte, the low nibble first; an odd number is padded with zero.
    """
    if bits == 4:
        nibbles = np.asarray(values).astype(np.uint8).reshape(-1) & 15
        if nibbles.size % 2:
            nibbles = np.append(nibbles, np.uint8(0))
        return (nibbles[0::2] | nibbles[1::2] << 4).tobytes()
    return np.ascontiguousarray(values).astype(f"<i{bits // 8}").tobytes()


def unpack_elements(
    data: bytes | memoryview | npt.NDArray[np.uint8], bits: int, count: int | None = None
) -> npt.NDArray[np.int32]:
    """Inverse of ``pack_elements``: the first ``count`` elements, or all, sign-extended, in one axis."""
    octets = np.frombuffer(data, np.uint8, -1 if count is None else -(-count * bits // 8))
    if bits == 4:
        nibbles = np.stack([octets & 15, octets >> 4], axis=1).reshape(-1).astype(np.int32)
        return np.asarray((nibbles ^ 8) - 8)[:count]
    return octets.view(f"<i{bits // 8}").astype(np.int32)
