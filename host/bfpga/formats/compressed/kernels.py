"""Kernel segments: non-zero coefficients of a layer, for the sparse cluster and the zero-skip engine (SC 2.5, ZS 2.4).

A segment belongs to one input channel ``kz`` and to up to 256 kernels that follow each other. Three formats hold its
entries: ENTRY32 in any order, ENTRY16 in any order for one kernel, BITMAP in raster order. Segments follow each other
without gaps. All segments of a stream are columns of one table, so that none of them costs a turn of a Python loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.compressed.words import (
    WORD,
    WORD_BYTES,
    IndexArray,
    ValueArray,
    WordArray,
    check_values,
)

SEGMENT_TYPE, SEGMENT_VERSION = 0x4B, 1
HEADER_WORDS = 2
#: Rows and columns of a kernel at most: an entry has 4 bits for each.
LARGEST_KERNEL = 16
#: Kernels of a segment at most, and entries.
MOST_KERNELS, MOST_ENTRIES = 256, 0xFFFF


class KernelFormat(IntEnum):
    """How the entries of a segment are written: the format field of its header."""

    ENTRY32 = 0
    ENTRY16 = 1
    BITMAP = 2


COEFFICIENT_BITS = {KernelFormat.ENTRY32: 16, KernelFormat.ENTRY16: 8, KernelFormat.BITMAP: 8}


@dataclass(frozen=True)
class KernelSegments:
    """Segments in the order of their stream: a column of numbers for each field.

    kernel_size: rows and columns of every kernel, 1 to 16. Of each segment: input channel ``kz``, first kernel
    ``z_base``, number of ``kernels``, number of ``entries``. Of each entry, segment by segment: its kernel ``z``
    counted from ``z_base``, its place ``ky``, ``kx`` (row, column) and its ``coefficient``, which is not zero. ZS R43
    """

    kernel_size: tuple[int, int]
    kz: IndexArray
    z_base: IndexArray
    kernels: IndexArray
    entries: IndexArray
    z: IndexArray
    ky: IndexArray
    kx: IndexArray
    coefficient: ValueArray

    def segment_of_entry(self) -> IndexArray:
        """Number of the segment of every entry."""
        return np.repeat(np.arange(self.kz.size), self.entries)

    def coefficients(self, channels: int, kernels: int) -> npt.NDArray[np.int64]:
        """The dense array (kz, Z, ky, kx); ``DataError`` if an entry lies outside of it."""
        owner = self.segment_of_entry()
        kz, z = self.kz[owner], self.z_base[owner] + self.z
        if owner.size and (kz.max() >= channels or z.max() >= kernels):
            raise DataError(f"kernel segments: an entry lies beyond {channels} channels of {kernels} kernels")
        dense = np.zeros((channels, kernels, *self.kernel_size), np.int64)
        # Sums, because two entries of one place mean their sum to the engine.
        np.add.at(dense, (kz, z, self.ky, self.kx), self.coefficient)
        return dense


def check_kernel_size(kernel_size: tuple[int, int]) -> None:
    """``ConfigurationError`` unless a kernel has 1 to 16 rows and columns."""
    if len(kernel_size) != 2 or not all(type(side) is int and 1 <= side <= LARGEST_KERNEL for side in kernel_size):
        raise ConfigurationError(
            f"kernel segments: kernel size is {kernel_size!r}, it must be two sides from 1 to {LARGEST_KERNEL}"
        )


def kernel_segments(coefficients: npt.ArrayLike, kernels_per_segment: int = MOST_KERNELS) -> KernelSegments:
    """Segments of a dense array (kz, Z, ky, kx) of integers, the kernels of one pass: Z of 1 to 256.

    One segment for each channel and each ``kernels_per_segment`` kernels, channel by channel, also where all
    coefficients are zero; entries in raster order, kernel by kernel. Zeros get no entry (ZS R44). ``DataError`` for
    another shape and for values beyond 16 bits.
    """
    array = np.asarray(coefficients)
    if array.ndim != 4 or 0 in array.shape:
        raise DataError(f"kernel segments: expected coefficients (kz, Z, ky, kx), got shape {array.shape}")
    channels, kernels, *size = array.shape
    kernel_size = (size[0], size[1])
    check_kernel_size(kernel_size)
    if not 1 <= kernels_per_segment <= MOST_KERNELS:
        raise ConfigurationError(f"kernel segments: {kernels_per_segment} kernels a segment, it must be 1 to 256")
    if kernels > MOST_KERNELS:
        raise DataError(f"kernel segments: {kernels} kernels in one pass, at most {MOST_KERNELS}: split into groups")
    array = check_values(array, 16, "kernel segments")
    return _from_dense(array.reshape(channels, kernels, -1), kernel_size, kernels_per_segment)


def _from_dense(array: ValueArray, kernel_size: tuple[int, int], step: int) -> KernelSegments:
    """Segments of coefficients (channels, kernels, cells)."""
    channels, kernels, cells = array.shape
    bases = np.arange(0, kernels, step)
    flat = array.reshape(-1)
    place = np.flatnonzero(flat != 0)
    kernel, cell = divided(place, cells)
    of_kernel = np.bincount(kernel, minlength=channels * kernels).reshape(channels, kernels)
    z = divided(divided(kernel, kernels)[1], step)[1]
    ky, kx = divided(cell, kernel_size[1])
    return KernelSegments(
        kernel_size,
        np.repeat(np.arange(channels), bases.size),
        np.tile(bases, channels),
        np.tile(np.minimum(step, kernels - bases), channels),
        np.add.reduceat(of_kernel, bases, axis=1).reshape(-1),
        z.astype(np.uint8), ky.astype(np.uint8), kx.astype(np.uint8), flat[place],
    )  # fmt: skip


# --- sizes


def segment_words(segments: KernelSegments, fmt: KernelFormat) -> IndexArray:
    """Words of every segment, header included."""
    if fmt == KernelFormat.ENTRY32:
        return HEADER_WORDS + segments.entries
    if fmt == KernelFormat.ENTRY16:
        return HEADER_WORDS + (segments.entries + 1) // 2
    words = mask_words(segments.kernel_size) + (_entries_of_kernels(segments) + 3) // 4
    ends = np.concatenate([[0], np.cumsum(words)])
    last = np.cumsum(segments.kernels)
    total: IndexArray = HEADER_WORDS + 1 + ends[last] - ends[last - segments.kernels]
    return total


def kernel_bytes(segments: KernelSegments, fmt: KernelFormat) -> int:
    """Bytes of the stream of all segments."""
    return WORD_BYTES * int(segment_words(segments, fmt).sum())


def smallest_kernel_format(segments: KernelSegments) -> KernelFormat:
    """The format with the fewest bytes of those that can hold the segments; of equal ones the first."""
    return min(possible_kernel_formats(segments), key=lambda fmt: kernel_bytes(segments, fmt))


def possible_kernel_formats(segments: KernelSegments) -> list[KernelFormat]:
    """The formats that can hold the segments.

    ENTRY16 holds segments of one kernel; ENTRY16 and BITMAP hold coefficients of 8 bits, BITMAP one entry a place.
    """
    allowed = [KernelFormat.ENTRY32]
    if not segments.coefficient.size or (segments.coefficient.min() >= -128 and segments.coefficient.max() <= 127):
        if (segments.kernels == 1).all():
            allowed.append(KernelFormat.ENTRY16)
        kernel, cell, _ = _raster_order(segments)
        if not ((kernel[1:] == kernel[:-1]) & (cell[1:] == cell[:-1])).any():
            allowed.append(KernelFormat.BITMAP)
    return allowed


def mask_words(kernel_size: tuple[int, int]) -> int:
    """Words of the mask of one kernel in a BITMAP segment."""
    return -(-kernel_size[0] * kernel_size[1] // 32)


# --- encoder


def encode_kernels(segments: KernelSegments, fmt: KernelFormat) -> WordArray:
    """All segments as words; ``DataError`` for a field out of range or a coefficient that the format cannot hold.

    ENTRY32 and ENTRY16 keep the order of the entries; BITMAP comes back in raster order, kernel by kernel.
    """
    check_segments(segments)
    check_values(segments.coefficient, COEFFICIENT_BITS[fmt], f"{fmt.name} coefficients")
    sizes = segment_words(segments, fmt)
    ends = np.cumsum(sizes)
    words = np.zeros(int(sizes.sum()), WORD)
    starts = ends - sizes
    header = SEGMENT_TYPE | SEGMENT_VERSION << 8 | int(fmt) << 12
    words[starts] = header | segments.kz.astype(WORD) << WORD.type(16)
    words[starts + 1] = segments.entries | segments.z_base << 16 | (segments.kernels - 1) << 24
    {KernelFormat.ENTRY32: _put_entry32, KernelFormat.ENTRY16: _put_entry16, KernelFormat.BITMAP: _put_bitmap}[fmt](
        segments, words, starts
    )
    return words


def check_segments(segments: KernelSegments) -> None:
    """``DataError`` for a segment that no stream can hold, or an entry outside of its kernel or segment. ZS R49"""
    check_kernel_size(segments.kernel_size)
    columns = {"kz": 0xFFFF, "z_base": 0xFF, "kernels": MOST_KERNELS, "entries": MOST_ENTRIES}
    for name, high in columns.items():
        _check_column(name, getattr(segments, name), 1 if name == "kernels" else 0, high)
    count = int(segments.entries.sum())
    for name in ("z", "ky", "kx", "coefficient"):
        if getattr(segments, name).shape != (count,):
            raise DataError(f"kernel segments: {count} entries, but {name} has shape {getattr(segments, name).shape}")
    _check_column("ky", segments.ky, 0, segments.kernel_size[0] - 1)
    _check_column("kx", segments.kx, 0, segments.kernel_size[1] - 1)
    check_kernel_of_entry(segments)
    if not np.asarray(segments.coefficient).all():
        bad = int(np.flatnonzero(segments.coefficient == 0)[0])
        raise DataError(f"kernel segments: the coefficient of entry {bad} is zero, but zeros get no entry")


def check_kernel_of_entry(segments: KernelSegments) -> None:
    """``DataError`` if the kernel of an entry is none of its segment's."""
    if not segments.z.size or (segments.z.min() >= 0 and segments.z.max() < segments.kernels.min()):
        return
    limit = np.repeat(segments.kernels, segments.entries)
    bad = np.flatnonzero((segments.z < 0) | (segments.z >= limit))
    if bad.size:
        raise DataError(
            f"kernel segments: entry {bad[0]} is for kernel {segments.z[bad[0]]} "
            f"of a segment of {limit[bad[0]]} kernels"
        )


def _check_column(name: str, column: ValueArray, low: int, high: int) -> None:
    if column.size and (column.min() < low or column.max() > high):
        bad = int(np.flatnonzero((column < low) | (column > high))[0])
        raise DataError(f"kernel segments: {name} {bad} is {column[bad]}, it must be from {low} to {high}")


def divided(numbers: ValueArray, divisor: int) -> tuple[ValueArray, ValueArray]:
    """Quotients and remainders of numbers from 0 to 2**32 - 1; faster than ``divmod``."""
    quotient = numbers.astype(np.uint32) // np.uint32(divisor)
    return quotient, numbers.astype(np.uint32) - quotient * np.uint32(divisor)


def runs(starts: IndexArray, lengths: IndexArray) -> IndexArray:
    """Numbers that count up from each start for its length, one run after the other."""
    total = int(lengths.sum())
    first = np.cumsum(lengths) - lengths
    counted: IndexArray = np.arange(total) + np.repeat(starts - first, lengths)
    return counted


def _put_entry32(segments: KernelSegments, words: WordArray, starts: IndexArray) -> None:
    coefficients = segments.coefficient.astype("<i2").view("<u2").astype(WORD)
    fields = [column.astype(WORD) << WORD.type(bit) for column, bit in ((segments.kx, 16), (segments.ky, 20))]
    entries = coefficients | fields[0] | fields[1] | segments.z.astype(WORD) << WORD.type(24)
    words[runs(starts + HEADER_WORDS, segments.entries)] = entries


def _put_entry16(segments: KernelSegments, words: WordArray, starts: IndexArray) -> None:
    if (segments.kernels != 1).any():
        bad = int(np.flatnonzero(segments.kernels != 1)[0])
        raise DataError(f"ENTRY16: segment {bad} has {segments.kernels[bad]} kernels, the format holds one")
    halves = words.view("<u2")
    entries = segments.coefficient.astype(np.int8).view(np.uint8).astype("<u2")
    entries |= segments.kx.astype("<u2") << 8 | segments.ky.astype("<u2") << 12
    halves[runs(2 * (starts + HEADER_WORDS), segments.entries)] = entries


def _put_bitmap(segments: KernelSegments, words: WordArray, starts: IndexArray) -> None:
    words[starts + HEADER_WORDS] = size_word(segments.kernel_size)
    kernel, cell, order = _raster_order(segments)
    doubled = np.flatnonzero((kernel[1:] == kernel[:-1]) & (cell[1:] == cell[:-1]))
    if doubled.size:
        entry = doubled[0] + 1 if order is None else order[doubled[0] + 1]
        raise DataError(f"BITMAP: entry {entry} is the second one of its place in a kernel")
    height, width = segments.kernel_size
    used = -(-height * width // 8)
    bits = np.zeros((int(segments.kernels.sum()), 8 * used), np.bool_)
    bits.reshape(-1)[kernel * (8 * used) + cell] = True
    masks = np.zeros((len(bits), WORD_BYTES * mask_words(segments.kernel_size)), np.uint8)
    masks[:, :used] = np.packbits(bits.reshape(-1), bitorder="little").reshape(-1, used)
    counts = np.bincount(kernel, minlength=len(bits))
    sizes = mask_words(segments.kernel_size) + (counts + 3) // 4
    # Kernels of a segment follow each other; a header of three words comes before the first.
    place = np.cumsum(sizes) - sizes + np.repeat((HEADER_WORDS + 1) * np.arange(1, starts.size + 1), segments.kernels)
    words[place[:, None] + np.arange(mask_words(segments.kernel_size))] = masks.view(WORD)
    octets = words.view(np.int8)
    ordered = segments.coefficient if order is None else segments.coefficient[order]
    octets[runs(WORD_BYTES * (place + mask_words(segments.kernel_size)), counts)] = ordered


def size_word(kernel_size: tuple[int, int]) -> int:
    """The word of a BITMAP segment that tells the size of its kernels."""
    return kernel_size[0] - 1 | (kernel_size[1] - 1) << 4


def _raster_order(segments: KernelSegments) -> tuple[IndexArray, IndexArray, IndexArray | None]:
    """Kernel, counted through all segments, and place of all entries in ascending order; the order that gives it."""
    height, width = segments.kernel_size
    kernel = _kernel_of_entry(segments)
    cell = segments.ky.astype(np.int64) * width + segments.kx
    position = kernel * (height * width) + cell
    if (position[1:] >= position[:-1]).all():
        return kernel, cell, None
    order = np.argsort(position, kind="stable")
    return kernel[order], cell[order], order


def _kernel_of_entry(segments: KernelSegments) -> IndexArray:
    """Number of every entry's kernel, counted through all segments."""
    first = np.cumsum(segments.kernels) - segments.kernels
    kernel: IndexArray = np.repeat(first, segments.entries) + segments.z
    return kernel


def _entries_of_kernels(segments: KernelSegments) -> IndexArray:
    return np.bincount(_kernel_of_entry(segments), minlength=int(segments.kernels.sum()))
