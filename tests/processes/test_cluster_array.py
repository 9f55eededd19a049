"""sparse_cluster/multiplying.hpp: a whole cluster, from commands, operands and weight words to sums of outputs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cluster_arrays import ClusterLayer, kernels, run_layers
from cluster_ends import ClusterKernel

from bfpga.devices.csim import Integers

SMALL, ODD, LARGE, INDEXED, MERGING, ADDING, SHIFTING = range(7)
CASES: list[tuple[int, Integers]] = [
    *itertools.product((SMALL, ODD, INDEXED, MERGING, ADDING, SHIFTING), ("native", "exact")), (LARGE, "native"),
]  # fmt: skip


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...], density: float, bits: int) -> np.ndarray:
    values = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(rng.random(shape) < density, values, 0)


def random_layer(rng: np.random.Generator, kernel: ClusterKernel, density: float, moves: int = 0) -> ClusterLayer:
    """Maps of all sizes that fit, kernels up to the largest, any stride and padding, several blocks of kernels."""
    most = 14 if kernel.grid_rows < 4 else 18
    shape = int(rng.integers(1, most)), int(rng.integers(1, most))
    if moves:
        shape = max(shape[0], kernel.grid_rows), max(shape[1], kernel.grid_columns)
    channels, count = int(rng.integers(1, 3 * kernel.lanes)), int(rng.integers(1, 2 * kernel.rows + 2))
    taps = [int(rng.integers(1, kernel.kernel + 1)) for _ in range(2)]
    padding = [int(rng.integers(0, taps[axis])) for axis in (0, 0, 1, 1)]
    for axis in range(2):
        missing = taps[axis] - shape[axis] - padding[2 * axis] - padding[2 * axis + 1]
        taps[axis] -= max(0, missing)
        padding[2 * axis : 2 * axis + 2] = [min(pad, taps[axis] - 1) for pad in padding[2 * axis : 2 * axis + 2]]
    image = random_numbers(rng, (*shape, channels), density, kernel.value_bits)
    image[shape[0] // 2 :, : shape[1] // 2] *= rng.random(image[shape[0] // 2 :, : shape[1] // 2].shape) < 0.2
    weights = random_numbers(rng, (count, *taps, channels), 0.6, kernel.weight_bits)
    weights *= rng.random((count, 1, 1, channels)) < 0.7
    stride = int(rng.integers(1, kernel.kernel + 1)), int(rng.integers(1, kernel.kernel + 1))
    top, bottom, left, right = padding
    joined = tuple(int(rng.choice(divisors(parts))) for parts in (kernel.grid_rows, kernel.grid_columns))
    difference = int(rng.integers(0, 20))
    return ClusterLayer(image, weights, stride, (top, bottom, left, right), moves, difference, (joined[0], joined[1]))


def divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def check(
    integers: Integers, number: int, layers: list[ClusterLayer], slots: int = 1, seed: int = 0
) -> None:
    kernel = kernels()[number]
    sums = run_layers(integers, number, layers, slots, seed)
    expected = [row for layer in layers for row in layer.expected(kernel)]
    assert len(sums) == len(expected)
    for row, own in zip(sums, expected, strict=True):
        np.testing.assert_array_equal(row[: len(own)], own)


@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(("number", "integers"), CASES)
def test_sums_are_those_of_the_convolution(number: int, integers: Integers, density: float) -> None:
    """SC R19, SC R21, SC R30, SC R34, SC R60, SC R62, SC R115, SC R128, SC R129: pieces of equal size, operations one
    after the other; units share a piece, or have one each."""
    rng = np.random.default_rng(int(10 * density) + number)
    for slots in (1, 2):
        check(integers, number, [random_layer(rng, kernels()[number], density) for _ in range(5)], slots)


@pytest.mark.parametrize(("number", "integers"), CASES)
def test_processes_in_any_order(number: int, integers: Integers) -> None:
    """SC R62: who runs when, and which stream has a word when, changes nothing, and nobody waits for ever."""
    rng = np.random.default_rng(number)
    for seed in range(1, 7):
        layers = [random_layer(rng, kernels()[number], 0.3, int(rng.integers(0, 2)) * 200) for _ in range(3)]
        check(integers, number, layers, 1 + seed % 3, seed)


@pytest.mark.parametrize(("number", "integers"), CASES)
def test_pieces_that_follow_the_work(number: int, integers: Integers) -> None:
    """SC R22, SC R23, SC R33, SC R36: the map is counted before it is computed; its pieces change no sum."""
    rng = np.random.default_rng(50 + number)
    check(integers, number, [random_layer(rng, kernels()[number], 0.4, 200) for _ in range(5)])
