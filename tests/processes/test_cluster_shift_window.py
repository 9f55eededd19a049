"""processes/sparse_cluster: a unit of variant A, on the vectors and on random pieces."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_units import SHIFT_WINDOW, UnitError, UnitRun, builds, run_unit
from hypothesis import given, settings
from hypothesis import strategies as st
from random_pieces import RandomPieces, piece_blocks, random_numbers, values_of_tiles
from sparse_vectors import check_outputs, load_vector
from unit_words import UnitNumbers, grid_of, kernel_steps, piece_words, stop_word

from bfpga.contract.arrays.sparse_cluster import WINDOW_DISTANCE
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.engines.sparse_cluster.window_walk import serpentine, walk_clocks

ALL_INTEGERS = ("native", "ap_int", "exact")
#: Vectors of one piece whose micro-tiles are as large as their kernel -> the build with their kernel.
VECTORS = {
    "sc01_shift_window": 1, "sc02_two_rounds": 1, "sc03_packed": 1, "sc04_single_value": 1, "sc05_conflict": 1,
    "sc06_all_zero": 2, "sc07_all_dense": 2, "sc08_single_nonzero": 2, "sc10_stride2": 2, "sc11_padding": 2,
    "sc15_p_gt_q": 2, "sc16_sparse_kernel": 2,
}  # fmt: skip


def steps_of(weights: np.ndarray, numbers: UnitNumbers) -> list[np.ndarray]:
    return kernel_steps(weights, numbers, None, WINDOW_DISTANCE)


def run_pieces(
    integers: Integers, number: int, words: list[np.ndarray], steps: list[np.ndarray], rarely: int = 2, room: int = 3
) -> UnitRun:
    pieces = np.concatenate([*words, stop_word(builds(SHIFT_WINDOW)[number].numbers)])
    return run_unit(integers, number, pieces, np.concatenate(steps), rarely, room, SHIFT_WINDOW)


def occupied(image: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """Micro-tiles with a value of each channel (channels,); image: (rows, columns, channels), from a tile's corner."""
    return (values_of_tiles(image, tile) > 0).sum(axis=(0, 1))


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("integers", ALL_INTEGERS)
def test_a_unit_gives_the_results_and_iterations_of_the_vector(integers: Integers, name: str) -> None:
    """SC R69, SC R75, SC R78, SC R83, SC R85: sums; an iteration for each weight of a tile that is not zero, as of
    variant B, whose tiles without values have none either."""
    vector, number = load_vector(name), VECTORS[name]
    numbers, config, image = builds(SHIFT_WINDOW)[number].numbers, vector["config"], np.array(vector["input"]["map"])
    kernel = np.array(vector["weights"]["kernel"])
    assert numbers.kernel == tuple(config["tile"]) == kernel.shape
    piece = Rectangle(0, 0, *image.shape)
    words = piece_words(image[:, :, None], piece, numbers, 1)
    run = run_pieces(integers, number, [words], steps_of(kernel[None, :, :, None], numbers))
    full = grid_of(run.sums, piece, numbers, 1, kernel.shape)
    assert full[0].tolist() == vector["expected"]["full"]
    check_outputs(full, kernel, vector)
    schedules = vector["expected"]["schedules"]
    assert (run.issued, run.rounds) == (np.count_nonzero(image), schedules["B"]["iterations"])
    if "A_skip" in schedules:
        assert run.rounds == schedules["A_skip"]["iterations"]


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=40, deadline=None)
@given(
    number=st.integers(0, 7), seed=st.integers(0, 1 << 30), density=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    kept=st.sampled_from([0.15, 0.6, 1.0]), rarely=st.integers(0, 7),
)  # fmt: skip
def test_pieces_of_random_layers(
    integers: Integers, number: int, seed: int, density: float, kept: float, rarely: int
) -> None:
    """SC R75, SC R76, SC R82-R87: pieces after each other, kernels of any size; an iteration is a weight of a
    tile with a value."""
    build, issued, rounds, steps = builds(SHIFT_WINDOW)[number], 0, 0, []
    drawn = RandomPieces(build, np.random.default_rng(seed), density, kept)
    for image, weights, _ in drawn.layers():
        steps += steps_of(weights, build.numbers)
        issued += np.count_nonzero(image)
        rounds += int((occupied(image, build.numbers.kernel) * np.count_nonzero(weights, axis=(0, 1, 2))).sum())
    run = run_pieces(integers, number, drawn.words, steps, rarely=rarely)
    assert (run.issued, run.rounds) == (issued, rounds)
    drawn.check(run.sums)


@pytest.mark.parametrize(("density", "kept"), [(0.5, 1.0), (0.2, 0.6), (0.05, 1.0), (0.6, 0.2)])
def test_a_tap_of_a_walk_takes_a_clock(density: float, kept: float) -> None:
    """SC R78, SC R84, SC E6: clocks of walks and pauses alone beside those in which sums leave."""
    number = 0
    numbers, generator = builds(SHIFT_WINDOW)[number].numbers, np.random.default_rng(4)
    image = random_numbers(generator, (12, 12, 8), density, 8)
    weights = random_numbers(generator, (8, 3, 3, 8), kept, 8)
    piece = Rectangle(0, 0, 12, 12)
    words = piece_words(image, piece, numbers, 8)
    sets = steps_of(weights, numbers)
    run = run_pieces("native", number, [words], sets, rarely=0, room=4096)
    steps = np.concatenate(sets)
    ends = np.flatnonzero(steps[:, -1])
    walks = walk_clocks(steps[:, : numbers.cells].reshape(-1, *numbers.kernel) != 0)
    channels = np.diff(np.cumsum(walks)[ends], prepend=0)
    expected = int((occupied(image, numbers.kernel) * channels).sum())
    leave = 8 * len(piece_blocks(piece, numbers))
    assert expected + leave <= run.clocks <= expected + leave + 2 * 4 * 20 + 100


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 3), (2, 3), (5, 5)])
def test_the_walk_is_serpentine(kernel: tuple[int, int]) -> None:
    """SC R84: each weight once, whose origins are a cell apart, from the bottom right on."""
    order = [divmod(tap, kernel[1]) for tap in serpentine(*kernel).tolist()]
    assert sorted(order) == list(np.ndindex(kernel))
    origins = np.array(kernel) - 1 - np.array(order)
    assert origins[0].tolist() == [kernel[0] - 1, kernel[1] - 1]
    assert (np.abs(np.diff(origins, axis=0)).sum(axis=1) == 1).all()


def test_a_walk_goes_from_its_first_weight_to_the_last_tap() -> None:
    """SC R84, SC R85: zeros in front take no clock, others are passed, and four clocks are the fewest."""
    used = np.zeros((5, 3, 3), np.bool_)
    used[0] = True
    used[1, 0, 1] = used[1, 2, 2] = True
    used[2, 1, 2] = True
    used[3, 2, 2] = True
    assert walk_clocks(used).tolist() == [9, 8, 6, 4, 4]


def test_a_kernel_that_comes_back_too_early_stops_the_simulation() -> None:
    """SC R76: windows of a kernel are added eight clocks apart, or a waiver is broken."""
    numbers = builds(SHIFT_WINDOW)[0].numbers
    weights = np.zeros((1, 3, 3, 1), np.int64)
    weights[:, 2] = 1
    words = piece_words(np.full((6, 6, 1), 3), Rectangle(0, 0, 6, 6), numbers, 1)
    steps = np.concatenate(steps_of(weights, numbers))
    run_pieces("native", 0, [words], [steps])
    steps[1, :9], steps[1, 10] = steps[0, :9], 1
    with pytest.raises(UnitError, match="of memory `cell_` against its waiver"):
        run_pieces("native", 0, [words], [steps], rarely=0)
