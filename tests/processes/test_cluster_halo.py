"""processes/sparse_cluster with `form: halo`: pieces own outputs and have the cells that these need."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from cluster_configs import CLUSTER
from cluster_partitions import BUILDS, FIRST_HALO, run_in_kernel, run_partition, stream_bits
from cluster_processes import ClusterWork, builds, run_cluster
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
from unit_words import kernel_steps

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.processes import process_streams
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.exchange import (
    PartitionSettings,
    PieceTooLargeError,
    balance,
    work_map,
)
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle, shared_halo_geometry
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition, unit_values
from bfpga.engines.sparse_cluster.unit_maps import imbalance_tolerance, pieces_fit, possible_joins


def spotted_map(generator: np.random.Generator, shape: tuple[int, ...], density: float) -> np.ndarray:
    """(rows, columns, channels) of values most of which lie in one part of the map."""
    image = np.where(generator.random(shape) < density, generator.integers(1, 100, shape), 0)
    row, column = (int(generator.integers(0, side)) for side in shape[:2])
    image[row:, column:] *= generator.random(image[row:, column:].shape) < 0.2
    return image


def kernel_of_build(generator: np.random.Generator, number: int) -> tuple[int, int]:
    """A kernel that the units of a build compute."""
    rows, columns = BUILDS[number][0].kernel
    return int(generator.integers(1, rows + 1)), int(generator.integers(1, columns + 1))


@pytest.mark.parametrize("integers", ["native", "ap_int", "exact"])
@settings(max_examples=60, deadline=None)
@given(
    number=st.integers(FIRST_HALO, len(BUILDS) - 1), seed=st.integers(0, 1 << 30),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]), tau=st.sampled_from([0, 1, 5, 40]),
    moves=st.sampled_from([0, 1, 3, 200]), start=st.sampled_from(["equal", "quantile"]),
)  # fmt: skip
def test_limits_are_those_of_the_exchange(
    integers: Integers, number: int, seed: int, density: float, tau: int, moves: int, start: str
) -> None:
    """SC R23, SC R25, SC R29, SC R31, SC R33, SC R155: work counts the halo, and so do the sums that a unit holds."""
    numbers, grid = BUILDS[number]
    generator = np.random.default_rng(seed)
    largest = 15 if numbers.kernel == (1, 1) else 22
    shape = int(generator.integers(grid[0], largest)), int(generator.integers(grid[1], largest))
    kernel = kernel_of_build(generator, number)
    image = spotted_map(generator, (*shape, int(generator.integers(1, 7))), density)
    chosen = PartitionSettings(grid, "halo", start=start, metric="nnz", tau=tau, max_moves=moves)  # type: ignore[arg-type]
    geometry = shared_halo_geometry(*shape, kernel)
    try:
        expected = balance(work_map(image.transpose(2, 0, 1), "nnz"), geometry, chosen, unit_capacity(numbers))
    except PieceTooLargeError:
        assume(False)
    run = run_partition(integers, number, image, expected.start, tau, moves, kernel)
    pieces = shared_halo_limits(expected.partition.rectangles(), shape, kernel, numbers, len(run.limits))
    assert run.limits.tolist() == pieces.tolist()
    assert (run.moves, run.reached) == (expected.moves, expected.reached)
    assert (run.largest, run.smallest) == (max(expected.loads), min(expected.loads))


def halo_config(number: int, threshold: int) -> KernelConfig:
    """A kernel with the units of a build of the partition."""
    numbers, grid = BUILDS[number]
    return replace(
        CLUSTER, lanes=numbers.lanes, cluster_rows=grid[0], cluster_columns=grid[1], cluster_kernel=numbers.kernel[0],
        cluster_words=numbers.words, cluster_threshold=threshold, cluster_form="halo",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("number", [FIRST_HALO, FIRST_HALO + 2, FIRST_HALO + 4])
def test_reported_pieces_are_those_of_the_partition_process(number: int, seed: int) -> None:
    """SC R21, SC R23, SC R29, SC R155: moves and limits of a kernel's process, of joined pieces too."""
    numbers, grid = BUILDS[number]
    rng = np.random.default_rng(seed)
    config = halo_config(number, int(rng.choice([0, 3, 30])))
    for joined in possible_joins(config):
        kernel = kernel_of_build(rng, number)
        shape = int(rng.integers(grid[0] // joined[0], 19)), int(rng.integers(grid[1] // joined[1], 19))
        if not pieces_fit(*shape, kernel, config, joined):
            continue
        image = np.where(rng.random((*shape, 3)) < np.linspace(0.05, 0.9, shape[1])[:, None], 1, 0)
        moves = int(rng.choice([0, 2, 256]))
        expected = kernel_partition(image != 0, kernel, config, moves, joined)
        threshold = imbalance_tolerance(shape[0], shape[1], 3, config, joined)
        found = run_in_kernel("native", number, image, threshold, moves, joined, kernel)
        sharers = math.prod(joined)
        pieces = shared_halo_limits(expected.partition.rectangles(), shape, kernel, numbers, len(found), sharers)
        assert found.tolist() == pieces.tolist()
        loads = unit_values(expected.partition, image != 0, [range(-(-image.shape[2] // config.lanes))], kernel, config)
        assert loads.reshape(-1, sharers).sum(axis=1).tolist() == list(expected.loads)


@pytest.mark.parametrize("kernel", [(3, 3), (2, 3), (1, 1)])
def test_a_map_is_cut_and_computed_by_processes_alone(kernel: tuple[int, int]) -> None:
    """SC R29, SC R31, SC R34, SC R128, SC R149: cells of a halo go to several units, a sum comes from one."""
    number, build = FIRST_HALO + 2, builds()[2]
    generator = np.random.default_rng(11)
    image = spotted_map(generator, (16, 18, 6), 0.6)
    weights = generator.integers(-128, 128, (8, *kernel, 6))
    chosen = PartitionSettings((4, 4), "halo", start="equal", max_moves=0)
    geometry = shared_halo_geometry(16, 18, kernel)
    equal = balance(np.ones((16, 18), np.int64), geometry, chosen).partition
    run = run_partition("native", number, image, equal, 20, 100, kernel)
    assert run.moves > 0
    assert run.largest < run_partition("native", number, image, equal, 20, 0, kernel).largest
    work = ClusterWork(
        [map_word(16, 18, 6, 8, build.numbers)], [run.limits], [map_cells(image, build.numbers)],
        kernel_steps(weights, build.numbers),
    )  # fmt: skip
    sums, report = run_cluster("native", 2, work)
    assert (report[:, 0].max(), report[:, 0].min()) == (run.largest, run.smallest)
    assert (report[:, 0].sum() > np.count_nonzero(image)) == (kernel != (1, 1))
    expected = [
        sum(np.array(full_grid(image[..., c].tolist(), weights[z, :, :, c].tolist())) for c in range(6))
        for z in range(8)
    ]
    np.testing.assert_array_equal(whole_grid(sums, 16, 18, 8, kernel, build.numbers), expected)


@pytest.mark.parametrize("number", range(len(BUILDS)))
def test_words_on_the_wires_have_the_stated_bits(number: int) -> None:
    grid = BUILDS[number][1]
    form = "halo" if number >= FIRST_HALO else "overlap_add"
    config = replace(CLUSTER, cluster_rows=grid[0], cluster_columns=grid[1], cluster_form=form)
    streams = {stream.name: stream.bits for stream in process_streams(config)}
    assert (streams["partitions"], streams["limits"]) == stream_bits(number)
    assert streams["grid_limits"] == streams["limits"]


def test_limits_of_kernels_without_a_halo_are_those_of_overlap_add() -> None:
    """SC R31: a 1 x 1 kernel shares no cell."""
    numbers = BUILDS[FIRST_HALO][0]
    pieces = [Rectangle(0, 0, 4, 5), Rectangle(0, 5, 4, 9), Rectangle(4, 0, 9, 3), Rectangle(4, 3, 9, 9)]
    halo, apart = shared_halo_limits(pieces, (9, 9), (1, 1), numbers, 4), overlap_add_limits(pieces, numbers, 4)
    np.testing.assert_array_equal(halo[:, :8], apart[:, :8])
