"""Programs for a kernel with a sparse cluster in the place of its array: their descriptors, executed one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from array_layers import PlainKernel
from changed_kernels import changed
from cluster_configs import CLUSTER
from effort import some_of
from small_networks import WIDE, Network, compiled
from watched_kernel import Watched

from bfpga.contract.arrays.sparse_cluster import cluster_array, map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.limits import problems
from bfpga.contract.program import LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.kernel.constraints import findings
from bfpga.engines.sparse_cluster.unit_maps import map_fits, pieces_fit
from bfpga.program.choices import program_operations
from bfpga.verify.random_network import random_program


class WatchedKernel(PlainKernel):
    """Fails where an operation uses words that it has not stated."""

    def __init__(self, config: KernelConfig) -> None:
        super().__init__(config)
        self.kernel = Watched(config)


def drawn(seed: int) -> Program:
    rng = np.random.default_rng(seed)
    config = changed(
        CLUSTER, columns=int(rng.choice([1, 3, 4, 7])), rows=int(rng.choice([4, 8])),
        array_rows=int(rng.choice([1, 2, 3])), array_words=int(rng.choice([4, 8, 16])),
        array_map_lines=int(rng.choice([4, 8, 16])), activation_words=int(rng.choice([64, 1024])),
    )  # fmt: skip
    return random_program(rng, config) if not list(findings(config)) else drawn(seed + 1000)


@pytest.mark.parametrize("seed", some_of(range(40), *range(0, 40, 6)))
def test_descriptors_give_the_bits_and_the_work_of_the_emulator(seed: int) -> None:
    program = drawn(seed)
    (name, shape), *_ = program.inputs.items()
    samples = {name: np.random.default_rng(seed).normal(0, 1, (1, *shape)).astype(np.float32)}
    expected = Emulator(program, "numpy").run(samples)
    found = KernelDevice(program, WatchedKernel(program.config), "plain").run(samples)
    for output, value in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[output], value)
    assert found.cycles == expected.cycles


@pytest.mark.parametrize("seed", range(40))
def test_maps_have_room_and_registers_hold_them(seed: int) -> None:
    """SC R155: sums of the largest piece fit a unit, whatever the compiler cuts and joins."""
    program = drawn(seed)
    config = program.config
    for step in program.steps:
        assert isinstance(step, LaunchStep)
        for operation in step.operations:
            d = operation.descriptor
            assert not list(problems(config, d))
            if d.operation == Operation.GEMM:
                assert d.flags & Flag.CLUSTER
                kernel = d.kernel_height, d.kernel_width
                assert map_fits(d.input_height, d.input_width, kernel, config)
                assert pieces_fit(d.input_height, d.input_width, kernel, config, (d.joined_rows, d.joined_columns))
                assert max(d.stride_y, d.stride_x) <= map_array(config.array).kernel


@pytest.mark.parametrize(
    ("kernel", "attributes", "reason"),
    [
        (2, {"strides": [4, 4]}, "its stride is 4"),
        (3, {"pads": [3, 3, 3, 3]}, "some of its results read nothing but padding"),
    ],
)
def test_what_a_cluster_does_not_compute_the_host_does(
    kernel: int, attributes: dict[str, list[int]], reason: str, tmp_path: Path
) -> None:
    """SC R14: and the reason is a note of the program."""
    network = Network(4, 12, 12)
    network.conv(6, 4, 3, pads=[1, 1, 1, 1])
    network.add("Relu")
    network.conv(8, 6, kernel, **attributes)
    program = compiled(network, tmp_path, CLUSTER)
    assert [note for note in program.notes if reason in note and "a systolic array computes it" in note]


def test_maps_beyond_the_lines_are_cut(tmp_path: Path) -> None:
    """SC R55, SC R148: by size, into maps that a cluster has room for."""
    network = Network(4, 30, 40)
    network.conv(6, 4, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path, replace(CLUSTER, activation_words=4096))
    (node,) = program.nodes
    assert len(node.tiles) > 4
    assert {(tile.y0, tile.y1, tile.x0, tile.x1) for tile in node.tiles} == {
        (tile.y0, tile.y1, tile.x0, tile.x1) for tile in node.tiles if tile.y1 - tile.y0 <= 16 >= tile.x1 - tile.x0
    }


def test_zeros_of_samples_tell_the_clocks(tmp_path: Path) -> None:
    """SC R13: behind ReLU half of a map is zero, so a layer takes fewer clocks than with a share of one, which an
    input has that nobody has counted."""
    network = Network(4, 12, 12)
    network.conv(16, 4, 3, pads=[1, 1, 1, 1])
    network.add("Relu")
    network.conv(16, 16, 3, pads=[1, 1, 1, 1])
    known, unknown = (compiled(network, tmp_path, CLUSTER, calibrate=calibrate) for calibrate in (True, False))
    assert known.nodes[1].input_share < 0.8
    assert unknown.nodes[1].input_share == 1.0


def test_a_cluster_computes_maps_without_a_zero_too(tmp_path: Path) -> None:
    """SC R15: no other array is in the kernel, so every product of a dense network is the cluster's."""
    network = Network(4, 12, 12)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path, CLUSTER)
    assert program.notes == []
    products = [item for item in program_operations(program) if item.descriptor.operation == Operation.GEMM]
    assert {item.layer for item in products} == {"Conv_0", "Conv_1"}
    assert all(item.descriptor.flags & Flag.CLUSTER for item in products)
    assert all(node.input_density > 0.9 for node in program.nodes)


def test_maps_are_counted_where_that_saves_clocks(tmp_path: Path) -> None:
    """SC R25: of units that have a piece each, and not where values lie everywhere."""
    config = changed(CLUSTER, array_variant="B", array_lanes=4, array_words=32)
    found = {}
    for used_rows in (5, 14):
        network = Network(4, 14, 14)
        network.conv(16, 4, 3, pads=[1, 1, 1, 1])
        network.used_rows = used_rows
        (operation,) = gemms(compiled(network, tmp_path, config))
        found[used_rows] = operation.most_moves
    assert found == {5: cluster_array(config.array).moves, 14: 0}


@pytest.mark.parametrize("strides", [(2, 2), (3, 1), (1, 2), (5, 4)])
def test_kernels_of_one_pixel_read_the_pixels_of_their_stride(strides: tuple[int, int], tmp_path: Path) -> None:
    """Nothing is multiplied for outputs that there are not, and a stride may be larger than the largest kernel."""
    network = Network(6, 14, 13)
    network.conv(8, 6, 1, strides=list(strides))
    program = compiled(network, tmp_path, CLUSTER)
    assert program.notes == []
    (found,) = gemms(program)
    rows, columns = -(-14 // strides[0]), -(-13 // strides[1])
    assert (found.input_height, found.input_width) == (rows, columns)
    assert found.map_cells == found.output_pixels == rows * columns
    assert (found.stride_y, found.stride_x) == (1, 1)
    samples = network.samples(1)
    expected = Emulator(program, "numpy").run(samples)
    result = KernelDevice(program, WatchedKernel(program.config), "plain").run(samples)
    for output, value in expected.outputs.items():
        np.testing.assert_array_equal(result.outputs[output], value)
    assert result.cycles == expected.cycles


def gemms(program: Program) -> list[Descriptor]:
    """Descriptors of a program's products, in their order."""
    operations = [item.descriptor for item in program_operations(program)]
    return [item for item in operations if item.operation == Operation.GEMM]


def test_a_product_of_activations_is_for_a_systolic_array(tmp_path: Path) -> None:
    """SC R9, SC R14: a cluster takes weights that the compiler stores, so the host computes it there, with a note."""
    network = Network(6, 8)
    query, key = (network.add("MatMul", "x", network.weights(8, 6)) for _ in range(2))
    network.add("MatMul", query, network.add("Transpose", key, perm=[0, 2, 1]))
    dense, cluster = (compiled(network, tmp_path, config) for config in (WIDE, CLUSTER))
    assert not any("second operand is computed" in note for note in dense.notes)
    assert any("takes weights that the compiler stores" in note for note in cluster.notes)


def test_units_share_pieces_where_that_is_faster(tmp_path: Path) -> None:
    """Pieces of 5 x 5 cells on 2 x 2 units are 2 or 3 lines high: the slowest unit has nine cells of 25."""
    network = Network(8, 5, 5)
    network.conv(16, 8, 3, pads=[1, 1, 1, 1])
    network.conv(16, 16, 3, pads=[1, 1, 1, 1])
    known, unknown = (compiled(network, tmp_path, CLUSTER, calibrate=calibrate) for calibrate in (True, False))
    assert [node.joined_pieces for node in known.nodes] == [(2, 2), (2, 2)]
    assert [node.joined_pieces for node in unknown.nodes] == [(1, 1), (1, 1)]
    for program, joined in ((known, 2), (unknown, 1)):
        products = [
            operation.descriptor
            for step in program.steps
            if isinstance(step, LaunchStep)
            for operation in step.operations
            if operation.descriptor.operation == Operation.GEMM
        ]
        assert {(d.joined_rows, d.joined_columns) for d in products} == {(joined, joined)}
        assert {d.most_moves > 0 for d in products} == {joined == 1}  # nothing is counted of a map in one piece
