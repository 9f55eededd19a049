"""Networks that libraries below stumble over: the process lives, the message says what is wrong, results are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_networks import Network

import bfpga
from bfpga.compiler.read import simplify
from bfpga.compiler.read.ceil_pooling import end_padding, starts_in_padding
from bfpga.compiler.read.network import read_network
from bfpga.errors import ModelError


def saved(network: Network, folder: Path, batch: int | str = "N") -> Path:
    path = folder / "network.onnx"
    path.write_bytes(network.model(batch=batch).SerializeToString())
    return path


#: kernel, stride, padding (begin, end of both axes), size: last windows that start in the padding, and others.
ROUNDED_UP = [
    (2, 2, (1, 1), 4), (1, 2, (0, 0), 4), (2, 2, (0, 1), 4), (3, 3, (1, 1), 5), (2, 3, (1, 1), 5), (3, 2, (1, 1), 6),
    (3, 2, (0, 0), 7), (2, 3, (0, 0), 4), (3, 1, (2, 2), 3),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "stride", "pads", "size"), ROUNDED_UP)
def test_pooling_that_rounds_up_has_the_rows_that_are_computed(
    kind: str, kernel: int, stride: int, pads: tuple[int, int], size: int, tmp_path: Path
) -> None:
    """A last window in the padding does not exist, whatever shape inference counts; a layer follows on its shape."""
    network = Network(2, size, size)
    begin, end = pads
    network.add(
        kind, "x", kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[begin, begin, end, end], ceil_mode=1
    )
    network.conv(3, 2, 1)
    path, x = saved(network, tmp_path), network.samples(8)["x"]
    program = bfpga.compile(path, "tiny", calibration=x)
    assert bfpga.evaluate(program, path, x).cosine > 0.999


def test_windows_of_rounding_up_are_those_of_end_padding() -> None:
    for size, reach, stride, begin, end in np.ndindex(9, 5, 4, 3, 3):
        size, reach, stride = size + 1, reach + 1, stride + 1
        if size + begin + end < reach or begin >= reach or end >= reach:
            continue
        windows = [
            start for start in range(0, size + begin + end, stride)
            if start < size + begin and start <= size + begin + end - reach + stride - 1
        ]  # fmt: skip
        added = end_padding(size, reach, stride, begin, end)
        assert (size + begin + added - reach) // stride + 1 == len(windows), (size, reach, stride, begin, end)


def test_averages_that_count_padding_are_refused_where_onnx_disagrees(tmp_path: Path) -> None:
    assert starts_in_padding(4, 2, 2, 0, 1)
    network = Network(2, 4, 4)
    network.add(
        "AveragePool", "x", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1], ceil_mode=1, count_include_pad=1
    )
    with pytest.raises(ModelError, match="starts in its padding"):
        read_network(saved(network, tmp_path)).graph()


@pytest.mark.parametrize("kind", ["Conv", "MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("strides", [0, 1]),
        ("strides", [1, -1]),
        ("strides", [1 << 40, 1]),
        ("dilations", [0, 0]),
        ("pads", [-1, 0, 0, 0]),
    ],
)
def test_attributes_of_windows_that_mean_nothing_are_refused(
    kind: str, name: str, values: list[int], tmp_path: Path
) -> None:
    """A stride of 0 is a division by zero in a library that ends the process."""
    network = Network(2, 5, 5)
    operands = ["x", network.weights(3, 2, 2, 2)] if kind == "Conv" else ["x"]
    node = helper.make_node(kind, operands, ["y"], name="window", kernel_shape=[2, 2], **{name: values})
    graph = helper.make_graph(
        [node],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "c", "h", "w"])],
        network.constants,
    )
    path = tmp_path / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    with pytest.raises(ModelError, match=f"operator window: {name} has the value"):
        read_network(path).graph()


def test_axes_that_no_tensor_has_are_refused(tmp_path: Path) -> None:
    network = Network(2, 5, 5)
    network.nodes.append(helper.make_node("Softmax", ["x"], ["y"], name="far", axis=1 << 62))
    graph = helper.make_graph(
        network.nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2, 5, 5])],
    )
    path = tmp_path / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(ModelError, match="operator far: axis is 4611686018427387904"):
        read_network(path).graph()


def attention_with_heads() -> Network:
    """Self-attention of 16 rows with 4 heads of 8: products of activations in batches of matrices."""
    network = Network(16, 32)

    def heads(source: str) -> str:
        split = network.add("Reshape", source, network.constant(np.array([0, 16, 4, 8], np.int64)))
        return network.add("Transpose", split, perm=[0, 2, 1, 3])

    query, key, value = (heads(network.add("MatMul", "x", network.weights(32, 32))) for _ in range(3))
    scores = network.add("MatMul", query, network.add("Transpose", key, perm=[0, 1, 3, 2]))
    network.add("MatMul", network.add("Softmax", scores, axis=-1), value)
    return network


def test_attention_is_evaluated_layer_by_layer(tmp_path: Path) -> None:
    network = attention_with_heads()
    path, x = saved(network, tmp_path), network.samples(32)["x"]
    program = bfpga.compile(path, "tiny", calibration=x[:8])
    found = bfpga.evaluate(program, path, x)
    products = {node.output for node in program.nodes if type(node).__name__ == "MatMulNode"}
    assert len(products) == 2
    assert all(found.sqnr_db[name] > 20 for name in products)


def test_networks_with_a_batch_of_one_are_evaluated_on_many_samples(tmp_path: Path) -> None:
    network = Network(3, 8, 8)
    network.conv(4, 3, 3)
    network.add("Relu")
    x = network.samples(9)["x"]
    fixed = saved(network, tmp_path, batch=1)
    program = bfpga.compile(fixed, "tiny", calibration=x)
    found = bfpga.evaluate(program, fixed, x)
    free = bfpga.evaluate(program, saved(network, tmp_path), x)
    for name, value in free.float_outputs.items():
        np.testing.assert_allclose(found.float_outputs[name], value, rtol=1e-5, atol=1e-6)
    assert found.sqnr_db == pytest.approx(free.sqnr_db, rel=1e-3)


def with_constants(network: Network) -> None:
    """A normalization with constants, a pooling, a layer: nothing to simplify."""
    statistics = [network.constant(np.full(4, value, np.float32)) for value in (0.5, 1.0, -0.5, 2.0)]
    network.add("Relu", network.add("BatchNormalization", network.conv(4, 2, 3), *statistics))
    network.add("Gemm", network.add("Flatten", network.add("GlobalAveragePool")), network.weights(4, 3))


def computed_twice(network: Network) -> None:
    first = network.conv(4, 2, 3)
    network.add("Add", *(network.conv(4, 4, 1, source=network.add("Relu", first)) for _ in range(2)))


def shaped_twice(network: Network) -> None:
    for shape in ([0, 4, -1], [0, 64]):
        network.add("Reshape", network.last, network.constant(np.array(shape, np.int64)))
    network.add("Gemm", network.last, network.weights(64, 3))


@pytest.mark.parametrize(
    ("build", "asked", "kinds"),
    [
        (with_constants, False, ["BatchNormalization", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "Relu"]),
        (computed_twice, True, ["Add", "Conv", "Conv", "Conv", "Relu"]),
        (shaped_twice, True, ["Gemm", "Reshape", "Reshape"]),
    ],
)
def test_a_library_simplifies_networks_where_it_may_find_something(
    build: Callable[[Network], None], asked: bool, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 15, time of `compile`: importing it takes longer than reading most networks."""
    network, calls, real = Network(2, 4, 8), [], simplify._slim
    build(network)
    monkeypatch.setattr(simplify, "_slim", lambda model: calls.append(model) or real(model))
    graph = read_network(saved(network, tmp_path)).graph()
    assert bool(calls) == asked
    assert sorted(operator.type for operator in graph.operators) == kinds
