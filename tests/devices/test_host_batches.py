"""Operators of the host for many samples in a call: the same bits as sample by sample, or sample by sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bfpga.contract.program import HostNode
from bfpga.devices import host_batches
from bfpga.devices.host import host_function
from bfpga.devices.host_batches import in_batches, one_by_one
from bfpga.devices.host_operators import OPERATORS
from bfpga.program.host import SEPARATE

#: Shapes of a sample: odd sizes, so that samples begin anywhere in a vector of the processor.
SHAPES = [(4, 3, 7), (2, 13, 130), (10, 1, 2), (3, 33, 31)]
Constants = Mapping[str, np.ndarray]


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node_of(
    kind: str, shape: tuple[int, ...], inputs: list[str], constants: Constants, outputs: int = 1, **attributes: Any
) -> HostNode:
    """One operator of the float inputs a and b and the truth values t and u; its first result is y."""
    types = {"a": TensorProto.FLOAT, "b": TensorProto.FLOAT, "t": TensorProto.BOOL, "u": TensorProto.BOOL}
    given = [name for name in inputs if name in types]
    names = ["y", *(f"y{index}" for index in range(1, outputs))]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, names, **attributes)], "host",
        [helper.make_tensor_value_info(name, types[name], ["N", *shape]) for name in given],
        [helper.make_empty_tensor_value_info(name) for name in names[:1]],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model)
    return HostNode("host", bytes(inferred.SerializeToString()), tuple(given), ("y",), (kind,))


def case(kind: str, shape: tuple[int, ...]) -> tuple[list[str], Constants, dict[str, Any]]:
    """Inputs, constants and attributes with which an operator takes samples of a shape."""
    channels, height, width = shape
    per_channel = {"s": np.linspace(0.5, 2, channels, dtype=np.float32), "z": np.ones(channels, np.float32)}
    table: dict[str, tuple[list[str], Constants, dict[str, Any]]] = {
        **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Greater", "GreaterOrEqual", "Less",
                         "LessOrEqual"), (["a", "b"], {}, {})),
        **dict.fromkeys(("And", "Or"), (["t", "u"], {}, {})),
        **dict.fromkeys(("ArgMax", "ArgMin", "Hardmax", "LogSoftmax", "Softmax", "LpNormalization"),
                        (["a"], {}, {"axis": -1})),
        **dict.fromkeys(("ReduceMax", "ReduceMin"), (["a"], {}, {"axes": [2], "keepdims": 0})),
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), (["a"], {}, {"blocksize": 1})),
        "Cast": (["a"], {}, {"to": TensorProto.INT32}),
        "Clip": (["a", "low", "high"], {"low": np.float32(-0.5), "high": np.float32(0.25)}, {}),
        "Concat": (["a", "b"], {}, {"axis": 2}),
        "Expand": (["a", "to"], {"to": integers(1, channels, height, width)}, {}),
        "Flatten": (["a"], {}, {"axis": 1}),
        "Gather": (["a", "i"], {"i": integers(height - 1, 0)}, {"axis": 2}),
        "InstanceNormalization": (["a", "s", "z"], per_channel, {}),
        "LayerNormalization": (["a", "w"], {"w": np.linspace(0.5, 2, width, dtype=np.float32)}, {"axis": -1}),
        "MaxPool": (["a"], {}, {"kernel_shape": [min(2, height), min(2, width)]}),
        "Not": (["t"], {}, {}),
        "PRelu": (["a", "p"], {"p": np.linspace(0.1, 0.4, channels, dtype=np.float32).reshape(-1, 1, 1)}, {}),
        "Pad": (["a", "pads"], {"pads": integers(0, 0, 1, 1, 0, 0, 0, 2)}, {}),
        "Reshape": (["a", "to"], {"to": integers(0, -1)}, {}),
        "Resize": (["a", "", "by"], {"by": np.array([1, 1, 2, 2], np.float32)}, {"mode": "linear"}),
        "Slice": (["a", "from", "to", "axes"], {"from": integers(0), "to": integers(1), "axes": integers(2)}, {}),
        "Split": (["a", "sizes"], {"sizes": integers(1, channels - 1)}, {"axis": 1}),
        "Sqrt": (["b"], {}, {}),
        "Squeeze": (["a", "axes"], {"axes": integers(2)}, {}),
        "Tile": (["a", "times"], {"times": integers(1, 2, 1, 1)}, {}),
        "TopK": (["a", "k"], {"k": integers(1)}, {"axis": 1}),
        "Transpose": (["a"], {}, {"perm": [0, 3, 1, 2]}),
        "Unsqueeze": (["a", "axes"], {"axes": integers(1)}, {}),
        "Where": (["t", "a", "b"], {}, {}),
    }  # fmt: skip
    return table.get(kind, (["a"], {}, {}))


def values_of(shape: tuple[int, ...], samples: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(samples)
    values = {name: (3 * generator.normal(size=(samples, *shape))).astype(np.float32) for name in "ab"}
    values["b"] = np.abs(values["b"]) + np.float32(0.5)
    return values | {name: generator.random((samples, *shape)) > 0.5 for name in "tu"}


@pytest.mark.parametrize("library", ["onnxruntime", "numpy"])
@pytest.mark.parametrize("kind", sorted(SEPARATE - {"Constant", "Shape"}))
def test_each_sample_has_the_bits_that_it_has_alone(
    kind: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "numpy" and kind not in OPERATORS:
        pytest.skip("numpy does not have it here")
    shapes = [(4, 1, 7), (16, 1, 131)] if kind == "Squeeze" else SHAPES
    for shape in shapes:
        inputs, constants, attributes = case(kind, shape)
        node = node_of(kind, shape, inputs, constants, 2 if kind in ("Split", "TopK") else 1, **attributes)
        many = host_function(node, numpy_only=library == "numpy")
        with monkeypatch.context() as changed:
            changed.setattr("bfpga.devices.host.in_batches", one_by_one)
            alone = host_function(node, numpy_only=library == "numpy")
        for samples in (2, 5, 40):
            values = values_of(shape, samples)
            got, wanted = many(values)["y"], alone(values)["y"]
            assert got.dtype == wanted.dtype
            assert got.shape == wanted.shape
            assert got.tobytes() == wanted.tobytes()


class Calls:
    """A function of a node that notes how many samples each call had."""

    def __init__(self, function: Any) -> None:
        self.function, self.samples = function, []

    def __call__(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.samples.append(len(values["a"]))
        return {"y": np.asarray(self.function(values["a"]))}


def node(kind: str = "Relu") -> HostNode:
    return HostNode("host", b"", ("a",), ("y",), (kind,))


def test_a_batch_is_one_call_and_the_first_one_is_checked() -> None:
    calls, x = Calls(lambda a: np.maximum(a, 0)), np.float32([[1, -2], [3, 4], [-5, 6]])
    run = in_batches(node(), calls)
    np.testing.assert_array_equal(run({"a": x})["y"], np.maximum(x, 0))
    assert calls.samples == [3, 1, 1]  # its first and last sample alone
    run({"a": x})
    assert calls.samples[3:] == [3]


def test_a_call_has_no_more_than_a_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_batches, "CALL_BYTES", 3 * 8)
    calls = Calls(lambda a: a)
    run = in_batches(node(), calls)
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    np.testing.assert_array_equal(run({"a": x})["y"], x)
    assert [count for count in calls.samples if count > 1] == [3, 3, 2]


def fixed(a: np.ndarray) -> np.ndarray:
    if len(a) != 1:
        raise ValueError("the batch is 1")
    return a


@pytest.mark.parametrize(
    "mixing",
    [
        lambda a: a - a.max(axis=0),  # over samples
        lambda a: a[:1],  # the first of them
        lambda a: a.reshape(a.shape[1], -1).T.reshape(a.shape),  # other values of the right shape
        fixed,
    ],
)
def test_networks_that_mix_samples_are_computed_one_by_one(mixing: Any) -> None:
    calls, x = Calls(mixing), np.float32([[1, -2], [3, 4], [-5, 6]])
    run = in_batches(node(), calls)
    expected = np.concatenate([mixing(x[i : i + 1]) for i in range(3)])
    np.testing.assert_array_equal(run({"a": x})["y"], expected)
    calls.samples.clear()
    np.testing.assert_array_equal(run({"a": x})["y"], expected)
    assert calls.samples == [1, 1, 1], "it is not tried again"


def test_operators_whose_sums_depend_on_the_batch_are_computed_one_by_one() -> None:
    for kind in ("MatMul", "Gemm", "Conv", "ReduceSum", "Log"):
        calls = Calls(lambda a: a)
        in_batches(node(kind), calls)({"a": np.zeros((3, 2), np.float32)})
        assert calls.samples == [1, 1, 1], kind


def test_an_error_of_one_sample_is_raised_as_it_is() -> None:
    def root(a: np.ndarray) -> np.ndarray:
        if (a < 0).any():
            raise ValueError("no root of -2")
        return np.sqrt(a)

    calls = Calls(root)
    run = in_batches(node(), calls)
    with pytest.raises(ValueError, match="no root of -2"):
        run({"a": np.float32([[1], [-2]])})
    calls.samples.clear()
    np.testing.assert_array_equal(run({"a": np.float32([[1], [4]])})["y"], [[1], [2]])
    assert calls.samples == [2, 1, 1], "other samples are computed together"
