"""Operators whose pixels several layers write between each other's, and parts of tensors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from memory_walk import MemoryWalk, check_coverage
from small_networks import WIDE, Network, compiled, largest_error

import bfpga
from bfpga.compiler.lower.interleaved import pieces_of
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.runtime import open_device

CLOSE = 2e-3


def host_types(program: Program) -> list[str]:
    return [kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators]


def layers(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode)]


def check(network: Network, program: Program) -> None:
    """All of it on the array, every word where it should be, values as those of ONNX Runtime."""
    assert host_types(program) == []
    MemoryWalk(program).run()
    check_coverage(program)
    assert largest_error(network, program) < CLOSE


def transposed(inputs: int, outputs: int, kernel: list[int], groups: int = 1, **attributes: Any) -> Network:
    """A transposed convolution with batch normalization and ReLU between two convolutions."""
    axes = len(kernel)
    network = Network(3, *[7, 6][:axes])
    network.add("Conv", "x", network.weights(inputs, 3, *[1] * axes))
    weights = network.weights(inputs, outputs // groups, *kernel)
    network.add("ConvTranspose", network.last, weights, network.weights(outputs), group=groups, **attributes)
    ones = [network.constant(np.full(outputs, value, np.float32)) for value in (1.2, 0.1, 0.2, 0.9)]
    network.add("Relu", network.add("BatchNormalization", network.last, *ones))
    network.add("Conv", network.last, network.weights(4, outputs, *[1] * axes))
    return network


GEOMETRIES: dict[str, dict[str, Any]] = {
    "stride": {"kernel": [2, 2], "strides": [2, 2]},
    "overlap": {"kernel": [4, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]},
    "extra": {"kernel": [3, 3], "strides": [3, 2], "pads": [1, 1, 1, 1], "output_padding": [0, 1]},
    "dilated": {"kernel": [3, 2], "strides": [2, 3], "dilations": [2, 2]},
    "gaps": {"kernel": [2, 1], "strides": [3, 1]},
    "plain": {"kernel": [3, 3], "pads": [1, 1, 1, 1]},
    "groups": {"kernel": [3, 4], "strides": [2, 2], "pads": [0, 1, 0, 1], "groups": 2},
    "line": {"kernel": [4], "strides": [2], "pads": [1, 1]},
    "same": {"kernel": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "stated": {"kernel": [3, 3], "strides": [2, 2], "output_shape": [14, 12]},
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_transposed_convolutions_are_a_convolution_for_each_phase(name: str, tmp_path: Path) -> None:
    """Issue 17, item 3: products, normalization and ReLU are the array's.

    Phases along a row are channels, which the host rearranges: each row of the result has its own layer alone.
    """
    network = transposed(4, 6, **GEOMETRIES[name])
    program = compiled(network, tmp_path)
    strides = GEOMETRIES[name].get("strides", [1])
    if strides[-1] == 1 or len(strides) == 1:
        check(network, program)
    else:
        assert host_types(program) == ["Reshape"]
        assert largest_error(network, program) < CLOSE
    assert len(layers(program)) == 2 + strides[0]


def test_a_width_that_is_no_multiple_of_the_stride_is_the_hosts(tmp_path: Path) -> None:
    network = transposed(4, 6, kernel=[3, 3], strides=[2, 3], pads=[1, 1, 1, 1], output_padding=[1, 0])
    assert host_types(compiled(network, tmp_path)) == ["ConvTranspose"]


def test_decoders_give_the_same_bits_on_the_c_simulation(tmp_path: Path) -> None:
    """A transposed convolution of two groups, the two operators behind it, and what it is joined with.

    The layer takes up both operators; the host rearranges one of the joined values alone.
    """
    network = Network(3, 6, 8)
    skip = network.add("Relu", network.conv(4, 3, 1))
    network.conv(4, 4, 2, strides=[2, 2])
    up = network.add("ConvTranspose", network.last, network.weights(4, 2, 4, 4), network.weights(4), group=2,
                     strides=[2, 2], pads=[1, 1, 1, 1])  # fmt: skip
    statistics = [network.constant(np.linspace(0.5, 2, 4, dtype=np.float32)) for _ in range(4)]
    normal = network.add("BatchNormalization", up, *statistics)
    network.add("Concat", network.add("Tanh", normal), skip, axis=1)
    network.conv(3, 8, 3)
    path = tmp_path / "net.onnx"
    onnx.save(network.model(), path)
    program = bfpga.compile(path, "tiny", network.samples(16))
    assert host_types(program) == ["Reshape"]
    samples = network.samples(2)
    expected, found = (open_device(name, program).run(samples) for name in ("emulator", "csim"))
    assert all(np.array_equal(found.outputs[name], value) for name, value in expected.outputs.items())
    assert [layer.cycles for layer in found.layers] == [layer.cycles for layer in expected.layers]


def test_phases_pass_small_memories_in_strips(tmp_path: Path) -> None:
    network = transposed(8, 6, [4, 3], strides=[2, 1], pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path, replace(WIDE, activation_words=70))
    check(network, program)
    assert any(len(node.tiles) > 1 and node.window.spread for node in layers(program))


def test_phases_need_samples(tmp_path: Path) -> None:
    program = compiled(transposed(4, 6, [2, 2], strides=[2, 2]), tmp_path, calibrate=False)
    assert "ConvTranspose" in host_types(program)
    assert any("calibration samples" in note for note in program.notes)


def resized(scales: list[float], **attributes: Any) -> Network:
    network = Network(3, 6, 9)
    network.conv(4, 3, 1)
    network.add("Resize", network.last, "", network.constant(np.array([1, 1, *scales], np.float32)), **attributes)
    network.conv(4, 4, 3)
    return network


@pytest.mark.parametrize(
    ("scales", "attributes", "count"),
    [
        ([2, 1], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, 2),
        ([2, 1], {"mode": "linear"}, 4),
        ([3, 1], {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, 5),
        ([0.5, 1 / 3], {"mode": "nearest"}, 1),
        ([1.5, 1], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, 3),
    ],
)
def test_interpolations_are_sums_of_pixels(
    scales: list[float], attributes: dict[str, Any], count: int, tmp_path: Path
) -> None:
    network = resized(scales, **attributes)
    program = compiled(network, tmp_path)
    check(network, program)
    assert len(layers(program)) == 2 + count


def test_an_interpolation_of_many_sums_is_the_hosts(tmp_path: Path) -> None:
    program = compiled(resized([2, 2], mode="linear", coordinate_transformation_mode="align_corners"), tmp_path)
    assert host_types(program) == ["Resize"]
    assert any("different sums" in note for note in program.notes)


def test_lines_of_one_phase_with_one_kernel_are_a_piece() -> None:
    matrix = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1], [0, 0, 1.0]])
    found = [(piece.first, piece.spread, piece.count, piece.coefficients) for piece in pieces_of(matrix)]
    assert found == [(0, 2, 3, (1.0,)), (1, 2, 2, (0.5, 0.5)), (5, 2, 1, (1.0,))]


def parts(kind: str, shape: tuple[int, ...], *numbers: list[int], outputs: int = 1, **attributes: Any) -> Network:
    """An operator between convolutions; all its results are joined along the channels."""
    network = Network(3, *shape[1:])
    axes = len(shape) - 1
    network.add("Conv", "x", network.weights(shape[0], 3, *[1] * axes))
    constants = [network.constant(np.array(number, np.int64)) for number in numbers]
    network.add(kind, network.last, *constants, outputs=outputs, **attributes)
    values = [network.last, *(f"{network.last}_{index}" for index in range(1, outputs))]
    ends = []
    for value in values:
        channels = {item.name: item for item in network.model(value).graph.output}[value]
        size = channels.type.tensor_type.shape.dim[1].dim_value
        ends.append(network.add("Conv", value, network.weights(4, size, *[1] * axes)))
    if len(ends) > 1:
        network.add("Concat", *ends, axis=1)
    return network


@pytest.mark.parametrize(
    "network",
    [
        parts("Slice", (4, 9, 8), [1, 2], [8, 8], [2, 3], [2, 3]),
        parts("Slice", (6, 5, 8), [1], [4], [1]),
        parts("Slice", (4, 12), [3], [11], [2]),
        parts("Split", (6, 5, 8), [4, 2], outputs=2, axis=1),
        parts("Split", (4, 6, 8), [3, 3], outputs=2, axis=2),
        parts("SpaceToDepth", (3, 6, 8), blocksize=2),
    ],
    ids=["pixels", "channels", "line", "split", "rows", "space"],
)
def test_parts_and_blocks_of_tensors_are_layers(network: Network, tmp_path: Path) -> None:
    check(network, compiled(network, tmp_path))


@pytest.mark.parametrize(
    ("network", "kind"),
    [
        (parts("DepthToSpace", (8, 5, 4), blocksize=2, mode="CRD"), "DepthToSpace"),
        (parts("DepthToSpace", (12, 3, 4), blocksize=2, mode="DCR"), "DepthToSpace"),
        (resized([1, 2], mode="linear"), "Resize"),
    ],
    ids=["crd", "dcr", "interpolation"],
)
def test_results_apart_in_a_row_are_the_hosts(network: Network, kind: str, tmp_path: Path) -> None:
    """A kernel writes whole runs of pixels."""
    program = compiled(network, tmp_path)
    assert host_types(program) == [kind]
    assert any("its results are not adjacent" in note for note in program.notes), program.notes
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("axis", [2, 3])
def test_joins_along_rows_and_columns_copy_nothing(axis: int, tmp_path: Path) -> None:
    network = Network(3, 6, 5)
    first, second = (network.add("Relu", network.conv(4, 3, 1, "x")) for _ in range(2))
    network.add("Concat", first, second, axis=axis)
    network.conv(4, 4, 3)
    program = compiled(network, tmp_path)
    check(network, program)
    assert len(layers(program)) == 3


def test_the_c_simulation_gives_the_same_bits(tmp_path: Path) -> None:
    """Phases, interpolation, parts and a join, traced layer by layer too."""
    network = Network(3, 5, 6)
    network.conv(4, 3, 1)
    network.add("ConvTranspose", network.last, network.weights(4, 4, 3, 3), strides=[2, 1], pads=[1, 1, 1, 1])
    network.add("Split", network.last, network.constant(np.array([2, 2], np.int64)), outputs=2, axis=1)
    left, right = network.last, f"{network.last}_1"
    scales = network.constant(np.array([1, 1, 2, 1], np.float32))
    modes = ((left, "linear"), (right, "nearest"))
    ends = [network.add("Resize", value, "", scales, mode=mode) for value, mode in modes]
    network.add("Concat", *ends, axis=2)
    network.conv(3, 2, 3)
    path = tmp_path / "net.onnx"
    onnx.save(network.model(), path)
    program = bfpga.compile(path, "tiny", network.samples(16))
    assert host_types(program) == []
    samples = network.samples(2)
    expected, device = open_device("emulator", program).run(samples, trace=True), open_device("csim", program)
    found, traced = device.run(samples), device.run(samples, trace=True)
    device.close()
    assert all(np.array_equal(found.outputs[name], value) for name, value in expected.outputs.items())
    assert [layer.cycles for layer in found.layers] == [layer.cycles for layer in expected.layers]
    assert first_mismatch(program, expected, traced) is None
