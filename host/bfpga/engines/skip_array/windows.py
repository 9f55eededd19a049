"""The windows that the kernels of a piece of a layer read, as the skip array meets them, and their weights by chunks.

A piece is a run of output channels that one operation computes. A step of its window is one word of channels at a tap.
Kernels of a layer without groups all read one window, which is cut into chunks: every kernel has a part in each of
them. Those of a grouped layer read parts of it, so that the window is cut into blocks of channels instead, each a chunk
by itself with its own kernels. Where a chunk does not hold the channels of one group, or the last word of channels is
not full, all of them are one window.
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

    first_word: of a pixel, that the first block reads; each block begins ``channel_words`` words behind the one before.
    """

    first_word: int
    channel_words: int
    blocks: int
    taps: int

    @property
    def steps(self) -> int:
        """Steps of one block."""
        return self.taps * self.channel_words


@dataclass(frozen=True)
class ChunkKernels:
    """The kernels of every chunk of a pass.

    rows: (chunks, kernels) the output row of each, those that are not there behind the others as -1. weights: (chunks,
    kernels, positions). steps: (chunks,) of the window.
    """

    rows: Int64Array
    weights: IntArray
    steps: Int64Array

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
    together = shape.steps // (taps * unit)
    if groups > 1 and together and end * unit <= -(-groups * inputs // lanes):
        blocks = next(count for count in divisors(end - begin) if (end - begin) // count <= together)
        if blocks > 1:
            return PieceWindow(begin * unit, (end - begin) // blocks * unit, blocks, taps)
    return PieceWindow(first // lanes, -(-last // lanes) - first // lanes, 1, taps)


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
    laid = np.zeros((window.blocks, most, window.taps, window.channel_words * lanes), np.int32)
    taps = np.asarray(weights[m0:m1]).reshape(m1 - m0, height * width, inputs)
    there = slice(0, m1 - m0)
    if groups == 1:
        laid[0, there, :, :inputs] = taps
    else:
        channel = (first - block[there] * window.channel_words * lanes)[:, None] + np.arange(inputs)
        laid[block[there, None], place[there, None], :, channel] = taps.transpose(0, 2, 1)
    return _chunks(rows, laid.reshape(window.blocks, most, -1), window.steps, shape)


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
