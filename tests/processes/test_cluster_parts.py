"""Kernels larger than those of a cluster's units, or of a tile: the compiler cuts them into parts, the sums are one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from changed_kernels import changed
from cluster_configs import CLUSTER, TILE, VARIANTS
from effort import drawn
from small_networks import Network, compiled

from bfpga.contract.arrays.sparse_cluster import map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, Program, TensorSpec, Tile, Window
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.engines.kernel.cycles import operation_cycles
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts, part_weights, words_of_block
from bfpga.engines.sparse_cluster.unit_maps import WORK_BITS, cells_of_map, fitting_parts, map_part, refusal
from bfpga.program.choices import program_operations
from bfpga.program.listing import listing
from bfpga.vendor.render import library_directory
from bfpga.verify.check import first_mismatch, random_inputs, simulation
from bfpga.verify.random_network import NetworkBuilder, schedule


def large_window(rng: np.random.Generator, height: int, width: int) -> Window:
    """A kernel of 4 to 11 rows and columns, one of them maybe fewer, of an image with room for it."""
    rows, columns = rng.integers(4, 12, 2).tolist()
    rows, columns = (1, columns) if rng.random() < 0.15 else (rows, 3) if rng.random() < 0.15 else (rows, columns)
    stride_y, stride_x = rng.integers(1, 4, 2).tolist()
    pad_top, pad_left, bottom, right = (int(rng.integers(0, size)) for size in (rows, columns) * 2)
    return Window(
        rows, columns, stride_y, stride_x, pad_top, pad_left,
        output_height=(height + pad_top + bottom - rows) // stride_y + 1,
        output_width=(width + pad_left + right - columns) // stride_x + 1,
    )  # fmt: skip


def large_layer(seed: int, config: KernelConfig) -> Program:
    """A layer with such a kernel, in groups or not."""
    rng = np.random.default_rng(seed)
    while True:
        builder = NetworkBuilder(rng, config)
        height, width = rng.integers(11, 20, 2).tolist()
        groups = int(rng.choice([1, 1, 2, 3]))
        channels, outputs = groups * int(rng.integers(1, 6)), groups * int(rng.integers(1, 6))
        window = large_window(rng, height, width)
        words = -(-channels // config.lanes)
        whole = kernel_parts(window, config).number == 1
        if not whole and not refusal(window, height, width, words, config):
            break
    x = builder.tensor(height, width, channels, -4)
    y = builder.tensor(window.output_height, window.output_width, outputs)
    builder.product(x, y, window, groups, outputs, 0, builder.policy())
    return schedule(builder, y)


@pytest.mark.parametrize(
    ("target", "config", "seeds"),
    [
        ("csim", CLUSTER, range(12)),
        pytest.param(
            "csim", changed(CLUSTER, columns=3, array_kernel=4, array_words=64), range(5), marks=pytest.mark.slow
        ),
        ("csim", VARIANTS["B"], range(6)),
        ("csim", TILE, range(8)),
    ],
)  # fmt: skip
def test_sums_of_the_parts_are_those_of_the_kernel(target: str, config: KernelConfig, seeds: range) -> None:
    """SC R7: every bit and counter of the emulator, which knows nothing of parts."""
    for seed in seeds[: drawn(len(seeds))]:
        program = large_layer(seed, config)
        inputs = random_inputs(np.random.default_rng(seed), program)
        expected = Emulator(program, NUMPY).run(inputs, trace=True)
        assert first_mismatch(program, expected, simulation(target)(program).run(inputs, trace=True)) is None
        (node,) = program.nodes
        assert isinstance(node, ArrayNode)
        parts = kernel_parts(node.window, config)
        for operation in program_operations(program):
            d = operation.descriptor
            if d.operation == Operation.GEMM:
                assert (d.parts_down, d.parts_across) == (parts.down.number, parts.across.number)
                assert max(d.kernel_height, d.kernel_width) <= map_array(config.array).kernel
                assert operation_cycles(config, d) > 0


@pytest.mark.parametrize("seed", range(8))
def test_parts_are_channels_of_a_smaller_kernel(seed: int) -> None:
    """SC R7: the map in parts and the weights in parts have the sums of the layer, map for map."""
    rng = np.random.default_rng(seed)
    window, config = large_window(rng, 14, 13), changed(CLUSTER, array_map_lines=32, array_map_blocks=256)
    if seed % 3 == 0:
        window = replace(
            window, kernel_height=3, kernel_width=2, dilation_y=3, dilation_x=2, pad_top=1, pad_left=0,
            output_height=2, output_width=3,
        )  # fmt: skip
    image = rng.random((14, 13, 6)) < 0.4
    weights = rng.integers(-9, 10, (5, window.kernel_height, window.kernel_width, 6))
    parts = kernel_parts(window, config)
    padded = np.zeros((*weights.shape[:3], 8), np.int64)
    padded[..., :6] = weights
    kernels = part_weights(padded, parts)
    assert kernels.shape[1:3] == (parts.down.size, parts.across.size)
    node = ArrayNode("layer", "gemm", ("x",), "y", 5, window, weights=weights.astype(np.int32))
    builder = NetworkBuilder(rng, config)
    spec = builder.tensors[builder.tensor(14, 13, 6)]
    for tile in fitting_parts(node, spec, Tile(0, window.output_height, 0, 5), config):
        part = map_part(window, tile, 14, 13, config)
        cells = cells_of_map(part, image, parts, config).astype(np.int64)
        x0, x1 = tile.columns(window.output_width)
        for y in range(tile.y0, tile.y1):
            for x in range(x0, x1):
                row = (y - tile.y0) * window.stride_y - (part.down.pad if parts.down.number == 1 else 0)
                column = (x - x0) * window.stride_x - (part.across.pad if parts.across.number == 1 else 0)
                assert _sums(cells, kernels, row, column, 1, 1) == _sums(
                    image.astype(np.int64), weights, y * window.stride_y - window.pad_top,
                    x * window.stride_x - window.pad_left, window.dilation_y, window.dilation_x,
                )  # fmt: skip


def _sums(image: np.ndarray, weights: np.ndarray, top: int, left: int, down: int, across: int) -> list[int]:
    """Sums of a window that begins in a row and a column; beside the image are zeros."""
    total = np.zeros(len(weights), np.int64)
    for a, b in np.ndindex(weights.shape[1:3]):
        row, column = top + a * down, left + b * across
        if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
            total += weights[:, a, b] @ image[row, column]
    return total.tolist()


def test_words_that_a_cluster_does_not_count_are_for_another_array() -> None:
    """SC R14: 1,023 words of channels, parts and all; more would come out as other numbers."""
    window = Window(11, 11, output_height=2, output_width=2)
    assert refusal(window, 12, 12, 63, CLUSTER) == ""
    assert "64 words of channels in 4x4 parts of 3x3, and a cluster counts 1023 words" in refusal(
        window, 12, 12, 64, CLUSTER
    )
    point = Window(output_height=4, output_width=4)
    assert refusal(point, 4, 4, 1023, CLUSTER) == ""
    assert "1024 words of channels, and a cluster counts 1023" in refusal(point, 4, 4, 1024, CLUSTER)
    assert [words_of_block(4096, 4096, groups, CLUSTER) for groups in (1, 2, 4096)] == [1024, 1024, 2]


def test_the_listing_names_the_parts(tmp_path: Path) -> None:
    network = Network(4, 14, 14)
    network.conv(6, 4, 5, pads=[2, 2, 2, 2])
    network.conv(6, 6, 3, dilations=[2, 2])
    program = compiled(network, tmp_path, replace(CLUSTER, activation_words=4096))
    text = listing(program)
    assert "convolution 5x5 in 2x2 parts of 3x3" in text
    assert "in 3x3 parts of 1x1" in text


def test_the_work_of_a_map_is_counted_whatever_its_channels() -> None:
    """SC R25: maps of so many channels and parts that counters would overflow are cut."""
    text = (library_directory() / "bfpga/processes/sparse_cluster/layer.hpp").read_text()
    assert f"work_bits = {WORK_BITS};" in text
    config = changed(CLUSTER, array_map_lines=64, array_map_blocks=1024, array_words=1024)
    window = Window(kernel_height=5, kernel_width=5, output_height=60, output_width=60)
    node = ArrayNode("layer", "gemm", ("x",), "y", 1, window, weights=np.ones((1, 5, 5, 1000), np.int32))
    spec = TensorSpec("x", 64, 64, 1000)
    tiles = fitting_parts(node, spec, Tile(0, 60, 0, 1), config)
    parts = [map_part(window, tile, 64, 64, config) for tile in tiles]
    work = [part.rows * part.columns * 1000 * 4 for part in parts]
    assert len(tiles) > 1
    assert max(work) < 2 ** (WORK_BITS - 1)
    assert len(fitting_parts(node, replace(spec, channels=8), Tile(0, 60, 0, 1), config)) == 1
