"""processes/sparse_cluster: units of variants C and D, on the vectors and on random pieces."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_units import PACKED, UnitError, UnitRun, builds, run_unit
from hypothesis import given, settings
from hypothesis import strategies as st
from merged_rounds import Merged, merged, rounds_of_piece
from random_pieces import RandomPieces, random_numbers
from sparse_vectors import load_vector
from unit_words import (
    grid_of,
    kernel_steps,
    piece_words,
    stop_word,
)

from bfpga.contract.arrays.sparse_cluster import MERGE_DISTANCE, SUM_DISTANCE
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle

ALL_INTEGERS = ("native", "ap_int", "exact")
#: Values of a group of each build; those of variant C stand before those of D.
VALUES = (2, 1, 4, 5, 9)
KINDS = len(VALUES)
#: Vectors of one piece with kernels that a build has.
VECTORS = {
    "sc02_two_rounds": 1, "sc03_packed": 1, "sc04_single_value": 1, "sc05_conflict": 1, "sc06_all_zero": 2,
    "sc07_all_dense": 2, "sc08_single_nonzero": 2, "sc10_stride2": 2, "sc11_padding": 2, "sc16_sparse_kernel": 2,
}  # fmt: skip


def run_pieces(
    integers: Integers, number: int, words: list[np.ndarray], steps: list[np.ndarray], rarely: int = 2
) -> UnitRun:
    pieces = np.concatenate([*words, stop_word(builds(PACKED)[number].numbers)])
    return run_unit(integers, number, pieces, np.concatenate(steps), rarely, 3, PACKED)


@pytest.mark.parametrize("variant", ["C", "D"])
@pytest.mark.parametrize("name", VECTORS)
def test_a_unit_gives_the_results_of_the_vector(name: str, variant: str) -> None:
    """SC R98, SC R105, SC R112: sums of all vectors, with two weights a round; none of B's rounds more."""
    vector, number = load_vector(name), VECTORS[name]
    image, kernel = np.array(vector["input"]["map"])[:, :, None], np.array(vector["weights"]["kernel"])
    index = number + KINDS * (variant == "D")
    numbers, piece = builds(PACKED)[index].numbers, Rectangle(0, 0, *image.shape[:2])
    steps = kernel_steps(kernel[None, :, :, None], numbers, 2, MERGE_DISTANCE)
    run = run_pieces("native", index, [piece_words(image, piece, numbers, 1)], steps)
    assert grid_of(run.sums, piece, numbers, 1, kernel.shape)[0].tolist() == vector["expected"]["full"]
    assert run.issued == np.count_nonzero(image)
    expected = merged(rounds_of_piece(image, piece, steps, numbers, VALUES[number]), variant == "D")
    assert (run.rounds, run.held, run.stalls) == (expected.rounds, expected.held, expected.stalls)


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=40, deadline=None)
@given(
    number=st.integers(0, 2 * KINDS - 1), seed=st.integers(0, 1 << 30),
    density=st.sampled_from([0.0, 0.05, 0.4, 1.0]), kept=st.sampled_from([0.15, 0.6, 1.0]), rarely=st.integers(0, 7),
)  # fmt: skip
def test_pieces_of_random_layers(
    integers: Integers, number: int, seed: int, density: float, kept: float, rarely: int
) -> None:
    """SC R98-R102, SC R104-R112: pieces after each other; products that wait, and rounds that do, as counted."""
    numbers, steps, counts = builds(PACKED)[number].numbers, [], Merged()
    drawn = RandomPieces(builds(PACKED)[number], np.random.default_rng(seed), density, kept)
    for image, weights, piece in drawn.layers():
        made = kernel_steps(weights, numbers, 2, MERGE_DISTANCE)
        steps += made
        own = merged(rounds_of_piece(image, piece, made, numbers, VALUES[number % KINDS]), number >= KINDS)
        counts.rounds, counts.held = counts.rounds + own.rounds, counts.held + own.held
        counts.stalls += own.stalls
    run = run_pieces(integers, number, drawn.words, steps, rarely=rarely)
    assert (run.rounds, run.held, run.stalls) == (counts.rounds, counts.held, counts.stalls)
    drawn.check(run.sums)


@pytest.mark.parametrize("variant", ["C", "D"])
@pytest.mark.parametrize(("density", "most"), [(0.1, 0.65), (0.2, 0.85)])
def test_lanes_that_would_idle_take_the_next_weight(variant: str, density: float, most: float) -> None:
    """SC R70, SC R71, SC R111: fewer clocks than variant B's rounds on sparse maps; D holds less back than C."""
    numbers, generator = builds(PACKED)[0].numbers, np.random.default_rng(4)
    image = random_numbers(generator, (12, 12, 8), density, 8)
    weights = random_numbers(generator, (8, 3, 3, 8), 1.0, 8)
    piece = Rectangle(0, 0, 12, 12)
    steps = kernel_steps(weights, numbers, 2, MERGE_DISTANCE)
    run = run_pieces("native", KINDS * (variant == "D"), [piece_words(image, piece, numbers, 8)], steps, rarely=0)
    tiles = (image.reshape(4, 3, 4, 3, 8) != 0).sum(axis=(1, 3))
    rounds_of_b = 8 * int((np.count_nonzero(weights[0], axis=(0, 1)) * -(-tiles // 4)).sum())
    assert run.rounds + run.stalls < most * rounds_of_b
    other = run_pieces("native", KINDS * (variant == "C"), [piece_words(image, piece, numbers, 8)], steps, rarely=0)
    assert (run.held > other.held) == (variant == "C")


def test_every_product_leaves_once() -> None:
    """SC R103, SC R104, SC R109: nothing is lost or added twice in a queue; it is empty when the sums leave."""
    numbers, generator = builds(PACKED)[0].numbers, np.random.default_rng(5)
    image = random_numbers(generator, (9, 9, 4), 0.5, 8)
    weights = random_numbers(generator, (8, 3, 3, 4), 0.8, 8)
    piece = Rectangle(0, 0, 9, 9)
    steps = kernel_steps(weights, numbers, 2, MERGE_DISTANCE)
    pairs = sum(np.count_nonzero(image[..., c]) * np.count_nonzero(weights[..., c]) for c in range(4))
    count = merged(rounds_of_piece(image, piece, steps, numbers, VALUES[0]), False)
    assert count.left == pairs
    assert run_pieces("native", 0, [piece_words(image, piece, numbers, 8)], steps).held == count.held > 0


def test_steps_at_the_distance_of_variant_b_stop_the_simulation() -> None:
    """SC R102: a product may wait a clock, so a kernel is met again a clock later than in variant B."""
    numbers = builds(PACKED)[4].numbers
    weights = np.full((1, 3, 3, 1), 1)
    words = piece_words(np.full((9, 9, 1), 3), Rectangle(0, 0, 9, 9), numbers, 1)
    run_pieces("native", 4, [words], kernel_steps(weights, numbers, 2, MERGE_DISTANCE))
    with pytest.raises(UnitError, match="of memory `cell_` against its waiver"):
        run_pieces("native", 4, [words], kernel_steps(weights, numbers, 2, SUM_DISTANCE), rarely=0)


def test_a_step_of_three_weights_stops_the_simulation() -> None:
    """SC R61, SC R98: a round has two weights."""
    numbers = builds(PACKED)[0].numbers
    words = piece_words(np.full((2, 2, 1), 3), Rectangle(0, 0, 2, 2), numbers, 2)
    steps = np.concatenate(kernel_steps(np.full((2, 3, 3, 1), 1), numbers, 2, MERGE_DISTANCE))
    steps[0, :3] = 1
    with pytest.raises(UnitError, match="a step of variants C and D has a third weight at 2"):
        run_pieces("native", 0, [words], [steps])
