"""What share of its products an array that skips activations makes of a layer's input, as its slowest group meets it.

Groups of a pass are pixels of a map, and those have more or fewer zeros. A group goes on to the next pass while others
finish, but not past the sums of the pass before, which wait until all groups have finished it. So differences even out
between two passes, and what is left of them takes time (``pass_ends``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, FoldedColumns, Window
from bfpga.engines.array.streams import InputWindow, block_rows, input_window
from bfpga.engines.skip_array.activation_cycles import CLOSE
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.formats.arrays import BoolArray, Int64Array

Counts = npt.NDArray[np.int32]


def input_share(node: ArrayNode, used: BoolArray, config: SystolicConfig) -> float:
    """Clocks of a layer's passes over those of an input without a zero, a mean of samples.

    used: (samples, height, width, channels), where the mantissas of its input are not zero.
    """
    window, shape = input_window(node, config, 0, node.channels), SkipShape.of(config)
    blocks = -(-node.channels // block_rows(node, config)) if window.block_step else 1
    spent = full = 0.0
    for block in range(blocks):
        units = list(unit_counts(used, node.window, _of_block(window, block), shape))
        everything = list(unit_counts(np.ones_like(used[:1]), node.window, _of_block(window, block), shape))
        per_step = [counts.max() for counts, _ in everything]
        for first in range(0, len(units[0][0]), config.skip_passes):
            run = slice(first, first + config.skip_passes)
            products = np.concatenate([counts[run] for counts, _ in units])
            feed = [steps * shape.halves for (counts, steps) in units for _ in range(len(counts[run]))]
            ends = pass_ends(products, feed, shape.halves * config.rows + CLOSE)
            spent += float(ends[-1].mean())
            full += sum(int(most) * len(counts[run]) for most, (counts, _) in zip(per_step, units, strict=True))
    return spent / full if full else 1.0


def _of_block(window: InputWindow, block: int) -> InputWindow:
    return InputWindow(window.first_word + block * window.block_step, 0, window.channel_words)


def unit_counts(
    used: BoolArray, window: Window, words: InputWindow, shape: SkipShape
) -> Iterator[tuple[Counts, int]]:
    """Of every chunk what each group multiplies by (passes, samples, groups), and its steps.

    used: as for ``input_share``; words: that a block reads at every tap.
    """
    samples, channels, lanes = len(used), used.shape[3], shape.lanes
    padded = np.pad(used, ((0, 0), (0, 0), (0, 0), (0, -channels % lanes)))
    counts = padded.reshape(*used.shape[:3], -1, lanes).sum(axis=4, dtype=np.int32)
    pixels = window.output_height * window.output_width
    steps = window.kernel_height * window.kernel_width * words.channel_words
    size, found = shape.chunk_steps(steps), np.zeros((samples, pixels), np.int32)
    for step, part in enumerate(_steps(counts, window, words), 1):
        found = found + part.reshape(samples, pixels)
        if step % size == 0 or step == steps:
            passes = -(-pixels // shape.pixels)
            whole = np.pad(found, ((0, 0), (0, passes * shape.pixels - pixels)))
            yield whole.reshape(samples, passes, shape.pixels).transpose(1, 0, 2), (step - 1) % size + 1
            found = np.zeros_like(found)


def _steps(counts: Counts, window: Window, words: InputWindow) -> Iterator[Counts]:
    """Channels that are not zero at each step of the window, of every output pixel: (samples, height, width)."""
    rows, inside_rows = _reached(
        window.output_height, window.stride_y, window.pad_top, window.dilation_y, window.kernel_height, counts.shape[1]
    )
    columns, inside_columns = _reached(
        window.output_width, window.stride_x, window.pad_left, window.dilation_x, window.kernel_width, counts.shape[2]
    )
    for y, x in np.ndindex(window.kernel_height, window.kernel_width):
        inside = inside_rows[y][:, None] & inside_columns[x]
        for word in range(words.first_word, words.first_word + words.channel_words):
            if word < counts.shape[3]:
                yield np.where(inside, counts[:, rows[y]][:, :, columns[x], word], 0)
            else:
                yield np.zeros((len(counts), *inside.shape), np.int32)


def _reached(
    outputs: int, stride: int, pad: int, dilation: int, taps: int, inputs: int
) -> tuple[Int64Array, BoolArray]:
    """Rows or columns of the input that each tap meets (taps, outputs), and which of them there are."""
    found = np.arange(outputs) * stride - pad + np.arange(taps)[:, None] * dilation
    return np.clip(found, 0, inputs - 1), (found >= 0) & (found < inputs)


def folded_columns(used: BoolArray, fold: FoldedColumns) -> BoolArray:
    """An image (samples, height, width, channels) with the columns that an output column meets as channels."""
    outputs = max(1, -(-(used.shape[2] + 2 * fold.pad - fold.dilation * (fold.taps - 1)) // fold.stride))
    columns, inside = _reached(outputs, fold.stride, fold.pad, fold.dilation, fold.taps, used.shape[2])
    met = used[:, :, columns.T] & inside.T[:, :, None]
    result: BoolArray = met.reshape(*used.shape[:2], outputs, -1)
    return result


def pass_ends(products: Counts, feed: list[int], sums: int) -> npt.NDArray[np.float64]:
    """When the last group of each pass has finished it (passes, samples).

    products: of every group (passes, samples, groups); feed: clocks in which each pass comes; sums: in which those of a
    pass leave. Finished sums of a pass wait while their group multiplies the next one.
    """
    passes, samples, groups = products.shape
    free = np.zeros((samples, groups))
    ends, left = np.zeros((passes, samples)), np.zeros(samples)
    come = 0.0
    for number in range(passes):
        begin, come = come, come + feed[number]
        # The last word is multiplied when it has come, and sums find their place when those before have left it.
        free = np.maximum(np.maximum(free, begin) + products[number], np.maximum(come, left[:, None]))
        ends[number] = free.max(axis=1)
        left = np.maximum(ends[number], left) + sums
    return ends
