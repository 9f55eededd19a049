"""Whole networks from which hostile ones are made: every kind of operator that the compiler treats on its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from small_networks import (
    Network,
    attention_network,
    joined_network,
    recurrent_network,
    residual_network,
    small_network,
)

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
#: Bytes of the largest file that is a seed.
LARGEST = 1 << 20


def seed_networks(further: Path | None = None) -> list[onnx.ModelProto]:
    """The seeds; further: a folder with more of them."""
    small = (
        vectors(), images(), normalized(), quantized(), old_opset(), residual_network(), joined_network(),
        attention_network(), small_network(), recurrent_network("LSTM", 6), recurrent_network("GRU", 5, directions=2),
    )  # fmt: skip
    models = [network.model() for network in small]
    files = [EXAMPLES / "mlp_digits.onnx", EXAMPLES / "lenet_mnist.onnx"]
    files += sorted(further.rglob("*.onnx")) if further else []
    return models + [onnx.load(path) for path in files if path.stat().st_size <= LARGEST]


def vectors() -> Network:
    """Two fully connected layers with factors and bounds that attributes and constants state."""
    network = Network(12)
    network.add("Gemm", "x", network.weights(12, 9), network.weights(9), alpha=0.5, beta=2.0)
    network.add("LeakyRelu", alpha=0.1)
    network.add("Gemm", network.last, network.weights(6, 9), network.weights(6), transB=1)
    network.add("Clip", network.last, network.constant(np.float32(-1)), network.constant(np.float32(2)))
    network.add("Softmax", axis=-1)
    return network


def images() -> Network:
    """Convolutions of every kind, pooling, resizing, padding, slices: 3 x 8 x 8 pixels."""
    network = Network(3, 8, 8)
    network.conv(8, 3, 3, auto_pad="SAME_UPPER")
    statistics = [network.constant(np.full(8, number, np.float32)) for number in (2, 1, 0, 3)]
    network.add("BatchNormalization", network.last, *statistics)
    network.add("HardSwish")
    network.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0], count_include_pad=1)
    scales = network.constant(np.array([1, 1, 2, 2], np.float32))
    network.add("Resize", network.last, "", scales, mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric")  # fmt: skip
    network.add("ConvTranspose", network.last, network.weights(8, 4, 2, 2), strides=[2, 2])
    network.add("Pad", network.last, network.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])), mode="constant")
    network.add("DepthToSpace", network.conv(8, 4, 3, strides=[2, 2]), blocksize=2, mode="DCR")
    network.add("Slice", network.last, network.constant(np.array([1])), network.constant(np.array([9])),
                network.constant(np.array([2])), network.constant(np.array([1])))  # fmt: skip
    network.add("ReduceMean", axes=[2, 3], keepdims=0)
    network.add("Gemm", network.last, network.weights(4, 2), network.weights(4), transB=1)
    return network


def normalized() -> Network:
    """What vision transformers are made of: normalization, products, Gelu, gathered rows, computed shapes."""
    network = Network(6, 8)
    ones, zeros = network.constant(np.ones(8, np.float32)), network.constant(np.zeros(8, np.float32))
    start = network.add("LayerNormalization", "x", ones, zeros, axis=-1, epsilon=1e-5)
    network.add("MatMul", start, network.weights(8, 8))
    network.add("Gelu") if network.opset >= 20 else network.add("Erf")
    network.add("Einsum", network.last, network.weights(8, 8), equation="bij,jk->bik")
    network.add("Add", network.last, "x")
    network.add("Gather", network.last, network.constant(np.array([0, 2, 5])), axis=1)
    shape = network.add("Shape", network.last)
    size = network.add("Gather", shape, network.constant(np.array([0])), axis=0)
    target = network.add("Concat", size, network.constant(np.array([24])), axis=0)
    network.add("Reshape", "v5", target)
    network.add("Gemm", network.last, network.weights(24, 5))
    network.add("ArgMax", axis=1, keepdims=0)
    return network


def quantized() -> Network:
    """A convolution and a fully connected layer between quantizers."""
    network = Network(2, 6, 6)

    def grid(value: str, scale: float, zero: int) -> str:
        numbers = [network.constant(np.float32(scale)), network.constant(np.uint8(zero))]
        return network.add("DequantizeLinear", network.add("QuantizeLinear", value, *numbers), *numbers)

    def weights(*shape: int) -> str:
        integers = network.constant(network.generator.integers(-100, 100, shape).astype(np.int8))
        return network.add("DequantizeLinear", integers, network.constant(np.float32(0.01)))

    network.add("Conv", grid("x", 0.05, 128), weights(4, 2, 3, 3))
    network.add("Flatten", grid(network.add("Relu"), 0.1, 0))
    network.add("Gemm", network.last, weights(64, 3))
    return network


def old_opset() -> Network:
    """A network of an opset that is converted first."""
    network = Network(3, 6, 6, opset=9)
    network.conv(4, 3, 3)
    network.add("Clip", min=0.0, max=6.0)
    network.add("Upsample", network.last, network.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    network.add("Dropout", ratio=0.5)
    network.add("Flatten", axis=1)
    network.add("Gemm", network.last, network.weights(256, 3), network.weights(3))
    network.add("Softmax", axis=1)
    return network
