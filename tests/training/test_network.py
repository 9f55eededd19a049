"""A whole ONNX network that learns: its results are ONNX Runtime's, its gradients are slopes (FP R4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bfpga.compiler.read.network import Network, read_network
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import ModelError
from bfpga.training.layers import Parameter
from bfpga.training.network import LearningNetwork
from bfpga.training.products import FloatProducts
from bfpga.training.steps import RelativeAdam, cross_entropy, soft_cross_entropy

GENERATOR = np.random.default_rng


def network(path: Path, operators: list[tuple[str, list[str], dict[str, object]]], shape: tuple[int, ...]) -> Network:
    """A chain of operators with the constants that their names hold: `w:2,3` is one of shape (2, 3)."""
    rng, constants, nodes = GENERATOR(4), {}, []
    for index, (kind, inputs, attributes) in enumerate(operators):
        named = []
        for text in inputs:
            name, _, sizes = text.partition(":")
            if sizes:
                values = rng.normal(0.2, 0.6, [int(size) for size in sizes.split(",")]).astype(np.float32)
                constants[name] = numpy_helper.from_array(values, name)
            named.append(name)
        nodes.append(helper.make_node(kind, named, [f"v{index}"], name=f"n{index}", **attributes))
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])
    result = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [source], [result], list(constants.values()))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return read_network(path)


#: Every operator that learns or is passed, in networks of few values.
NETWORKS: dict[str, tuple[list[tuple[str, list[str], dict[str, object]]], tuple[int, ...]]] = {
    "residual": ([
        ("Conv", ["x", "a:4,2,3,3", "ab:4"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["v0"], {}),
        ("Conv", ["v1", "b:4,4,3,3"], {"pads": [1, 1, 1, 1]}),
        ("Add", ["v2", "v1"], {}),
        ("MaxPool", ["v3"], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Conv", ["v4", "c:3,4,2,2", "cb:3"], {"strides": [2, 2], "pads": [0, 0, 1, 1], "dilations": [1, 1]}),
        ("GlobalAveragePool", ["v5"], {}),
        ("Flatten", ["v6"], {}),
        ("MatMul", ["v7", "d:3,5"], {}),
        ("Add", ["v8", "db:5"], {}),
        ("Softmax", ["v9"], {}),
    ], (2, 6, 5)),
    "depthwise": ([
        ("Conv", ["x", "a:3,1,3,3", "ab:3"], {"group": 3, "pads": [1, 0, 1, 1], "strides": [1, 2]}),
        ("Clip", ["v0"], {}),
        ("AveragePool", ["v1"], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}),
        ("Conv", ["v2", "b:4,3,1,1", "bb:4"], {}),
        ("Sigmoid", ["v3"], {}),
        ("Mul", ["v3", "v4"], {}),
        ("Concat", ["v5", "v2"], {"axis": 1}),
        ("Flatten", ["v6"], {}),
        ("Gemm", ["v7", "c:4,84", "cb:4"], {"transB": 1}),
        ("Tanh", ["v8"], {}),
        ("Sub", ["v9", "e:4"], {}),
        ("LeakyRelu", ["v10"], {"alpha": 0.2}),
    ], (3, 6, 5)),
}  # fmt: skip


def learning(case: str, tmp_path: Path) -> tuple[Network, LearningNetwork, dict[str, np.ndarray]]:
    operators, shape = NETWORKS[case]
    read = network(tmp_path / f"{case}.onnx", operators, shape)
    return read, LearningNetwork(read.graph(), case), {"x": GENERATOR(2).normal(size=(3, *shape)).astype(np.float32)}


@pytest.mark.parametrize("case", NETWORKS)
def test_scores_are_those_of_onnx_runtime(case: str, tmp_path: Path) -> None:
    read, learner, inputs = learning(case, tmp_path)
    wanted = FloatNetwork(read, [learner.scores]).run(inputs)[learner.scores]
    np.testing.assert_allclose(learner.forward(inputs), wanted.reshape(3, -1), atol=1e-5)


@pytest.mark.parametrize("case", NETWORKS)
def test_gradients_of_all_constants_are_slopes_of_the_result(case: str, tmp_path: Path) -> None:
    """Slopes by differences, a random direction for each constant."""
    _, learner, inputs = learning(case, tmp_path)
    outer = GENERATOR(7).normal(size=learner.forward(inputs).shape)
    learner.backward(outer)
    found = {name: item.outward(item.parameter.gradient).copy() for name, item in learner.learned.items()}
    start, step = learner.constants(), 2e-3
    assert len(found) >= 5
    for name, gradient in found.items():
        direction = GENERATOR(len(name)).normal(size=gradient.shape)
        values = []
        for sign in (1, -1):
            learner.load({name: start[name] + sign * step * direction})
            values.append(float((learner.forward(inputs) * outer).sum()))
        learner.load({name: start[name]})
        slope = (values[0] - values[1]) / (2 * step)
        assert slope == pytest.approx(float((gradient * direction).sum()), rel=0.03, abs=0.02), name


def test_an_operator_that_cannot_be_trained_is_named(tmp_path: Path) -> None:
    read = network(tmp_path / "n.onnx", [("Gemm", ["x", "w:4,3", "b:3"], {}), ("Erf", ["v0"], {})], (4,))
    with pytest.raises(ModelError, match="Erf cannot be trained; --epochs 0"):
        LearningNetwork(read.graph(), "n")


def test_grouped_weights_are_refused_with_the_layer(tmp_path: Path) -> None:
    read = network(tmp_path / "n.onnx", [("Conv", ["x", "w:4,2,1,1"], {"group": 2})], (4, 3, 3))
    with pytest.raises(ModelError, match="Conv n0 has 2 groups and cannot be trained"):
        LearningNetwork(read.graph(), "n")


def test_soft_targets_of_one_class_are_labels() -> None:
    scores, labels = GENERATOR(1).normal(size=(4, 3)), np.array([0, 2, 1, 1])
    hard, soft = cross_entropy(scores, labels), soft_cross_entropy(scores, np.eye(3)[labels])
    assert hard[0] == soft[0]
    np.testing.assert_array_equal(hard[1], soft[1])


def test_steps_are_shares_of_a_parameter_whatever_its_scale() -> None:
    large, small = Parameter(np.full(3, 100.0)), Parameter(np.full(3, 0.1))
    optimizer = RelativeAdam([large, small], 0.01)
    large.gradient[...], small.gradient[...] = 1e-6, 1e3
    optimizer.update()
    np.testing.assert_allclose(large.value, 99.0, rtol=1e-5)
    np.testing.assert_allclose(small.value, 0.099, rtol=1e-5)
    assert not large.gradient.any()


def test_products_are_float32_where_that_is_asked_for() -> None:
    x, weights = GENERATOR(3).normal(size=(4, 5)), GENERATOR(4).normal(size=(5, 2))
    narrow = FloatProducts(np.float32).forward("a", x, weights, np.zeros(2), True)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, np.maximum(x @ weights, 0), rtol=1e-5, atol=1e-6)
