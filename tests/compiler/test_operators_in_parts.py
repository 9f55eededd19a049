"""Reductions, volumes, and operators that are written with others that the array has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from small_networks import WIDE, Network, compiled, float_outputs, largest_error

from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.errors import DataError

CLOSE = 2e-3


def host_types(program: Program) -> list[str]:
    return [kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators]


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum", "ReduceMax"])
@pytest.mark.parametrize("axes", [[2, 3], [2], [3]])
def test_reductions_over_rows_and_columns(kind: str, axes: list[int], tmp_path: Path) -> None:
    network = Network(3, 6, 8)
    network.conv(6, 3, 3)
    if kind == "ReduceSum":
        network.add(kind, network.last, network.constant(np.array(axes, np.int64)), keepdims=1)
    else:
        network.add(kind, axes=axes, keepdims=1)
    network.conv(4, 6, 1)
    program = compiled(network, tmp_path)
    assert host_types(program) == []
    assert largest_error(network, program) < CLOSE


def test_means_of_vectors_in_a_set(tmp_path: Path) -> None:
    network = Network(7, 5)
    network.add("Relu", network.add("MatMul", "x", network.weights(5, 6)))
    network.add("ReduceMean", axes=[1], keepdims=0)
    network.add("Gemm", network.last, network.weights(6, 3))
    program = compiled(network, tmp_path)
    assert host_types(program) == []
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_over_three_axes(groups: int, tmp_path: Path) -> None:
    network = Network(2, 5, 6, 7)
    for inputs, outputs in ((2, 4), (4, 6)):
        weights = network.weights(outputs, inputs // groups, 3, 3, 2)
        network.add("Conv", network.last, weights, network.weights(outputs), group=groups, pads=[1, 1, 0, 1, 0, 1],
                    strides=[2, 1, 1])  # fmt: skip
        network.add("Relu")
    network.add("ReduceMean", axes=[2, 3, 4], keepdims=0)
    network.add("Gemm", network.last, network.weights(6, 3))
    program = compiled(network, tmp_path)
    assert host_types(program) == []
    assert largest_error(network, program) < CLOSE


def between(kind: str, *constants: np.ndarray, first: bool = False, **attributes: float) -> Network:
    """An operator between two convolutions of four channels."""
    network = Network(3, 6, 5)
    network.conv(4, 3, 3)
    names = [network.constant(values.astype(np.float32)) for values in constants]
    network.add(kind, *([*names, network.last] if first else [network.last, *names]), **attributes)
    network.conv(3, 4, 1)
    return network


@pytest.mark.parametrize(
    "network",
    [
        between("PRelu", np.array([0.1, 0.3, -0.2, 1.0]).reshape(4, 1, 1)),
        between("PRelu", np.array([0.2])),
        between("LeakyRelu", alpha=0.1),
        between("HardSigmoid", alpha=0.3, beta=0.4),
    ],
    ids=["channels", "one", "leaky", "hard"],
)
def test_functions_that_the_unit_lacks_are_sums_and_clips(network: Network, tmp_path: Path) -> None:
    program = compiled(network, tmp_path)
    assert host_types(program) == []
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("slope", [1.5, 0.3])
def test_they_stay_whole_where_the_host_would_compute_a_part(slope: float, tmp_path: Path) -> None:
    """A slope above 1, and an array without ReLU."""
    config = WIDE if slope > 1 else replace(WIDE, functions=("none",))
    program = compiled(between("PRelu", np.array([slope])), tmp_path, config)
    assert host_types(program) == ["PRelu"]


def test_a_constant_matrix_in_front_is_turned(tmp_path: Path) -> None:
    network = Network(6, 4)
    network.add("MatMul", "x", network.weights(4, 5))
    network.add("MatMul", network.weights(7, 6), network.last)
    network.add("MatMul", network.last, network.weights(5, 3))
    program = compiled(network, tmp_path)
    assert set(host_types(program)) <= {"Transpose"}
    assert sum(isinstance(node, ArrayNode) for node in program.nodes) == 3
    assert largest_error(network, program) < CLOSE


def test_a_vector_that_becomes_an_image_is_rearranged_once(tmp_path: Path) -> None:
    """Normalization and ReLU behind the rearrangement had been taken up by the layer in front of it."""
    network = Network(6)
    network.add("Gemm", "x", network.weights(6, 48))
    network.add("Reshape", network.last, network.constant(np.array([0, 3, 4, 4], np.int64)))
    ones = [network.constant(np.full(3, value, np.float32)) for value in (1.2, 0.1, 0.2, 0.9)]
    network.add("Relu", network.add("BatchNormalization", network.last, *ones))
    network.conv(2, 3, 3)
    program = compiled(network, tmp_path)
    assert host_types(program) == ["Reshape"]
    assert largest_error(network, program) < CLOSE


def test_an_index_of_the_data_is_no_trouble_until_it_is_wrong(tmp_path: Path) -> None:
    """The emulator's probe with extreme values had asked for rows far behind the table, and the run ended there."""
    network = Network(3)
    index = network.add("Cast", "x", to=TensorProto.INT64)
    network.add("Flatten", network.add("Gather", network.weights(5, 4), index))
    network.add("Gemm", network.last, network.weights(12, 2))
    emulator = Emulator(compiled(network, tmp_path))
    x = np.array([[0, 1, 4], [2, 2, 3]], np.float32)
    found, expected = emulator.run({"x": x}).outputs[network.last], float_outputs(network, {"x": x})[0]
    assert np.abs(found - expected).max() < CLOSE * np.abs(expected).max()
    with pytest.raises(DataError, match=r"Gather\) cannot compute these values"):
        emulator.run({"x": x + 2})


def test_every_operator_of_the_host_has_a_reason(tmp_path: Path) -> None:
    network = Network(4, 6, 6)
    source = network.conv(4, 4, 1)
    network.add("Mul", network.add("Sigmoid", network.conv(4, 4, 1, source)), network.add("LRN", source, size=3))
    network.add("Abs", network.last)
    program = compiled(network, tmp_path, replace(WIDE, functions=("none", "sigmoid")))
    told = {kind: note for kind in ("Mul", "LRN", "Abs") for note in program.notes if f"({kind})" in note}
    assert "product of two computed values" in told["Mul"]
    assert "no quotients" in told["LRN"]
    assert "no operation for it" in told["Abs"]
