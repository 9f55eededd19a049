"""An ONNX network that learns: its operators forward and backward, its constants as parameters (FP R4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bfpga.compiler.lower.geometry import window_of
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.errors import ModelError
from bfpga.formats.arrays import Float32Array, FloatArray
from bfpga.training import operators as ops
from bfpga.training.layers import Convolution, Dense, Parameter
from bfpga.training.products import FloatProducts, Products
from bfpga.training.windows import Sliding, sliding_of

Layout = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Learned:
    """A constant of the network as a parameter. inward: from the layout of ONNX to the parameter's; outward: back."""

    parameter: Parameter
    inward: Layout
    outward: Layout


@dataclass(frozen=True)
class Step:
    """One operator with the values that it reads and the one that it makes."""

    layer: ops.Trained
    inputs: tuple[str, ...]
    output: str


class LearningNetwork:
    """A network up to its scores (the values before a softmax at its end), and what of it learns.

    Learned are the weights and biases of convolutions (ordinary and depthwise), fully connected layers, and constants
    that are added. Values are float32, parameters float64.
    """

    def __init__(self, graph: Graph, path: str, products: Products | None = None) -> None:
        """path: for messages. ModelError for operators that it cannot take back."""
        self.graph = graph
        self.products: Products = products or FloatProducts(np.float32)
        self.scores = score_value(graph)
        self.learned: dict[str, Learned] = {}
        needed = _needed(graph, self.scores)
        unknown = sorted({item.type for item in needed if item.type not in BUILDERS})
        if unknown:
            raise ModelError(
                f"{path}: {' and '.join(unknown)} cannot be trained; --epochs 0 prunes without fine-tuning"
            )
        try:
            self.steps = [self._step(item) for item in needed]
        except _UntrainableError as error:
            raise ModelError(f"{path}: {error}; --epochs 0 prunes without fine-tuning") from None

    @property
    def parameters(self) -> list[Parameter]:
        """What an update changes."""
        return [item.parameter for item in self.learned.values()]

    def forward(self, inputs: Mapping[str, FloatArray]) -> FloatArray:
        """Scores (samples, classes) of a batch."""
        values = {name: ops.last_channels(np.asarray(x, np.float32)) for name, x in inputs.items()}
        for step in self.steps:
            values[step.output] = step.layer.forward(self.products, *(values[name] for name in step.inputs))
        scores = ops.first_channels(values[self.scores])
        self._shape = scores.shape
        return scores.reshape(len(scores), -1)

    def backward(self, gradient: FloatArray) -> None:
        """Add the gradients of all parameters; ``gradient``: of the scores of the last ``forward``."""
        start = ops.last_channels(np.asarray(gradient, np.float32).reshape(self._shape))
        gradients: dict[str, FloatArray] = {self.scores: start}
        for step in reversed(self.steps):
            found = step.layer.backward(self.products, gradients.pop(step.output))
            for name, part in zip(step.inputs, found if isinstance(found, tuple) else (found,), strict=True):
                if part is not None:
                    gradients[name] = gradients[name] + part if name in gradients else part

    def constants(self) -> dict[str, Float32Array]:
        """The learned constants in the layout of ONNX."""
        return {name: np.asarray(item.outward(item.parameter.value), np.float32) for name, item in self.learned.items()}

    def load(self, constants: Mapping[str, FloatArray]) -> None:
        """Take constants in the layout of ONNX."""
        for name, values in constants.items():
            item = self.learned[name]
            item.parameter.value = np.array(item.inward(values), np.float64)

    def learn(self, name: str, parameter: Parameter, inward: Layout, outward: Layout) -> None:
        """Note that a constant is a parameter."""
        if name in self.learned:
            raise _UntrainableError(f"the constant {name} is used twice and cannot be trained")
        self.learned[name] = Learned(parameter, inward, outward)

    def constant(self, name: str) -> FloatArray:
        """A constant of the graph."""
        return self.graph.constants[name].astype(np.float64)

    def _step(self, operator: Operator) -> Step:
        layer = BUILDERS[operator.type](self, operator)
        inputs = tuple(name for name in operator.inputs if name and name not in self.graph.constants)
        return Step(layer, inputs, operator.outputs[0])

    def reads_samples(self, operator: Operator) -> bool:
        """Whether nobody needs the gradients of an operator's input."""
        return operator.inputs[0] in self.graph.inputs


class _UntrainableError(Exception):
    """An operator in a form that has no backward here."""


def score_value(graph: Graph) -> str:
    """The first output, or what its softmax reads."""
    made = {name: operator for operator in graph.operators for name in operator.outputs}
    last = made.get(graph.outputs[0])
    return last.inputs[0] if last is not None and last.type == "Softmax" else graph.outputs[0]


def _needed(graph: Graph, value: str) -> list[Operator]:
    """The operators that a value depends on, in their order."""
    wanted, found = {value}, []
    for operator in reversed(graph.operators):
        if wanted & set(operator.outputs):
            wanted |= set(operator.uses)
            found.append(operator)
    return found[::-1]


Builder = Callable[[LearningNetwork, Operator], ops.Trained]


def _refuse(wrong: bool, operator: Operator, reason: str) -> None:
    if wrong:
        raise _UntrainableError(f"{operator.type} {operator.name} {reason} and cannot be trained")


def _window(network: LearningNetwork, operator: Operator, kernel: tuple[int, ...]) -> Sliding:
    """The window of an operator on images; its padding below and to the right follows from its results."""
    shapes = network.graph.shapes
    source, target = shapes[operator.inputs[0]], shapes[operator.outputs[0]]
    _refuse(len(source) != 3 or len(kernel) != 2, operator, "is not over two axes")
    window = window_of(operator, (kernel[0], kernel[1]), (source[1], source[2]), (target[1], target[2]), 2)
    _refuse(window is None, operator, "has negative padding")
    assert window is not None
    return sliding_of(window, source[1], source[2])


def _convolution(network: LearningNetwork, operator: Operator) -> ops.Trained:
    name = operator.inputs[1]
    _refuse(name not in network.graph.constants, operator, "has computed weights")
    weights = network.constant(name)
    outputs, inner = weights.shape[:2]
    window, group = _window(network, operator, weights.shape[2:]), int(operator.attributes.get("group", 1))
    biased = len(operator.inputs) > 2 and bool(operator.inputs[2])
    bias = network.constant(operator.inputs[2]) if biased else np.zeros(outputs)
    learns = not network.reads_samples(operator)
    if group == 1:
        dense = Convolution(
            operator.name, weights.transpose(2, 3, 1, 0), learns, window=window, relu=False, bias=bias
        )
        kernel = (*weights.shape[2:], inner, outputs)
        network.learn(
            name,
            dense.dense.weights,
            lambda values: values.transpose(2, 3, 1, 0).reshape(-1, outputs),
            lambda values: values.reshape(kernel).transpose(3, 2, 0, 1),
        )
        layer: ops.Trained = ops.Weighted(dense)
        bias_parameter = dense.dense.bias
    else:
        _refuse(inner != 1 or group != outputs, operator, f"has {group} groups")
        layer = depthwise = ops.Depthwise(weights[:, 0].transpose(1, 2, 0), bias, window, learns)
        bias_parameter = depthwise.bias
        network.learn(
            name,
            depthwise.weights,
            lambda values: values[:, 0].transpose(1, 2, 0),
            lambda values: values.transpose(2, 0, 1)[:, None],
        )
    if biased:
        network.learn(operator.inputs[2], bias_parameter, _same, _same)
    return layer


def _same(values: FloatArray) -> FloatArray:
    return values


def _turned(values: FloatArray) -> FloatArray:
    return values.T


def _fully_connected(network: LearningNetwork, operator: Operator) -> ops.Trained:
    constants, attributes = network.graph.constants, operator.attributes
    name = operator.inputs[1]
    _refuse(name not in constants or operator.inputs[0] in constants, operator, "has no constant weights on its right")
    weights = network.constant(name)
    rank = len(network.graph.shapes[operator.inputs[0]]) + 1
    _refuse(weights.ndim != 2 or rank != 2, operator, "is no product of a vector with a matrix")
    scaled = attributes.get("alpha", 1.0) != 1 or attributes.get("beta", 1.0) != 1
    _refuse(bool(attributes.get("transA", 0)) or scaled, operator, "is scaled or transposed")
    layout = _turned if attributes.get("transB", 0) else _same
    biased = len(operator.inputs) > 2 and bool(operator.inputs[2])
    bias = network.constant(operator.inputs[2]) if biased else None
    outputs = layout(weights).shape[1]
    _refuse(bias is not None and bias.size != outputs, operator, "has one bias for several outputs")
    flat = None if bias is None else bias.reshape(-1)
    layer = Dense(operator.name, layout(weights), False, not network.reads_samples(operator), flat)
    network.learn(name, layer.weights, layout, layout)
    if bias is not None:
        shape = bias.shape
        network.learn(operator.inputs[2], layer.bias, np.ravel, lambda values: values.reshape(shape))
    return ops.Weighted(layer)


def _beside(network: LearningNetwork, operator: Operator, name: str) -> tuple[Layout, Layout]:
    """How a constant is laid out that meets a value element by element, and the way back."""
    rank = len(network.graph.shapes[operator.outputs[0]]) + 1
    shape = network.graph.constants[name].shape
    full = (1,) * (rank - len(shape)) + shape
    _refuse(len(shape) > rank, operator, "has a constant of more axes than its value")
    return (
        lambda values: ops.last_channels(values.reshape(full)),
        lambda values: ops.first_channels(values).reshape(shape),
    )


def _sum(network: LearningNetwork, operator: Operator) -> ops.Trained:
    sign = -1 if operator.type == "Sub" else 1
    fixed = [index for index in (0, 1) if operator.inputs[index] in network.graph.constants]
    if not fixed:
        return ops.Sum(sign)
    name = operator.inputs[fixed[0]]
    inward, outward = _beside(network, operator, name)
    values = inward(network.constant(name))
    if sign > 0:
        layer = ops.Bias(values)
        network.learn(name, layer.bias, inward, outward)
        return layer
    one = np.ones(1)
    return ops.Elementwise(ops.affine(one, -values) if fixed[0] == 1 else ops.affine(-one, values))


def _product(network: LearningNetwork, operator: Operator) -> ops.Trained:
    fixed = [name for name in operator.inputs if name in network.graph.constants]
    _refuse(operator.type == "Div" and operator.inputs[1:] != tuple(fixed), operator, "divides by a computed value")
    if not fixed:
        return ops.Product()
    values = _beside(network, operator, fixed[0])[0](network.constant(fixed[0]))
    return ops.Elementwise(ops.affine(1 / values if operator.type == "Div" else values, np.zeros(1)))


def _normalization(network: LearningNetwork, operator: Operator) -> ops.Trained:
    scale, shift, mean, variance = (network.constant(name) for name in operator.inputs[1:5])
    factor = scale / np.sqrt(variance + operator.attributes.get("epsilon", 1e-5))
    return ops.Elementwise(ops.affine(factor, shift - mean * factor))


def _max_pool(network: LearningNetwork, operator: Operator) -> ops.Trained:
    return ops.MaxPool(_window(network, operator, tuple(operator.attributes["kernel_shape"])))


def _average_pool(network: LearningNetwork, operator: Operator) -> ops.Trained:
    window = _window(network, operator, tuple(operator.attributes["kernel_shape"]))
    return ops.AveragePool(window, bool(operator.attributes.get("count_include_pad", 0)))


def _global_average(network: LearningNetwork, operator: Operator) -> ops.Trained:
    return ops.AveragePool(_window(network, operator, network.graph.shapes[operator.inputs[0]][1:]))


def _concatenation(network: LearningNetwork, operator: Operator) -> ops.Trained:
    rank = len(network.graph.shapes[operator.outputs[0]]) + 1
    axis = int(operator.attributes["axis"]) % rank
    _refuse(any(name in network.graph.constants for name in operator.inputs), operator, "has a constant part")
    return ops.Concatenation({1: 3, 2: 1, 3: 2}[axis] if rank == 4 else axis)


def _reshaped(network: LearningNetwork, operator: Operator) -> ops.Trained:
    return ops.Reshaped(network.graph.shapes[operator.outputs[0]])


def _clip(network: LearningNetwork, operator: Operator) -> ops.Trained:
    given = [network.constant(name) if name else None for name in (*operator.inputs[1:], "", "")[:2]]
    low, high = (-np.inf if given[0] is None else float(given[0])), (np.inf if given[1] is None else float(given[1]))
    return ops.Elementwise(ops.clipped(low, high))


def _function(function: ops.Function) -> Builder:
    return lambda network, operator: ops.Elementwise(function)


def _leaky(network: LearningNetwork, operator: Operator) -> ops.Trained:
    return ops.Elementwise(ops.leaky(float(operator.attributes.get("alpha", 0.01))))


#: What can be trained, by ONNX operator.
BUILDERS: dict[str, Builder] = {
    "Conv": _convolution,
    "Gemm": _fully_connected,
    "MatMul": _fully_connected,
    "Add": _sum,
    "Sub": _sum,
    "Mul": _product,
    "Div": _product,
    "BatchNormalization": _normalization,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average,
    "Concat": _concatenation,
    "Flatten": _reshaped,
    "Reshape": _reshaped,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    "Relu": _function(ops.RELU),
    "Sigmoid": _function(ops.SIGMOID),
    "Tanh": _function(ops.TANH),
    "LeakyRelu": _leaky,
    "Clip": _clip,
}
