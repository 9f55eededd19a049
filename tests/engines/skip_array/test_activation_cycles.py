"""Clocks of a skip array that skips activations, and what samples tell of its products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.skip_array.activation_cycles import SparseOperation
from bfpga.engines.skip_array.input_share import input_share, window_segments

CONFIG = load_accelerator("pynq_z2_sparse").config


def layer(channels: int, inputs: int, size: int, kernel: int = 3, groups: int = 1, stride: int = 1) -> ArrayNode:
    window = Window(kernel, kernel, stride, stride, kernel // 2, kernel // 2, output_height=size, output_width=size)
    weights = np.ones((channels, kernel, kernel, inputs // groups), np.int32)
    return ArrayNode("layer", "gemm", ("x",), "y", channels, window, groups=groups, weights=weights)


def test_products_decide_where_nothing_is_zero_and_words_that_come_where_much_is() -> None:
    """36 steps of 4 channels for 24 pixels: 144 products or 72 words a pass."""
    dense = SparseOperation(CONFIG, groups=48, blocks=2, steps=36)
    assert dense.clocks == 24 * 2 * 144
    assert replace(dense, share=0.6).clocks == round(24 * 2 * 144 * 0.6)
    assert replace(dense, share=0.1).clocks == 24 * 2 * 72
    assert replace(dense, share=0.1, slots=2).clocks == 24 * 2 * 144


def test_sums_decide_in_short_windows_and_weights_where_few_passes_use_them() -> None:
    """A pass's sums leave in 32 clocks; a chunk of 60 steps comes in 240, and the last one has none behind it."""
    short = SparseOperation(CONFIG, groups=48, blocks=2, steps=4, share=0.5)
    assert short.clocks == 24 * 2 * 32
    alone = SparseOperation(CONFIG, groups=1, blocks=3, steps=60, share=0.1)
    assert alone.clocks == 2 * 240 + 60
    assert replace(alone, groups=16).clocks == 3 * 8 * 120


def test_windows_are_cut_into_chunks_and_pixels_into_runs() -> None:
    operation = SparseOperation(CONFIG, groups=2 * CONFIG.array.run_passes(CONFIG) + 1, blocks=1, steps=144)
    assert operation.chunks == [48, 48, 48]
    assert (operation.passes, operation.runs) == (CONFIG.array.run_passes(CONFIG) + 1, 2)
    # The second run has one pass of one group: its weights take as long as its products.
    assert operation.clocks == CONFIG.array.run_passes(CONFIG) * 576 + 3 * 192


@pytest.mark.parametrize(
    ("node", "first", "words"),
    [
        (layer(16, 8, 6), 0, 2), (layer(16, 6, 5, kernel=5), 0, 2), (layer(16, 12, 4, stride=2), 0, 3),
        (layer(32, 32, 6, groups=32), 4, 4),
    ],
    ids=["3x3", "5x5, 6 channels", "stride 2", "depthwise, second block"],
)  # fmt: skip
def test_counts_are_those_of_every_pixels_window(node: ArrayNode, first: int, words: int) -> None:
    """Against a walk over pixels, taps and channels; padding has none; a word of zeros that ends a segment counts."""
    rng, window = np.random.default_rng(0), node.window
    size = window.output_height * window.stride_y
    inputs = node.channels if node.groups > 1 else node.weights.shape[3]  # type: ignore[union-attr]
    used = rng.random((2, size, size, inputs)) < 0.3
    segments = list(window_segments(used, window, range(first, first + words), CONFIG))
    steps = [(y, x, word) for y in range(window.kernel_height) for x in range(window.kernel_width)
             for word in range(first, first + words)]  # fmt: skip
    assert sum(segment.steps for segment in segments) == len(steps)
    for sample in range(2):
        for pixel in range(window.output_height * window.output_width):
            oy, ox = divmod(pixel, window.output_width)
            counts = []
            for y, x, word in steps:
                iy, ix = oy * window.stride_y + y - window.pad_top, ox * window.stride_x + x - window.pad_left
                inside = 0 <= iy < size and 0 <= ix < size
                counts.append(int(used[sample, iy, ix, 4 * word : 4 * word + 4].sum()) if inside else 0)
            found, begin = [], 0
            for segment in segments:
                part = counts[begin : begin + segment.steps]
                found.append(sum(part) + (part[-1] == 0))
                begin += segment.steps
            passed, group = divmod(pixel, 24)
            assert [segment.clocks[passed, sample, group] for segment in segments] == found


def test_the_share_of_an_input_follows_its_zeros_and_where_they_are() -> None:
    """As many zeros take longer where pixels beside each other differ: the fullest group of a pass decides."""
    node, words, rng = layer(32, 32, 24), [range(8)], np.random.default_rng(1)
    full = np.ones((1, 24, 24, 32), np.bool_)
    assert 0.93 < input_share(node, words, full, CONFIG) <= 1.0  # borders meet padding
    spread = rng.random(full.shape) < 0.6
    bunched = np.repeat(rng.random((1, 24, 24, 1)) < 0.6, 32, axis=3)
    assert 0.57 < input_share(node, words, spread, CONFIG) < 0.64 < input_share(node, words, bunched, CONFIG) < 0.9
    nothing = input_share(node, words, np.zeros_like(full), CONFIG)
    assert 0.5 <= nothing < 0.52  # words come though they are zero
