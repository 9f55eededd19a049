"""processes/sparse_cluster: distribution, units and collection together give the convolution, however a map is cut."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_processes import (
    ClusterBuild,
    ClusterError,
    ClusterWork,
    builds,
    run_cluster,
)
from cluster_units import STEPS
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from map_words import (
    halo_limits,
    map_cells,
    map_word,
    overlap_add_limits,
    unit_capacity,
    whole_grid,
)
from reference_sparse_cluster import convolve, full_grid
from unit_words import kernel_steps, outputs_of

from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import Padding, halo_geometry, overlap_add_geometry
from bfpga.formats.rounding import wrap

ALL_INTEGERS = ("native", "ap_int", "exact")
VARIANTS = ("A", "B", "C", "E")
#: Bands and pieces of a band of each build.
GRIDS = ((2, 2), (2, 3), (4, 4))


def random_numbers(generator: np.random.Generator, shape: tuple[int, ...], density: float, bits: int) -> np.ndarray:
    values = generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(generator.random(shape) < density, values, 0)


def random_map(generator: np.random.Generator, build: ClusterBuild, density: float) -> np.ndarray:
    """(rows, columns, channels) with values that lie together: a part of the map is denser than the rest."""
    shape = int(generator.integers(6, 19)), int(generator.integers(6, 19))
    channels = int(generator.integers(1, 2 * build.numbers.lanes + 2))
    image = random_numbers(generator, (*shape, channels), density, build.value_bits)
    row, column = (int(generator.integers(0, side)) for side in shape)
    image[row:, column:] *= generator.random(image[row:, column:].shape) < 0.3
    return image


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=drawn(25), deadline=None)
@given(
    number=st.integers(0, 2), seed=st.integers(0, 1 << 30), density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    start=st.sampled_from(["equal", "quantile"]), tau=st.sampled_from([0.0, 3.0, 100.0]),
    queue=st.integers(1, 12), ahead=st.integers(1, 9), order=st.integers(0, 1 << 30),
)  # fmt: skip
def test_pieces_without_a_common_cell_add_up_to_the_convolution(
    integers: Integers, variant: str, number: int, seed: int, density: float, start: str, tau: float, queue: int,
    ahead: int, order: int,
) -> None:  # fmt: skip
    """SC R21, SC R23, SC R30, SC R34, SC R39, SC R40, SC R60, SC R62, SC R81, SC R128, SC R129: several maps after each
    other, processes in any order, queues of any depth."""
    number %= len(builds(variant))
    build, generator = builds(variant)[number], np.random.default_rng(seed)
    numbers, work, expected, shapes, issued = build.numbers, ClusterWork(), [], [], 0
    kernel = tuple(int(generator.integers(1, side + 1)) for side in numbers.kernel)
    for _ in range(int(generator.integers(1, 3))):
        image = random_map(generator, build, density)
        rows, columns, channels = image.shape
        settings_of = PartitionSettings(grid=GRIDS[number], mode="overlap_add", start=start, tau=tau)  # type: ignore[arg-type]
        nonzero = image.transpose(2, 0, 1)
        cut = balance(
            work_map(nonzero, "nnz_share"), overlap_add_geometry(rows, columns), settings_of, unit_capacity(numbers),
            channels,
        ).partition  # fmt: skip
        work.limits.append(overlap_add_limits(cut.rectangles(), numbers, build.units))
        # The map's pieces stay for a second group of kernels.
        for group in range(int(generator.integers(1, 3))):
            kernels = int(generator.integers(1, numbers.planes + 1))
            weights = random_numbers(generator, (kernels, *kernel, channels), 0.7, build.weight_bits)
            work.maps.append(map_word(rows, columns, channels, kernels, numbers, keeps=group > 0))
            work.cells.append(map_cells(image, numbers))
            work.steps += kernel_steps(weights, numbers, *STEPS[variant])
            sums = [
                sum(np.array(full_grid(image[..., c].tolist(), weights[z, :, :, c].tolist())) for c in range(channels))
                for z in range(kernels)
            ]
            expected.append(wrap(np.array(sums), build.accumulator_bits))
            shapes.append((rows, columns, kernels))
            issued += np.count_nonzero(image)
    sums, report = run_cluster(integers, number, work, queue, ahead, order, variant)
    assert report[:, 0].sum() == issued
    begin = 0
    for (rows, columns, kernels), grid in zip(shapes, expected, strict=True):
        count = map_word(rows, columns, 1, 1, numbers)[0, 4:6].prod() * kernels
        got = whole_grid(sums[begin : begin + count], rows, columns, kernels, kernel, numbers)
        np.testing.assert_array_equal(got, grid)
        begin += count
    assert begin == len(sums)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("integers", ALL_INTEGERS)
@settings(max_examples=drawn(25), deadline=None)
@given(
    number=st.integers(0, 2), seed=st.integers(0, 1 << 30), density=st.sampled_from([0.1, 0.5, 1.0]),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)), order=st.integers(0, 1 << 30),
)  # fmt: skip
def test_pieces_with_a_halo_own_their_outputs(
    integers: Integers, variant: str, number: int, seed: int, density: float, stride: tuple[int, int], order: int
) -> None:
    """SC R29, SC R34, SC R35, SC R128: cells of two pieces go to both units, outputs are taken from their owner."""
    number %= len(builds(variant))
    build, generator = builds(variant)[number], np.random.default_rng(seed)
    numbers = build.numbers
    image = random_map(generator, build, density)
    rows, columns, channels = image.shape
    kernel = tuple(int(generator.integers(1, side + 1)) for side in numbers.kernel)
    padding = Padding(*(int(generator.integers(0, side)) for side in (kernel[0], kernel[0], kernel[1], kernel[1])))
    geometry = halo_geometry(rows, columns, kernel, padding, stride)
    grid = tuple(min(pieces, lines) for pieces, lines in zip(GRIDS[number], geometry.shape, strict=True))
    chosen = PartitionSettings(grid=grid, mode="halo")  # type: ignore[arg-type]
    cut = balance(
        work_map(image.transpose(2, 0, 1), "nnz_share"), geometry, chosen, unit_capacity(numbers), channels
    ).partition
    kernels = int(generator.integers(1, numbers.planes + 1))
    weights = random_numbers(generator, (kernels, *kernel, channels), 0.7, build.weight_bits)
    limits = halo_limits(cut.rectangles(), geometry, kernel, numbers, build.units, padding, stride)
    work = ClusterWork(
        [map_word(rows, columns, channels, kernels, numbers)], [limits], [map_cells(image, numbers)],
        kernel_steps(weights, numbers, *STEPS[variant]),
    )  # fmt: skip
    sums, _ = run_cluster(integers, number, work, seed=order, variant=variant)
    whole = whole_grid(sums, rows, columns, kernels, kernel, numbers)
    expected = [
        sum(
            np.array(convolve(image[..., c].tolist(), weights[z, :, :, c].tolist(), tuple(padding), stride))
            for c in range(channels)
        )
        for z in range(kernels)
    ]
    outputs = outputs_of(whole, kernel, padding, stride, geometry.shape)
    np.testing.assert_array_equal(outputs, wrap(np.array(expected), build.accumulator_bits))


def test_units_do_not_wait_for_each_other() -> None:
    """SC R62: a unit without a value ends the words of its channels while another one still has values."""
    build, number = builds()[0], 0
    numbers = build.numbers
    image = np.zeros((8, 8, 8), np.int64)
    image[:4, :4] = 5
    weights = np.ones((4, 3, 3, 8), np.int64)
    cut = balance(
        np.ones((8, 8), np.int64), overlap_add_geometry(8, 8), PartitionSettings(grid=(2, 2), start="equal")
    ).partition
    work = ClusterWork(
        [map_word(8, 8, 8, 4, numbers)], [overlap_add_limits(cut.rectangles(), numbers, 4)],
        [map_cells(image, numbers)], kernel_steps(weights, numbers),
    )  # fmt: skip
    _, report = run_cluster("native", number, work)
    assert report.tolist() == [[128, 512], [0, 0], [0, 0], [0, 0]]


def test_cells_that_are_missing_stop_the_cluster_with_who_waits() -> None:
    """SC R62: the simulation names the processes that wait, and for which stream."""
    build = builds()[0]
    image, weights = np.ones((6, 6, 2), np.int64), np.ones((4, 3, 3, 2), np.int64)
    cut = balance(
        np.ones((6, 6), np.int64), overlap_add_geometry(6, 6), PartitionSettings(grid=(2, 2), start="equal")
    ).partition
    work = ClusterWork(
        [map_word(6, 6, 2, 4, build.numbers)], [overlap_add_limits(cut.rectangles(), build.numbers, 4)],
        [map_cells(image, build.numbers)[:-1]], kernel_steps(weights, build.numbers),
    )  # fmt: skip
    with pytest.raises(ClusterError, match="`distributor` looks for a word of"):
        run_cluster("native", 0, work)
