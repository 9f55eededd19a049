"""The process of a tile in the place of the array: the zero-skip engine with its own structure (ZS 3, 4.1)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cluster_units import UnitError
from map_words import whole_grid
from reference import VECTORS, load_vectors
from tile_process import BUILDS, run_tile, sizes

from bfpga.devices.csim import Integers

#: Vectors of layers (ZS 8).
LAYER_VECTORS = sorted(path.name for path in VECTORS.glob("zs*.json"))


def random_layer(rng: np.random.Generator, number: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    """An image (rows, columns, channels) and weights (kernels, rows, columns, channels) that a tile has room for."""
    size = sizes(number)
    rows, columns = (int(rng.integers(1, most + 1)) for most in size.largest)
    channels, kernels = int(rng.integers(1, 9)), int(rng.integers(1, size.unit.planes + 1))
    kernel = rng.integers(1, np.array(size.unit.kernel) + 1)
    largest = 31 if number == 1 else 127
    image = rng.integers(-largest, largest + 1, (rows, columns, channels))
    weights = rng.integers(-15 if number == 1 else -127, 16 if number == 1 else 128, (kernels, *kernel, channels))
    return image, np.where(rng.random(weights.shape) < density, weights, 0)


def full_grid(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sums of all cells that a product goes to (kernels, rows + kernel rows - 1, columns + ...) (SC E3)."""
    kernels, down, across, _ = weights.shape
    rows, columns, _ = image.shape
    grid = np.zeros((kernels, rows + down - 1, columns + across - 1), np.int64)
    for i in range(down):
        for j in range(across):
            products = np.einsum("yxc,zc->zyx", image, weights[:, i, j])
            grid[:, down - 1 - i : down - 1 - i + rows, across - 1 - j : across - 1 - j + columns] += products
    return grid


def grids(
    number: int, integers: Integers, layers: list[tuple[np.ndarray, np.ndarray]], rarely: int
) -> list[np.ndarray]:
    """The full grid of each layer as the tile gives it."""
    unit = sizes(number).unit
    sums, found, first = run_tile(integers, number, layers, rarely).sums, [], 0
    for image, weights in layers:
        rows, columns, kernels = *image.shape[:2], len(weights)
        kernel = unit.kernel[0]
        blocks = -(-(rows + kernel - 1) // kernel) * -(-(columns + kernel - 1) // kernel)
        own = sums[first : first + blocks * kernels]
        found.append(whole_grid(own, rows, columns, kernels, weights.shape[1:3], unit))
        first += blocks * kernels
    assert first == len(sums)
    return found


@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("number", BUILDS)
@pytest.mark.parametrize("integers", ["native", "exact"])
def test_maps_of_random_layers(number: int, integers: Integers, density: float) -> None:
    """ZS R1-R3, R5-R7, R9, R11, R15, R16, R18, R20-R24, R29, R33, R35, R37-R39, R41, R43, R46: map behind map, of
    whichever form their words are, whichever streams are slow."""
    rng = np.random.default_rng([number, int(10 * density)])
    layers = [random_layer(rng, number, density) for _ in range(4)]
    for (image, weights), grid in zip(layers, grids(number, integers, layers, rarely=3), strict=True):
        assert np.array_equal(grid, full_grid(image, weights))


@pytest.mark.parametrize("name", LAYER_VECTORS)
def test_vectors(name: str) -> None:
    """ZS R1, ZS R9, ZS R10, ZS R11, ZS R12, ZS R27: outputs are cells of the full grid, kernels beyond those in flight
    come behind; layers that are larger than a tile are cut before (compiler)."""
    vector = load_vectors(name)
    numbers, expected = vector["config"], vector["expected"]
    images = np.array(vector["input"]["images"], np.int64).transpose(1, 2, 0)
    weights = np.array(vector["weights"]["coefficients"], np.int64).transpose(1, 2, 3, 0)
    number = next((n for n in BUILDS if fits(n, images, weights)), None)
    if number is None:
        assert name in ("zs06_kernel_larger_than_tile.json", "zs11_ragged_tiles.json", "zs13_hazards.json")
        return
    planes = sizes(number).unit.planes
    groups = [(images, weights[first : first + planes]) for first in range(0, len(weights), planes)]
    grid = np.concatenate(grids(number, "native", groups, rarely=0))
    (top, bottom, left, right), (down, across) = numbers["pad"], numbers["stride"]
    halo = weights.shape[1] - 1, weights.shape[2] - 1
    around = ((0, 0), *((max(0, pads[0] - h), max(0, pads[1] - h)) for pads, h in
                        zip(((top, bottom), (left, right)), halo, strict=True)))  # fmt: skip
    padded = np.pad(grid, around)
    first = max(0, halo[0] - top), max(0, halo[1] - left)
    height, width = np.array(expected["out"]).shape[1:]
    outputs = padded[:, first[0] :: down, first[1] :: across][:, :height, :width]
    assert np.array_equal(outputs, np.array(expected["out"]))


def fits(number: int, images: np.ndarray, weights: np.ndarray) -> bool:
    """Whether a build has room for a layer."""
    size = sizes(number)
    kernel, values = max(weights.shape[1:3]), number != 1
    return values and kernel <= size.unit.kernel[0] and bool((np.array(images.shape[:2]) <= size.largest).all())


@pytest.mark.parametrize("number", BUILDS)
def test_one_weight_shifts_the_map(number: int) -> None:
    """ZS R8, R30-R32, R36: by each of its rows and columns, to the last line of the tile."""
    unit, rng = sizes(number).unit, np.random.default_rng(number)
    image = rng.integers(-31, 32, (*sizes(number).largest, 1))
    layers = []
    for tap in range(unit.cells):
        weights = np.zeros((1, *unit.kernel, 1), np.int64)
        weights.reshape(-1)[tap] = 15
        layers.append((image, weights))
    for (_, weights), grid in zip(layers, grids(number, "native", layers, rarely=0), strict=True):
        assert np.array_equal(grid, full_grid(image, weights))


@pytest.mark.parametrize("kernels", [1, 2, 3, 8])
def test_few_kernels_are_not_met_too_early(kernels: int) -> None:
    """ZS R13, R40: on the smallest map a weight takes a clock, and pauses keep sums apart; a waiver stops others."""
    rng = np.random.default_rng(kernels)
    layer = rng.integers(-9, 10, (1, 1, 8)), rng.integers(-9, 10, (kernels, 3, 3, 8))
    assert np.array_equal(grids(0, "exact", [layer], rarely=0)[0], full_grid(*layer))


@pytest.mark.parametrize("density", [0.05, 0.4, 0.8, 1.0])
@pytest.mark.parametrize("number", BUILDS)
def test_steps_are_those_that_the_compiler_counts(number: int, density: float) -> None:
    """ZS R12, R43, R44, R53: a step for each weight that is not zero, one for the end of a channel, and pauses."""
    rng = np.random.default_rng([number, int(10 * density)])
    image, weights = random_layer(rng, number, density)
    run = run_tile("exact", number, [(image, weights)])
    (work,) = sizes(number).stored(weights).work
    assert (run.adding, run.others) == (work.weights, work.others)
    assert run.adding == np.count_nonzero(weights)


@pytest.mark.parametrize("number", BUILDS)
def test_entries_of_a_channel_come_in_any_order(number: int) -> None:
    """ZS R15, ZS R48: behind words of zeros too, which stand in front of a block with fewer words than others."""
    rng, shape = np.random.default_rng(number), sizes(number).entries

    def shuffled(weights: np.ndarray) -> np.ndarray:
        words = sizes(number).stored(weights).words[0]
        assert words[0, :2].tolist() == [0, 1]
        used = words[:, : shape.entries * shape.cells]
        cells = used.reshape(-1, shape.cells)
        ends = np.flatnonzero(cells[:, 0] == 0)
        for first, last in itertools.pairwise(ends):
            cells[first + 1 : last] = rng.permutation(cells[first + 1 : last])
        words[:, : shape.entries * shape.cells] = cells.reshape(used.shape)
        return np.concatenate([np.zeros_like(words[:2]), words])

    layers = [random_layer(rng, number, 0.2) for _ in range(3)]
    sums = run_tile("native", number, layers).sums
    assert np.array_equal(run_tile("native", number, layers, stored=shuffled).sums, sums)


def test_words_that_hold_no_block_stop_the_simulation() -> None:
    """ZS R49: a block that begins with something else, an entry beside its kernel."""
    layer = np.ones((2, 2, 1), np.int64), np.eye(2, dtype=np.int64).reshape(1, 2, 2, 1)
    words = sizes(0).stored(layer[1]).words[0]
    for cell, value, message in [(1, 3, "begins with the place 3"), (3, 2, "lies beside its kernel, at 2")]:
        changed = words.copy()
        changed[0, cell] = value
        with pytest.raises(UnitError, match=message):
            run_tile("native", 0, [layer], stored=lambda _: changed)  # noqa: B023


@pytest.mark.parametrize("density", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("number", [0, 3])
def test_a_weight_takes_a_clock_for_each_group_of_rows(number: int, density: float) -> None:
    """ZS R20, ZS R28, ZS R29, ZS R34, ZS R35, ZS R36, ZS R41, ZS R44, ZS R45: zeros take none, all kernels share what
    is loaded, the next word of channels comes meanwhile, and sums are cleared while they leave."""
    size, rng = sizes(number), np.random.default_rng(7)
    rows, columns, channels, kernels = *size.largest, 32, size.unit.planes
    image = rng.integers(-99, 100, (rows, columns, channels))
    weights = rng.integers(1, 100, (kernels, *size.unit.kernel, channels))
    weights = np.where(rng.random(weights.shape) < density, weights, 0)
    unit = size.unit
    words = [
        sum(work.weights * size.groups(rows) + work.others for work in size.stored(part).work)
        for part in np.split(weights, channels // unit.lanes, axis=3)
    ]
    load = rows * columns
    blocks = size.rows // unit.kernel[0] * size.columns // unit.kernel[1]
    expected = load + sum(max(int(word), load) for word in words[:-1]) + int(words[-1]) + blocks * kernels
    clocks = run_tile("native", number, [(image, weights)], room=1).clocks
    # The last block leaves unseen.
    assert expected - 1 <= clocks <= expected + 2 * len(words) + 30
