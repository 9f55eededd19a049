"""Tensors without their zeros as a kernel's streams carry them: format BITMAP of SC 2.3, chunk by chunk.

A chunk represents ``beats`` plain beats: a beat of masks, ``values`` bits for each of these beats (bit 0: its first
value) and in as many bits after them how many beats of values follow; then the values that are not zero, one after
the other, filled up with zeros to a whole beat. So a reader has its length once it has the masks, and
whoever writes it holds one chunk. bfpga/processes/maps is the same in C++.
Only the standard library and numpy are imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError

Octets = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class MapForm:
    """Bits of a beat, and of a value: a mantissa in its container, at least a byte."""

    stream_bits: int
    value_bits: int

    @property
    def octets(self) -> int:
        """Bytes of a beat."""
        return self.stream_bits // 8

    @property
    def values(self) -> int:
        """Values of a beat."""
        return self.stream_bits // self.value_bits

    @property
    def beats(self) -> int:
        """Plain beats of a chunk."""
        return self.value_bits - 1

    def most_beats(self, plain: int) -> int:
        """Beats that so many plain ones become where no value is zero."""
        return plain + -(-plain // self.beats)


def packed_beats(plain: Octets, form: MapForm) -> int:
    """Beats that plain ones become: ``plain``: their bytes."""
    counts = _chunks(plain, form).sum(axis=(1, 2))
    return int(len(counts) + (-(-counts // form.values)).sum())


def pack_map(plain: Octets, form: MapForm) -> Octets:
    """The chunks of plain beats, as bytes. plain: bytes of whole beats; DataError if they are not."""
    masks = _chunks(plain, form)
    counts = masks.sum(axis=(1, 2))
    beats = -(-counts // form.values)
    starts = np.cumsum(1 + beats) - (1 + beats)
    result = np.zeros((int((1 + beats).sum()), form.values), _kind(form))
    bits = np.zeros((len(masks), form.beats + 1, form.values), np.uint8)
    bits[:, : form.beats] = masks
    bits[:, form.beats] = beats[:, None] >> np.arange(form.values) & 1
    heads = np.packbits(bits.reshape(len(masks), -1), axis=1, bitorder="little")
    result.view(np.uint8).reshape(-1, form.octets)[starts] = heads
    values = plain.view(_kind(form))
    chunk = np.repeat(np.arange(len(masks)), counts)
    rank = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    result.reshape(-1)[(starts[chunk] + 1) * form.values + rank] = values[values != 0]
    return result.view(np.uint8).reshape(-1)


def unpack_map(packed: Octets, plain: int, form: MapForm) -> tuple[Octets, int]:
    """So many plain beats from the chunks at the begin of ``packed``, as bytes, and the bytes that the chunks take.

    DataError for chunks that end too early, or that do not hold as many values as their masks say.
    """
    chunks = -(-plain // form.beats)
    beats = packed[: len(packed) // form.octets * form.octets].reshape(-1, form.octets)
    starts = np.zeros(chunks, np.int64)
    place, shift = 0, form.stream_bits - form.values
    for number in range(chunks):
        if place >= len(beats):
            raise DataError(f"a compressed tensor ends in chunk {number} of {chunks}")
        starts[number] = place
        place += 1 + (int.from_bytes(beats[place].tobytes(), "little") >> shift)
    if place > len(beats):
        raise DataError(f"a compressed tensor of {place} beats has {len(beats)}")
    bits = np.unpackbits(beats[starts], axis=1, bitorder="little").reshape(chunks, form.beats + 1, form.values)
    masks = bits[:, : form.beats].astype(bool).reshape(-1, form.values)
    counts = masks.reshape(chunks, -1).sum(axis=1)
    ends = np.append(starts[1:], place)
    if masks[plain:].any() or np.any(-(-counts // form.values) != ends - starts - 1):
        raise DataError("a compressed tensor's masks do not match the values that follow them")
    values = np.ascontiguousarray(beats).view(_kind(form)).reshape(-1)
    chunk = np.repeat(np.arange(chunks), counts)
    rank = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    result = np.zeros(masks.shape, _kind(form))
    result[masks] = values[(starts[chunk] + 1) * form.values + rank]
    return result[:plain].view(np.uint8).reshape(-1), place * form.octets


def _kind(form: MapForm) -> npt.DTypeLike:
    return np.uint8 if form.value_bits == 8 else np.uint16


def _chunks(plain: Octets, form: MapForm) -> npt.NDArray[np.bool_]:
    """(chunks, beats, values): which values are not zero; those beyond the last beat are."""
    if len(plain) % form.octets:
        raise DataError(f"{len(plain)} bytes are no whole beats of {form.octets}")
    used = (np.ascontiguousarray(plain).view(_kind(form)) != 0).reshape(-1, form.values)
    missing = -len(used) % form.beats
    return np.pad(used, ((0, missing), (0, 0))).reshape(-1, form.beats, form.values)
