"""engines/skip_array (issue 16, item 1): kernels dealt to groups, entries and their bytes, sums and clocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.engines.skip_array.cycles import TURN, entry_bytes, operation_work, pass_clocks, plain_bytes
from bfpga.engines.skip_array.dealing import deal, loads_of
from bfpga.engines.skip_array.entries import EntryWords, chunked, entry_words, pack_entries, unpack_entries
from bfpga.engines.skip_array.products import layer_sums, read_entries
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import WindowBlock, window_blocks
from bfpga.formats.arrays import Int64Array, IntArray

PYNQ = SkipShape()
SHAPES = (PYNQ, SkipShape(groups=3, halves=1, columns=2, lanes=2, chunk_words=8, weight_bits=4),
          SkipShape(groups=5, columns=3, chunk_words=16, stream_bits=128))  # fmt: skip


def random_weights(
    rng: np.random.Generator, shape: SkipShape, size: tuple[int, int, int, int], density: float
) -> Int64Array:
    """Weights of any value, some kernels without one."""
    limit = 1 << (shape.weight_bits - 1)
    weights = rng.choice([-limit, -limit + 1, -1, 1, limit - 1, int(rng.integers(1, limit))], size)
    weights[rng.random(size) >= density] = 0
    weights[rng.random(size[0]) < 0.1] = 0
    return weights


@st.composite
def layers(draw: st.DrawFn) -> tuple[SkipShape, int, Int64Array]:
    """A shape, groups of a convolution, and its weights."""
    shape = draw(st.sampled_from(SHAPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups = draw(st.sampled_from((1, 1, 2, 6)))
    size = (groups * draw(st.integers(1, 40 // groups)), draw(st.integers(1, 3)), draw(st.integers(1, 3)),
            draw(st.integers(1, 9)))  # fmt: skip
    return shape, groups, random_weights(rng, shape, size, draw(st.sampled_from((0.0, 0.02, 0.3, 0.9, 1.0))))


def dense_sums(weights: IntArray, groups: int, x: Int64Array) -> Int64Array:
    """Sums (channels, pixels) of operands x (pixels, taps, channels), group by group."""
    channels, height, width, inputs = weights.shape
    kernels = weights.reshape(groups, channels // groups, height * width, inputs)
    windows = x[:, :, : groups * inputs].reshape(len(x), height * width, groups, inputs)
    return np.einsum("gotc,ptgc->gop", kernels, windows).reshape(channels, len(x))


def windows_of(blocks: list[WindowBlock], taps: int, x: Int64Array, shape: SkipShape) -> list[Int64Array]:
    """Operands (pixels, steps, lanes) that each block reads of x (pixels, taps, channels of whole words)."""
    words = x.reshape(len(x), taps, -1, shape.lanes)
    return [
        words[:, :, block.first_word : block.first_word + block.steps // taps].reshape(len(x), -1, shape.lanes)
        for block in blocks
    ]


@settings(max_examples=40)
@given(layers())
def test_sums_of_entry_words_are_those_of_the_dense_kernels(case: tuple[SkipShape, int, Int64Array]) -> None:
    """All densities, empty kernels, chunks, groups of a convolution; through the bytes of the stream."""
    shape, groups, weights = case
    blocks = window_blocks(weights, groups, shape)
    taps, channels = weights.shape[1] * weights.shape[2], groups * weights.shape[3]
    x = np.random.default_rng(1).integers(-128, 128, (7, taps, -(-channels // shape.lanes) * shape.lanes))
    words = entry_words(blocks, shape)
    sent = EntryWords(unpack_entries(pack_entries(words.words, shape), shape), words.orders, words.fullest)
    sums = layer_sums(sent, blocks, windows_of(blocks, taps, x, shape), shape)
    np.testing.assert_array_equal(sums, dense_sums(weights, groups, x))


@settings(max_examples=40)
@given(layers())
def test_entries_hold_each_weight_once_and_every_list_ends_its_chunks(case: tuple[SkipShape, int, Int64Array]) -> None:
    shape, groups, weights = case
    blocks = window_blocks(weights, groups, shape)
    words = entry_words(blocks, shape)
    assert pack_entries(unpack_entries(pack_entries(words.words, shape), shape), shape) == pack_entries(
        words.words, shape
    )
    entries = read_entries(words.words, shape)
    assert np.count_nonzero(entries.value) == np.count_nonzero(weights)
    assert np.sort(entries.value[entries.value != 0]).tolist() == np.sort(weights[weights != 0]).tolist()
    chunks = sum(shape.chunks(block.steps) for block in blocks)
    assert (words.words >> (shape.last_bit + 1)).sum(axis=0).tolist() == [chunks] * shape.groups
    assert entries.last.sum() == sum(shape.chunks(block.steps) * block.kernels for block in blocks)
    # Words that fill up the lists come behind every entry of a group.
    used = words.words != 0
    assert (used[1:] <= used[:-1]).all()
    assert used[-1].any()


@given(st.lists(st.integers(1, 300), min_size=1, max_size=100), st.sampled_from((1, 3, 16)))
def test_the_longest_first_keeps_groups_within_the_difference_of_a_round(counts: list[int], groups: int) -> None:
    entries = np.array(counts)
    order = deal(entries, groups)
    assert sorted(order.tolist()) == list(range(len(counts)))
    padded = np.concatenate([np.sort(entries)[::-1], np.zeros(-len(counts) % groups, np.int64)]).reshape(-1, groups)
    loads = loads_of(entries, order, groups)
    assert loads.sum() == entries.sum()
    assert loads.max() - loads.min() <= (padded[:, 0] - padded[:, -1]).max()
    # A round has the longest kernels that are left.
    rounds = [entries[order[first : first + groups]] for first in range(0, len(order), groups)]
    assert all(a.min() >= b.max() for a, b in itertools.pairwise(rounds))


def test_dealing_by_length_beats_dealing_in_the_order_of_channels() -> None:
    """Kernels whose length grows with their number, which the order of channels gives all to the last groups."""
    entries = np.arange(1, 65) * 4
    fair = entries.sum() / 16
    assert loads_of(entries, deal(entries, 16), 16).max() <= 1.02 * fair
    assert loads_of(entries, np.arange(64), 16).max() > 1.2 * fair


def test_a_grouped_layer_reads_blocks_of_its_own_channels() -> None:
    """Depthwise, 3 x 3: a chunk holds the windows of 28 channels, and no kernel is in one that it does not read."""
    weights = np.ones((64, 3, 3, 1), np.int64)
    blocks = window_blocks(weights, 64, PYNQ)
    assert [block.first_word for block in blocks] == [0, 7, 14]
    assert [(block.kernels, block.steps) for block in blocks] == [(28, 63), (28, 63), (8, 18)]
    assert [len(chunked(block, PYNQ)[0]) for block in blocks] == [1, 1, 1]
    words = entry_words(blocks, PYNQ)
    assert np.count_nonzero(words.words) == 64 * 9 + 8  # eight groups without a kernel end the last chunk


def test_work_is_that_of_the_longest_of_load_products_and_drain() -> None:
    """3 x 3, 16 to 16 channels with all weights: load and products take 144 clocks for each 24 pixels."""
    dense = window_blocks(np.ones((16, 3, 3, 16), np.int64), 1, PYNQ)
    clocks = pass_clocks(dense, entry_words(dense, PYNQ), PYNQ)
    assert (clocks.load.tolist(), clocks.multiply.tolist(), clocks.drain.tolist()) == ([144], [144], [33])
    # With two buffers each waits for the products of its chunk before; a third one is enough here.
    assert operation_work(clocks, 1024, PYNQ) == 43 * (144 + 144 + TURN + 1) // 2 + 144
    three = SkipShape(buffers=3)
    assert operation_work(pass_clocks(dense, entry_words(dense, three), three), 1024, three) == 43 * 144 + 144
    shallow = window_blocks(np.ones((64, 1, 1, 16), np.int64), 1, PYNQ)
    clocks = pass_clocks(shallow, entry_words(shallow, PYNQ), PYNQ)
    assert clocks.total == clocks.drain[0] == 129
    # Three chunks of a long window: each ends with a drain of all kernels.
    long = window_blocks(np.ones((64, 3, 3, 64), np.int64), 1, PYNQ)
    clocks = pass_clocks(long, entry_words(long, PYNQ), PYNQ, slots=2)
    assert clocks.drain.tolist() == [129] * 3
    assert clocks.multiply.tolist() == [4 * 192] * 3
    assert clocks.load.tolist() == [48 * 5] * 3


@pytest.mark.parametrize(("density", "smaller"), [(0.3, True), (1.0, False)])
def test_entries_save_bytes_of_pruned_layers(density: float, smaller: bool) -> None:
    weights = random_weights(np.random.default_rng(0), PYNQ, (64, 3, 3, 64), density)
    blocks = window_blocks(weights, 1, PYNQ)
    words = entry_words(blocks, PYNQ)
    assert entry_bytes(words, PYNQ) == len(pack_entries(words.words, PYNQ))
    assert (entry_bytes(words, PYNQ) < plain_bytes(blocks, PYNQ)) == smaller


def test_no_weight_lies_across_two_beats_and_marks_come_last() -> None:
    """The layout that the weights process takes apart: 16 fields of 16 bits, then 16 pairs of marks, 5 beats of 64."""
    words = np.zeros((1, 16), np.int64)
    words[0, 1], words[0, 15] = 0xABCD, 0b11 << 16
    data = pack_entries(words, PYNQ)
    assert len(data) == 40
    assert {place: octet for place, octet in enumerate(data) if octet} == {2: 0xCD, 3: 0xAB, 35: 0b11000000}


def test_damaged_streams_and_wrong_groups_are_told() -> None:
    with pytest.raises(ValueError, match="not whole entry words of 40 bytes"):
        unpack_entries(bytes(41), PYNQ)
    with pytest.raises(ValueError, match="10 output channels are not 3 groups"):
        window_blocks(np.ones((10, 1, 1, 1), np.int64), 3, PYNQ)
