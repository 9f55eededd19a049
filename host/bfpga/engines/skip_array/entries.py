"""The entries of a layer: its non-zero weights in the order in which the groups multiply by them, and their bytes.

An entry has a weight, the position of the wide word in its chunk that it multiplies, and two marks: whether it is the
kernel's last one of the chunk, whose sums leave then, and the group's last one of the chunk. A kernel without a weight
in a chunk has one entry of weight 0 there; a group without a kernel one that ends the chunk alone. An entry of nothing
but zero bits fills the lists of the groups up to the same length and takes no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.skip_array.dealing import deal
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import WindowBlock
from bfpga.formats.arrays import BoolArray, ByteArray, Int64Array


@dataclass(frozen=True)
class EntryWords:
    """What one pass of a layer multiplies by.

    words: (words, groups) entries as their bits. orders: of each block the kernels (of the block) in the order in which
    their sums leave. fullest: of each block the entries (chunks,) of its fullest group.
    """

    words: Int64Array
    orders: list[Int64Array]
    fullest: list[Int64Array]


def entry_words(blocks: list[WindowBlock], shape: SkipShape) -> EntryWords:
    """Deal the kernels of every block and list their entries."""
    lists: list[list[Int64Array]] = [[] for _ in range(shape.groups)]
    orders, fullest = [], []
    for block in blocks:
        weights = chunked(block, shape)
        order = deal(_entries(weights).sum(axis=1), shape.groups)
        codes, counts = _listed(weights[order], shape)
        ends = np.cumsum(counts.sum(axis=1))
        for group, part in zip(lists, np.split(codes, ends[:-1]), strict=True):
            group.append(part)
        orders.append(order)
        fullest.append(counts.max(axis=0))
    joined = [np.concatenate(parts) for parts in lists]
    words = np.zeros((max(map(len, joined)), shape.groups), np.int64)
    for number, codes in enumerate(joined):
        words[: len(codes), number] = codes
    return EntryWords(words, orders, fullest)


def chunked(block: WindowBlock, shape: SkipShape) -> Int64Array:
    """Weights of a block by chunks of its window: (kernels, chunks, positions); the last chunk is filled up with 0."""
    chunks, steps = shape.chunks(block.steps), shape.chunk_steps(block.steps)
    padded = np.zeros((block.kernels, chunks * steps, shape.lanes), np.int64)
    padded[:, : block.steps] = block.weights
    return padded.reshape(block.kernels, chunks, steps * shape.lanes)


def _entries(weights: Int64Array) -> Int64Array:
    """Entries of each kernel in each chunk (kernels, chunks)."""
    found: Int64Array = np.maximum(np.count_nonzero(weights, axis=2), 1)
    return found


def _listed(weights: Int64Array, shape: SkipShape) -> tuple[Int64Array, Int64Array]:
    """Entries as their bits, group after group, and how many each group has (groups, chunks).

    weights: (kernels, chunks, positions) in the order of the dealing.
    """
    kernels, chunks, positions = weights.shape
    rounds = -(-kernels // shape.groups)
    dealt = np.zeros((rounds * shape.groups, chunks, positions), np.int64)
    dealt[:kernels] = weights
    by_group = dealt.reshape(rounds, shape.groups, chunks, positions).transpose(1, 2, 0, 3)
    there = (np.arange(rounds * shape.groups) < kernels).reshape(rounds, shape.groups).T
    listed = _with_empty(by_group != 0, there)
    group, chunk, turn, position = np.nonzero(listed)
    ends = _run_ends(group * chunks + chunk)
    last = _run_ends((group * chunks + chunk) * rounds + turn) & there[group, turn]
    value = by_group[group, chunk, turn, position] & ((1 << shape.weight_bits) - 1)
    codes = value | position << shape.weight_bits | last << shape.last_bit | ends << (shape.last_bit + 1)
    counts = np.bincount(group * chunks + chunk, minlength=shape.groups * chunks)
    return codes, counts.reshape(shape.groups, chunks)


def _with_empty(listed: BoolArray, there: BoolArray) -> BoolArray:
    """Positions that have entries (groups, chunks, rounds, positions), one at least of each kernel and of each group.

    there: (groups, rounds) whether a group has a kernel in a round.
    """
    needed = there.copy()
    needed[:, 0] = True
    empty = needed[:, None, :] & ~listed.any(axis=3)
    result = listed.copy()
    result[..., 0] |= empty
    return result


def _run_ends(keys: Int64Array) -> BoolArray:
    """Whether each key is the last one of its run of equal keys."""
    result = np.ones(len(keys), np.bool_)
    result[:-1] = keys[1:] != keys[:-1]
    return result


def pack_entries(words: Int64Array, shape: SkipShape) -> bytes:
    """Entry words (words, groups) on the weight stream: weights and positions of all groups, then marks of all groups.

    Group 0 has the lowest bits of each. So no weight lies across two beats. Every word has whole beats.
    """
    bits = (words[:, :, None] >> np.arange(shape.entry_bits) & 1).astype(np.uint8)
    parts = [bits[:, :, : shape.last_bit], bits[:, :, shape.last_bit :]]
    packed = np.zeros((len(words), shape.beats * shape.stream_bits), np.uint8)
    packed[:, : shape.groups * shape.entry_bits] = np.concatenate([p.reshape(len(words), -1) for p in parts], axis=1)
    return np.packbits(packed, axis=1, bitorder="little").tobytes()


def unpack_entries(data: bytes, shape: SkipShape) -> Int64Array:
    """Inverse of ``pack_entries``; ValueError for data that is not whole entry words."""
    size = shape.beats * shape.stream_bits // 8
    if len(data) % size:
        raise ValueError(f"{len(data)} bytes are not whole entry words of {size} bytes")
    octets: ByteArray = np.frombuffer(data, np.uint8).reshape(-1, size)
    bits = np.unpackbits(octets, axis=1, bitorder="little").astype(np.int64)
    marks, end = shape.groups * shape.last_bit, shape.groups * shape.entry_bits
    parts = [bits[:, :marks], bits[:, marks:end]]
    slots = np.concatenate([part.reshape(len(octets), shape.groups, -1) for part in parts], axis=2)
    codes: Int64Array = (slots << np.arange(shape.entry_bits)).sum(axis=2)
    return codes
