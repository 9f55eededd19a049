"""Small networks of many families, built operator by operator: what users bring, without their weights.

Weights are random and the same at every run. Sizes are those of embedded versions; the structure is the family's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.common.command import TEST_SUPPORT

sys.path.insert(0, str(TEST_SUPPORT))
from small_networks import Network, recurrent_network


class Built(Protocol):
    """A network with its inputs."""

    def model(self) -> onnx.ModelProto: ...

    def samples(self, count: int = 6) -> dict[str, np.ndarray]: ...


Builder = Callable[[], Built]


@dataclass(frozen=True)
class Member:
    """One network of the table. family: what it stands for; build: the network."""

    name: str
    family: str
    build: Builder


#: All networks, in the order of the table.
ZOO: list[Member] = []


def member(family: str) -> Callable[[Builder], Builder]:
    """Enter a builder into the table under its own name."""

    def enter(build: Builder) -> Builder:
        ZOO.append(Member(build.__name__, family, build))
        return build

    return enter


# Pieces


def act(network: Network, kind: str, value: str = "") -> str:
    """An activation, as exporters write it; ``kind`` "" is none."""
    value = value or network.last
    if kind == "":
        return value
    if kind == "Relu6":
        return network.add("Clip", value, network.constant(np.float32(0)), network.constant(np.float32(6)))
    if kind == "Silu":
        return network.add("Mul", value, network.add("Sigmoid", value))
    if kind == "LeakyRelu":
        return network.add("LeakyRelu", value, alpha=0.1)
    return network.add(kind, value)


def norm(network: Network, channels: int, value: str = "") -> str:
    """Batch normalization."""
    generator = network.generator
    numbers = [generator.uniform(0.7, 1.3, channels), generator.normal(size=channels) / 4,
               generator.normal(size=channels) / 4, generator.uniform(0.5, 1.5, channels)]  # fmt: skip
    constants = [network.constant(values.astype(np.float32)) for values in numbers]
    return network.add("BatchNormalization", value or network.last, *constants)


def conv(network: Network, outputs: int, inputs: int, kernel: int = 3, kind: str = "Relu", source: str = "",
         **attributes: Any) -> str:  # fmt: skip
    """Convolution that keeps the size (divided by its stride), batch normalization, activation."""
    stride = attributes.pop("stride", 1)
    reach = attributes.get("dilations", [1, 1])[0] * (kernel - 1)
    pads = [reach // 2, reach // 2, reach - reach // 2, reach - reach // 2]
    network.conv(outputs, inputs, kernel, source, pads=pads, strides=[stride, stride], **attributes)
    return act(network, kind, norm(network, outputs))


def conv1d(network: Network, outputs: int, inputs: int, kernel: int, source: str = "", causal: bool = False,
           stride: int = 1, dilation: int = 1, group: int = 1) -> str:  # fmt: skip
    """A convolution over time that keeps the length (divided by its stride)."""
    reach = dilation * (kernel - 1)
    pads = [reach, 0] if causal else [reach // 2, reach - reach // 2]
    weights = network.weights(outputs, inputs // group, kernel)
    return network.add("Conv", source or network.last, weights, network.weights(outputs), pads=pads,
                       strides=[stride], dilations=[dilation], group=group)  # fmt: skip


def transposed(network: Network, inputs: int, outputs: int, kernel: int, stride: int, pad: int = 0, source: str = "",
               axes: int = 2, **attributes: Any) -> str:  # fmt: skip
    """A transposed convolution."""
    weights = network.weights(inputs, outputs, *[kernel] * axes, scale=stride**axes / 2)
    return network.add("ConvTranspose", source or network.last, weights, network.weights(outputs),
                       strides=[stride] * axes, pads=[pad] * 2 * axes, **attributes)  # fmt: skip


def upsample(network: Network, factor: int, source: str = "", mode: str = "nearest", **attributes: Any) -> str:
    """Resize by an integer, as PyTorch exports it."""
    scales = network.constant(np.array([1, 1, factor, factor], np.float32))
    usual = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if mode == "linear":
        usual = {"mode": mode, "coordinate_transformation_mode": "half_pixel"}
    return network.add("Resize", source or network.last, "", scales, **{**usual, **attributes})


def dense(network: Network, outputs: int, inputs: int, kind: str = "", source: str = "") -> str:
    """A fully connected layer."""
    network.add("Gemm", source or network.last, network.weights(outputs, inputs), network.weights(outputs), transB=1)
    return act(network, kind)


def head(network: Network, channels: int, classes: int = 10) -> Network:
    """Global average pooling and a classifier."""
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    dense(network, classes, channels)
    return network


def squeeze(network: Network, channels: int, kinds: tuple[str, str] = ("Relu", "HardSigmoid")) -> str:
    """Squeeze and excitation of the last value."""
    value, inner = network.last, max(4, channels // 4)
    network.add("GlobalAveragePool", value)
    act(network, kinds[0], network.conv(inner, channels, 1))
    network.conv(channels, inner, 1)
    numbers = {"alpha": 1 / 6, "beta": 0.5} if kinds[1] == "HardSigmoid" else {}
    return network.add("Mul", value, network.add(kinds[1], **numbers))


def residual(network: Network, channels: int, inputs: int, stride: int = 1, group: int = 0) -> str:
    """A residual block of two convolutions, or a bottleneck of three whose middle one has ``group`` groups."""
    source = network.last
    if group:
        conv(network, channels // 2, inputs, 1)
        conv(network, channels // 2, channels // 2, 3, stride=stride, group=group)
        main = conv(network, channels, channels // 2, 1, "")
    else:
        conv(network, channels, inputs, stride=stride)
        main = conv(network, channels, channels, kind="")
    if stride > 1 or channels != inputs:
        source = conv(network, channels, inputs, 1, "", source, stride=stride)
    return network.add("Relu", network.add("Add", main, source))


def inverted(network: Network, channels: int, inputs: int, stride: int, kind: str, excite: Any = None,
             kernel: int = 3) -> str:  # fmt: skip
    """An inverted bottleneck. excite: the activations of its squeeze and excitation, if it has one."""
    source, inner = network.last, 4 * inputs
    conv(network, inner, inputs, 1, kind)
    conv(network, inner, inner, kernel, kind, group=inner, stride=stride)
    if excite:
        squeeze(network, inner, excite)
    value = conv(network, channels, inner, 1, "")
    return network.add("Add", value, source) if stride == 1 and channels == inputs else value


def layer_norm(network: Network, width: int, value: str = "", parts: bool = False) -> str:
    """Layer normalization over the last axis, as one operator or in parts."""
    value = value or network.last
    gain, offset = network.constant(np.ones(width, np.float32)), network.weights(width)
    if not parts:
        return network.add("LayerNormalization", value, gain, offset, axis=-1)
    centred = network.add("Sub", value, network.add("ReduceMean", value, axes=[-1]))
    square = network.add("Pow", centred, network.constant(np.float32(2)))
    sum_ = network.add("Add", network.add("ReduceMean", square, axes=[-1]), network.constant(np.float32(1e-5)))
    scaled = network.add("Mul", network.add("Div", centred, network.add("Sqrt", sum_)), gain)
    return network.add("Add", scaled, offset)


def attention(network: Network, length: int, width: int, heads: int, value: str) -> str:
    """Self-attention of (length, width)."""
    size = width // heads
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        product = network.add("MatMul", value, network.weights(width, width))
        product = network.add("Add", product, network.weights(width))
        shaped = network.add("Reshape", product, network.constant(np.array([0, length, heads, size], np.int64)))
        parts.append(network.add("Transpose", shaped, perm=order))
    scale = network.constant(np.float32(1 / np.sqrt(size)))
    scores = network.add("Softmax", network.add("Mul", network.add("MatMul", parts[0], parts[1]), scale), axis=-1)
    mixed = network.add("Transpose", network.add("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
    joined = network.add("Reshape", mixed, network.constant(np.array([0, length, width], np.int64)))
    return network.add("Add", network.add("MatMul", joined, network.weights(width, width)), network.weights(width))


def gelu(network: Network, value: str = "") -> str:
    """GELU as PyTorch exports it below opset 20."""
    value = value or network.last
    inner = network.add("Erf", network.add("Div", value, network.constant(np.float32(np.sqrt(2)))))
    product = network.add("Mul", value, network.add("Add", inner, network.constant(np.float32(1))))
    return network.add("Mul", product, network.constant(np.float32(0.5)))


def transformer(network: Network, length: int, width: int, heads: int, parts: bool = False) -> str:
    """One block with normalization in front."""
    source = network.last
    normal = layer_norm(network, width, parts=parts)
    mixed = network.add("Add", source, attention(network, length, width, heads, normal))
    network.add("MatMul", layer_norm(network, width, mixed, parts), network.weights(width, 2 * width))
    gelu(network, network.add("Add", network.last, network.weights(2 * width)))
    network.add("MatMul", network.last, network.weights(2 * width, width))
    return network.add("Add", network.add("Add", network.last, network.weights(width)), mixed)


# Fully connected networks


@member("fully connected")
def mlp() -> Network:
    network = Network(64)
    dense(network, 32, 64, "Relu")
    dense(network, 32, 32, "Relu")
    dense(network, 10, 32)
    return network


@member("anomaly detection, dense autoencoder")
def autoencoder() -> Network:
    network, sizes = Network(320), (320, 64, 32, 8, 32, 64, 320)
    for inputs, outputs in pairwise(sizes):
        dense(network, outputs, inputs)
        if outputs != 320:
            act(network, "Relu", norm(network, outputs))
    return network


@member("set of particles: mean over its members")
def deep_sets() -> Network:
    network = Network(24, 8)
    for inputs, outputs in ((8, 32), (32, 32)):
        network.add("MatMul", network.last, network.weights(inputs, outputs))
        network.add("Relu", network.add("Add", network.last, network.weights(outputs)))
    network.add("ReduceMean", axes=[1], keepdims=0)
    dense(network, 32, 32, "Relu")
    dense(network, 5, 32)
    return network


@member("point cloud: shared layers, maximum over the points")
def point_net() -> Network:
    network = Network(3, 64)
    for inputs, outputs in ((3, 32), (32, 64)):
        network.add("Relu", norm(network, outputs, conv1d(network, outputs, inputs, 1)))
    network.add("ReduceMax", axes=[2], keepdims=0)
    dense(network, 32, 64, "Relu")
    dense(network, 10, 32)
    return network


@member("graph convolution with a fixed neighbourhood")
def graph_convolution() -> Network:
    network = Network(20, 8)
    neighbours = network.constant((network.generator.uniform(size=(20, 20)) < 0.2).astype(np.float32) / 4)
    for inputs, outputs in ((8, 16), (16, 16)):
        network.add("MatMul", neighbours, network.last)
        network.add("Relu", network.add("MatMul", network.last, network.weights(inputs, outputs)))
    network.add("Flatten")
    dense(network, 4, 320)
    return network


@member("two inputs compared")
def siamese() -> Network:
    network = Network(1, 16, 16)
    network.inputs["other"] = (1, 16, 16)
    weights, bias = network.weights(8, 1, 3, 3), network.weights(8)
    weights2, bias2 = network.weights(16, 8, 3, 3), network.weights(16)
    ends = []
    for value in ("x", "other"):
        network.add("Relu", network.add("Conv", value, weights, bias, strides=[2, 2]))
        network.add("Relu", network.add("Conv", network.last, weights2, bias2, strides=[2, 2]))
        ends.append(network.add("Flatten", network.add("GlobalAveragePool"), axis=1))
    network.add("Abs", network.add("Sub", *ends))
    network.add("Sigmoid", dense(network, 1, 16))
    return network


# Classifiers of images


@member("classic convolutions")
def lenet() -> Network:
    network = Network(1, 28, 28)
    for inputs, outputs in ((1, 6), (6, 16)):
        network.add("Relu", network.conv(outputs, inputs, 5))
        network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("Flatten")
    dense(network, 84, 256, "Relu")
    dense(network, 10, 84)
    return network


@member("plain deep convolutions")
def vgg() -> Network:
    network, inputs = Network(3, 32, 32), 3
    for outputs in (8, 16, 32):
        conv(network, outputs, inputs)
        conv(network, outputs, outputs)
        network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
        inputs = outputs
    network.add("Flatten")
    dense(network, 64, 512, "Relu")
    dense(network, 10, 64)
    return network


@member("residual blocks (MLPerf Tiny)")
def resnet8() -> Network:
    network = Network(3, 32, 32)
    conv(network, 16, 3)
    residual(network, 16, 16)
    residual(network, 32, 16, 2)
    residual(network, 64, 32, 2)
    return head(network, 64)


@member("residual blocks, ImageNet's size")
def resnet18_224() -> Network:
    network = Network(3, 224, 224)
    conv(network, 64, 3, 7, stride=2)
    network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inputs = 64
    for outputs in (64, 128, 256, 512):
        residual(network, outputs, inputs, 1 if outputs == 64 else 2)
        residual(network, outputs, outputs)
        inputs = outputs
    return head(network, 512, 1000)


@member("grouped bottlenecks")
def resnext() -> Network:
    network = Network(3, 32, 32)
    conv(network, 32, 3, stride=2)
    residual(network, 64, 32, 1, 4)
    residual(network, 64, 64, 1, 4)
    residual(network, 96, 64, 2, 4)
    return head(network, 96)


@member("depthwise convolutions")
def mobilenet_v1() -> Network:
    network, inputs = Network(3, 48, 48), 8
    conv(network, 8, 3, stride=2)
    for outputs, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (128, 2)):
        conv(network, inputs, inputs, group=inputs, stride=stride)
        conv(network, outputs, inputs, 1)
        inputs = outputs
    return head(network, 128)


@member("inverted bottlenecks, ReLU6")
def mobilenet_v2() -> Network:
    network = Network(3, 48, 48)
    conv(network, 16, 3, stride=2, kind="Relu6")
    for outputs, inputs, stride in ((16, 16, 1), (24, 16, 2), (24, 24, 1), (32, 24, 2)):
        inverted(network, outputs, inputs, stride, "Relu6")
    conv(network, 64, 32, 1, "Relu6")
    return head(network, 64)


@member("hard-swish, squeeze and excitation")
def mobilenet_v3() -> Network:
    network = Network(3, 48, 48)
    conv(network, 16, 3, stride=2, kind="HardSwish")
    inverted(network, 16, 16, 2, "Relu", ("Relu", "HardSigmoid"))
    inverted(network, 24, 16, 1, "Relu")
    inverted(network, 24, 24, 1, "HardSwish", ("Relu", "HardSigmoid"), 5)
    inverted(network, 40, 24, 2, "HardSwish", ("Relu", "HardSigmoid"), 5)
    conv(network, 64, 40, 1, "HardSwish")
    return head(network, 64)


@member("EfficientNet without excitation, ReLU6")
def efficientnet_lite() -> Network:
    network = Network(3, 48, 48)
    conv(network, 16, 3, stride=2, kind="Relu6")
    for outputs, inputs, stride, kernel in ((16, 16, 1, 3), (24, 16, 2, 3), (40, 24, 2, 5), (40, 40, 1, 5)):
        inverted(network, outputs, inputs, stride, "Relu6", kernel=kernel)
    conv(network, 80, 40, 1, "Relu6")
    return head(network, 80)


@member("EfficientNet: SiLU, squeeze and excitation")
def efficientnet() -> Network:
    network = Network(3, 48, 48)
    conv(network, 16, 3, stride=2, kind="Silu")
    for outputs, inputs, stride, kernel in ((16, 16, 1, 3), (24, 16, 2, 3), (24, 24, 1, 5)):
        inverted(network, outputs, inputs, stride, "Silu", ("Silu", "Sigmoid"), kernel)
    conv(network, 80, 24, 1, "Silu")
    return head(network, 80)


@member("fire modules: squeeze, two expansions joined")
def squeezenet() -> Network:
    network, inputs = Network(3, 48, 48), 32
    network.add("Relu", network.conv(32, 3, 3, strides=[2, 2]))
    for inner, outputs in ((16, 32), (16, 32)):
        network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2])
        small = network.add("Relu", network.conv(inner, inputs, 1))
        left = network.add("Relu", network.conv(outputs, inner, 1, small))
        right = network.add("Relu", network.conv(outputs, inner, 3, small, pads=[1, 1, 1, 1]))
        network.add("Concat", left, right, axis=1)
        inputs = 2 * outputs
    network.conv(10, inputs, 1)
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    return network


@member("dense connections: everything before is joined")
def densenet() -> Network:
    network, channels = Network(3, 32, 32), 16
    conv(network, 16, 3, stride=2)
    for _ in range(3):
        source = network.last
        network.add("Relu", norm(network, channels))
        new = network.conv(16, channels, 3, pads=[1, 1, 1, 1])
        network.add("Concat", source, new, axis=1)
        channels += 16
    network.add("Relu", norm(network, channels))
    network.conv(32, channels, 1)
    network.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    return head(network, 32)


@member("channel split and shuffle")
def shufflenet() -> Network:
    network = Network(3, 32, 32)
    conv(network, 32, 3, stride=2)
    for _ in range(2):
        kept = network.add("Split", network.last, network.constant(np.array([16, 16], np.int64)), outputs=2, axis=1)
        moved = f"{kept}_1"
        conv(network, 16, 16, 1, source=moved)
        conv(network, 16, 16, 3, "", group=16)
        branch = conv(network, 16, 16, 1)
        network.add("Concat", kept, branch, axis=1)
        network.add("Reshape", network.last, network.constant(np.array([0, 2, 16, 16, 16], np.int64)))
        network.add("Transpose", perm=[0, 2, 1, 3, 4])
        network.add("Reshape", network.last, network.constant(np.array([0, 32, 16, 16], np.int64)))
    return head(network, 32)


@member("branches with pooling, joined")
def inception() -> Network:
    network, inputs = Network(3, 32, 32), 16
    conv(network, 16, 3, stride=2)
    for _ in range(2):
        source = network.last
        ends = [conv(network, 16, inputs, 1, source=source)]
        conv(network, 16, inputs, 1, source=source)
        ends.append(conv(network, 16, 16, 3))
        conv(network, 16, inputs, 1, source=source)
        ends.append(conv(network, 16, 16, 5))
        network.add("AveragePool", source, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        ends.append(conv(network, 16, inputs, 1))
        network.add("Concat", *ends, axis=1)
        inputs = 64
    return head(network, 64)


@member("local response normalization")
def alexnet() -> Network:
    network = Network(3, 48, 48)
    network.add("Relu", network.conv(16, 3, 7, strides=[2, 2]))
    network.add("LRN", size=5)
    network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2])
    network.add("Relu", network.conv(32, 16, 5, pads=[2, 2, 2, 2], group=2))
    network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2])
    network.add("Flatten")
    dense(network, 64, 32 * 16, "Relu")
    dense(network, 10, 64)
    return network


@member("large depthwise kernels, layer normalization, GELU")
def convnext() -> Network:
    network = Network(3, 32, 32)
    network.conv(16, 3, 4, strides=[4, 4])
    for _ in range(2):
        source = network.last
        network.conv(16, 16, 7, group=16, pads=[3, 3, 3, 3])
        layer_norm(network, 16, network.add("Transpose", perm=[0, 2, 3, 1]))
        gelu(network, network.add("MatMul", network.last, network.weights(16, 64)))
        network.add("MatMul", network.last, network.weights(64, 16))
        network.add("Add", source, network.add("Transpose", perm=[0, 3, 1, 2]))
    return head(network, 16)


# Images from images


def _encoder(network: Network, widths: tuple[int, ...], inputs: int) -> list[str]:
    """Blocks of two convolutions with pooling between; what each gives."""
    ends = []
    for width in widths:
        if ends:
            network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
        conv(network, width, inputs)
        ends.append(conv(network, width, width))
        inputs = width
    return ends


def _unet(up: Callable[[Network, int, int], str]) -> Network:
    network, widths = Network(3, 32, 32), (16, 32, 64)
    ends = _encoder(network, widths, 3)
    for width, wider, end in zip(widths[-2::-1], widths[:0:-1], ends[-2::-1], strict=True):
        network.add("Concat", end, up(network, wider, width), axis=1)
        conv(network, width, 2 * width)
    network.conv(4, 16, 1)
    return network


@member("segmentation, transposed convolutions")
def unet() -> Network:
    return _unet(lambda network, inputs, outputs: transposed(network, inputs, outputs, 2, 2))


@member("segmentation, nearest pixels doubled")
def unet_nearest() -> Network:
    def up(network: Network, inputs: int, outputs: int) -> str:
        upsample(network, 2)
        return conv(network, outputs, inputs)

    return _unet(up)


@member("segmentation, bilinear interpolation")
def unet_bilinear() -> Network:
    def up(network: Network, inputs: int, outputs: int) -> str:
        upsample(network, 2, mode="linear")
        return conv(network, outputs, inputs, 1)

    return _unet(up)


@member("segmentation, one learned interpolation")
def fcn() -> Network:
    network = Network(3, 32, 32)
    _encoder(network, (8, 16, 32), 3)
    network.conv(5, 32, 1)
    transposed(network, 5, 5, 8, 4, 2)
    return network


@member("dilated branches and a pooled one")
def deeplab() -> Network:
    network = Network(3, 32, 32)
    conv(network, 16, 3, stride=2)
    source = conv(network, 32, 16, stride=2)
    ends = [conv(network, 16, 32, 1, source=source)]
    ends += [conv(network, 16, 32, 3, source=source, dilations=[d, d]) for d in (2, 3)]
    network.add("GlobalAveragePool", source)
    network.add("Relu", network.conv(16, 32, 1))
    ends.append(upsample(network, 8))
    network.add("Concat", *ends, axis=1)
    network.conv(4, 64, 1)
    upsample(network, 4, mode="linear")
    return network


@member("features of several scales added")
def feature_pyramid() -> Network:
    network = Network(3, 32, 32)
    ends = _encoder(network, (16, 32, 64), 3)
    value = network.conv(16, 64, 1)
    for width, end in ((32, ends[1]), (16, ends[0])):
        value = network.add("Add", network.conv(16, width, 1, end), upsample(network, 2, value))
    conv(network, 16, 16)
    network.conv(6, 16, 3, pads=[1, 1, 1, 1])
    return network


@member("denoising, transposed convolutions")
def conv_autoencoder() -> Network:
    network = Network(1, 28, 28)
    network.add("Relu", network.conv(8, 1, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    network.add("Relu", network.conv(16, 8, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    network.add("Relu", transposed(network, 16, 8, 3, 2, 1, output_padding=[1, 1]))
    network.add("Sigmoid", transposed(network, 8, 1, 3, 2, 1, output_padding=[1, 1]))
    return network


@member("generator: noise to image")
def dcgan() -> Network:
    network = Network(32)
    network.add("Reshape", dense(network, 4 * 4 * 32, 32), network.constant(np.array([0, 32, 4, 4], np.int64)))
    network.add("Relu", norm(network, 32))
    for inputs, outputs in ((32, 16), (16, 8)):
        transposed(network, inputs, outputs, 4, 2, 1)
        network.add("Relu", norm(network, outputs))
    network.add("Tanh", transposed(network, 8, 3, 4, 2, 1))
    return network


@member("super-resolution by depth to space")
def espcn() -> Network:
    network = Network(1, 24, 24)
    network.add("Tanh", network.conv(16, 1, 5, pads=[2, 2, 2, 2]))
    network.add("Relu", network.conv(8, 16, 3, pads=[1, 1, 1, 1]))
    network.conv(4, 8, 3, pads=[1, 1, 1, 1])
    network.add("DepthToSpace", blocksize=2, mode="CRD")
    return network


@member("super-resolution, PReLU and residuals")
def srgan() -> Network:
    network = Network(3, 16, 16)

    def prelu(channels: int) -> str:
        slopes = network.generator.uniform(0.05, 0.4, (channels, 1, 1)).astype(np.float32)
        return network.add("PRelu", network.last, network.constant(slopes))

    network.conv(16, 3, 3, pads=[1, 1, 1, 1])
    source = prelu(16)
    conv(network, 16, 16, kind="")
    prelu(16)
    network.add("Add", source, conv(network, 16, 16, kind=""))
    network.conv(64, 16, 3, pads=[1, 1, 1, 1])
    network.add("DepthToSpace", blocksize=2, mode="CRD")
    prelu(16)
    network.conv(3, 16, 3, pads=[1, 1, 1, 1])
    return network


@member("instance normalization, reflected borders")
def style_transfer() -> Network:
    network = Network(3, 24, 24)
    for inputs, outputs in ((3, 16), (16, 16)):
        network.add("Pad", network.last, network.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)), mode="reflect")
        network.conv(outputs, inputs, 3)
        gain = network.constant(np.ones(outputs, np.float32))
        network.add("Relu", network.add("InstanceNormalization", network.last, gain, network.weights(outputs)))
    network.conv(3, 16, 3, pads=[1, 1, 1, 1])
    return network


# Detection


@member("detection: two scales, LeakyReLU")
def yolo_v3() -> Network:
    network = Network(3, 32, 32)
    conv(network, 16, 3, kind="LeakyRelu", stride=2)
    fine = conv(network, 32, 16, kind="LeakyRelu", stride=2)
    conv(network, 64, 32, kind="LeakyRelu", stride=2)
    low = conv(network, 32, 64, 1, "LeakyRelu")
    network.add("Concat", upsample(network, 2), fine, axis=1)
    conv(network, 32, 64, kind="LeakyRelu")
    ends = []
    for value, size in ((low, 16), (network.last, 64)):
        network.conv(18, 32, 1, value)
        network.add("Reshape", network.last, network.constant(np.array([0, 18, size], np.int64)))
        ends.append(network.add("Transpose", perm=[0, 2, 1]))
    network.add("Concat", *ends, axis=1)
    return network


@member("detection: SiLU, split blocks, pooled pyramid")
def yolo_v8() -> Network:
    network = Network(3, 32, 32)
    conv(network, 16, 3, kind="Silu", stride=2)
    conv(network, 32, 16, kind="Silu", stride=2)
    conv(network, 32, 32, 1, "Silu")
    first = network.add("Split", network.last, network.constant(np.array([16, 16], np.int64)), outputs=2, axis=1)
    second = f"{first}_1"
    conv(network, 16, 16, kind="Silu", source=second)
    third = network.add("Add", second, conv(network, 16, 16, kind="Silu"))
    network.add("Concat", first, second, third, axis=1)
    conv(network, 32, 48, 1, "Silu")
    pooled = [conv(network, 16, 32, 1, "Silu")]
    pooled += [network.add("MaxPool", kernel_shape=[5, 5], pads=[2, 2, 2, 2]) for _ in range(3)]
    network.add("Concat", *pooled, axis=1)
    conv(network, 32, 64, 1, "Silu")
    network.conv(10, 32, 1)
    network.add("Reshape", network.last, network.constant(np.array([0, 10, 64], np.int64)))
    network.add("Sigmoid")
    return network


@member("detection: boxes and classes of two scales")
def ssd() -> Network:
    network, classes, boxes = Network(3, 32, 32), [], []
    conv(network, 16, 3, stride=2)
    for outputs, inputs, size in ((32, 16, 64), (32, 32, 16)):
        value = conv(network, outputs, inputs, stride=2)
        for ends, width in ((classes, 6), (boxes, 4)):
            network.conv(2 * width, outputs, 3, value, pads=[1, 1, 1, 1])
            network.add("Transpose", perm=[0, 2, 3, 1])
            shape = network.constant(np.array([0, 2 * size, width], np.int64))
            ends.append(network.add("Reshape", network.last, shape))
        network.last = value
    scores = network.add("Softmax", network.add("Concat", *classes, axis=1), axis=-1)
    network.add("Concat", scores, network.add("Concat", *boxes, axis=1), axis=2)
    return network


# Attention


@member("image patches, attention")
def vit_block() -> Network:
    network = Network(3, 32, 32)
    network.conv(32, 3, 8, strides=[8, 8])
    network.add("Reshape", network.last, network.constant(np.array([0, 32, 16], np.int64)))
    network.add("Add", network.add("Transpose", perm=[0, 2, 1]), network.weights(16, 32))
    transformer(network, 16, 32, 2)
    network.add("ReduceMean", layer_norm(network, 32), axes=[1], keepdims=0)
    dense(network, 10, 32)
    return network


@member("text encoder, normalization in parts")
def transformer_encoder() -> Network:
    network = Network(24, 32)
    transformer(network, 24, 32, 4, parts=True)
    layer_norm(network, 32, parts=True)
    return network


@member("mixing of patches and of channels")
def mlp_mixer() -> Network:
    network = Network(16, 32)
    turned = network.add("Transpose", layer_norm(network, 32), perm=[0, 2, 1])
    gelu(network, network.add("MatMul", turned, network.weights(16, 32)))
    network.add("MatMul", network.last, network.weights(32, 16))
    value = network.add("Add", "x", network.add("Transpose", perm=[0, 2, 1]))
    gelu(network, network.add("MatMul", layer_norm(network, 32), network.weights(32, 64)))
    network.add("Add", value, network.add("MatMul", network.last, network.weights(64, 32)))
    network.add("ReduceMean", axes=[1], keepdims=0)
    dense(network, 10, 32)
    return network


# Sequences


def _recurrent(kind: str, directions: int = 1, hidden: int = 32) -> Network:
    return recurrent_network(kind, hidden, True, directions)


@member("recurrent, tanh")
def rnn() -> Network:
    return _recurrent("RNN")


@member("recurrent, gated")
def gru() -> Network:
    return _recurrent("GRU")


@member("recurrent, gated, with cells")
def lstm() -> Network:
    return _recurrent("LSTM")


@member("recurrent in both directions")
def lstm_bidirectional() -> Network:
    return _recurrent("LSTM", 2)


@member("keyword spotting: convolution and GRU")
def crnn_kws() -> Network:
    network = Network(1, 20, 16)
    network.add("Relu", network.conv(8, 1, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    network.add("Transpose", perm=[2, 0, 1, 3])
    network.add("Reshape", network.last, network.constant(np.array([10, -1, 64], np.int64)))
    weights = [network.weights(1, 72, 64), network.weights(1, 72, 24), network.weights(1, 144)]
    names = ["", "state"]
    network.nodes.append(helper.make_node("GRU", [network.last, *weights], names, name="GRU", hidden_size=24,
                                          linear_before_reset=1))  # fmt: skip
    network.add("Flatten", network.add("Transpose", "state", perm=[1, 0, 2]))
    dense(network, 12, 24)
    return network


@member("keyword spotting (MLPerf Tiny)")
def ds_cnn_kws() -> Network:
    network = Network(1, 49, 10)
    network.conv(32, 1, 4, pads=[1, 1, 2, 2], strides=[2, 2])
    act(network, "Relu", norm(network, 32))
    for _ in range(3):
        conv(network, 32, 32, group=32)
        conv(network, 32, 32, 1)
    return head(network, 32, 12)


@member("time series: causal dilated convolutions")
def tcn() -> Network:
    network, inputs = Network(8, 64), 8
    for dilation in (1, 2, 4):
        source = network.last
        network.add("Relu", conv1d(network, 16, inputs, 3, causal=True, dilation=dilation))
        value = network.add("Relu", conv1d(network, 16, 16, 3, causal=True, dilation=dilation))
        if inputs != 16:
            source = conv1d(network, 16, inputs, 1, source)
        network.add("Relu", network.add("Add", value, source))
        inputs = 16
    network.add("Flatten", network.add("GlobalAveragePool"))
    dense(network, 5, 16)
    return network


@member("sound: gated dilated convolutions")
def wavenet() -> Network:
    network = Network(16, 64)
    for dilation in (1, 2):
        source = network.last
        left = network.add("Tanh", conv1d(network, 16, 16, 2, source, True, dilation=dilation))
        right = network.add("Sigmoid", conv1d(network, 16, 16, 2, source, True, dilation=dilation))
        network.add("Add", conv1d(network, 16, 16, 1, network.add("Mul", left, right)), source)
    conv1d(network, 8, 16, 1)
    return network


@member("electrocardiogram: residual convolutions over time")
def ecg_resnet() -> Network:
    network = Network(1, 128)
    network.add("Relu", norm(network, 16, conv1d(network, 16, 1, 7, stride=2)))
    for _ in range(2):
        source = network.last
        network.add("Relu", norm(network, 16, conv1d(network, 16, 16, 5)))
        network.add("Relu", network.add("Add", norm(network, 16, conv1d(network, 16, 16, 5)), source))
        network.add("MaxPool", kernel_shape=[2], strides=[2])
    network.add("Flatten", network.add("GlobalAveragePool"))
    dense(network, 5, 16)
    return network


@member("signals: transposed convolutions over time")
def autoencoder_1d() -> Network:
    network = Network(4, 64)
    network.add("Relu", conv1d(network, 8, 4, 4, stride=2))
    network.add("Relu", conv1d(network, 16, 8, 4, stride=2))
    network.add("Relu", transposed(network, 16, 8, 4, 2, 1, axes=1))
    transposed(network, 8, 4, 4, 2, 1, axes=1)
    return network


@member("video: convolutions over time, height and width")
def video_3d() -> Network:
    network = Network(3, 4, 16, 16)
    for inputs, outputs in ((3, 8), (8, 16)):
        weights = network.weights(outputs, inputs, 3, 3, 3)
        network.add("Conv", network.last, weights, network.weights(outputs), pads=[1] * 6, strides=[1, 2, 2])
        network.add("Relu")
    network.add("ReduceMean", axes=[2, 3, 4], keepdims=0)
    dense(network, 5, 16)
    return network


# What the compiler reads in other ways, or refuses


@member("quantized network (QDQ), powers of two")
def qdq() -> Network:
    network = Network(3, 16, 16)

    def through(value: str, scale: float) -> str:
        numbers = [network.constant(np.float32(scale)), network.constant(np.int8(0))]
        return network.add("DequantizeLinear", network.add("QuantizeLinear", value, *numbers), *numbers)

    for outputs, inputs in ((8, 3), (16, 8)):
        value = through(network.last, 2.0**-5)
        weights = network.generator.integers(-60, 61, (outputs, inputs, 3, 3)).astype(np.int8)
        name = f"w{outputs}"
        network.constants.append(numpy_helper.from_array(weights, name))
        numbers = [network.constant(np.float32(2.0**-9)), network.constant(np.int8(0))]
        kernel = network.add("DequantizeLinear", name, *numbers)
        network.add("Relu", network.add("Conv", value, kernel, strides=[2, 2]))
    return head(network, 16)


@member("recommendation: embeddings of integers")
def embedding() -> Network:
    network = Network(8)
    index = network.add("Cast", "x", to=TensorProto.INT64)
    network.add("Gather", network.weights(50, 16), index)
    network.add("Flatten")
    dense(network, 4, 128)
    return network


@member("spatial transformer: sampled grid")
def grid_sampling() -> Network:
    network = Network(4, 12, 12)
    flow = network.conv(2, 4, 3, pads=[1, 1, 1, 1])
    flow = network.add("Mul", network.add("Tanh", network.add("Transpose", flow, perm=[0, 2, 3, 1])), network.constant(
        np.float32(0.1)))  # fmt: skip
    places = np.stack(np.meshgrid(*[np.linspace(-1, 1, 12)] * 2), axis=-1)[None].astype(np.float32)
    network.add("GridSample", "x", network.add("Add", flow, network.constant(places)), align_corners=1)
    conv(network, 8, 4)
    return network
