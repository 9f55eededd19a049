"""Compressed payloads written cell by cell, as plainly as the specification says it; slow, for comparison."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int64]


def words_of_bits(bits: list[int]) -> list[int]:
    """A string of bits in words, the first bit lowest."""
    padded = bits + [0] * (-len(bits) % 32)
    return [sum(bit << n for n, bit in enumerate(padded[k : k + 32])) for k in range(0, len(padded), 32)]


def words_of_values(values: list[int], value_bytes: int) -> list[int]:
    octets = struct.pack(f"<{len(values)}{'bh'[value_bytes - 1]}", *values)
    octets += bytes(-len(octets) % 4)
    return list(struct.unpack(f"<{len(octets) // 4}I", octets))
