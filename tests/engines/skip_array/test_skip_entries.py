"""engines/skip_array (issue 16, item 1): kernels dealt, entries and their bytes, their order, sums, clocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from skip_products import pass_sums, read_entries
from skip_queues import Lists, lists_of, stuck_at

from bfpga.engines.skip_array.assignment import assign
from bfpga.engines.skip_array.cycles import CLOSE, pass_clocks
from bfpga.engines.skip_array.entries import entry_words, pack_entries, unpack_entries
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import ChunkKernels, PieceWindow, chunk_kernels, piece_window
from bfpga.formats.arrays import Int64Array, IntArray

PYNQ = SkipShape()
SHAPES = (PYNQ, SkipShape(groups=3, halves=1, columns=2, lanes=2, chunk_words=64, weight_bits=4, queue=2),
          SkipShape(groups=5, columns=4, chunk_words=64, stream_bits=128, queue=4),
          SkipShape(groups=6, columns=2, lanes=2, chunk_words=64, queue=3))  # fmt: skip


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
            draw(st.just(1) | st.integers(1, 20)))  # fmt: skip
    return shape, groups, random_weights(rng, shape, size, draw(st.sampled_from((0.0, 0.02, 0.3, 0.9, 1.0))))


def piece(weights: IntArray, groups: int, shape: SkipShape, m0: int = 0) -> tuple[PieceWindow, ChunkKernels]:
    window = piece_window(weights, groups, m0, len(weights), shape)
    return window, chunk_kernels(weights, groups, m0, len(weights), window, shape)


def dense_sums(weights: IntArray, groups: int, x: Int64Array) -> Int64Array:
    """Sums (channels, pixels) of operands x (pixels, taps, channels), group by group."""
    channels, height, width, inputs = weights.shape
    kernels = weights.reshape(groups, channels // groups, height * width, inputs)
    windows = x[:, :, : groups * inputs].reshape(len(x), height * width, groups, inputs)
    return np.einsum("gotc,ptgc->gop", kernels, windows).reshape(channels, len(x))


def windows_of(window: PieceWindow, x: Int64Array, shape: SkipShape) -> list[Int64Array]:
    """Wide words of every chunk, as ``pass_sums`` takes them and the reader walks x (pixels, taps, channels)."""
    words = x.reshape(len(x), window.taps, -1, shape.lanes)
    size, cut = shape.chunk_steps(window.steps), []
    for block in range(window.blocks):
        first = window.first_word + block * window.channel_words
        part = words[:, :, first : first + window.channel_words].reshape(len(x), -1, shape.lanes)
        assert part.shape[1] == window.steps
        if window.apart:
            cut.append(part.transpose(2, 1, 0))
            continue
        cut += [part[:, step : step + size].reshape(len(x), -1).T for step in range(0, window.steps, size)]
    return cut


@settings(max_examples=drawn(40))
@given(layers())
def test_sums_of_entry_words_are_those_of_the_dense_kernels(case: tuple[SkipShape, int, Int64Array]) -> None:
    """All densities, empty kernels, chunks, groups of a convolution, pieces; through the bytes of the stream.

    Nothing behind a pixel is read.
    """
    shape, groups, weights = case
    m0 = shape.lanes if len(weights) > 2 * shape.lanes else 0
    window, chunks = piece(weights, groups, shape, m0)
    taps, channels = weights.shape[1] * weights.shape[2], groups * weights.shape[3]
    words = -(-channels // shape.lanes)
    x = np.random.default_rng(1).integers(-128, 128, (7, taps, words * shape.lanes))
    sent = unpack_entries(pack_entries(entry_words(chunks, shape).words, shape), shape)
    sums = pass_sums(sent, windows_of(window, x, shape), shape)
    assert len(sums) == -(-(len(weights) - m0) // shape.lanes) * shape.lanes
    np.testing.assert_array_equal(sums[: len(weights) - m0], dense_sums(weights, groups, x)[m0:])
    assert not sums[len(weights) - m0 :].any()


@settings(max_examples=drawn(40))
@given(layers())
def test_entries_hold_each_weight_once_and_every_list_ends_its_chunks(case: tuple[SkipShape, int, Int64Array]) -> None:
    shape, groups, weights = case
    _, chunks = piece(weights, groups, shape)
    words = entry_words(chunks, shape).words
    assert pack_entries(unpack_entries(pack_entries(words, shape), shape), shape) == pack_entries(words, shape)
    entries = read_entries(words, shape)
    assert np.sort(entries.value[entries.value != 0]).tolist() == np.sort(weights[weights != 0]).tolist()
    assert (words >> (shape.last_bit + 1) & 1).sum(axis=0).tolist() == [len(chunks.steps)] * shape.groups
    for chunk, count in enumerate(chunks.counts.tolist()):
        begun = entries.row[entries.begins & (entries.chunk == chunk)]
        assert np.sort(begun).tolist() == np.sort(chunks.rows[chunk, :count]).tolist()
        assert entries.last[entries.chunk == chunk].sum() == count
    assert (words != 0)[-1].any()


@settings(max_examples=drawn(60))
@given(layers(), st.integers(1, 6))
def test_no_group_waits_for_ever_for_one_that_the_order_of_the_words_keeps_away(
    case: tuple[SkipShape, int, Int64Array], queue: int
) -> None:
    """Two passes through queues of a few entries, a chunk of room beside the one in use."""
    _, groups, weights = case
    shape = SkipShape(groups=4, lanes=2, chunk_words=64, queue=queue)
    _, chunks = piece(weights, groups, shape)
    words = entry_words(chunks, shape).words
    assert stuck_at(lists_of([*words, *words], shape), queue) is None


def test_words_zipped_without_care_would_stop_all_groups() -> None:
    """One long kernel beside short ones: entries of the others fill their queues before it is complete."""
    weights = np.zeros((32, 1, 1, 200), np.int64)
    weights[:, 0, 0, 0] = 1
    weights[7] = 1
    shape = SkipShape(groups=4, queue=8)
    words = entry_words(piece(weights, 1, shape)[1], shape).words
    assert stuck_at(lists_of(words, shape), 8) is None
    zipped = np.zeros_like(words)
    for group in range(4):
        used = words[words[:, group] != 0, group]
        zipped[: len(used), group] = used
    assert stuck_at(lists_of(zipped, shape), 8) is not None


@given(st.lists(st.integers(1, 300), min_size=1, max_size=100), st.sampled_from((1, 3, 16)))
def test_the_longest_first_keeps_groups_within_the_difference_of_a_round(counts: list[int], groups: int) -> None:
    entries = np.array(counts)
    loads = np.zeros(groups, np.int64)
    assigned = assign(entries, groups, loads)
    assert sorted(assigned[assigned >= 0].tolist()) == list(range(len(counts)))
    assert loads.tolist() == loads_of(entries, assigned).tolist()
    kernels = (assigned >= 0).sum(axis=0)
    assert (np.diff(kernels) <= 0).all()
    padded = np.concatenate([np.sort(entries)[::-1], np.zeros(-len(counts) % groups, np.int64)]).reshape(-1, groups)
    assert loads.max() - loads.min() <= (padded[:, 0] - padded[:, -1]).max()
    # A round has the longest kernels that are left.
    rounds = [entries[part[part >= 0]] for part in assigned]
    assert all(a.min() >= b.max() for a, b in itertools.pairwise(rounds))


def loads_of(entries: IntArray, assigned: IntArray) -> Int64Array:
    """Entries of each group."""
    counted: Int64Array = np.where(assigned >= 0, np.asarray(entries)[assigned], 0).sum(axis=0)
    return counted


def test_a_grouped_layer_reads_blocks_of_its_own_channels() -> None:
    """Pairs of channels, 3 x 3: a chunk holds the windows of 16 channels, and no kernel is in one it does not read."""
    window, chunks = piece(np.ones((64, 3, 3, 2), np.int64), 32, PYNQ)
    assert window == PieceWindow(first_word=0, channel_words=4, blocks=4, taps=9)
    assert chunks.counts.tolist() == [16] * 4
    assert chunks.steps.tolist() == [36] * 4
    words = entry_words(chunks, PYNQ)
    assert np.count_nonzero(words.words) == 64 * 19


def test_of_a_depthwise_layer_lanes_stand_apart() -> None:
    """3 x 3, 128 channels: a chunk holds four times the channels, groups have kernels of one lane, a step of a pass
    takes a clock for each half and not one for each lane."""
    window, chunks = piece(np.ones((128, 3, 3, 1), np.int64), 128, PYNQ)
    assert window == PieceWindow(first_word=0, channel_words=16, blocks=2, taps=9, apart=True)
    words = entry_words(chunks, PYNQ)
    entries = read_entries(words.words, PYNQ)
    assert np.array_equal(entries.row % 4, entries.lane)
    clocks = pass_clocks(chunks, words, PYNQ)
    assert (clocks.load.tolist(), clocks.held) == ([2 * 144] * 2, 3)
    assert pass_clocks(chunks, words, PYNQ, single=True).load.tolist() == [144] * 2
    # Where a group of the array would have no lane, and of kernels that read more than a channel, lanes are together.
    assert not piece(np.ones((128, 3, 3, 1), np.int64), 128, SkipShape(groups=15))[0].apart
    assert not piece(np.ones((128, 3, 3, 2), np.int64), 64, PYNQ)[0].apart


def test_a_group_that_no_chunk_holds_is_read_with_all_others() -> None:
    """Two groups of 64 channels at 9 taps, 144 steps each."""
    window, chunks = piece(np.ones((8, 3, 3, 64), np.int64), 2, PYNQ)
    assert (window.blocks, window.channel_words) == (1, 32)
    assert len(chunks.steps) == 5
    second, _ = piece(np.ones((8, 3, 3, 64), np.int64), 2, PYNQ, m0=4)
    assert (second.first_word, second.channel_words) == (16, 16)


def test_clocks_are_those_of_the_longest_of_load_products_and_drain() -> None:
    """3 x 3, 16 to 16 channels with all weights: load takes 144 clocks for each 24 pixels, products one more."""
    _, dense = piece(np.ones((16, 3, 3, 16), np.int64), 1, PYNQ)
    clocks = pass_clocks(dense, entry_words(dense, PYNQ), PYNQ)
    assert (clocks.load.tolist(), clocks.multiply.tolist(), clocks.drain.tolist()) == ([144], [145], [32 + CLOSE])
    # Three chunks have room, so that none waits for the products of the one before.
    assert (clocks.held, clocks.total) == (3, 145)
    _, shallow = piece(np.ones((64, 1, 1, 16), np.int64), 1, PYNQ)
    clocks = pass_clocks(shallow, entry_words(shallow, PYNQ), PYNQ)
    assert clocks.total == clocks.drain[0] == 128 + CLOSE
    # Three chunks of a long window: each ends with a drain of all kernels.
    _, long = piece(np.ones((64, 3, 3, 64), np.int64), 1, PYNQ)
    clocks = pass_clocks(long, entry_words(long, PYNQ), PYNQ, slots=2)
    assert clocks.drain.tolist() == [128 + CLOSE] * 3
    assert clocks.multiply.tolist() == [4 * 193] * 3
    assert clocks.load.tolist() == [48 * 5] * 3


def test_no_weight_lies_across_two_beats_and_marks_come_last() -> None:
    """The layout that the weights process takes apart: 16 fields of 16 bits, then 16 pairs of marks, 5 beats of 64."""
    words = np.zeros((1, 16), np.int64)
    words[0, 1], words[0, 15] = 0xABCD, 0b11 << 16
    data = pack_entries(words, PYNQ)
    assert len(data) == 40
    assert {place: octet for place, octet in enumerate(data) if octet} == {2: 0xCD, 3: 0xAB, 35: 0b11000000}
    # Weights of 4 bits and 64 places take fields of 16 bits as well.
    narrow = SkipShape(groups=3, weight_bits=4, chunk_words=64)
    words = np.array([[0x3FF, 0, 0x1 | 0b11 << 10]])
    assert pack_entries(words, narrow) == (0x3FF | 0x1 << 32 | 0b11 << 52).to_bytes(8, "little")


def test_damaged_streams_and_wrong_groups_are_told() -> None:
    with pytest.raises(ValueError, match="not whole entry words of 40 bytes"):
        unpack_entries(bytes(41), PYNQ)
    with pytest.raises(ValueError, match="10 output channels are not 3 groups"):
        piece_window(np.ones((10, 1, 1, 1), np.int64), 3, 0, 10, PYNQ)


def test_lists_of_entry_words_are_what_groups_see() -> None:
    """The model of the queues itself: marks, chunks, and the words they come in."""
    lists: Lists = lists_of(np.array([[1, 3 << 16], [0, 0], [1 << 16, 0]]), PYNQ)
    assert lists.words == [[0, 2], [0]]
    assert lists.last == [[False, True], [True]]
    assert lists.ends == [[False, False], [True]]
