"""Clocks of passes of an array that skips activations, as the model has them, against its C++, clock by clock."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_arrays import HALVES, Operation, SparseArray

from bfpga.contract.arrays.skip_array import SparseArray as Activations
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.skip_array import input_share
from bfpga.engines.skip_array.activation_cycles import ONE_LANE, SparseOperation
from bfpga.engines.skip_array.input_share import Segment, window_clocks

#: Arrays of tests/cpp/sparse_array.cpp: rows of fewer clocks than a memory's guard, and of more.
NUMBERS = (1, 3)
#: The array of a PYNQ-Z2.
PYNQ = 0
#: Clocks until a credit of this harness brings a segment: there is no scratchpad.
HARNESS_CREDIT = 4


def configuration(array: SparseArray) -> KernelConfig:
    return KernelConfig(
        columns=array.columns, rows=array.rows, lanes=array.lanes, multiplier="dsp_packed", accumulator_bits=24,
        array=Activations(array.chunk, array.queue, array.passes),
    )  # fmt: skip


def segments(array: SparseArray, operation: Operation) -> list[Segment]:
    """What groups multiply by in each segment of a window that all slices read."""
    used = operation.window(0) != 0
    of_word = 1.0
    if operation.lanes_apart:
        # The lanes of the only pixel stand for pixels.
        used, of_word = used[:, :1].swapaxes(1, 3), ONE_LANE
        used = np.pad(used, ((0, 0), (0, array.columns - array.lanes), (0, 0), (0, 0)))
    passes = -(-len(used) // HALVES)
    padded = np.pad(used, ((0, passes * HALVES - len(used)), (0, 0), (0, 0), (0, 0)))
    counts = padded.reshape(passes, HALVES * array.columns, operation.steps, -1).sum(axis=3)
    found = []
    for chunk in operation.chunks():
        for first in range(chunk.start, chunk.stop, array.segment_steps):
            end = min(first + array.segment_steps, chunk.stop)
            part = counts[:, :, first:end]
            clocks = (of_word * part.sum(axis=2) + (part[:, :, -1] == 0)).astype(np.float64)
            found.append(Segment(clocks[:, None], end - first, end == chunk.stop, min(HALVES, len(used))))
    return found


def model(array: SparseArray, operation: Operation) -> int:
    config, parts = configuration(array), segments(array, operation)
    channels = ONE_LANE if operation.lanes_apart else array.lanes
    groups, products = operation.windows.shape[1], len(parts[0].clocks) * operation.steps * channels
    share = float(window_clocks(parts, config).mean()) / products
    slices = len(operation.weights)
    return SparseOperation(
        config, groups, slices, operation.steps, channels=channels, share=share, apart=operation.lanes_apart
    ).clocks


@pytest.mark.parametrize("density", [0.1, 0.4, 0.7, 1.0])
@pytest.mark.parametrize(("slices", "steps"), [(1, 8), (1, 3), (2, 16), (2, 12)], ids=str)
@pytest.mark.parametrize("number", NUMBERS)
def test_passes_take_the_clocks_of_the_array(
    number: int, slices: int, steps: int, density: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What many passes take beyond fewer: feed, products of the fullest group, sums of short windows, weights."""
    monkeypatch.setattr(input_share, "CREDIT", HARNESS_CREDIT)
    array = SparseArray.of(number, "native")
    chunk = min(steps, array.chunk // array.lanes)
    chunk = -(-steps // -(-steps // chunk))
    few, many = 8 * array.passes, 24 * array.passes
    operation = array.random(np.random.default_rng(2), density, many, slices, steps, chunk)
    part = Operation(operation.windows[:, :few], operation.weights, chunk)
    clocks = array.run([operation]).clocks - array.run([part]).clocks
    expected = model(array, operation) - model(array, part)
    assert abs(clocks / expected - 1) < 0.05


@pytest.mark.parametrize(("density", "of_words"), [(0.1, 1.01), (0.4, 1.01), (0.7, 1.12), (1.0, 1.51)])
def test_a_pixel_whose_lanes_have_a_group_each_takes_a_clock_for_each_word_of_weights(
    density: float, of_words: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the array of a PYNQ-Z2, as long as a third of its activations is zero; four clocks without that."""
    monkeypatch.setattr(input_share, "CREDIT", HARNESS_CREDIT)
    array = SparseArray.of(PYNQ, "native")
    chunk = array.chunk // array.lanes
    clocks, expected = [], []
    for slices in (3, 6):
        operation = array.random(np.random.default_rng(3), density, 1, slices, 4 * chunk, chunk, lanes_apart=True)
        assert operation.lanes_apart
        clocks.append(array.run([operation]).clocks)
        expected.append(model(array, operation))
    taken, words = clocks[1] - clocks[0], 3 * 4 * chunk
    assert abs(taken / (expected[1] - expected[0]) - 1) < 0.02
    assert 0.99 * words <= taken < of_words * words
