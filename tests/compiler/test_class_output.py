"""`--outputs class`: what leaves the order of scores as it is is not computed at the end of a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bfpga
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import HostNode
from bfpga.errors import ModelError

SCORES = 5
GENERATOR = np.random.default_rng(3)
WEIGHTS = GENERATOR.normal(size=(SCORES, 8)).astype(np.float32)
SAMPLES = GENERATOR.normal(size=(40, 8)).astype(np.float32)


def saved(
    path: Path, *operators: tuple[str, dict[str, int]], outputs: tuple[str, ...] = (), weights: bool = True
) -> Path:
    """A product and these operators, one after the other; outputs: names among `scores`, `v0`, `v1`; None: the last."""
    nodes, last = [], "x"
    if weights:
        nodes, last = [helper.make_node("Gemm", ["x", "w"], ["scores"], "product", transB=1)], "scores"
    for index, (kind, attributes) in enumerate(operators):
        nodes.append(helper.make_node(kind, [last], [f"v{index}"], f"last_{kind}", **attributes))
        last = f"v{index}"
    width = SCORES if weights else 8
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name in outputs or (last,)],
        [numpy_helper.from_array(WEIGHTS, "w")] if weights else [],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Sigmoid"])
def test_the_class_is_that_of_the_whole_network(kind: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", (kind, {}))
    whole = bfpga.compile(path, "pynq_z2_mixed", SAMPLES)  # without a function of these
    network = read_network(path, outputs=["class"])
    program = bfpga.compile(network, "pynq_z2_mixed", SAMPLES)
    assert any(isinstance(node, HostNode) for node in whole.nodes)
    assert not any(isinstance(node, HostNode) for node in program.nodes)
    assert list(program.outputs) == ["scores"]
    got, wanted = bfpga.run(program, SAMPLES).outputs["scores"], bfpga.run(whole, SAMPLES).outputs["v0"]
    assert (got.argmax(1) == wanted.argmax(1)).all()
    note = f"output v0 is scores, the scores before {kind} last_{kind}: the largest is the same class"
    assert network.notes[0].startswith(note)
    assert note in " ".join(program.notes)
    assert ("0.5 after it is 0 before it" in network.notes[0]) == (kind == "Sigmoid")


def test_shapes_after_the_last_operator_go_with_it(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", ("Softmax", {}), ("Flatten", {}), ("Identity", {}))
    assert [value.name for value in read_network(path, outputs=["class"]).model.graph.output] == ["scores"]


def test_both_of_two_operators_go(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", ("Sigmoid", {}), ("Softmax", {}))
    assert [value.name for value in read_network(path, outputs=["class"]).model.graph.output] == ["scores"]


def test_scores_that_are_an_output_already_are_given_once(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", ("Softmax", {}), outputs=("v0", "scores"))
    assert [value.name for value in read_network(path, outputs=["class"]).model.graph.output] == ["scores"]
    chosen = read_network(path, outputs=["v0", "class"])
    assert [value.name for value in chosen.model.graph.output] == ["scores"]


@pytest.mark.parametrize("operators", [[("Relu", {})], [("Softmax", {}), ("Neg", {})]])
def test_a_network_that_ends_otherwise_stays(operators: list[tuple[str, dict[str, int]]], tmp_path: Path) -> None:
    """The smallest of what is negated would be the class: nothing before it may go."""
    path = saved(tmp_path / "net.onnx", *operators)
    network = read_network(path, outputs=["class"])
    assert [value.name for value in network.model.graph.output] == [f"v{len(operators) - 1}"]
    assert "stays as it is: it ends with no LogSoftmax, Sigmoid, Softmax" in network.notes[0]


def test_an_input_becomes_no_output(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", ("Softmax", {}), weights=False)
    assert [value.name for value in read_network(path, outputs=["class"]).model.graph.output] == ["v0"]


def test_an_output_of_that_name_is_meant(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", ("Softmax", {}))
    model = onnx.load(path)
    model.graph.node[-1].output[0] = model.graph.output[0].name = "class"
    onnx.save(model, path)
    network = read_network(path, outputs=["class"])
    assert [value.name for value in network.model.graph.output] == ["class"]
    assert not network.notes


def test_an_unknown_output_names_the_class_too(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", ("Softmax", {}))
    with pytest.raises(ModelError, match="no value 'probabilities' to choose; outputs are v0; or class"):
        read_network(path, outputs=["probabilities", "class"])
