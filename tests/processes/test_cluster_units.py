"""sparse_cluster: a unit of variant E, on the vectors and on random pieces; and what a synthesis says of it."""

from __future__ import annotations

import numpy as np
import pytest
from changed_kernels import changed
from cluster_configs import CLUSTER
from cluster_units import DATA_STATIONARY, INDEXED, PACKED, SHIFT_WINDOW, UnitError, builds, run_unit
from hypothesis import given, settings
from hypothesis import strategies as st
from random_pieces import RandomPieces, piece_blocks, random_numbers
from sparse_vectors import FOLDER, check_outputs, load_vector
from unit_words import FEWEST_STEPS, blocks_of, grid_of, kernel_steps, piece_words, stop_word

from bfpga.contract.arrays.sparse_cluster import SUM_DISTANCE, ClusterVariant
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.engines.sparse_cluster.unit_clocks import piece_groups, steps_of_channels

#: Vectors of one piece and one channel with results of variant E.
VECTORS = [
    path.stem
    for path in sorted(FOLDER.glob("sc*.json"))
    if "E" in load_vector(path.stem)["expected"].get("schedules", {})
]
ALL_INTEGERS = ("native", "ap_int", "exact")


def build_for(kernel: tuple[int, int]) -> int:
    """The first build whose kernel is as large."""
    return next(
        number
        for number, each in enumerate(builds())
        if each.value_bits >= 8 and kernel[0] <= each.numbers.kernel[0] and kernel[1] <= each.numbers.kernel[1]
    )


#: Builds that differ in their multipliers alone: a DSP block a product, one for two, none.
MULTIPLIERS = (0, 4, 5)


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@pytest.mark.parametrize("value", [-128, 127, 1])
def test_multipliers_of_all_kinds_give_the_same_integers(integers: Integers, value: int) -> None:
    """SC R67, SC R73: every weight with the extremes of a value."""
    weights = np.concatenate([np.arange(-128, 128), [0] * 32]).reshape(4, 8, 3, 3).transpose(1, 2, 3, 0)
    numbers, piece = builds()[0].numbers, Rectangle(0, 0, 1, 1)
    image = np.full((1, 1, 4), value)
    words = np.concatenate([piece_words(image, piece, numbers, 8), stop_word(numbers)])
    steps = np.concatenate(kernel_steps(weights, numbers))
    runs = [run_unit(integers, number, words, steps) for number in MULTIPLIERS]
    expected = (value * weights).sum(axis=3)[:, ::-1, ::-1]
    for run in runs:
        np.testing.assert_array_equal(grid_of(run.sums, piece, numbers, 8, (3, 3)), expected)


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("integers", ALL_INTEGERS)
def test_a_unit_gives_the_results_and_rounds_of_the_vector(integers: Integers, name: str) -> None:
    """SC R67, SC R69, SC R72, SC R74, SC R113-R115: sums, outputs, and a round for each step that adds."""
    vector = load_vector(name)
    config, image = vector["config"], np.array(vector["input"]["map"])
    kernel = np.array(vector["weights"]["kernel"])
    number = build_for(kernel.shape)
    numbers = builds()[number].numbers
    piece = Rectangle(0, 0, *image.shape)
    steps = np.concatenate(kernel_steps(kernel[None, :, :, None], numbers, config["p"]))
    words = np.concatenate([piece_words(image[:, :, None], piece, numbers, 1), stop_word(numbers)])
    run = run_unit(integers, number, words, steps)
    full = grid_of(run.sums, piece, numbers, 1, kernel.shape)
    assert full[0].tolist() == vector["expected"]["full"]
    check_outputs(full, kernel, vector)
    assert run.issued == np.count_nonzero(image)
    assert run.rounds == vector["expected"]["schedules"]["E"]["rounds"]


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=40, deadline=None)
@given(
    number=st.integers(0, 6), seed=st.integers(0, 1 << 30), density=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    kept=st.sampled_from([0.15, 0.6, 1.0]), rarely=st.integers(0, 7),
)  # fmt: skip
def test_pieces_of_random_layers(
    integers: Integers, number: int, seed: int, density: float, kept: float, rarely: int
) -> None:
    """Pieces after each other, channels summed in the unit, weights of zero left out (SC R19, SC R38, SC R77, SC R130).

    SC R82: sums of a piece become zero while they leave, and values of the next one come meanwhile.
    """
    numbers, issued, rounds, steps = builds()[number].numbers, 0, 0, []
    drawn = RandomPieces(builds()[number], np.random.default_rng(seed), density, kept)
    for image, weights, _ in drawn.layers():
        steps += kernel_steps(weights, numbers)
        used = (weights != 0).any(axis=(1, 2)).sum(axis=0)
        issued += np.count_nonzero(image)
        rounds += int((np.count_nonzero(image, axis=(0, 1)) * used).sum())
    words = np.concatenate([*drawn.words, stop_word(numbers)])
    run = run_unit(integers, number, words, np.concatenate(steps), rarely)
    assert (run.issued, run.rounds) == (issued, rounds)
    drawn.check(run.sums)


@pytest.mark.parametrize(("density", "kept", "kernels"), [(0.5, 1.0, 8), (0.2, 0.1, 8), (0.9, 0.5, 3), (0.05, 1.0, 5)])
def test_a_value_takes_a_step_for_each_kernel_in_flight(density: float, kept: float, kernels: int) -> None:
    """SC R116, SC E14: the clocks that are predicted, and few beside them, when nobody keeps the unit waiting."""
    number, channels = 0, 8
    numbers, generator = builds()[number].numbers, np.random.default_rng(4)
    image = random_numbers(generator, (12, 12, channels), density, 8)
    piece = Rectangle(0, 0, 12, 12)
    weights = random_numbers(generator, (kernels, 3, 3, channels), kept, 8)
    steps = np.concatenate(kernel_steps(weights, numbers))
    words = np.concatenate([piece_words(image, piece, numbers, kernels), stop_word(numbers)])
    run = run_unit("native", number, words, steps, rarely=0, room=4096)
    clocks_of_value = np.diff(np.flatnonzero(steps[:, -1]), prepend=-1)
    predicted = int((np.count_nonzero(image, axis=(0, 1)) * clocks_of_value).sum())
    predicted += channels // numbers.lanes * FEWEST_STEPS + blocks_of(piece, numbers).count * kernels + 2 * SUM_DISTANCE
    assert predicted <= run.clocks <= predicted + 100


def test_a_kernel_that_comes_back_too_early_stops_the_simulation() -> None:
    """SC R116: two kernels in flight without pauses break the distance that the sums are promised."""
    number = 0
    numbers = builds()[number].numbers
    image = np.full((2, 2, 1), 3)
    piece = Rectangle(0, 0, 2, 2)
    steps = np.concatenate(kernel_steps(np.full((2, 3, 3, 1), 1), numbers))
    words = np.concatenate([piece_words(image, piece, numbers, 2), stop_word(numbers)])
    run_unit("native", number, words, steps)
    short = np.delete(steps, [2, 3], axis=0)
    short[1, -1] = 1
    with pytest.raises(UnitError, match="of memory `cell_` against its waiver"):
        run_unit("native", number, words, short, rarely=0)


#: Library and number of a unit of each variant with 3 x 3 weights, eight channels of a word and kernels in flight.
VARIANTS: dict[ClusterVariant, tuple[str, int]] = {
    "A": (SHIFT_WINDOW, 0), "B": (INDEXED, 0), "C": (PACKED, 0), "D": (PACKED, 5), "E": (DATA_STATIONARY, 0),
}  # fmt: skip


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_unit_takes_the_clocks_of_its_schedule(variant: ClusterVariant, share: float) -> None:
    """SC E6: of each channel its groups times its steps, on a piece of whole micro-tiles, beside the clocks in which
    sums leave. Steps of lists are those that the unit is fed with (test_cluster_ends.py)."""
    units, number = VARIANTS[variant]
    config = changed(CLUSTER, array_variant=variant, array_lanes=4)
    numbers, generator = builds(units)[number].numbers, np.random.default_rng(6)
    image = random_numbers(generator, (12, 12, 8), share, 8)
    weights = random_numbers(generator, (8, 3, 3, 8), 0.7, 8)
    piece, of_step = Rectangle(0, 0, 12, 12), config.step_weights if config.lists_taps else None
    steps = np.concatenate(kernel_steps(weights, numbers, of_step, config.step_distance))
    words = np.concatenate([piece_words(image, piece, numbers, 8), stop_word(numbers)])
    run = run_unit("native", number, words, steps, rarely=0, room=4096, units=units)
    leave = 8 * len(piece_blocks(piece, numbers))
    groups = np.array([piece_groups(144, np.count_nonzero(each) / 144, config) for each in np.moveaxis(image, 2, 0)])
    lists = np.diff(np.flatnonzero(steps[:, -1]), prepend=-1)
    of_channel = steps_of_channels(weights, config) if config.shifts_window else lists
    expected = float(groups @ of_channel)
    assert run.clocks - leave == pytest.approx(expected, rel=0.03)
