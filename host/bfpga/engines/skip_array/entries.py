"""The entries of a piece of a layer: its non-zero weights in the order in which the groups multiply by them.

An entry has a weight, the position of the wide word in its chunk that it multiplies, and two marks: whether it is the
kernel's last one of the chunk, whose sums leave then, and the group's last one of the chunk. An entry of weight 0
without a mark begins a kernel: its position is the output row of the sums, and one. A kernel without a weight in a
chunk has one entry of weight 0 after that; a group without a kernel one that ends the chunk alone. An entry of nothing
but zero bits takes no cycle: it fills the lists of the groups up to the same length, and is where the order of the
stored words would make groups wait for each other (``order``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.skip_array.assignment import assign, assign_lanes
from bfpga.engines.skip_array.order import Turns, places
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import ChunkKernels
from bfpga.formats.arrays import BoolArray, ByteArray, Int64Array, IntArray


@dataclass(frozen=True)
class EntryWords:
    """What one pass of a piece multiplies by.

    words: (words, groups) entries as their bits. fullest: (chunks,) the entries of the fullest group.
    """

    words: IntArray
    fullest: Int64Array


def entry_words(chunks: ChunkKernels, shape: SkipShape) -> EntryWords:
    """Assign the kernels of every chunk and list their entries in words without a deadlock of groups."""
    turns, codes = _listed(chunks, shape)
    where = places(turns, shape.queue)
    words = np.zeros((max(int(place[-1]) + 1 for place in where), shape.groups), np.int32)
    for group, (place, part) in enumerate(zip(where, codes, strict=True)):
        words[place, group] = part
    return EntryWords(words, turns.counts.sum(axis=1).max(axis=1))


def _assigned(chunks: ChunkKernels, groups: int, lanes: int) -> Int64Array:
    """Kernels by chunk, round and group (chunks, rounds, groups), -1 where there is none."""
    lengths = 1 + np.maximum(np.count_nonzero(chunks.weights, axis=2), 1)
    counts = chunks.counts
    rounds = max(1, -(-int(counts.max()) // groups))
    loads = np.zeros(groups, np.int64)
    assigned = np.full((len(counts), rounds, groups), -1, np.int64)
    for chunk, count in enumerate(counts.tolist()):
        if chunks.lane is None:
            found = assign(lengths[chunk, :count], groups, loads)
        else:
            found = assign_lanes(lengths[chunk, :count], chunks.lane[chunk, :count], loads.reshape(-1, lanes).T)
        assigned[chunk, : len(found)] = found
    return assigned


def _listed(chunks: ChunkKernels, shape: SkipShape) -> tuple[Turns, list[Int64Array]]:
    """How many entries each turn of a group has, and each group's entries as their bits."""
    assigned = _assigned(chunks, shape.groups, shape.lanes).transpose(2, 0, 1)  # groups, chunks, rounds
    there = assigned >= 0
    chunk = np.arange(assigned.shape[1])[None, :, None]
    weights = np.where(there[..., None], chunks.weights[chunk, assigned], 0)
    listed = _with_marks(weights != 0, there)
    group, number, turn, place = np.nonzero(listed)
    counts = listed.sum(axis=3)
    last = _run_ends(counts) & there[group, number, turn]
    ends = _run_ends(counts.sum(axis=2))
    positions = weights.shape[3]
    value = np.zeros(len(place), np.int64)
    position = np.zeros(len(place), np.int64)
    multiplies, begins = (place > 0) & (place <= positions), place == 0
    value[multiplies] = weights[group, number, turn, np.minimum(place, positions) - 1][multiplies]
    position[multiplies] = place[multiplies] - 1
    position[begins] = (chunks.rows[number, assigned[group, number, turn]] + 1)[begins]
    codes = value & ((1 << shape.weight_bits) - 1) | position << shape.weight_bits
    codes |= last.astype(np.int64) << shape.last_bit | ends.astype(np.int64) << (shape.last_bit + 1)
    lists = np.split(codes, np.cumsum(counts.reshape(shape.groups, -1).sum(axis=1))[:-1])
    return Turns(counts.transpose(1, 2, 0), there.transpose(1, 2, 0)), lists


def _with_marks(used: BoolArray, there: BoolArray) -> BoolArray:
    """What is listed (groups, chunks, rounds, 1 + positions + 1): a kernel's begin, weights, what ends an empty one.

    used: (groups, chunks, rounds, positions). there: (groups, chunks, rounds) whether a group has a kernel.
    """
    needed = there.copy()
    needed[..., 0] = True
    empty = needed & ~used.any(axis=3)
    return np.concatenate([there[..., None], used, empty[..., None]], axis=3)


def _run_ends(counts: Int64Array) -> BoolArray:
    """Whether each element of a list is the last one of its part; the parts have ``counts`` elements."""
    found = np.zeros(int(counts.sum()), np.bool_)
    ends = np.cumsum(counts.reshape(-1))[counts.reshape(-1) > 0]
    found[ends - 1] = True
    return found


def pack_entries(words: IntArray, shape: SkipShape) -> bytes:
    """Entry words (words, groups) on the weight stream: weights and positions of all groups, then marks of all groups.

    Group 0 has the lowest bits of each. So no weight straddles two beats. Every word has whole beats.
    """
    bits = (words[:, :, None] >> np.arange(shape.entry_bits) & 1).astype(np.uint8)
    marks = shape.groups * shape.field_bits
    packed = np.zeros((len(words), shape.beats * shape.stream_bits), np.uint8)
    fields = np.zeros((len(words), shape.groups, shape.field_bits), np.uint8)
    fields[:, :, : shape.last_bit] = bits[:, :, : shape.last_bit]
    packed[:, :marks] = fields.reshape(len(words), -1)
    packed[:, marks : marks + 2 * shape.groups] = bits[:, :, shape.last_bit :].reshape(len(words), -1)
    return np.packbits(packed, axis=1, bitorder="little").tobytes()


def unpack_entries(data: bytes, shape: SkipShape) -> Int64Array:
    """Inverse of ``pack_entries``; ValueError for data that is not whole entry words."""
    size = shape.beats * shape.stream_bits // 8
    if len(data) % size:
        raise ValueError(f"{len(data)} bytes are not whole entry words of {size} bytes")
    octets: ByteArray = np.frombuffer(data, np.uint8).reshape(-1, size)
    bits = np.unpackbits(octets, axis=1, bitorder="little").astype(np.int64)
    marks = shape.groups * shape.field_bits
    fields = bits[:, :marks].reshape(len(octets), shape.groups, shape.field_bits)[:, :, : shape.last_bit]
    ends = bits[:, marks : marks + 2 * shape.groups].reshape(len(octets), shape.groups, 2)
    slots = np.concatenate([fields, ends], axis=2)
    codes: Int64Array = (slots << np.arange(shape.entry_bits)).sum(axis=2)
    return codes
