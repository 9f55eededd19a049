"""processes/sparse_cluster: a unit of variant B, on the vectors and on random pieces."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_units import INDEXED, UnitError, UnitRun, builds, run_unit
from hypothesis import given, settings
from hypothesis import strategies as st
from random_pieces import RandomPieces, piece_blocks, random_numbers, values_of_tiles
from sparse_vectors import check_outputs, load_vector
from unit_words import (
    UnitNumbers,
    grid_of,
    kernel_steps,
    piece_words,
    stop_word,
)

from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle

ALL_INTEGERS = ("native", "ap_int", "exact")
#: Values that the units of each build take at once.
PRODUCTS = (4, 3, 6, 5, 9, 4, 2)
#: Vectors of one piece whose micro-tiles are as large as their kernel -> the build with their kernel and lanes.
VECTORS = {
    "sc02_two_rounds": 1, "sc03_packed": 1, "sc04_single_value": 1, "sc05_conflict": 1, "sc06_all_zero": 2,
    "sc07_all_dense": 2, "sc08_single_nonzero": 2, "sc10_stride2": 2, "sc11_padding": 2, "sc16_sparse_kernel": 2,
}  # fmt: skip


def run_pieces(
    integers: Integers, number: int, words: list[np.ndarray], steps: list[np.ndarray], rarely: int = 2, room: int = 3
) -> UnitRun:
    pieces = np.concatenate([*words, stop_word(builds(INDEXED)[number].numbers)])
    return run_unit(integers, number, pieces, np.concatenate(steps), rarely, room, INDEXED)


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("integers", ALL_INTEGERS)
def test_a_unit_gives_the_results_and_rounds_of_the_vector(integers: Integers, name: str) -> None:
    """SC R69, SC R75, SC R91, SC R92, SC R97: sums, values that enter lanes, rounds, and lanes that idle."""
    vector, number = load_vector(name), VECTORS[name]
    numbers, config, image = builds(INDEXED)[number].numbers, vector["config"], np.array(vector["input"]["map"])
    kernel = np.array(vector["weights"]["kernel"])
    assert (numbers.kernel, PRODUCTS[number]) == (tuple(config["tile"]), config["p"])
    piece = Rectangle(0, 0, *image.shape)
    words = piece_words(image[:, :, None], piece, numbers, 1)
    run = run_pieces(integers, number, [words], kernel_steps(kernel[None, :, :, None], numbers, 1))
    full = grid_of(run.sums, piece, numbers, 1, kernel.shape)
    assert full[0].tolist() == vector["expected"]["full"]
    check_outputs(full, kernel, vector)
    expected = vector["expected"]["schedules"]["B"]
    pairs = run.issued * np.count_nonzero(kernel)
    assert (run.issued, run.rounds) == (np.count_nonzero(image), expected["rounds"])
    assert (pairs, run.rounds * config["p"] - pairs) == (expected["issued"], expected["idle"])


def rounds_of(image: np.ndarray, weights: np.ndarray, tile: tuple[int, int], lanes: int) -> int:
    """E6: a round for each weight of a kernel and each ``lanes`` values of a tile; image from a tile's corner on."""
    rounds = -(-values_of_tiles(image, tile) // lanes)
    return int((rounds.sum(axis=(0, 1)) * np.count_nonzero(weights, axis=(0, 1, 2))).sum())


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=40, deadline=None)
@given(
    number=st.integers(0, 6), seed=st.integers(0, 1 << 30), density=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    kept=st.sampled_from([0.15, 0.6, 1.0]), rarely=st.integers(0, 7),
)  # fmt: skip
def test_pieces_of_random_layers(
    integers: Integers, number: int, seed: int, density: float, kept: float, rarely: int
) -> None:
    """SC R75, SC R91-R93, SC R96, SC R97: pieces after each other, in both sets of memories; rounds as numpy counts."""
    build, issued, rounds, steps = builds(INDEXED)[number], 0, 0, []
    drawn = RandomPieces(build, np.random.default_rng(seed), density, kept)
    for image, weights, _ in drawn.layers():
        steps += kernel_steps(weights, build.numbers, 1)
        issued += np.count_nonzero(image)
        rounds += rounds_of(image, weights, build.numbers.kernel, PRODUCTS[number])
    run = run_pieces(integers, number, drawn.words, steps, rarely=rarely)
    assert (run.issued, run.rounds) == (issued, rounds)
    drawn.check(run.sums)


@pytest.mark.parametrize(("density", "kept"), [(0.5, 1.0), (0.2, 0.6), (0.05, 1.0)])
def test_a_round_takes_a_clock(density: float, kept: float) -> None:
    """SC R97, SC E6: few clocks beside the rounds with eight kernels in flight, when nobody keeps the unit waiting."""
    number = 0
    numbers, generator = builds(INDEXED)[number].numbers, np.random.default_rng(4)
    image = random_numbers(generator, (12, 12, 8), density, 8)
    weights = random_numbers(generator, (8, 3, 3, 8), kept, 8)
    piece = Rectangle(0, 0, 12, 12)
    words = piece_words(image, piece, numbers, 8)
    run = run_pieces("native", number, [words], kernel_steps(weights, numbers, 1), rarely=0, room=4096)
    leave = 8 * len(piece_blocks(piece, numbers))
    steps_come = 4 * 72
    assert run.rounds + leave <= run.clocks <= 1.1 * run.rounds + leave + steps_come + 100


def two_kernels(numbers: UnitNumbers) -> tuple[np.ndarray, np.ndarray]:
    """A word of a piece and the steps of two kernels."""
    steps = np.concatenate(kernel_steps(np.full((2, 3, 3, 1), 1), numbers, 1))
    return piece_words(np.full((2, 2, 1), 3), Rectangle(0, 0, 2, 2), numbers, 2), steps


def test_a_kernel_that_comes_back_too_early_stops_the_simulation() -> None:
    """SC R92: sums of a kernel are met again `sum_distance` clocks later, or a waiver is broken."""
    numbers = builds(INDEXED)[0].numbers
    words, steps = two_kernels(numbers)
    run_pieces("native", 0, [words], [steps])
    with pytest.raises(UnitError, match="of memory `cell_` against its waiver"):
        run_pieces("native", 0, [words], [np.delete(steps, [2, 3], axis=0)], rarely=0)


def test_a_step_of_two_weights_stops_the_simulation() -> None:
    """SC R96: with one weight a round no two products have one index; a second weight is refused."""
    numbers = builds(INDEXED)[0].numbers
    words, steps = two_kernels(numbers)
    steps[0, :2] = 1
    with pytest.raises(UnitError, match="a step of variant B has a second weight at 1"):
        run_pieces("native", 0, [words], [steps])
