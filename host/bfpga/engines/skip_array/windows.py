"""The windows that the kernels of a piece of a layer read, as the skip array reads them, and their weights by chunks.

A piece is a run of output channels that one operation computes. A step of its window is one word of channels at a tap.
Kernels of a layer without groups all read one window, which is cut into chunks: every kernel has a part in each of
them. Those of a grouped layer read parts of it, so that the window is cut into blocks of channels instead, each a chunk
by itself with its own kernels. Where a chunk does not hold the channels of one group, or the last word of channels is
not full, all of them are one window.

Where every kernel reads one channel, its group needs one lane of each word of channels. Lanes are apart then: a step
takes one place of a chunk, at which each group finds the channel of its lane, and is written in one cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from bfpga.engines.skip_array.shape import SkipShape
from bfpga.formats.arrays import Int64Array, IntArray


@dataclass(frozen=True)
class PieceWindow:
    """``blocks`` windows of ``channel_words`` words at each of ``taps`` taps.

    first_word: of a pixel, that the first block reads; each block begins ``channel_words`` words after the one before.
    apart: lanes are apart.
    """

    first_word: int
    channel_words: int
    blocks: int
    taps: int
    apart: bool = False

    @property
    def steps(self) -> int:
        """Steps of one block."""
        return self.taps * self.channel_words


@dataclass(frozen=True)
class ChunkKernels:
    """The kernels of every chunk of a pass.

    rows: (chunks, kernels) the output row of each, absent ones after the others as -1. weights: (chunks,
    kernels, positions). steps: (chunks,) of the window. lane: (chunks, kernels) of the channel that each reads, where
    lanes are apart.
    """

    rows: Int64Array
    weights: IntArray
    steps: Int64Array
    lane: Int64Array | None = None

    @property
    def counts(self) -> Int64Array:
        """Kernels of each chunk."""
        found: Int64Array = (self.rows >= 0).sum(axis=1)
        return found


def piece_window(weights: IntArray, groups: int, m0: int, m1: int, shape: SkipShape) -> PieceWindow:
    """The window of output channels [m0, m1) of a layer.

    weights: (output channels, kernel height, kernel width, input channels of a group), as ``ArrayNode`` has them.
    groups: of the convolution. ValueError if the output channels are no whole groups.
    """
    channels, height, width, inputs = weights.shape
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} output channels are not {groups} groups")
    outputs, taps, lanes = channels // groups, height * width, shape.lanes
    first, last = m0 // outputs * inputs, ((m1 - 1) // outputs + 1) * inputs
    unit = lcm(inputs, lanes) // lanes  # words of whole groups
    begin, end = first // (unit * lanes), -(-last // (unit * lanes))
    if groups > 1 and inputs == 1 and taps <= shape.chunk_words and _lanes_equal(outputs, m0, m1, shape):
        blocks = next(count for count in divisors(end - begin) if (end - begin) // count * taps <= shape.chunk_words)
        return PieceWindow(begin, (end - begin) // blocks, blocks, taps, apart=True)
    together = shape.steps // (taps * unit)
    if groups > 1 and together and end * unit <= -(-groups * inputs // lanes):
        blocks = next(count for count in divisors(end - begin) if (end - begin) // count <= together)
        if blocks > 1:
            return PieceWindow(begin * unit, (end - begin) // blocks * unit, blocks, taps)
    return PieceWindow(first // lanes, -(-last // lanes) - first // lanes, 1, taps)


def _lanes_equal(outputs: int, m0: int, m1: int, shape: SkipShape) -> bool:
    """Whether all groups of the array have a lane, and all lanes as many kernels, with those that fill the last word.

    outputs: kernels of a channel.
    """
    word = outputs * shape.lanes
    return shape.groups % shape.lanes == 0 and m0 % word == 0 and (outputs == 1 or m1 % word == 0)


def divisors(number: int) -> list[int]:
    """All divisors in ascending order."""
    return [count for count in range(1, number + 1) if number % count == 0]


def chunk_kernels(
    weights: IntArray, groups: int, m0: int, m1: int, window: PieceWindow, shape: SkipShape
) -> ChunkKernels:
    """The weights of output channels [m0, m1) in every chunk; kernels without any fill up the last word of channels."""
    channels, height, width, inputs = weights.shape
    outputs, lanes = channels // groups, shape.lanes
    kernels = -(-(m1 - m0) // lanes) * lanes
    first = np.arange(m0, m1) // outputs * inputs - window.first_word * lanes
    block = first // (window.channel_words * lanes) if window.blocks > 1 else np.zeros_like(first)
    block = np.concatenate([block, np.full(kernels - len(block), block[-1])])
    place = np.arange(kernels) - np.searchsorted(block, block)
    most = int(place.max()) + 1
    rows = np.full((window.blocks, most), -1, np.int64)
    rows[block, place] = np.arange(kernels)
    if window.apart:
        return _lanes_apart(weights[m0:m1], rows, block, place, window, shape)
    laid = np.zeros((window.blocks, most, window.taps, window.channel_words * lanes), np.int32)
    taps = np.asarray(weights[m0:m1]).reshape(m1 - m0, height * width, inputs)
    there = slice(0, m1 - m0)
    if groups == 1:
        laid[0, there, :, :inputs] = taps
    else:
        channel = (first - block[there] * window.channel_words * lanes)[:, None] + np.arange(inputs)
        laid[block[there, None], place[there, None], :, channel] = taps.transpose(0, 2, 1)
    return _chunks(rows, laid.reshape(window.blocks, most, -1), window.steps, shape)


def _lanes_apart(
    weights: IntArray, rows: Int64Array, block: Int64Array, place: Int64Array, window: PieceWindow, shape: SkipShape
) -> ChunkKernels:
    """Every block as a chunk; a channel's taps are ``channel_words`` places apart, the same for all lanes of a word.

    block, place: of every kernel, with those that fill the last word; rows: (blocks, kernels).
    """
    kernels, (channels, height, width, _) = len(block), weights.shape
    outputs = kernels // (window.blocks * window.channel_words * shape.lanes)
    word, lane = np.divmod(np.arange(kernels) // outputs, shape.lanes)
    laid = np.zeros((*rows.shape, window.taps, window.channel_words), np.int32)
    there = np.arange(channels)
    laid[block[there], place[there], :, word[there] % window.channel_words] = weights.reshape(-1, height * width)
    lanes = np.full(rows.shape, -1, np.int64)
    lanes[block, place] = lane
    steps = np.full(window.blocks, window.steps)
    return ChunkKernels(rows, laid.reshape(*rows.shape, -1), steps, lanes)


def _chunks(rows: Int64Array, weights: IntArray, steps: int, shape: SkipShape) -> ChunkKernels:
    """Blocks as chunks: each is one, or the only one has several."""
    blocks, kernels, positions = weights.shape
    chunks, size = shape.chunks(steps), shape.chunk_steps(steps)
    of_chunk = np.minimum(size, steps - size * np.arange(chunks))
    if chunks == 1:
        return ChunkKernels(rows, weights, np.repeat(of_chunk, blocks))
    assert blocks == 1
    padded = np.zeros((kernels, chunks * size * shape.lanes), weights.dtype)
    padded[:, :positions] = weights[0]
    cut = padded.reshape(kernels, chunks, size * shape.lanes).transpose(1, 0, 2)
    return ChunkKernels(np.repeat(rows, chunks, axis=0), np.ascontiguousarray(cut), of_chunk)
