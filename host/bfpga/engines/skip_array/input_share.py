"""What share of its products an array that skips activations makes of a layer's input, as its slowest group gets it.

Groups of a pass are pixels of a map, and those have more or fewer zeros. Words come in segments of some steps, for few
of which the queues have room: so no group is further ahead of another one. Finished sums of a pass wait while their
group multiplies the next one. Within these bounds differences even out; what is left of them takes time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.skip_array.activation_cycles import ONE_LANE, SEGMENTS, half_clocks, lanes_apart, segment_steps
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.formats.arrays import BoolArray, Int64Array

Counts = npt.NDArray[np.int32]
Clocks = npt.NDArray[np.float64]

#: Cycles from the beat of a word to the first cycle in which its group may have it.
ARRIVAL = 11
#: Cycles from the end of a segment in the last group to the first beat of the segment that its credit is for.
CREDIT = 16
#: Samples that are looked at, and blocks of a layer that reads other channels for each.
MOST_SAMPLES, MOST_BLOCKS = 8, 4


@dataclass(frozen=True)
class Segment:
    """Cycles of all groups for the words of a segment (passes, samples, groups), its steps, whether it ends a chunk.

    halves: of a pass that have words.
    """

    clocks: Clocks
    steps: int
    last: bool
    halves: int


def channels_at_step(node: ArrayNode, channel_words: int, config: KernelConfig) -> float:
    """Channels of a pixel at a step of the window, on average, that may be other than zero.

    channel_words: that a block reads at a tap. Of one pixel whose lanes have a group each, the cycles of a group.
    """
    assert node.weights is not None
    if lanes_apart(config, node.window.output_height * node.window.output_width):
        return ONE_LANE
    inputs = int(node.weights.shape[3])
    return inputs / channel_words if node.groups == 1 else float(config.lanes)


def input_share(node: ArrayNode, blocks: Sequence[Sequence[int]], used: BoolArray, config: KernelConfig) -> float:
    """Cycles of a layer's passes over its products with an input without a zero, a mean of samples.

    blocks: words of channels that each block of output channels reads, one where all read the same. used: (samples,
    height, width, channels), where the mantissas of its input are not zero.
    """
    used, spent, full = used[:MOST_SAMPLES], 0.0, 0.0
    for block in np.linspace(0, len(blocks) - 1, min(len(blocks), MOST_BLOCKS)).round().astype(int).tolist():
        words = blocks[block]
        segments = list(window_segments(used, node.window, words, config))
        spent += float(window_clocks(segments, config).mean())
        steps = sum(segment.steps for segment in segments)
        full += len(segments[0].clocks) * steps * channels_at_step(node, len(words), config)
    return spent / full


def window_segments(
    used: BoolArray, window: Window, words: Sequence[int], config: KernelConfig
) -> Iterator[Segment]:
    """The segments of a window in their order. used: as for ``input_share``; words: that a block reads at every tap.

    Of one pixel whose lanes have a group each, its lanes count as pixels.
    """
    shape, lanes = SkipShape.of(config), config.lanes
    padded = np.pad(used, ((0, 0), (0, 0), (0, 0), (0, -used.shape[3] % lanes))).reshape(*used.shape[:3], -1, lanes)
    pixels, of_word = window.output_height * window.output_width, 1.0
    passes = -(-pixels // shape.pixels)
    halves = config.array.halves if pixels > config.columns else 1
    if lanes_apart(config, pixels):
        counts = np.moveaxis(padded, 4, 1).reshape(-1, *padded.shape[1:4]).astype(np.int32)
        pixels, of_word = lanes, ONE_LANE
    else:
        counts = padded.sum(axis=4, dtype=np.int32)
    steps = window.kernel_height * window.kernel_width * len(words)
    chunk = shape.chunk_steps(steps)
    found, begin = np.zeros((len(used), pixels), np.int32), 0
    for step, part in enumerate(_steps(counts, window, words)):
        own = part.reshape(len(used), pixels)
        found += own
        last = (step + 1) % chunk == 0 or step + 1 == steps
        if last or (step + 1) % chunk % segment_steps(config) == 0:
            # A word of zeros with which a segment ends takes a cycle.
            clocks = np.pad(of_word * found + (own == 0), ((0, 0), (0, passes * shape.pixels - pixels)))
            by_pass = clocks.reshape(len(used), passes, -1).transpose(1, 0, 2).astype(np.float64)
            yield Segment(by_pass, step + 1 - begin, last, halves)
            found, begin = np.zeros_like(found), step + 1


def _steps(counts: Counts, window: Window, words: Sequence[int]) -> Iterator[Counts]:
    """Channels that are not zero at each step of the window, of every output pixel: (samples, height, width)."""
    rows, inside_rows = _reached(
        window.output_height, window.stride_y, window.pad_top, window.dilation_y, window.kernel_height, counts.shape[1]
    )
    columns, inside_columns = _reached(
        window.output_width, window.stride_x, window.pad_left, window.dilation_x, window.kernel_width, counts.shape[2]
    )
    for y, x in np.ndindex(window.kernel_height, window.kernel_width):
        inside = inside_rows[y][:, None] & inside_columns[x]
        for word in words:
            if word < counts.shape[3]:
                yield np.where(inside, counts[:, rows[y]][:, :, columns[x], word], 0)
            else:
                yield np.zeros((len(counts), *inside.shape), np.int32)


def _reached(outputs: int, stride: int, pad: int, dilation: int, taps: int, size: int) -> tuple[Int64Array, BoolArray]:
    """Rows or columns of the input that each tap reads (taps, outputs), and which of them there are."""
    found = np.arange(outputs) * stride - pad + np.arange(taps)[:, None] * dilation
    return np.clip(found, 0, size - 1), (found >= 0) & (found < size)


def window_clocks(segments: list[Segment], config: KernelConfig) -> Clocks:
    """Cycles of all passes at all chunks of a window, run by run, for each sample."""
    passes, samples, groups = segments[0].clocks.shape
    halves, leaves = config.array.halves, float(half_clocks(config))
    free: Clocks = np.zeros((samples, groups))
    left: Clocks = np.zeros((samples, halves))
    ended: list[Clocks] = [np.full(samples, -CREDIT, np.float64) for _ in range(SEGMENTS)]
    sent: Clocks = np.zeros(samples)
    for number, segment in _in_turn(segments, passes, config.array.run_passes(config)):
        begin = np.maximum(sent, ended[-SEGMENTS] + CREDIT)
        sent = begin + float(segment.steps * segment.halves)
        free = np.maximum(free, (begin + ARRIVAL)[:, None]) + segment.clocks[number]
        free = np.maximum(free, (sent + ARRIVAL)[:, None])
        if segment.last:
            # The sums of the pass before have left, then those of a half when all of its groups have finished.
            free = np.maximum(free, np.repeat(left, groups // halves, axis=1))
            complete, before = free.reshape(samples, halves, -1).max(axis=2), left[:, segment.halves - 1]
            before = before + float(halves - segment.halves)  # a half without pixels takes a cycle
            for half in range(segment.halves):
                before = np.maximum(before, complete[:, half]) + leaves
                left[:, half] = before
        ended = [*ended[1:], free.max(axis=1)]
    return ended[-1] - ARRIVAL


def _in_turn(segments: list[Segment], passes: int, run: int) -> Iterator[tuple[int, Segment]]:
    """Passes and segments in the order in which they come: run, chunk, pass, segment."""
    chunks = list(_by_chunks(segments))
    for first in range(0, passes, run):
        for chunk in chunks:
            for number in range(first, min(first + run, passes)):
                yield from ((number, segment) for segment in chunk)


def _by_chunks(segments: list[Segment]) -> Iterator[list[Segment]]:
    """The segments of each chunk."""
    chunk: list[Segment] = []
    for segment in segments:
        chunk.append(segment)
        if segment.last:
            yield chunk
            chunk = []
