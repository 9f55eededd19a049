"""processes/sparse_cluster/partition.hpp: limits, moves and report are those of the exchange in numpy.

Of both forms: pieces that share no cell, or pieces that own outputs and have the cells that these need.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from changed_kernels import changed
from cluster_configs import CLUSTER
from cluster_partitions import BUILDS, FIRST_HALO, run_in_kernel, run_partition
from cluster_processes import ClusterWork, builds, run_cluster
from effort import drawn
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from map_words import (
    map_cells,
    map_word,
    overlap_add_limits,
    shared_halo_limits,
    unit_capacity,
    whole_grid,
)
from reference_sparse_cluster import full_grid
from sparse_vectors import load_vector, mask_of
from unit_words import kernel_steps

from bfpga.contract.configuration import KernelConfig
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.exchange import (
    Partition,
    PartitionSettings,
    PieceTooLargeError,
    balance,
    work_map,
)
from bfpga.engines.sparse_cluster.partition.geometry import (
    CutGeometry,
    Rectangle,
    overlap_add_geometry,
    shared_halo_geometry,
)
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition, unit_values
from bfpga.engines.sparse_cluster.unit_maps import imbalance_tolerance, pieces_fit, possible_joins

ALL_INTEGERS = ("native", "ap_int", "exact")
#: A build of each form with 4 x 4 units, which clusters of ``cluster_processes`` have too.
ZCU104 = (2, FIRST_HALO + 2)


def clustered_map(generator: np.random.Generator, shape: tuple[int, int, int], density: float) -> np.ndarray:
    """(rows, columns, channels) of values that lie in one part of the map, with empty lines."""
    image = np.where(generator.random(shape) < density, generator.integers(1, 100, shape), 0)
    rows, columns = (np.sort(generator.integers(0, side + 1, 2)) for side in shape[:2])
    image[rows[0] : rows[1]] = 0
    image[:, columns[0] : columns[1]] *= generator.random((shape[0], columns[1] - columns[0], shape[2])) < 0.2
    return image


def kernel_of_build(generator: np.random.Generator, number: int) -> tuple[int, int]:
    """A kernel that the units of a build compute."""
    rows, columns = BUILDS[number][0].kernel
    return int(generator.integers(1, rows + 1)), int(generator.integers(1, columns + 1))


def geometry_of(number: int, shape: tuple[int, int], kernel: tuple[int, int]) -> CutGeometry:
    return shared_halo_geometry(*shape, kernel) if number >= FIRST_HALO else overlap_add_geometry(*shape)


def limits_of(
    number: int, pieces: list[Rectangle], shape: tuple[int, int], kernel: tuple[int, int], sharers: int = 1
) -> list[list[int]]:
    """Limits of all units of a build."""
    numbers, grid = BUILDS[number]
    if number >= FIRST_HALO:
        return shared_halo_limits(pieces, shape, kernel, numbers, math.prod(grid), sharers).tolist()
    return overlap_add_limits(pieces, numbers, math.prod(grid), sharers).tolist()


def settings_of(number: int, start: str = "equal", tau: float = 0, moves: int = 0) -> PartitionSettings:
    form = "halo" if number >= FIRST_HALO else "overlap_add"
    grid = BUILDS[number][1]
    return PartitionSettings(grid, form, start=start, metric="nnz", tau=tau, max_moves=moves)  # type: ignore[arg-type]


def equal_pieces(number: int, shape: tuple[int, int], kernel: tuple[int, int] = (1, 1)) -> Partition:
    return balance(np.ones(shape, np.int64), geometry_of(number, shape, kernel), settings_of(number)).partition


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=drawn(120), deadline=None)
@given(
    number=st.integers(0, len(BUILDS) - 1), seed=st.integers(0, 1 << 30),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]), tau=st.sampled_from([0, 1, 5, 40]),
    moves=st.sampled_from([0, 1, 3, 200]), start=st.sampled_from(["equal", "quantile"]),
)  # fmt: skip
def test_limits_are_those_of_the_exchange(
    integers: Integers, number: int, seed: int, density: float, tau: int, moves: int, start: str
) -> None:
    """SC R21-R25, SC R28, SC R33, SC R36, SC R155: the same moves in the same order, whatever the start.

    SC R29, SC R31: work counts the halo, and so do the sums that a unit holds.
    """
    numbers, grid = BUILDS[number]
    generator = np.random.default_rng(seed)
    largest = 15 if numbers.kernel == (1, 1) else 22
    shape = int(generator.integers(grid[0], largest)), int(generator.integers(grid[1], largest))
    kernel = kernel_of_build(generator, number)
    image = clustered_map(generator, (*shape, int(generator.integers(1, 7))), density)
    work, chosen = work_map(image.transpose(2, 0, 1), "nnz"), settings_of(number, start, tau, moves)
    try:
        expected = balance(work, geometry_of(number, shape, kernel), chosen, unit_capacity(numbers))
    except PieceTooLargeError:
        assume(False)
    run = run_partition(integers, number, image, expected.start, tau, moves, kernel)
    assert run.limits.tolist() == limits_of(number, expected.partition.rectangles(), shape, kernel)
    assert (run.moves, run.reached) == (expected.moves, expected.reached)
    assert (run.largest, run.smallest) == (max(expected.loads), min(expected.loads))


@pytest.mark.parametrize(
    ("name", "number"),
    [("sc20_balance", 6), ("sc21_balance_unreachable", 6), ("sc25_balance_columns", 5), ("sc26_balance_reached", 6)],
)
def test_the_vectors_of_the_exchange(name: str, number: int) -> None:
    """SC R23-R25, SC R33: moves, limits and loads of the specification's traces."""
    vector = load_vector(name)
    mask, config, expected = mask_of(vector), vector["config"], vector["expected"]
    grid, shape = tuple(config["grid"]), mask.shape
    assert grid == BUILDS[number][1]
    equal = equal_pieces(number, shape)
    threshold = int(config["tau_pp"] * shape[0] * shape[1] / (grid[0] * grid[1]) / 100)
    run = run_partition("native", number, mask[:, :, None].astype(np.int64), equal, threshold, 4 * sum(shape))
    assert (run.moves, run.reached) == (expected["moves"], expected["reached"])
    loads = np.array(expected["loads_after"]).ravel()
    assert (run.largest, run.smallest) == (loads.max(), loads.min())
    if "col_limits" in expected:
        bands = [sorted({*band[:, 1].tolist(), *band[:, 3].tolist()}) for band in np.split(run.limits, grid[0])]
        assert bands == expected["col_limits"]


@pytest.mark.parametrize(
    ("number", "kernel"),
    [(ZCU104[0], (3, 3)), (ZCU104[1], (2, 3))],
)
def test_a_map_is_cut_and_computed_by_processes_alone(number: int, kernel: tuple[int, int]) -> None:
    """SC R149: cells are counted, limits found, pieces computed and put together; no limit comes from the host.

    SC R29, SC R31, SC R34, SC R128: cells of a halo go to several units, a sum comes from one.
    """
    build, generator = builds()[2], np.random.default_rng(11)
    image = clustered_map(generator, (16, 18, 6), 0.6)
    weights = generator.integers(-128, 128, (8, *kernel, 6))
    equal = equal_pieces(number, (16, 18), kernel)
    run = run_partition("native", number, image, equal, 20, 100, kernel)
    assert run.moves > 0
    assert run.largest < run_partition("native", number, image, equal, 20, 0, kernel).largest
    work = ClusterWork(
        [map_word(16, 18, 6, 8, build.numbers)], [run.limits], [map_cells(image, build.numbers)],
        kernel_steps(weights, build.numbers),
    )  # fmt: skip
    sums, report = run_cluster("native", 2, work)
    assert (report[:, 0].max(), report[:, 0].min()) == (run.largest, run.smallest)
    shared = number >= FIRST_HALO and kernel != (1, 1)
    assert (report[:, 0].sum() > np.count_nonzero(image)) == shared
    expected = [
        sum(np.array(full_grid(image[..., c].tolist(), weights[z, :, :, c].tolist())) for c in range(6))
        for z in range(8)
    ]
    np.testing.assert_array_equal(whole_grid(sums, 16, 18, 8, kernel, build.numbers), expected)


def test_pieces_of_an_equal_start_may_be_given() -> None:
    """SC R22: no move is made without leave."""
    image = np.zeros((8, 8, 2), np.int64)
    image[:3, :3] = 1
    start = Partition((0, 4, 8), ((0, 4, 8), (0, 4, 8)))
    run = run_partition("native", 0, image, start, 0, 0)
    assert (run.moves, run.reached, run.largest, run.smallest) == (0, False, 18, 0)


def test_a_layer_of_a_network_on_sixteen_units() -> None:
    """SC R34, SC R149: 32 x 32 x 16 to 16 kernels in two groups; the pieces of the first group stay for the second."""
    number, build = 2, builds()[2]
    generator = np.random.default_rng(5)
    image = clustered_map(generator, (32, 32, 16), 0.5)
    weights = generator.integers(-128, 128, (16, 3, 3, 16))
    weights[generator.random(weights.shape) < 0.5] = 0
    run = run_partition("native", number, image, equal_pieces(number, (32, 32)), 0, 50)
    groups = [weights[:8], weights[8:]]
    work = ClusterWork(
        [map_word(32, 32, 16, 8, build.numbers, keeps=keeps) for keeps in (False, True)], [run.limits],
        [map_cells(image, build.numbers)] * 2, [step for each in groups for step in kernel_steps(each, build.numbers)],
    )  # fmt: skip
    sums, report = run_cluster("native", number, work, queue=512, ahead=64)
    assert report[:, 0].max() == 2 * run.largest
    expected = np.zeros((16, 34, 34), np.int64)
    for row, column in np.ndindex(3, 3):
        expected[:, 2 - row : 34 - row, 2 - column : 34 - column] += np.einsum(
            "rcn,zn->zrc", image, weights[:, row, column]
        )
    parts = np.split(sums, 2)
    got = np.concatenate([whole_grid(part, 32, 32, 8, (3, 3), build.numbers) for part in parts])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("integers", ALL_INTEGERS)
@pytest.mark.parametrize("moves", [0, 3, 200])
@pytest.mark.parametrize("number", [0, 1, 2, 4])
def test_words_that_come_one_by_one_are_counted_together(integers: Integers, number: int, moves: int) -> None:
    """SC R23, SC R36: in a kernel a map comes raster by raster; limits are those of all its words, map after map."""
    numbers, grid = BUILDS[number]
    generator = np.random.default_rng(number)
    for channels in (1, numbers.lanes, 3 * numbers.lanes + 1):
        shape = tuple(int(generator.integers(pieces, 20)) for pieces in grid)
        image = clustered_map(generator, (*shape, channels), 0.4)
        rows, columns = (
            [side * piece // pieces for piece in range(pieces + 1)] for side, pieces in zip(shape, grid, strict=True)
        )
        start = Partition(tuple(rows), (tuple(columns),) * grid[0])
        expected = run_partition(integers, number, image, start, 5, moves)
        np.testing.assert_array_equal(run_in_kernel(integers, number, image, 5, moves), expected.limits)


def config_of_build(number: int, threshold: int) -> KernelConfig:
    """A kernel with the units of a build of the partition."""
    numbers, grid = BUILDS[number]
    return changed(
        CLUSTER, lanes=numbers.lanes, array_rows=grid[0], array_columns=grid[1], array_kernel=numbers.kernel[0],
        array_words=numbers.words, array_threshold=threshold,
        array_form="halo" if number >= FIRST_HALO else "overlap_add",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("number", [0, 2, 4, 5, 6, FIRST_HALO, FIRST_HALO + 2, FIRST_HALO + 4])
def test_reported_pieces_are_those_of_the_partition_process(number: int, seed: int) -> None:
    """SC R21, SC R23, SC R24, SC R25, SC R29, SC R33, SC R155: what `bfpga run` shows of pieces and moves, the process
    of the kernel finds, of joined pieces too."""
    grid, rng = BUILDS[number][1], np.random.default_rng(seed)
    config = config_of_build(number, int(rng.choice([0, 3, 30])))
    for joined in possible_joins(config):
        kernel = kernel_of_build(rng, number)
        shape = int(rng.integers(grid[0] // joined[0], 19)), int(rng.integers(grid[1] // joined[1], 19))
        if not pieces_fit(*shape, kernel, config, joined):
            continue
        image = np.where(rng.random((*shape, 3)) < np.linspace(0.05, 0.9, shape[1])[:, None], 1, 0)
        moves, sharers = int(rng.choice([0, 2, 256])), math.prod(joined)
        expected = kernel_partition(image != 0, kernel, config, moves, joined)
        threshold = imbalance_tolerance(shape[0], shape[1], 3, config, joined)
        pieces = limits_of(number, expected.partition.rectangles(), shape, kernel, sharers)
        assert run_in_kernel("native", number, image, threshold, moves, joined, kernel).tolist() == pieces
        loads = unit_values(expected.partition, image != 0, [range(-(-image.shape[2] // config.lanes))], kernel, config)
        assert loads.reshape(-1, sharers).sum(axis=1).tolist() == list(expected.loads)
        if sharers == 1:
            run = run_partition("native", number, image, expected.start, threshold, moves, kernel)
            assert (run.limits.tolist(), run.moves, run.reached) == (pieces, expected.moves, expected.reached)
            assert (run.largest, run.smallest) == (max(expected.loads), min(expected.loads))
