"""processes/sparse_cluster: a unit of each variant, on the vectors and on random pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace

import numpy as np
import pytest
from cluster_configs import CLUSTER
from cluster_units import STEPS, UnitError, UnitRun, builds, run_unit
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from merged_rounds import Merged, merged, rounds_of_piece
from random_pieces import RandomPieces, piece_blocks, random_numbers, values_of_tiles
from sparse_vectors import FOLDER, check_outputs, load_vector
from unit_words import UnitNumbers, grid_of, kernel_steps, piece_words

from bfpga.contract.arrays.sparse_cluster import SUM_DISTANCE, ClusterVariant, SparseCluster
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.engines.sparse_cluster.unit_clocks import piece_groups, steps_of_channels
from bfpga.engines.sparse_cluster.window_walk import serpentine, walk_clocks

ALL_INTEGERS = ("native", "ap_int", "exact")
#: Values that the units of each build take at once; variant D is as C.
PRODUCTS = {"B": (4, 3, 6, 5, 9, 2), "C": (2, 1, 4, 5, 9), "D": (2, 1, 4, 5, 9)}
#: Vectors of one piece and one channel with results of variant E.
STATIONARY = [
    path.stem
    for path in sorted(FOLDER.glob("sc*.json"))
    if "E" in load_vector(path.stem)["expected"].get("schedules", {})
]
#: Vectors of one piece whose micro-tiles are as large as their kernel, and with as many lanes as a build of variant B.
TILES = (
    "sc02_two_rounds", "sc03_packed", "sc04_single_value", "sc05_conflict", "sc06_all_zero", "sc07_all_dense",
    "sc08_single_nonzero", "sc10_stride2", "sc11_padding", "sc16_sparse_kernel",
)  # fmt: skip
VECTORS = [
    *(("E", name) for name in STATIONARY), *((variant, name) for variant in "ABCD" for name in TILES),
    ("A", "sc01_shift_window"), ("A", "sc15_p_gt_q"),
]  # fmt: skip


def steps_of(variant: str, weights: np.ndarray, numbers: UnitNumbers) -> list[np.ndarray]:
    return kernel_steps(weights, numbers, *STEPS[variant])


def counted(
    variant: str, number: int, image: np.ndarray, weights: np.ndarray, piece: Rectangle, steps: Sequence[np.ndarray]
) -> Merged:
    """Rounds of a unit, and what waits, as numpy counts; image: (rows, columns, channels), from a tile's corner on.

    E: a value meets each kernel with a weight. A: each weight a tile with a value; B: and each group of its values.
    """
    numbers = builds(variant)[number].numbers
    if variant in "CD":
        return merged(rounds_of_piece(image, piece, steps, numbers, PRODUCTS[variant][number]), variant == "D")
    if variant == "E":
        used = (weights != 0).any(axis=(1, 2)).sum(axis=0)
        return Merged(int((np.count_nonzero(image, axis=(0, 1)) * used).sum()))
    lanes = image.size + 1 if variant == "A" else PRODUCTS[variant][number]
    groups = (-(-values_of_tiles(image, numbers.kernel) // lanes)).sum(axis=(0, 1))
    return Merged(int((groups * np.count_nonzero(weights, axis=(0, 1, 2))).sum()))


def check_counts(run: UnitRun, issued: int, counts: Merged) -> None:
    assert (run.issued, run.rounds, run.held, run.stalls) == (issued, counts.rounds, counts.held, counts.stalls)


#: Builds of variant E that differ in their multipliers alone: a DSP block a product, one for two, none.
MULTIPLIERS = (0, 4, 5)


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@pytest.mark.parametrize("value", [-128, 127])
def test_multipliers_of_all_kinds_give_the_same_integers(integers: Integers, value: int) -> None:
    """SC R67, SC R73: every weight with the extremes of a value."""
    weights = np.concatenate([np.arange(-128, 128), [0] * 32]).reshape(4, 8, 3, 3).transpose(1, 2, 3, 0)
    numbers, piece = builds("E")[0].numbers, Rectangle(0, 0, 1, 1)
    words, steps = piece_words(np.full((1, 1, 4), value), piece, numbers, 8), steps_of("E", weights, numbers)
    expected = (value * weights).sum(axis=3)[:, ::-1, ::-1]
    for number in MULTIPLIERS:
        sums = run_unit(integers, "E", number, [words], steps).sums
        np.testing.assert_array_equal(grid_of(sums, piece, numbers, 8, (3, 3)), expected)


def build_of_vector(variant: str, kernel: np.ndarray) -> int:
    """The first build of variant E with room for a kernel; of the others that with kernels and lanes of the vectors."""
    if variant != "E":
        return {2: 1, 3: 2}[len(kernel)]
    return next(
        number
        for number, each in enumerate(builds("E"))
        if each.value_bits >= 8 and bool((np.array(kernel.shape) <= each.numbers.kernel).all())
    )


@pytest.mark.parametrize(("variant", "name"), VECTORS)
@pytest.mark.parametrize("integers", ALL_INTEGERS)
def test_a_unit_gives_the_results_and_rounds_of_the_vector(integers: Integers, variant: str, name: str) -> None:
    """SC R67, SC R69, SC R72, SC R74, SC R113-R115: sums, outputs, and a round for each step of variant E that adds.

    SC R75, SC R91, SC R92, SC R97: of B, values that enter lanes, rounds, and lanes that idle. SC R78, SC R83, SC R85:
    of A, an iteration for each weight of a tile that is not zero. SC R98, SC R105, SC R112: of C and D, two weights a
    round.
    """
    vector = load_vector(name)
    config, schedules = vector["config"], vector["expected"]["schedules"]
    image, kernel = np.array(vector["input"]["map"])[:, :, None], np.array(vector["weights"]["kernel"])
    number, piece = build_of_vector(variant, kernel), Rectangle(0, 0, *image.shape[:2])
    numbers, weights = builds(variant)[number].numbers, kernel[None, :, :, None]
    assert variant == "E" or numbers.kernel == tuple(config["tile"]) == kernel.shape
    steps = kernel_steps(weights, numbers, config["p"]) if variant == "E" else steps_of(variant, weights, numbers)
    run = run_unit(integers, variant, number, [piece_words(image, piece, numbers, 1)], steps)
    full = grid_of(run.sums, piece, numbers, 1, kernel.shape)
    assert full[0].tolist() == vector["expected"]["full"]
    check_outputs(full, kernel, vector)
    if variant == "E":
        check_counts(run, np.count_nonzero(image), Merged(schedules["E"]["rounds"]))
        return
    check_counts(run, np.count_nonzero(image), counted(variant, number, image, weights, piece, steps))
    if variant == "A":
        assert run.rounds == schedules.get("A_skip", schedules["B"])["iterations"] == schedules["B"]["iterations"]
    if variant == "B":
        pairs = run.issued * np.count_nonzero(kernel)
        assert PRODUCTS[variant][number] == config["p"]
        found = run.rounds, pairs, run.rounds * config["p"] - pairs
        assert found == tuple(schedules["B"][key] for key in ("rounds", "issued", "idle"))


@pytest.mark.parametrize("variant", STEPS)
@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=drawn(40), deadline=None)
@given(
    number=st.integers(0, 7), seed=st.integers(0, 1 << 30), density=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    kept=st.sampled_from([0.15, 0.6, 1.0]), rarely=st.integers(0, 7),
)  # fmt: skip
def test_pieces_of_random_layers(
    integers: Integers, variant: str, number: int, seed: int, density: float, kept: float, rarely: int
) -> None:
    """Pieces after each other, channels summed in the unit, weights of zero left out (SC R19, SC R38, SC R77, SC R130).

    SC R82: sums of a piece become zero while they leave, and values of the next one come meanwhile. SC R75, SC R76,
    SC R83-R87: windows of A; SC R91-R93, SC R96, SC R97: both sets of memories of B; SC R99-R102, SC R104-R111: what
    waits in C and D.
    """
    number %= len(builds(variant))
    build, issued, counts, steps = builds(variant)[number], 0, Merged(), []
    drawn = RandomPieces(build, np.random.default_rng(seed), density, kept)
    for image, weights, piece in drawn.layers():
        made = steps_of(variant, weights, build.numbers)
        steps += made
        issued += np.count_nonzero(image)
        own = counted(variant, number, image, weights, piece, made)
        counts = Merged(*(a + b for a, b in zip(astuple(counts), astuple(own), strict=True)))
    run = run_unit(integers, variant, number, drawn.words, steps, rarely)
    check_counts(run, issued, counts)
    drawn.check(run.sums)


def timed(variant: str, density: float, kept: float, kernels: int = 8) -> tuple[UnitRun, np.ndarray, list[np.ndarray]]:
    """A piece of 12 x 12 cells whose unit never waits; the map; the steps."""
    numbers, generator = builds(variant)[0].numbers, np.random.default_rng(4)
    image = random_numbers(generator, (12, 12, 8), density, 8)
    steps = steps_of(variant, random_numbers(generator, (kernels, 3, 3, 8), kept, 8), numbers)
    words = piece_words(image, Rectangle(0, 0, 12, 12), numbers, kernels)
    return run_unit("native", variant, 0, [words], steps, rarely=0, room=4096), image, steps


@pytest.mark.parametrize(("density", "most"), [(0.1, 0.65), (0.2, 0.85)])
def test_lanes_that_would_idle_take_the_next_weight(density: float, most: float) -> None:
    """SC R70, SC R71, SC R111: fewer clocks than variant B's rounds on sparse maps; D holds less back than C."""
    runs = {variant: timed(variant, density, 1.0)[0] for variant in "BCD"}
    assert all(runs[variant].rounds + runs[variant].stalls < most * runs["B"].rounds for variant in "CD")
    assert runs["C"].held > runs["D"].held


def test_every_product_leaves_once() -> None:
    """SC R103, SC R104, SC R109: nothing is lost or added twice in a queue; it is empty when the sums leave."""
    numbers, generator = builds("C")[0].numbers, np.random.default_rng(5)
    image = random_numbers(generator, (9, 9, 4), 0.5, 8)
    weights = random_numbers(generator, (8, 3, 3, 4), 0.8, 8)
    piece, steps = Rectangle(0, 0, 9, 9), steps_of("C", weights, numbers)
    pairs = sum(np.count_nonzero(image[..., c]) * np.count_nonzero(weights[..., c]) for c in range(4))
    count = counted("C", 0, image, weights, piece, steps)
    assert count.left == pairs
    assert run_unit("native", "C", 0, [piece_words(image, piece, numbers, 8)], steps).held == count.held > 0


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


def early_steps(variant: str) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """A build, words of a piece, steps at the distance of a variant, and steps that meet a kernel too early."""
    number = 4 if variant == "C" else 0
    numbers, size = builds(variant)[number].numbers, 9 if variant == "C" else 6
    weights = np.zeros((1 if variant in "AC" else 2, 3, 3, 1), np.int64)
    weights[:, 2 if variant == "A" else 0 :] = 1
    words = piece_words(np.full((size, size, 1), 3), Rectangle(0, 0, size, size), numbers, len(weights))
    steps = np.concatenate(steps_of(variant, weights, numbers))
    if variant == "C":
        return number, words, steps, np.concatenate(kernel_steps(weights, numbers, 2, SUM_DISTANCE))
    early = steps.copy() if variant == "A" else np.delete(steps, [2, 3], axis=0)
    if variant == "A":
        early[1, :9], early[1, 10] = early[0, :9], 1
    if variant == "E":
        early[1, -1] = 1
    return number, words, steps, early


@pytest.mark.parametrize("variant", ["A", "B", "C", "E"])
def test_a_kernel_that_comes_back_too_early_stops_the_simulation(variant: str) -> None:
    """SC R116, SC R92: sums of a kernel are met again so many clocks later, or a waiver is broken.

    SC R76: windows of A are added eight clocks apart. SC R102: a product of C may wait a clock, so a kernel is met
    again a clock later than in B.
    """
    number, words, steps, early = early_steps(variant)
    run_unit("native", variant, number, [words], [steps])
    with pytest.raises(UnitError, match="of memory `cell_` against its waiver"):
        run_unit("native", variant, number, [words], [early], rarely=0)


@pytest.mark.parametrize(
    ("variant", "weights", "message"),
    [("B", 2, "of variant B has a second weight at 1"), ("C", 3, "of variants C and D has a third weight at 2")],
)
def test_a_step_of_too_many_weights_stops_the_simulation(variant: str, weights: int, message: str) -> None:
    """SC R96: with one weight a round no two products have one index. SC R61, SC R98: a round has two weights."""
    numbers = builds(variant)[0].numbers
    words = piece_words(np.full((2, 2, 1), 3), Rectangle(0, 0, 2, 2), numbers, 2)
    steps = np.concatenate(steps_of(variant, np.full((2, 3, 3, 1), 1), numbers))
    steps[0, :weights] = 1
    with pytest.raises(UnitError, match=f"a step {message}"):
        run_unit("native", variant, 0, [words], [steps])


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("variant", ["A", "B", "C", "D", "E"])
def test_a_unit_takes_the_clocks_of_its_schedule(variant: ClusterVariant, share: float) -> None:
    """SC E6: of each channel its groups times its steps, on a piece of whole micro-tiles, besides the clocks in which
    sums leave. Steps of lists are those that the unit is fed with (test_cluster_ends.py)."""
    array = SparseCluster(words=16, variant=variant, lanes=4)
    config, numbers, generator = replace(CLUSTER, array=array), builds(variant)[0].numbers, np.random.default_rng(6)
    image = random_numbers(generator, (12, 12, 8), share, 8)
    weights, piece = random_numbers(generator, (8, 3, 3, 8), 0.7, 8), Rectangle(0, 0, 12, 12)
    steps = steps_of(variant, weights, numbers)
    words = [piece_words(image, piece, numbers, 8)]
    run = run_unit("native", variant, 0, words, steps, rarely=0, room=4096)
    leave = 8 * len(piece_blocks(piece, numbers))
    groups = np.array([piece_groups(144, np.count_nonzero(each) / 144, config) for each in np.moveaxis(image, 2, 0)])
    lists = np.diff(np.flatnonzero(np.concatenate(steps)[:, -1]), prepend=-1)
    of_channel = steps_of_channels(weights, config) if array.shifts_window else lists
    assert run.clocks - leave == pytest.approx(float(groups @ of_channel), rel=0.03)
