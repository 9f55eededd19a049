"""The stored words of a tile: what an independent decoder finds in them, and what they take."""

from __future__ import annotations

import numpy as np
import pytest
from reference_tile import begun, decoded, listed

from bfpga.contract.arrays.sparse_cluster import SUM_DISTANCE
from bfpga.engines.zero_skip_tile.tile_words import BEGIN, EntryShape, TileWords, tile_words

#: Bits of a weight, of a place along an axis, of a kernel; plain weights beside each other; cells of a word.
SHAPES = [EntryShape(8, 2, 4, 8, 64), EntryShape(5, 1, 2, 4, 8), EntryShape(8, 3, 4, 8, 16), EntryShape(4, 2, 2, 4, 4)]


def random_blocks(shape: EntryShape, density: float, blocks: int = 3) -> np.ndarray:
    rng = np.random.default_rng(int(100 * density))
    planes, kernel = 1 << shape.plane_bits, min(3, 1 << shape.tap_bits)
    largest = (1 << (shape.weight_bits - 1)) - 1
    weights = rng.integers(1, largest + 1, (blocks, planes, kernel, kernel - 1, 8)) * rng.choice([-1, 1])
    return np.where(rng.random(weights.shape) < density, weights, 0)


@pytest.mark.parametrize("density", [0.0, 0.05, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_words_hold_the_weights(shape: EntryShape, density: float) -> None:
    """ZS R43, ZS R46: whichever form a block has, and however many words others have."""
    blocks = random_blocks(shape, density)
    blocks[1] = np.where(np.arange(8) < 3, blocks[1], 0)
    made = tile_words(blocks, shape)
    assert made.words.shape[::2] == (len(blocks), shape.word_cells)
    for block, words in zip(blocks, made.words, strict=True):
        assert np.array_equal(decoded(words, shape, block), block)


def test_a_weight_that_is_zero_has_no_entry() -> None:
    """ZS R44: an entry for each other weight, one for each channel, one in front."""
    shape = SHAPES[0]
    (block,) = random_blocks(shape, 0.1, blocks=1)
    words, form = begun(tile_words(block[None], shape).words[0], shape)
    assert form == 1
    entries = list(listed(words, shape, 8))
    assert (len(entries), entries.count(None)) == (np.count_nonzero(block) + 8, 8)
    assert len(words) == -(-(1 + len(entries)) // shape.entries)


def test_entries_of_a_channel_come_kernel_by_kernel() -> None:
    """ZS R20, R48: so that the next one of a kernel is as far away as there are kernels."""
    shape = SHAPES[0]
    (block,) = random_blocks(shape, 0.2, blocks=1)
    words, _ = begun(tile_words(block[None], shape).words[0], shape)
    found = [entry for entry in listed(words, shape, 8) if entry]
    for channel in range(8):
        rounds, seen = [], np.zeros(16, np.int64)
        for _, kernel, *_ in (entry for entry in found if entry[0] == channel):
            rounds.append((int(seen[kernel]), kernel))
            seen[kernel] += 1
        assert rounds == sorted(rounds)


def slow_pauses(made: TileWords, shape: EntryShape, channels: int) -> int:
    """Pauses of the steps of a block, one clock after the other."""
    sent: list[int] = []
    pauses = 0
    for entry in listed(begun(made.words[0], shape)[0], shape, channels):
        kernel = -1 if entry is None else entry[1]
        while kernel >= 0 and kernel in sent[-SUM_DISTANCE + 1 :]:
            sent.append(-1)
            pauses += 1
        sent.append(kernel)
    return pauses


@pytest.mark.parametrize("kernels", [1, 2, 3, 16])
def test_pauses_keep_a_kernel_from_its_sums(kernels: int) -> None:
    """ZS R40, ZS R53: as many as a walk through the steps finds; ends of channels are steps too."""
    shape = SHAPES[0]
    (block,) = random_blocks(shape, 0.15, blocks=1)
    block[kernels:] = 0
    made = tile_words(block[None], shape)
    (work,) = made.work
    pauses = slow_pauses(made, shape, 8)
    assert (work.weights, work.others) == (np.count_nonzero(block), 8 + pauses)
    assert work.read == BEGIN + work.weights + work.others
    assert pauses > 10 or kernels > 1
