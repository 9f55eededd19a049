"""Operators on the array: the compiled network computes what ONNX Runtime computes, up to the mantissas' rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_networks import WIDE, Network, compiled, largest_error

from bfpga.compiler.read.network import read_network
from bfpga.contract.descriptor import Function
from bfpga.contract.program import ArrayNode, HostNode, MatMulNode, Program

#: 16-bit mantissas through a few layers, tables of sigmoid and tanh included.
CLOSE = 2e-3


def on_array(program: Program) -> list[str]:
    return [node.kind if isinstance(node, ArrayNode) else type(node).__name__ for node in program.nodes]


def convolution(kernel: int, **attributes: object) -> Callable[[], Network]:
    def build() -> Network:
        network = Network(4, 13, 11)
        network.conv(6, 4, kernel, **attributes)
        return network

    return build


def after_conv(kind: str, *constants: object, **attributes: object) -> Callable[[], Network]:
    def build() -> Network:
        network = Network(3, 9, 10)
        network.conv(6, 3, 3, pads=[1, 1, 1, 1])
        network.add(kind, network.last, *[network.constant(value) for value in constants], **attributes)
        return network

    return build


CONVOLUTIONS = {
    **{f"kernel {k}": convolution(k, pads=[k // 2] * 4) for k in (1, 2, 3, 5, 7, 11)},
    **{f"stride {s}": convolution(3, strides=[s, s], pads=[1, 0, 1, 1]) for s in (1, 2, 3, 4)},
    "uneven padding": convolution(4, pads=[0, 2, 3, 1]),
    "uneven strides": convolution(3, strides=[2, 1]),
    "dilation": convolution(3, dilations=[2, 3], pads=[2, 3, 2, 3]),
    "same upper": convolution(4, auto_pad="SAME_UPPER", strides=[2, 2]),
    "same lower": convolution(4, auto_pad="SAME_LOWER", strides=[3, 2]),
    "valid": convolution(3, auto_pad="VALID"),
    "two groups": convolution(3, group=2),
}

FUNCTIONS = {
    "relu": (after_conv("Relu"), Function.RELU),
    "leaky relu": (after_conv("LeakyRelu", alpha=0.125), Function.LEAKY_RELU),
    "relu6": (after_conv("Clip", np.float32(0), np.float32(6)), Function.CLIP),
    "clip at 0.3": (after_conv("Clip", np.float32(0), np.float32(0.3)), Function.CLIP),
    "clip without bound": (after_conv("Clip", np.float32(0)), Function.RELU),
    "sigmoid": (after_conv("Sigmoid"), Function.SIGMOID),
    "tanh": (after_conv("Tanh"), Function.TANH),
}

POOLS = {
    "max": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max, padded": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "max, ceil": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "average": ("AveragePool", {"kernel_shape": [3, 2], "strides": [3, 2]}),
    "average with padding": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    "global average": ("GlobalAveragePool", {}),
    "global max": ("GlobalMaxPool", {}),
    "mean": ("ReduceMean", {"axes": [2, 3], "keepdims": 0}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_any_geometry_run_on_the_array(name: str, tmp_path: Path) -> None:
    """R82"""
    network = CONVOLUTIONS[name]()
    program = compiled(network, tmp_path)
    assert on_array(program) == ["gemm"]
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize(("groups", "inputs", "outputs"), [(6, 6, 6), (20, 20, 20), (4, 12, 32), (3, 9, 6), (5, 5, 15)])
def test_groups_of_any_size_run_on_the_array(groups: int, inputs: int, outputs: int, tmp_path: Path) -> None:
    """R57, R74"""
    network = Network(inputs, 7, 6)
    network.conv(outputs, inputs, 3, group=groups, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path)
    assert on_array(program) == ["gemm"]
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_fused_into_the_layer_before(name: str, tmp_path: Path) -> None:
    """R11"""
    build, function = FUNCTIONS[name]
    network = build()
    program = compiled(network, tmp_path)
    assert [node.function for node in program.nodes if isinstance(node, ArrayNode)] == [function]
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("name", POOLS)
def test_pooling_runs_on_the_array(name: str, tmp_path: Path) -> None:
    """R82"""
    kind, attributes = POOLS[name]
    network = after_conv(kind, **attributes)()
    program = compiled(network, tmp_path)
    assert not any(isinstance(node, HostNode) for node in program.nodes)
    assert largest_error(network, program) < CLOSE


def residual(kind: str = "Add") -> Network:
    network = Network(4, 8, 9)
    first = network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    second = network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    network.add("Relu", network.add(kind, first, second))
    network.conv(5, 8, 1)
    return network


@pytest.mark.parametrize("kind", ["Add", "Sub"])
def test_additions_of_two_tensors_run_on_the_array(kind: str, tmp_path: Path) -> None:
    """R46, R47"""
    network = residual(kind)
    program = compiled(network, tmp_path)
    assert on_array(program) == ["gemm", "gemm", "sum", "gemm"]
    assert program.nodes[2].function == Function.RELU  # type: ignore[union-attr]
    assert largest_error(network, program) < CLOSE


def concatenated(*between: str) -> Network:
    network = Network(4, 8, 9)
    first = network.add("Relu", network.conv(6, 4, 1))
    second = network.conv(8, 6, 3, pads=[1, 1, 1, 1])
    third = network.conv(5, 6, 1, source=first)
    network.add("Concat", second, third, first, axis=1)
    for kind in between:
        network.add(kind)
    network.conv(4, 19, 1)
    return network


def test_concatenation_is_written_in_place_where_the_producer_has_no_other_reader(tmp_path: Path) -> None:
    network = Network(4, 8, 9)
    first = network.conv(6, 4, 1)
    parts = [network.conv(8, 6, 3, source=first, pads=[1, 1, 1, 1]), network.conv(4, 6, 1, source=first), first]
    network.add("Concat", *parts, axis=1)
    program = compiled(network, tmp_path)
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
    assert [(node.kind, node.channel_offset) for node in nodes] == [("gemm", 0), ("gemm", 0), ("gemm", 8), ("sum", 12)]
    assert largest_error(network, program) < CLOSE


def test_concatenation_at_an_odd_channel_is_a_sum_for_convolutions_and_else_done_by_the_host(tmp_path: Path) -> None:
    for between in ((), ("Relu",)):
        program = compiled(concatenated(*between), tmp_path)
        host = [name for node in program.nodes if isinstance(node, HostNode) for name in node.operators]
        assert ("Concat" in host) == bool(between)
        assert largest_error(concatenated(*between), program) < CLOSE


def test_flatten_before_a_product_is_a_convolution_over_the_whole_image(tmp_path: Path) -> None:
    network = Network(3, 6, 5)
    network.conv(6, 3, 3)
    network.add("Flatten", axis=1)
    network.add("Gemm", network.last, network.weights(7, 72), network.weights(7), transB=1, alpha=0.5, beta=2.0)
    program = compiled(network, tmp_path)
    assert on_array(program) == ["gemm", "gemm"]
    assert program.nodes[1].window.kernel_height == 4  # type: ignore[union-attr]
    assert largest_error(network, program) < CLOSE


def test_products_over_rows_of_tokens_and_between_activations_run_on_the_array(tmp_path: Path) -> None:
    network = Network(5, 8)
    query, key = (network.add("MatMul", "x", network.weights(8, 6)) for _ in range(2))
    turned = network.add("Transpose", key, perm=[0, 2, 1])
    scores = network.add("Softmax", network.add("MatMul", query, turned), axis=-1)
    network.add("MatMul", scores, query)
    program = compiled(network, tmp_path)
    assert on_array(program).count("MatMulNode") == 2
    assert isinstance(program.nodes[-1], MatMulNode)
    assert largest_error(network, program) < CLOSE


def test_whatever_has_no_pattern_runs_on_the_host_and_is_named(tmp_path: Path) -> None:
    network = Network(3, 8, 8)
    network.add("Elu", network.conv(4, 3, 3))
    network.add("HardSwish", network.conv(4, 4, 3))
    network.add("GlobalAveragePool")
    network.add("Softmax", network.add("Flatten", axis=1), axis=1)
    program = compiled(network, tmp_path)
    hosts = [node.operators for node in program.nodes if isinstance(node, HostNode)]
    assert [set(names) - {"Flatten"} for names in hosts] == [{"Elu"}, {"HardSwish"}, {"Softmax"}]
    assert largest_error(network, program) < CLOSE


def test_all_outputs_are_given(tmp_path: Path) -> None:
    network = Network(3, 8, 8)
    first = network.conv(4, 3, 3)
    second = network.add("Flatten", network.add("GlobalAveragePool", network.add("Relu", first)), axis=1)
    program = compiled(network, tmp_path, outputs=(first, second))
    assert list(program.outputs) == [first, second]
    assert largest_error(network, program, (first, second)) < CLOSE


@pytest.mark.parametrize("opset", [11, 13, 15, 18, 21])
def test_every_supported_opset_is_read(opset: int, tmp_path: Path) -> None:
    network = Network(3, 8, 8, opset=opset)
    network.add("Relu", network.conv(4, 3, 3))
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    path = tmp_path / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    assert [operator.type for operator in read_network(path).graph().operators] == ["Conv", "Relu", "MaxPool"]


def test_without_samples_every_layer_measures_its_range(tmp_path: Path) -> None:
    """R24"""
    network = residual()
    program = compiled(network, tmp_path, calibrate=False)
    assert all(program.tensors[name].input_exponent is None for name in program.inputs)
    assert largest_error(network, program) < CLOSE


def test_a_single_column_array_computes_the_same(tmp_path: Path) -> None:
    """R56"""
    network = residual()
    one = replace(WIDE, columns=1)
    assert largest_error(network, compiled(network, tmp_path, one)) < CLOSE


def normalization_and_constants() -> Network:
    network = Network(3, 8, 8)
    network.conv(6, 3, 3)
    variance = np.linspace(0.5, 2, 6).astype(np.float32)
    names = [network.weights(6), network.weights(6), network.weights(6), network.constant(variance)]
    network.add("BatchNormalization", network.last, *names)
    network.add("Mul", network.last, network.constant(np.full((6, 1, 1), 0.7, np.float32)))
    network.add("Add", network.constant(np.linspace(-1, 1, 6).astype(np.float32).reshape(1, 6, 1, 1)), network.last)
    network.add("Relu")
    return network


def normalization_after_a_pool() -> Network:
    network = after_conv("MaxPool", kernel_shape=[2, 2], strides=[2, 2])()
    ones = np.ones(6, np.float32)
    names = [network.weights(6), network.weights(6), network.constant(ones * 0.1), network.constant(ones)]
    network.add("BatchNormalization", network.last, *names)
    network.conv(3, 6, 1)
    return network


def transposed_image_before_a_product() -> Network:
    network = Network(3, 6, 5)
    network.conv(6, 3, 3)
    network.add("Transpose", perm=[0, 2, 3, 1])
    network.add("Reshape", network.last, network.constant(np.array([0, 12, 6])))
    network.add("MatMul", network.last, network.weights(6, 4))
    return network


def padding_with_zeros() -> Network:
    network = Network(3, 6, 5)
    network.add("Pad", "x", network.constant(np.array([0, 0, 1, 2, 0, 0, 3, 0])))
    network.conv(6, 3, 3, strides=[2, 1])
    return network


def padding_by_reflection() -> Network:
    network = Network(3, 6, 5)
    network.add("Pad", "x", network.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])), mode="reflect")
    network.conv(6, 3, 3)
    return network


def convolution_over_one_axis() -> Network:
    network = Network(4, 30)
    network.add("Conv", "x", network.weights(6, 4, 5), network.weights(6), strides=[2], pads=[2, 1])
    return network


def shape_computed_from_the_batch() -> Network:
    network = Network(3, 6, 6)
    image = network.conv(4, 3, 3)
    shape = network.add("Shape", image)
    batch = network.add("Gather", shape, network.constant(np.array([0])), axis=0)
    target = network.add("Concat", batch, network.constant(np.array([-1])), axis=0)
    network.add("Reshape", image, target)
    network.add("MatMul", network.last, network.weights(64, 5))
    return network


#: Networks and the layers that they become: what can be is part of the layer before.
LAYERS: list[tuple[Callable[[], Network], list[str]]] = [
    # A slope that is no power of two is a sum of two layers.
    (after_conv("LeakyRelu", alpha=0.1), ["gemm", "gemm", "gemm", "sum"]),
    # An average of fewer pixels at the border is a layer for each count.
    (after_conv("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), ["gemm"] * 10),
    (normalization_and_constants, ["gemm"]),
    (normalization_after_a_pool, ["gemm", "max", "gemm", "gemm"]),
    (transposed_image_before_a_product, ["gemm", "gemm"]),
    (padding_with_zeros, ["gemm"]),
    (padding_by_reflection, ["HostNode", "gemm"]),
    (convolution_over_one_axis, ["gemm"]),
    (shape_computed_from_the_batch, ["gemm", "gemm"]),
]


@pytest.mark.parametrize(("build", "layers"), LAYERS)
def test_networks_become_layers_of_the_array(build: Callable[[], Network], layers: list[str], tmp_path: Path) -> None:
    network = build()
    program = compiled(network, tmp_path)
    assert on_array(program) == layers
    assert largest_error(network, program) < CLOSE
