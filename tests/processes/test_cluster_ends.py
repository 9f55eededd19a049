"""sparse_cluster: weight words become steps of kernels, blocks of the full grid become sums of output pixels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from changed_kernels import changed
from cluster_configs import CLUSTER
from cluster_ends import ClusterKernel, kernels, made_steps, sent_sums
from unit_words import FEWEST_STEPS

from bfpga.contract.arrays.sparse_cluster import (
    MERGE_DISTANCE,
    SUM_DISTANCE,
    WINDOW_DISTANCE,
    ClusterVariant,
    SparseCluster,
)
from bfpga.contract.configuration import KernelConfig
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.unit_clocks import piece_groups, steps_of_channels
from bfpga.engines.sparse_cluster.window_walk import walk_clocks, walked_steps

CASES: list[tuple[int, Integers]] = list(itertools.product(range(7), ("native", "exact")))


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...], density: float, bits: int) -> np.ndarray:
    values = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(rng.random(shape) < density, values, 0)


def lists_of(steps: np.ndarray) -> list[np.ndarray]:
    """Steps up to each mark of a last one."""
    ends = np.flatnonzero(steps[:, -1]) + 1
    assert ends[-1] == len(steps)
    return np.split(steps, ends[:-1])


def distance_of(kernel: ClusterKernel) -> int:
    """Steps from one of a kernel to its next one at least."""
    return WINDOW_DISTANCE if kernel.shifts else MERGE_DISTANCE if kernel.weights > 1 else SUM_DISTANCE


def check_distances(lists: list[np.ndarray], distance: int) -> None:
    """Whatever list follows a list, no kernel is met before so many steps have passed."""
    earliest: dict[int, int] = {}
    left: dict[int, int] = {}
    for each in lists:
        assert len(each) >= FEWEST_STEPS
        met: dict[int, int] = {}
        for place, step in enumerate(each):
            kernel = int(step[-3])
            if step[-2]:
                assert place - met.get(kernel, -distance) >= distance
                earliest[kernel] = min(earliest.get(kernel, place), place)
                met[kernel] = place
        for kernel, place in met.items():
            left[kernel] = min(left.get(kernel, len(each)), len(each) - place)
    assert all(left[kernel] + earliest[kernel] >= distance for kernel in left)


def clock_config(kernel: ClusterKernel) -> KernelConfig:
    """What the clocks of a kernel follow from."""
    variant: ClusterVariant = "C" if kernel.weights > 1 else "B" if kernel.products else "A" if kernel.shifts else "E"
    array = SparseCluster(
        kernel=kernel.kernel, rows=kernel.grid_rows, columns=kernel.grid_columns, variant=variant,
        lanes=kernel.products,
    )  # fmt: skip
    return KernelConfig(array=array)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8, 1.0])
@pytest.mark.parametrize(("products", "tile"), [(1, 3), (4, 3), (9, 3), (3, 2)])
def test_groups_of_a_piece_are_those_of_its_tiles(products: int, tile: int, share: float) -> None:
    """SC R97: values of a micro-tile go to the lanes in as few groups as they fill; the mean of many pieces."""
    config = changed(CLUSTER, array_variant="B", array_lanes=products, array_kernel=tile)
    used = np.random.default_rng(3).random((4000, tile * tile)) < share
    groups = -(-used.sum(axis=1) // products)
    assert piece_groups(used.size, share, config) == pytest.approx(groups.sum(), rel=0.1)
    assert piece_groups(used.size, share, CLUSTER) == used.size * share


def taps_apart(weights: np.ndarray, together: int, turned: bool) -> list[np.ndarray]:
    """A channel's weights (rows, columns, kernels) as a list for each tap or two that have one, or the first one's.

    turned: of kernel z list n has those that are z lists further on.
    """
    flat = weights.reshape(-1, weights.shape[2])
    lists = np.zeros((-(-len(flat) // together), *flat.shape), flat.dtype)
    for tap, kernel in np.ndindex(flat.shape):
        number = (tap // together - (kernel if turned else 0)) % len(lists)
        lists[number, tap, kernel] = flat[tap, kernel]
    apart = lists.reshape(-1, *weights.shape)
    return [each for each in apart if each.any()] or [apart[0]]


def check_steps(steps: np.ndarray, weights: np.ndarray, fewest: int, distance: int) -> int:
    """The kernels of a list (rows, columns, kernels) have left, each at its place; how many steps they are."""
    used = np.flatnonzero(weights.any(axis=(0, 1)))
    many = max(np.count_nonzero(used >= distance - 1) + distance - 1, distance)
    count = many if len(used) else fewest
    adds = steps[:count][steps[:count, -2] == 1]
    np.testing.assert_array_equal(adds[:, -3], used)
    for step in adds:
        np.testing.assert_array_equal(step[:-3], weights[:, :, step[-3]].ravel())
    return count


@pytest.mark.parametrize("density", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize(("number", "integers"), CASES)
def test_steps_are_the_kernels_with_a_weight(number: int, integers: Integers, density: float) -> None:
    """SC R19, SC R92, SC R146, SC R147: kernels of all sizes one after the other; lists keep the distance of sums,
    whatever follows them; units of variant B get one weight a step, tap after tap. SC R98: those of C get two
    of each kernel. SC R84: those of A get whole kernels, and take the clocks of their walks."""
    kernel, rng = kernels()[number], np.random.default_rng(int(100 * density) + number)
    layers, words, expected, sizes = [], [], [], []
    fewest = FEWEST_STEPS + 1 if kernel.products else FEWEST_STEPS
    for rows, columns in itertools.product(range(1, kernel.kernel + 1), repeat=2):
        count = int(rng.integers(1, 4))
        taps = random_numbers(rng, (count, rows, columns, kernel.rows, kernel.lanes), density, kernel.weight_bits)
        taps *= rng.random((count, 1, 1, kernel.rows, kernel.lanes)) < np.sqrt(density)
        layers.append((count, rows, columns))
        words.append(taps.reshape(-1, kernel.rows, kernel.lanes))
        placed = np.zeros((count, kernel.kernel, kernel.kernel, kernel.rows, kernel.lanes), np.int64)
        placed[:, kernel.kernel - rows :, kernel.kernel - columns :] = taps
        expected += [placed[word, ..., lane] for word in range(count) for lane in range(kernel.lanes)]
        sizes += [(rows, columns)] * (count * kernel.lanes)
    for rarely in (0, 5):
        lists = lists_of(made_steps(integers, number, np.array(layers), np.concatenate(words), rarely))
        assert len(lists) == len(expected)
        check_distances(lists, distance_of(kernel))
        for steps, weights, (rows, columns) in zip(lists, expected, sizes, strict=True):
            turned = kernel.weights > 1 and rows == columns == kernel.kernel
            length, clocks = len(steps), len(steps)
            if kernel.shifts:
                clocks = int(walk_clocks(steps[:, :-3].reshape(-1, kernel.kernel, kernel.kernel) != 0).sum())
                assert length == walked_steps(weights.transpose(2, 0, 1)[..., None] != 0)[0]
            apart = taps_apart(weights, kernel.weights, turned) if kernel.products else [weights]
            for each in apart:
                steps = steps[check_steps(steps, each, fewest, distance_of(kernel)) :]
            assert len(steps) == 0
            config = clock_config(kernel)
            kernels_first = weights[-rows:, -columns:].transpose(2, 0, 1)[..., None]
            assert clocks == steps_of_channels(kernels_first, config)


def random_grid(rng: np.random.Generator, kernel: ClusterKernel) -> tuple[np.ndarray, tuple[int, int]]:
    """Blocks (block rows, block columns, rows, kernel, kernel) of the full grid, and the lines of the map."""
    bits = kernel.accumulator_bits
    most = int(np.sqrt(kernel.blocks)) * kernel.kernel - kernel.kernel + 1
    lines = int(rng.integers(1, most + 1)), int(rng.integers(1, most + 1))
    blocks = [(side + kernel.kernel - 2) // kernel.kernel + 1 for side in lines]
    shape = (*blocks, kernel.rows, kernel.kernel, kernel.kernel)
    return rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape), lines


@pytest.mark.parametrize(("number", "integers"), CASES)
def test_outputs_are_cells_of_the_grid(number: int, integers: Integers) -> None:
    """SC R128: grids of all sizes one after the other, any stride and padding; group of pixels, channel, pixel."""
    kernel, rng = kernels()[number], np.random.default_rng(number)
    layers, words, expected = [], [], []
    for _ in range(12):
        grid, lines = random_grid(rng, kernel)
        cells = grid.transpose(2, 0, 3, 1, 4).reshape(kernel.rows, -1, grid.shape[1] * kernel.kernel)
        first = [int(rng.integers(0, min(kernel.kernel, line + kernel.kernel - 1))) for line in lines]
        stride = [int(rng.integers(1, kernel.kernel + 1)) for _ in lines]
        ends = [line + kernel.kernel - 1 - int(rng.integers(0, kernel.kernel)) for line in lines]
        inside = [slice(begin, max(end, begin + 1), step) for begin, end, step in zip(first, ends, stride, strict=True)]
        pixels = cells[:, inside[0], inside[1]]
        group = int(rng.integers(1, kernel.columns + 1))
        height, width = pixels.shape[1:]
        layers.append([*grid.shape[:2], width, group, *stride, *first, height * width])
        words.append(grid.reshape(-1, kernel.cells))
        flat = pixels.reshape(kernel.rows, -1)
        expected += [flat[z, n : n + group] for n in range(0, flat.shape[1], group) for z in range(kernel.rows)]
    for rarely in (0, 5):
        sums = sent_sums(integers, number, np.array(layers), np.concatenate(words), rarely)
        assert len(sums) == len(expected)
        for row, own in zip(sums, expected, strict=True):
            np.testing.assert_array_equal(row[: len(own)], own)
