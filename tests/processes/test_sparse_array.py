"""skip_array/sparse_array.hpp: activations of all densities against integer sums, several runs, slices and chunks,
operands, weights and sums that come and go when they like."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from effort import drawn
from sparse_arrays import SparseArray

from bfpga.devices.csim import Integers

#: The arrays of tests/cpp/sparse_array.cpp: that of a PYNQ-Z2, which takes long with exact integers, and others.
PYNQ, SMALL = 0, (1, 2, 3)
CASES: list[tuple[int, Integers]] = [(PYNQ, "native"), *itertools.product(SMALL, ("native", "exact"))]


@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("number", "integers"), CASES)
def test_sums_equal_integers_at_every_density(number: int, integers: Integers, density: float) -> None:
    """One pixel, single halves, whole runs and a rest; one chunk and several, full or short; words in one slot or two;
    slices with a window of their own or a common one; lanes of a pixel in one group or apart; all in one start."""
    array = SparseArray.of(number, integers)
    rng = np.random.default_rng(int(100 * density))
    full = array.chunk // array.lanes
    most = 2 * array.passes
    operations = [
        array.random(rng, density, 1, 1, 1, 1),
        array.random(rng, density, 1, 3, full + 2, full),
        array.random(rng, density, 1, 3, 2 * full + 2, full, lanes_apart=True),
        array.random(rng, density, 1, 1, 1, 1, lanes_apart=True),
        array.random(rng, density, 2, 2, 5, 2),
        array.random(rng, density, most, 1, 3, full, apart=True),
        array.random(rng, density, 2 * most + 3, 2, 5, 4, apart=True),
        array.random(rng, density, 3, 1, 2 * full + 1, full),
    ]
    for slots, rarely, late in ((1, 0, 0), (2, 0, 6), (1, 5, 3)):
        result = array.run(operations, slots, rarely, late)
        np.testing.assert_array_equal(result.sums, array.expected(operations))
        assert result.credits == array.credits(operations)


@pytest.mark.parametrize("number", SMALL)
def test_weights_of_the_next_start_may_be_there_before_this_one_has_ended(number: int) -> None:
    """The first chunks of it fill the buffers of all groups. Operands wait for their start, as the beat that ends this
    one is in front of them."""
    array = SparseArray.of(number, "native")
    rng = np.random.default_rng(number)
    full = array.chunk // array.lanes
    for chunks in (1, 2):
        operations = [array.random(rng, 0.5, 2, 1, chunks * full, full), array.random(rng, 0.5, 1, 2, 1, 1)]
        result = array.run(operations, starts=3)
        np.testing.assert_array_equal(result.sums, array.expected(operations * 3))
        assert result.credits == array.credits(operations * 3)


@pytest.mark.parametrize("number", [PYNQ, *SMALL])
def test_random_operations_of_any_size(number: int) -> None:
    array = SparseArray.of(number, "native")
    rng = np.random.default_rng(number)
    full = array.chunk // array.lanes
    for seed in range(drawn(60) if number != PYNQ else 4):
        operations = []
        for _ in range(6):
            steps = int(rng.integers(1, full * 2))
            groups = int(rng.integers(1, 5 * array.passes if number != PYNQ else 9))
            sizes = groups, int(rng.integers(1, 4)), steps, int(rng.integers(1, min(steps, full) + 1))
            apart, lanes_apart = bool(seed % 2), bool(seed // 2 % 2)
            operations.append(array.random(rng, float(rng.random()), *sizes, apart, lanes_apart))
        result = array.run(operations, 1 + seed % 3, int(rng.integers(0, 7)), int(rng.integers(0, 7)))
        np.testing.assert_array_equal(result.sums, array.expected(operations))


@pytest.mark.parametrize("number", [PYNQ, *SMALL])
def test_operands_are_taken_though_nobody_takes_the_sums(number: int) -> None:
    """All credits but those of what two slices leave no room for come back before the first sum is taken."""
    array = SparseArray.of(number, "native")
    rng = np.random.default_rng(1)
    operations = [array.random(rng, 0.5, 2, 2, 6, 6), array.random(rng, 0.5, 1, 1, 2, 2)]
    credits = array.credits(operations[:1])
    result = array.run(operations, room=1, held=credits)
    np.testing.assert_array_equal(result.sums, array.expected(operations))
