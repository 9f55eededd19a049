"""ArgMax behind functions that keep the order of scores takes its places from the scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from small_networks import Network

import bfpga
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import HostNode, Program
from bfpga.program.host import host_nodes

CLASSES = 6


def classifier(*functions: tuple[str, dict[str, Any]], opset: int = 17, **arg_max: Any) -> Network:
    """Scores of pixels, these functions one after the other, and the place of the largest along an axis."""
    network = Network(3, 6, 5, opset=opset)
    network.conv(CLASSES, 3, 3)
    for kind, attributes in functions:
        network.add(kind, **attributes)
    network.add("ArgMax", **arg_max)
    return network


def saved(network: Network, folder: Path, scores: bool = True) -> Path:
    """The network, with the scores as an output too where they are wanted."""
    model = network.model()
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(network.last, TensorProto.INT64, None))
    if scores:
        model.graph.output.append(helper.make_tensor_value_info("v0", TensorProto.FLOAT, None))
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def compiled(network: Network, folder: Path, scores: bool = True) -> Program:
    return bfpga.compile(read_network(saved(network, folder, scores)), "pynq_z2_mixed", network.samples(8)["x"])


def on_the_host(program: Program) -> list[str]:
    return [kind for node in host_nodes(program) for kind in node.operators]


def by_onnx_runtime(network: Network, scores: np.ndarray) -> np.ndarray:
    """Functions and ArgMax of the file, of these scores."""
    value = helper.make_tensor_value_info("v0", TensorProto.FLOAT, None)
    result = helper.make_tensor_value_info(network.last, TensorProto.INT64, None)
    graph = helper.make_graph(network.nodes[1:], "tail", [value], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", network.opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"v0": scores})[0])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    ("functions", "opset"),
    [
        ([("Softmax", {"axis": 1})], 17),
        ([("LogSoftmax", {"axis": -3})], 17),
        ([("Sigmoid", {})], 17),
        ([("Sigmoid", {}), ("Softmax", {"axis": 1})], 17),
        ([("Softmax", {"axis": 1})], 11),
    ],
)
def test_places_are_those_of_the_whole_file(
    functions: list[tuple[str, dict[str, Any]]], opset: int, last: int, tmp_path: Path
) -> None:
    """The functions get the same mantissas, of which many pixels have two that are the largest."""
    network = classifier(*functions, opset=opset, axis=1, keepdims=0, select_last_index=last)
    if opset < 12:
        network.nodes[-1].attribute.remove(network.nodes[-1].attribute[-1])  # it came with opset 12
    program = compiled(network, tmp_path)
    assert on_the_host(program) == ["ArgMax"]
    found = bfpga.run(program, np.round(2 * network.samples(40)["x"]) / 2).outputs
    scores = found["v0"]
    ties = np.count_nonzero(scores == scores.max(1, keepdims=True), axis=1) > 1
    assert ties.any()
    np.testing.assert_array_equal(found[network.last], by_onnx_runtime(network, scores))
    assert any(note.startswith("ArgMax_") and "takes the place from v0" in note for note in program.notes)


@pytest.mark.parametrize(
    ("functions", "axis", "opset"),
    [
        ([("Softmax", {"axis": 2})], 1, 17),  # each row of pixels is divided by a sum of its own
        ([("LogSoftmax", {})], 1, 17),  # the same of the last axis
        ([("Softmax", {"axis": 2})], 1, 11),
        ([("Softmax", {"axis": 1}), ("Neg", {})], 1, 17),
        ([("Relu", {})], 1, 17),
    ],
)
def test_functions_that_may_move_the_largest_stay(
    functions: list[tuple[str, dict[str, Any]]], axis: int, opset: int, tmp_path: Path
) -> None:
    network = classifier(*functions, opset=opset, axis=axis, keepdims=0)
    program = compiled(network, tmp_path)
    assert not any("takes the place" in note for note in program.notes)
    found = bfpga.run(program, network.samples(8)["x"]).outputs
    np.testing.assert_array_equal(found[network.last], by_onnx_runtime(network, found["v0"]))


def test_all_axes_of_an_old_softmax_share_one_sum(tmp_path: Path) -> None:
    network = classifier(("Softmax", {"axis": 1}), opset=11, axis=3, keepdims=0)
    program = compiled(network, tmp_path)
    assert on_the_host(program) == ["ArgMax"]
    found = bfpga.run(program, network.samples(8)["x"]).outputs
    np.testing.assert_array_equal(found[network.last], by_onnx_runtime(network, found["v0"]))


def test_probabilities_that_something_else_reads_are_read_by_both(tmp_path: Path) -> None:
    """Where they are computed anyway, places and probabilities are of the same numbers."""
    network = classifier(("Softmax", {"axis": 1}), axis=1, keepdims=0)
    probabilities = network.nodes[1].output[0]
    model = network.model()
    del model.graph.output[:]
    for name, kind in ((network.last, TensorProto.INT64), (probabilities, TensorProto.FLOAT)):
        model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    program = bfpga.compile(read_network(path), "pynq_z2_mixed", network.samples(8)["x"])
    assert on_the_host(program) == ["Softmax", "ArgMax"]


def test_a_softmax_on_the_chip_goes_too(tmp_path: Path) -> None:
    """Its results are mantissas, of which more are the same than of the scores."""
    network = classifier(("Softmax", {"axis": 1}), axis=1, keepdims=0)
    path = saved(network, tmp_path, scores=False)
    program = bfpga.compile(path, "pynq_z2_transformer", network.samples(8)["x"])
    assert [node.name for node in program.nodes if not isinstance(node, HostNode)] == ["Conv_0"]


def test_quantized_probabilities_stay(tmp_path: Path) -> None:
    """Quantizers round several probabilities to one number, of which the first is taken."""
    network = Network(3, 6, 5)
    network.conv(CLASSES, 3, 3)
    network.add("Softmax", axis=1)
    numbers = [network.constant(np.float32(0.25)), network.constant(np.int8(0))]
    network.add("QuantizeLinear", network.last, *numbers)
    network.add("DequantizeLinear", network.last, *numbers)
    network.add("ArgMax", axis=1, keepdims=0)
    program = compiled(network, tmp_path, scores=False)
    assert "Softmax" in on_the_host(program)
