"""Reads streams of kernel segments back, as a verifier and an emulator do (SC 2.5, SC R58).

Where a segment ends follows from its header, in a BITMAP from the masks of its kernels. All words that look like a
header are measured at once; the stream itself then tells which of them are headers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.arrays import ByteArray
from bfpga.formats.compressed.kernels import (
    HEADER_WORDS,
    SEGMENT_TYPE,
    SEGMENT_VERSION,
    KernelFormat,
    KernelSegments,
    check_kernel_size,
    check_segments,
    divided,
    mask_words,
    runs,
    size_word,
)
from bfpga.formats.compressed.words import WORD_BYTES, IndexArray, ValueArray, WordArray, as_words

_HEADER_MASK, _HEADER = 0xFFF, SEGMENT_TYPE | SEGMENT_VERSION << 8
#: Set bits of every number of 16 bits.
_SET_BITS: ByteArray = np.unpackbits(np.arange(1 << 16, dtype="<u2").view(np.uint8)).reshape(-1, 16).sum(1, np.uint8)


def decode_kernels(
    data: bytes | npt.NDArray[np.uint32], kernel_size: tuple[int, int]
) -> tuple[KernelSegments, KernelFormat]:
    """Segments of a stream in one format, and that format. ``kernel_size``: rows and columns of the layer's kernels.

    ``DataError``, with the number of the word or the segment, for a stream that is cut off, mixes formats, has unknown
    headers, counts that are wrong, places outside of the kernels, zeros, or padding that is not zero.
    """
    check_kernel_size(kernel_size)
    words = as_words(data, "kernel segments")
    fmt = _format(words)
    candidates = _candidates(words, fmt, kernel_size)
    ends, kernel_starts = _ends(words, candidates, fmt, kernel_size)
    chain = _chain(words.size, candidates, ends, fmt)
    starts = candidates[chain]
    first, second = words[starts].astype(np.int64), words[starts + 1].astype(np.int64)
    columns = (first >> 16, second >> 16 & 0xFF, (second >> 24) + 1, second & 0xFFFF)
    if fmt == KernelFormat.ENTRY32:
        entries = _entry32(words, starts, columns[3])
    elif fmt == KernelFormat.ENTRY16:
        entries = _entry16(words, starts, columns)
    else:
        used = np.arange(kernel_starts.shape[1]) < columns[2][:, None]
        entries = _bitmap(words, kernel_starts[chain][used], kernel_size, columns)
    segments = KernelSegments(kernel_size, *columns, *entries)
    check_segments(segments)
    return segments, fmt


def _format(words: WordArray) -> KernelFormat:
    if words.size < HEADER_WORDS:
        raise DataError(f"kernel segments: the stream has {words.size} words, a header alone has {HEADER_WORDS}")
    number = int(words[0]) >> 12 & 0xF
    if int(words[0]) & _HEADER_MASK != _HEADER or number not in list(KernelFormat):
        raise DataError(f"kernel segments: word 0 is 0x{int(words[0]):08X}, no header of a segment of version 1")
    return KernelFormat(number)


def _candidates(words: WordArray, fmt: KernelFormat, kernel_size: tuple[int, int]) -> IndexArray:
    """Words that look like a header of the format; word 0 is one."""
    found: IndexArray = np.flatnonzero(words & 0xFFFF == _HEADER | int(fmt) << 12)
    found = found[found + HEADER_WORDS <= words.size]
    if fmt != KernelFormat.BITMAP:
        return found
    size, wanted = words[HEADER_WORDS : HEADER_WORDS + 1], size_word(kernel_size)
    if size.size and size[0] != wanted:
        raise DataError(
            f"kernel segments: the size word of the first segment is 0x{int(size[0]):08X}, "
            f"it must be 0x{wanted:08X} for kernels of {kernel_size[0]} x {kernel_size[1]}"
        )
    # The word at the end of a stream that is cut off counts as right: the segment is then found to be cut off.
    sizes = words[np.minimum(found + HEADER_WORDS, words.size - 1)]
    matching: IndexArray = found[(sizes == wanted) | (found + HEADER_WORDS == words.size)]
    return matching


def _ends(
    words: WordArray, candidates: IndexArray, fmt: KernelFormat, kernel_size: tuple[int, int]
) -> tuple[IndexArray, IndexArray]:
    """End of the segment at every candidate, and in BITMAP where its kernels start (segments, kernels)."""
    second = words[candidates + 1].astype(np.int64)
    entries, kernels = second & 0xFFFF, (second >> 24) + 1
    start = candidates + HEADER_WORDS
    if fmt == KernelFormat.ENTRY32:
        return start + entries, np.zeros((start.size, 0), np.int64)
    if fmt == KernelFormat.ENTRY16:
        return start + (entries + 1) // 2, np.zeros((start.size, 0), np.int64)
    following = _following_kernels(words, mask_words(kernel_size))
    cursor = np.minimum(start + 1, words.size)
    most = int(kernels.max(initial=0))
    starts = np.empty((most, start.size), np.int64)
    for number in range(most):
        starts[number] = cursor
        cursor = np.where(number < kernels, following[cursor], cursor)
    return cursor, np.ascontiguousarray(starts.T)


def _following_kernels(words: WordArray, masks: int) -> IndexArray:
    """For every word, taken as the start of a kernel in a BITMAP: where the next one starts, or beyond the end."""
    halves = _SET_BITS[words.view("<u2")].reshape(-1, 2)
    total = np.zeros(words.size + 1, np.int64)
    np.cumsum(halves[:, 0] + halves[:, 1], out=total[1:], dtype=np.int64)
    position = np.arange(words.size + 2)
    set_bits = total[np.minimum(position + masks, words.size)] - total[np.minimum(position, words.size)]
    following: IndexArray = np.minimum(position + masks + (set_bits + 3) // 4, words.size + 1)
    return following


def _chain(size: int, candidates: IndexArray, ends: IndexArray, fmt: KernelFormat) -> IndexArray:
    """Numbers of the candidates that are headers: word 0 is one, and where a segment ends the next one starts."""
    following = np.searchsorted(candidates, ends).tolist()
    chain, number = [], 0
    positions, stops = candidates.tolist(), ends.tolist()
    while True:
        chain.append(number)
        stop, number = stops[number], following[number]
        if stop == size:
            return np.array(chain)
        if stop > size:
            raise DataError(
                f"kernel segments: segment {len(chain) - 1} at word {positions[chain[-1]]} is cut off: "
                f"the stream has {size} words"
            )
        if number == len(positions) or positions[number] != stop:
            raise DataError(
                f"kernel segments: segment {len(chain) - 1} ends at word {stop}, "
                f"but no {fmt.name} header of its kernel size follows there"
            )


_Columns = tuple[IndexArray, IndexArray, IndexArray, IndexArray]
_Entries = tuple[ValueArray, ValueArray, ValueArray, ValueArray]


def _entry32(words: WordArray, starts: IndexArray, entries: IndexArray) -> _Entries:
    stored = np.ascontiguousarray(words[runs(starts + HEADER_WORDS, entries)])
    octets = stored.view(np.uint8).reshape(-1, WORD_BYTES)
    places = octets[:, 2]
    return octets[:, 3].copy(), places >> 4, places & 15, stored.view("<i2")[0::2].copy()


def _entry16(words: WordArray, starts: IndexArray, columns: _Columns) -> _Entries:
    _, _, kernels, entries = columns
    if (kernels != 1).any():
        bad = int(np.flatnonzero(kernels != 1)[0])
        raise DataError(f"kernel segments: segment {bad} has {kernels[bad]} kernels, ENTRY16 holds one")
    halves = words.view("<u2")
    first = 2 * (starts + HEADER_WORDS)
    odd = entries % 2 == 1
    if halves[(first + entries)[odd]].any():
        raise DataError("kernel segments: the half that pads the last word of an ENTRY16 segment is not zero")
    stored = halves[runs(first, entries)]
    octets = stored.view(np.uint8).reshape(-1, 2)
    places = octets[:, 1]
    return np.zeros(stored.size, np.uint8), places >> 4, places & 15, octets[:, 0].copy().view(np.int8)


def _bitmap(
    words: WordArray, kernel_starts: IndexArray, kernel_size: tuple[int, int], columns: _Columns
) -> _Entries:
    """Entries of all kernels of all segments; ``kernel_starts``: the first word of the mask of each."""
    _, _, kernels, entries = columns
    masks, cells = mask_words(kernel_size), kernel_size[0] * kernel_size[1]
    octets = words[kernel_starts[:, None] + np.arange(masks)].view(np.uint8)
    used = -(-cells // 8)
    bits = np.unpackbits(np.ascontiguousarray(octets[:, :used]), axis=None, bitorder="little")
    places = np.flatnonzero(bits.view(np.bool_))
    kernel, cell = divided(places, 8 * used)
    if octets[:, used:].any() or (cell >= cells).any():
        raise DataError(f"kernel segments: a mask has a bit beyond the {cells} places of its kernel")
    counts = np.bincount(kernel, minlength=kernel_starts.size)
    first = np.cumsum(kernels) - kernels
    found = np.add.reduceat(counts, first)
    if (found != entries).any():
        bad = int(np.flatnonzero(found != entries)[0])
        raise DataError(f"kernel segments: segment {bad} counts {entries[bad]} entries, its masks hold {found[bad]}")
    start = WORD_BYTES * (kernel_starts + masks)
    _check_padding(words, start + counts, -counts % WORD_BYTES)
    z = kernel - np.repeat(first, entries)
    ky, kx = divided(cell, kernel_size[1])
    return z.astype(np.uint8), ky.astype(np.uint8), kx.astype(np.uint8), words.view(np.int8)[runs(start, counts)]


def _check_padding(words: WordArray, starts: IndexArray, lengths: IndexArray) -> None:
    if words.view(np.uint8)[runs(starts, lengths)].any():
        raise DataError("kernel segments: the bytes that pad the values of a kernel are not zero")
