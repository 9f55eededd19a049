"""Operators left to the host: the numpy set gives what ONNX Runtime gives, and says what it does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_networks import compiled, recurrent_network

from bfpga.contract.program import HostNode
from bfpga.devices.host import host_function, onnx_session
from bfpga.devices.host_operators import OPERATORS
from bfpga.devices.onnx_reader import read_model
from bfpga.errors import ProgramError

SHAPE = (2, 3, 4)


def model_of(
    operator: str, inputs: list[str], constants: dict[str, np.ndarray], attributes: dict[str, Any], opset: int = 13
) -> bytes:
    """One operator with the inputs a and b, samples of SHAPE, and the output y."""
    shape = ("N", *SHAPE[1:])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in inputs if name in ("a", "b")]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"], **attributes)], "host", values,
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES: dict[str, tuple[list[str], dict[str, np.ndarray], dict[str, Any]]] = {
    "Add": (["a", "b"], {}, {}),
    "Cast": (["a"], {}, {"to": 6}),
    "Clip": (["a", "low", "high"], {"low": np.float32(-0.5), "high": np.float32(0.25)}, {}),
    "Concat": (["a", "b"], {}, {"axis": 2}),
    "Div": (["a", "b"], {}, {}),
    "Erf": (["a"], {}, {}),
    "Exp": (["a"], {}, {}),
    "Flatten": (["a"], {}, {"axis": 2}),
    "Gather": (["a", "index"], {"index": integers(2, 0)}, {"axis": 1}),
    "GlobalAveragePool": (["a"], {}, {}),
    "Identity": (["a"], {}, {}),
    "LeakyRelu": (["a"], {}, {"alpha": 0.3}),
    "MatMul": (["a", "m"], {"m": np.arange(8, dtype=np.float32).reshape(4, 2)}, {}),
    "Mul": (["a", "b"], {}, {}),
    "Neg": (["a"], {}, {}),
    "Pow": (["a", "two"], {"two": np.float32(2)}, {}),
    "ReduceMean": (["a"], {}, {"axes": [1], "keepdims": 0}),
    "ReduceSum": (["a", "axes"], {"axes": integers(-1)}, {}),
    "Relu": (["a"], {}, {}),
    "Round": (["a"], {}, {}),
    "Reshape": (["a", "shape"], {"shape": integers(0, -1)}, {}),
    "Shape": (["a"], {}, {}),
    "Sigmoid": (["a"], {}, {}),
    "Softmax": (["a"], {}, {"axis": 1}),
    "Sqrt": (["b"], {}, {}),
    "Squeeze": (["one", "axes"], {"one": np.ones((1, 3, 1), np.float32), "axes": integers(2)}, {}),
    "Sub": (["a", "b"], {}, {}),
    "Tanh": (["a"], {}, {}),
    "Transpose": (["a"], {}, {"perm": [0, 2, 1]}),
    "Unsqueeze": (["a", "axes"], {"axes": integers(1)}, {}),
    "Where": (["choose", "a", "b"], {"choose": np.array([True, False, True, False])}, {}),
}


@pytest.mark.parametrize("operator", sorted(CASES))
def test_numpy_operators_equal_onnx_runtime(operator: str) -> None:
    pytest.importorskip("onnxruntime")
    inputs, constants, attributes = CASES[operator]
    given = tuple(name for name in inputs if name in ("a", "b"))
    node = HostNode("host", model_of(operator, inputs, constants, attributes), given, ("y",))
    rng = np.random.default_rng(1)
    values = {"a": rng.normal(size=SHAPE).astype(np.float32), "b": rng.random(SHAPE).astype(np.float32) + 0.5}
    expected = host_function(node)(values)["y"]
    found = host_function(node, numpy_only=True)(values)["y"]
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_a_sample_has_the_same_bits_whatever_is_beside_it(tmp_path: Path) -> None:
    """ONNX Runtime multiplies matrices of other sizes in another order: emulator and board seemed to differ."""
    network = recurrent_network("RNN", 16, clip=3.0)
    node = next(item for item in compiled(network, tmp_path).nodes if isinstance(item, HostNode))
    (x,) = network.samples(8).values()
    run, session = host_function(node), onnx_session(node.model)
    together = run({node.inputs[0]: x})[node.outputs[0]]
    for index in range(8):
        alone = run({node.inputs[0]: x[index : index + 1]})[node.outputs[0]]
        np.testing.assert_array_equal(alone, together[index : index + 1])
    np.testing.assert_allclose(session.run(None, {node.inputs[0]: x})[0], together, atol=1e-5)


def test_every_operator_has_a_case() -> None:
    assert set(OPERATORS) == {*CASES, "Constant", "Dropout", "Gemm"}


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_scales_and_transposes(transposed: int) -> None:
    pytest.importorskip("onnxruntime")
    constants = {
        "w": np.arange(12, dtype=np.float32).reshape((4, 3) if transposed else (3, 4)),
        "c": np.ones(4, np.float32),
    }
    attributes = {"alpha": 0.5, "beta": 2.0, "transB": transposed}
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["zero"], value=numpy_helper.from_array(np.zeros(3, np.float32))),
            helper.make_node("Add", ["a", "zero"], ["s"]),
            helper.make_node("Dropout", ["s"], ["d"]),
            helper.make_node("Gemm", ["d", "w", "c"], ["y"], **attributes),
        ],
        "host", [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    node = HostNode("host", model, ("a",), ("y",))
    values = {"a": np.array([[1, 2, 3], [-1, 0, 1]], np.float32)}
    np.testing.assert_allclose(host_function(node, numpy_only=True)(values)["y"], host_function(node)(values)["y"])


def test_a_missing_operator_is_named() -> None:
    node = HostNode("host_3", model_of("Softplus", ["a"], {}, {}), ("a",), ("y",))
    with pytest.raises(ProgramError, match=r"host_3.*Softplus.*ONNX Runtime"):
        host_function(node, numpy_only=True)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float16])
def test_constants_of_every_type_are_read(kind: type) -> None:
    value = np.array([[1, 0, 3]], kind)
    graph = read_model(model_of("Identity", ["c"], {"c": value}, {}))
    assert graph.constants["c"].dtype == np.dtype(kind)
    assert (graph.constants["c"] == value).all()


def test_constants_in_typed_fields_are_read() -> None:
    tensors = [
        helper.make_tensor("c", TensorProto.FLOAT, [2], [1.5, -2.5]),
        helper.make_tensor("c", TensorProto.INT64, [2], [-1, 1 << 40]),
        helper.make_tensor("c", TensorProto.INT32, [2], [-7, 7]),
    ]
    for tensor in tensors:
        graph = helper.make_graph([helper.make_node("Identity", ["c"], ["y"])], "g", [], [], [tensor])
        read = read_model(helper.make_model(graph).SerializeToString()).constants["c"]
        assert read.tolist() == numpy_helper.to_array(tensor).tolist()


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_truncated_model_is_refused(cut: int) -> None:
    model = model_of("Relu", ["a"], {}, {})
    with pytest.raises(ProgramError, match="cannot be read"):
        read_model(model[:-cut])
