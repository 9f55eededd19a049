"""Networks trained on this machine from random weights and computed samples: `bfpga models --train NAME`."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bfpga.compiler.read.named import NAMED, NamedNetwork
from bfpga.compiler.read.network import Network
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import FloatArray
from bfpga.formats.cache import make_private
from bfpga.formats.files import replace_file
from bfpga.training import synthetic
from bfpga.training.network import LearningNetwork
from bfpga.training.steps import RelativeAdam, cross_entropy
from bfpga.training.synthetic import FULL_SCALE, Samples

Gradient = Callable[[FloatArray, Samples], FloatArray]
Progress = Callable[[int, int], None]
BATCH, CALIBRATION_SAMPLES = 32, 100
#: Share of a weight's size that a step changes, at the start; it falls to nothing.
RATE = 0.05
CHANNELS, CODE = 24, 8


@dataclass
class Chain:
    """Operators one after the other, with random weights."""

    shape: tuple[int, ...]
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def add(self, kind: str, *shapes: tuple[int, ...], **attributes: Any) -> None:
        """An operator that reads the one before and constants: weights of the first shape, zeros of the others."""
        names = []
        for index, shape in enumerate(shapes):
            names.append(f"{kind.lower()}{len(self.nodes)}_{'weight' if index == 0 else 'bias'}")
            size = np.sqrt(2 / np.prod(shape[1:])) if index == 0 else 0.0
            values = self.generator.normal(0, size, shape).astype(np.float32)
            self.constants.append(numpy_helper.from_array(values, names[-1]))
        source, result = f"v{len(self.nodes)}", f"v{len(self.nodes) + 1}"
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [source, *names], [result], name=name, **attributes))

    def dense(self, outputs: int, inputs: int, relu: bool = True) -> None:
        """A fully connected layer."""
        self.add("Gemm", (outputs, inputs), (outputs,), transB=1)
        if relu:
            self.add("Relu")

    def conv(self, outputs: int, inputs: int, kernel: tuple[int, int], group: int = 1, stride: int = 1) -> None:
        """A convolution that keeps the size (divided by the stride), and a ReLU."""
        pads = [kernel[0] // 2, kernel[1] // 2, (kernel[0] - 1) // 2, (kernel[1] - 1) // 2]
        self.add("Conv", (outputs, inputs // group, *kernel), (outputs,), pads=pads, group=group,
                 strides=[stride, stride], kernel_shape=list(kernel))  # fmt: skip
        self.add("Relu")

    def model(self) -> onnx.ModelProto:
        """The network: from `v0` to the last operator's result."""
        source = helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["N", *self.shape])
        result = helper.make_tensor_value_info(self.nodes[-1].output[0], TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [source], [result], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def keyword_network() -> onnx.ModelProto:
    """A convolution, two depthwise separable ones, an average and a classifier."""
    chain = Chain((1, synthetic.FRAMES, synthetic.BANDS))
    chain.conv(CHANNELS, 1, (8, 4), stride=2)
    for _ in range(2):
        chain.conv(CHANNELS, CHANNELS, (3, 3), group=CHANNELS)
        chain.conv(CHANNELS, CHANNELS, (1, 1))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.dense(synthetic.WORDS, CHANNELS, relu=False)
    return chain.model()


def autoencoder() -> onnx.ModelProto:
    """From a sound to a code of a few values, and back."""
    size = synthetic.MACHINE_FRAMES * synthetic.MACHINE_BANDS
    chain = Chain((size,))
    sizes = [size, 64, 64, CODE, 64, 64]
    for inputs, outputs in pairwise(sizes):
        chain.dense(outputs, inputs)
    chain.dense(size, 64, relu=False)
    return chain.model()


def _class_gradient(scores: FloatArray, samples: Samples) -> FloatArray:
    return cross_entropy(scores, samples.labels)[1]


def _difference(found: FloatArray, samples: Samples) -> FloatArray:
    """The gradient of half the squared error of an autoencoder, a mean over samples."""
    return (found - samples.values.reshape(len(found), -1)) / len(found)


@dataclass(frozen=True)
class Course:
    """How a network is trained. labels: the name that the labels have in the file; `y` is that of classes."""

    model: Callable[[], onnx.ModelProto]
    train: Callable[[], Samples]
    test: Callable[[], Samples]
    gradient: Gradient
    labels: str
    epochs: int


COURSES = {
    "keywords": Course(keyword_network, lambda: synthetic.keywords(3000, 1), lambda: synthetic.keywords(500, 2),
                       _class_gradient, "y", 6),
    "anomaly": Course(autoencoder, lambda: synthetic.machine(3000, 1), lambda: synthetic.machine(500, 2, 0.5),
                      _difference, "faulty", 80),
}  # fmt: skip


def course_of(name: str) -> tuple[NamedNetwork, Course]:
    """The network and how it is trained; ConfigurationError for one that is not trained here."""
    network = next((network for network in NAMED if network.name == name), None)
    if network is None or name not in COURSES:
        raise ConfigurationError(f"--train is {name!r}; networks that are trained here: {', '.join(COURSES)}")
    return network, COURSES[name]


def train(name: str, progress: Progress | None = None, epochs: int | None = None) -> Path:
    """Train a named network, keep it and its samples in the cache, and return its file. epochs: other than its own.

    The same at every call, up to the rounding of numpy's products. progress(done, all) counts batches. Errors:
    ``course_of``, CacheError, OSError.
    """
    network, course = course_of(name)
    samples = course.train()
    model = trained(course.model(), samples, course, epochs or course.epochs, progress)
    make_private(network.folder)
    few = Samples(samples.x[:CALIBRATION_SAMPLES], samples.labels[:CALIBRATION_SAMPLES])
    replace_file(network.folder / network.calibration, _archive(few, course.labels))
    replace_file(network.folder / network.samples, _archive(course.test(), course.labels))
    # Last: where the network is, its samples are too.
    replace_file(network.folder / network.file, model.SerializeToString())
    return network.model_path


def trained(
    model: onnx.ModelProto, samples: Samples, course: Course, epochs: int, progress: Progress | None
) -> onnx.ModelProto:
    """The network with weights that learned the samples."""
    learning = LearningNetwork(Network(Path("network"), model, model).graph(), "network")
    optimizer, generator = RelativeAdam(learning.parameters, RATE), np.random.default_rng(3)
    batches, done = len(samples.x) // BATCH, 0
    for _ in range(epochs):
        for chosen in np.array_split(generator.permutation(len(samples.x))[: batches * BATCH], batches):
            part = Samples(samples.x[chosen], samples.labels[chosen])
            learning.backward(course.gradient(learning.forward({"v0": part.values}), part))
            optimizer.rate = RATE * (1 - done / (batches * epochs))
            optimizer.update()
            done += 1
            if progress is not None:
                progress(done, batches * epochs)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    learned = learning.constants()
    for tensor in result.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(learned[tensor.name], tensor.name))
    return result


def _archive(samples: Samples, labels: str) -> bytes:
    """Samples as `bfpga.data` reads them."""
    stream = io.BytesIO()
    np.savez_compressed(stream, x=samples.x, x_offset=np.float32(0), x_scale=np.float32(1 / FULL_SCALE),
                        **{labels: samples.labels.astype(np.uint8)})  # fmt: skip
    return stream.getvalue()
