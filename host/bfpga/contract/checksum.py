"""Checksum of a stream: what the kernel saw against what the host sent, and the other way round.

Every beat is folded to 32 bits by exclusive-or of its words; the sum is rotated left by one and the fold is added by
exclusive-or. It costs the hardware two dozen LUTs and finds every single flipped bit, every lost or doubled beat that
is not zero, stale cache lines and swapped neighbours.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Bits to which a beat is folded, and by how many the sum turns left for each beat.
FOLD_BITS, ROTATION = 32, 1
#: Beats whose rotations are the same are so many apart.
_PERIOD = FOLD_BITS // ROTATION
#: Periods that are added up at once.
_PERIODS_A_ROW = 16


def stream_checksum(data: bytes | bytearray | memoryview | npt.NDArray[np.uint8], beat_bits: int) -> int:
    """Checksum of ``data``, whole beats of ``beat_bits`` (a multiple of 32)."""
    words = np.frombuffer(data, "<u4").reshape(-1, beat_bits // FOLD_BITS).reshape(-1)
    period = _PERIOD * beat_bits // FOLD_BITS
    # Leading zeros do not change the sum, so the beats are aligned to the end. Rows of many periods are added up first:
    # numpy is as fast as the memory only along long rows.
    rows = _sum_of_rows(_sum_of_rows(words, _PERIODS_A_ROW * period), period)
    columns = np.bitwise_xor.reduce(rows.reshape(_PERIOD, -1), axis=1).astype(np.uint64)
    turns = ROTATION * np.arange(_PERIOD - 1, -1, -1, dtype=np.uint64)
    rotated = (columns << turns | columns >> (np.uint64(FOLD_BITS) - turns)) & np.uint64(0xFFFFFFFF)
    return int(np.bitwise_xor.reduce(rotated))


def _sum_of_rows(words: npt.NDArray[np.uint32], size: int) -> npt.NDArray[np.uint32]:
    """The exclusive-or of rows of ``size`` words that end where the words do; what the first one lacks is 0."""
    begun = len(words) % size
    total: npt.NDArray[np.uint32] = np.bitwise_xor.reduce(words[begun:].reshape(-1, size), axis=0)
    if begun:
        total[-begun:] ^= words[:begun]
    return total


def repeated_checksum(checksum: int, beats: int, repeats: int) -> int:
    """Checksum of a stream that is sent ``repeats`` times, from the checksum of its ``beats`` beats."""
    total = 0
    for _ in range(repeats):
        turned = ROTATION * beats % FOLD_BITS
        total = (total << turned | total >> (FOLD_BITS - turned)) & 0xFFFFFFFF if turned else total
        total ^= checksum
    return total
