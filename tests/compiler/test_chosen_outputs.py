"""`--outputs`: any value of a network may be wanted, and what only other values need is not computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import bfpga
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import HostNode
from bfpga.errors import ModelError

GENERATOR = np.random.default_rng(5)
SAMPLES = GENERATOR.normal(size=(24, 8)).astype(np.float32)


def trunk_with_two_heads(folder: Path, kind: int = TensorProto.FLOAT) -> Path:
    """`features` lead to `logits`, these to `probabilities` and `place`; a head of its own gives `boxes`."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weights = [
        numpy_helper.from_array(GENERATOR.normal(size=size).astype(dtype), name)
        for name, size in {"w0": (16, 8), "w1": (6, 16), "w2": (4, 16)}.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w0"], ["sums"], "trunk", transB=1),
        helper.make_node("Relu", ["sums"], ["features"], "relu"),
        helper.make_node("Gemm", ["features", "w1"], ["logits"], "classes", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax"),
        helper.make_node("ArgMax", ["logits"], ["place"], "argmax", axis=1, keepdims=0),
        helper.make_node("Gemm", ["features", "w2"], ["boxes"], "boxes", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", kind, ["N", 8])],
        [helper.make_tensor_value_info("probabilities", kind, ["N", 6]),
         helper.make_tensor_value_info("boxes", kind, ["N", 4])], weights,
    )  # fmt: skip
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def wanted_by_onnx_runtime(path: Path, *names: str) -> list[np.ndarray]:
    """Values of the file as it is, each made an output."""
    model: ModelProto = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(list(names), {"x": SAMPLES})
    return found


def operators(network: Network) -> list[str]:
    return [node.name for node in network.model.graph.node]


def test_an_inner_value_is_computed_without_what_follows_it(tmp_path: Path) -> None:
    path = trunk_with_two_heads(tmp_path)
    assert operators(read_network(path, outputs=["logits"])) == ["trunk", "relu", "classes"]
    program = bfpga.compile(read_network(path, outputs=["logits"]), "pynq_z2_mixed", SAMPLES)
    assert not any(isinstance(node, HostNode) for node in program.nodes)
    (expected,) = wanted_by_onnx_runtime(path, "logits")
    found = bfpga.run(program, SAMPLES).outputs["logits"]
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
    assert float(np.mean(found.argmax(1) == expected.argmax(1))) > 0.9


def test_values_come_in_the_order_of_their_names_each_once(tmp_path: Path) -> None:
    network = read_network(trunk_with_two_heads(tmp_path), outputs=["boxes", "features", "boxes"])
    assert [value.name for value in network.model.graph.output] == ["boxes", "features"]
    assert operators(network) == ["trunk", "relu", "boxes"]


def test_the_type_of_an_inner_value_is_found(tmp_path: Path) -> None:
    """Places are int64 and stay it; nothing in the file says so."""
    path = trunk_with_two_heads(tmp_path)
    program = bfpga.compile(read_network(path, outputs=["place", "logits"]), "pynq_z2_mixed", SAMPLES)
    found = bfpga.run(program, SAMPLES).outputs
    assert found["place"].dtype == np.int64
    np.testing.assert_array_equal(found["place"], found["logits"].argmax(1))


def test_inner_values_of_half_precision_are_float32(tmp_path: Path) -> None:
    network = read_network(trunk_with_two_heads(tmp_path, TensorProto.FLOAT16), outputs=["logits"])
    assert network.model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_a_class_may_accompany_inner_values(tmp_path: Path) -> None:
    network = read_network(trunk_with_two_heads(tmp_path), outputs=["probabilities", "class"])
    assert [value.name for value in network.model.graph.output] == ["logits"]


def test_a_wrong_name_is_answered_with_outputs_and_near_names(tmp_path: Path) -> None:
    path = trunk_with_two_heads(tmp_path)
    with pytest.raises(ModelError) as error:
        read_network(path, outputs=["logit"])
    assert str(error.value) == (
        f"{path}: there is no value 'logit' to choose; outputs are probabilities, boxes; or class; "
        "called almost so are 'logits'"
    )
    with pytest.raises(ModelError, match=r"outputs are probabilities, boxes; or class$"):
        read_network(path, outputs=["zzz"])


@pytest.mark.parametrize("name", ["x", "w0"])
def test_what_is_given_to_the_network_is_no_output(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"there is no value '{name}' to choose"):
        read_network(trunk_with_two_heads(tmp_path), outputs=[name])
