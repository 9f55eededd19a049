"""ONNX operators as layers that learn, one function for each kind (FP R4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bfpga.compiler.lower.geometry import window_of
from bfpga.compiler.read.importer import Operator
from bfpga.formats.arrays import FloatArray
from bfpga.training import operators as ops
from bfpga.training.layers import Convolution, Dense
from bfpga.training.learned import Layout, LearnedConstants, UntrainableError
from bfpga.training.windows import Sliding, sliding_of

Builder = Callable[[LearnedConstants, Operator], ops.Trained]


def _refuse(wrong: bool, operator: Operator, reason: str) -> None:
    if wrong:
        raise UntrainableError(f"{operator.type} {operator.name} {reason} and cannot be trained")


def _window(constants: LearnedConstants, operator: Operator, kernel: tuple[int, ...]) -> Sliding:
    """The window of an operator on images; its padding below and to the right follows from its results."""
    shapes = constants.graph.shapes
    source, target = shapes[operator.inputs[0]], shapes[operator.outputs[0]]
    _refuse(len(source) != 3 or len(kernel) != 2, operator, "is not over two axes")
    window = window_of(operator, (kernel[0], kernel[1]), (source[1], source[2]), (target[1], target[2]), 2)
    _refuse(window is None, operator, "has negative padding")
    assert window is not None
    return sliding_of(window, source[1], source[2])


def _convolution(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    name = operator.inputs[1]
    _refuse(name not in constants.graph.constants, operator, "has computed weights")
    weights = constants.constant(name)
    outputs, inner = weights.shape[:2]
    window, group = _window(constants, operator, weights.shape[2:]), int(operator.attributes.get("group", 1))
    biased = len(operator.inputs) > 2 and bool(operator.inputs[2])
    bias = constants.constant(operator.inputs[2]) if biased else np.zeros(outputs)
    learns = not constants.reads_samples(operator)
    if group == 1:
        dense = Convolution(
            operator.name, weights.transpose(2, 3, 1, 0), learns, window=window, relu=False, bias=bias
        )
        kernel = (*weights.shape[2:], inner, outputs)
        constants.learn(
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
        constants.learn(
            name,
            depthwise.weights,
            lambda values: values[:, 0].transpose(1, 2, 0),
            lambda values: values.transpose(2, 0, 1)[:, None],
        )
    if biased:
        constants.learn(operator.inputs[2], bias_parameter, _same, _same)
    return layer


def _same(values: FloatArray) -> FloatArray:
    return values


def _turned(values: FloatArray) -> FloatArray:
    return values.T


def _fully_connected(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    known, attributes = constants.graph.constants, operator.attributes
    name = operator.inputs[1]
    _refuse(name not in known or operator.inputs[0] in known, operator, "has no constant weights on its right")
    weights = constants.constant(name)
    rank = len(constants.graph.shapes[operator.inputs[0]]) + 1
    _refuse(weights.ndim != 2 or rank != 2, operator, "is no product of a vector with a matrix")
    scaled = attributes.get("alpha", 1.0) != 1 or attributes.get("beta", 1.0) != 1
    _refuse(bool(attributes.get("transA", 0)) or scaled, operator, "is scaled or transposed")
    layout = _turned if attributes.get("transB", 0) else _same
    biased = len(operator.inputs) > 2 and bool(operator.inputs[2])
    bias = constants.constant(operator.inputs[2]) if biased else None
    outputs = layout(weights).shape[1]
    _refuse(bias is not None and bias.size != outputs, operator, "has one bias for several outputs")
    flat = None if bias is None else bias.reshape(-1)
    layer = Dense(operator.name, layout(weights), False, not constants.reads_samples(operator), flat)
    constants.learn(name, layer.weights, layout, layout)
    if bias is not None:
        shape = bias.shape
        constants.learn(operator.inputs[2], layer.bias, np.ravel, lambda values: values.reshape(shape))
    return ops.Weighted(layer)


def _elementwise_layout(constants: LearnedConstants, operator: Operator, name: str) -> tuple[Layout, Layout]:
    """How a constant is laid out that goes with a value element by element, and the way back."""
    rank = len(constants.graph.shapes[operator.outputs[0]]) + 1
    shape = constants.graph.constants[name].shape
    full = (1,) * (rank - len(shape)) + shape
    _refuse(len(shape) > rank, operator, "has a constant of more axes than its value")
    return (
        lambda values: ops.last_channels(values.reshape(full)),
        lambda values: ops.first_channels(values).reshape(shape),
    )


def _sum(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    sign = -1 if operator.type == "Sub" else 1
    fixed = [index for index in (0, 1) if operator.inputs[index] in constants.graph.constants]
    if not fixed:
        return ops.Sum(sign)
    name = operator.inputs[fixed[0]]
    inward, outward = _elementwise_layout(constants, operator, name)
    values = inward(constants.constant(name))
    if sign > 0:
        layer = ops.Bias(values)
        constants.learn(name, layer.bias, inward, outward)
        return layer
    one = np.ones(1)
    return ops.Elementwise(ops.affine(one, -values) if fixed[0] == 1 else ops.affine(-one, values))


def _product(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    fixed = [name for name in operator.inputs if name in constants.graph.constants]
    _refuse(operator.type == "Div" and operator.inputs[1:] != tuple(fixed), operator, "divides by a computed value")
    if not fixed:
        return ops.Product()
    values = _elementwise_layout(constants, operator, fixed[0])[0](constants.constant(fixed[0]))
    return ops.Elementwise(ops.affine(1 / values if operator.type == "Div" else values, np.zeros(1)))


def _normalization(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    scale, shift, mean, variance = (constants.constant(name) for name in operator.inputs[1:5])
    factor = scale / np.sqrt(variance + operator.attributes.get("epsilon", 1e-5))
    return ops.Elementwise(ops.affine(factor, shift - mean * factor))


def _max_pool(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    return ops.MaxPool(_window(constants, operator, tuple(operator.attributes["kernel_shape"])))


def _average_pool(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    window = _window(constants, operator, tuple(operator.attributes["kernel_shape"]))
    return ops.AveragePool(window, bool(operator.attributes.get("count_include_pad", 0)))


def _global_average(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    return ops.AveragePool(_window(constants, operator, constants.graph.shapes[operator.inputs[0]][1:]))


def _concatenation(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    rank = len(constants.graph.shapes[operator.outputs[0]]) + 1
    axis = int(operator.attributes["axis"]) % rank
    _refuse(any(name in constants.graph.constants for name in operator.inputs), operator, "has a constant part")
    return ops.Concatenation({1: 3, 2: 1, 3: 2}[axis] if rank == 4 else axis)


def _reshaped(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    return ops.Reshaped(constants.graph.shapes[operator.outputs[0]])


def _clip(constants: LearnedConstants, operator: Operator) -> ops.Trained:
    given = [constants.constant(name) if name else None for name in (*operator.inputs[1:], "", "")[:2]]
    low, high = (-np.inf if given[0] is None else float(given[0])), (np.inf if given[1] is None else float(given[1]))
    return ops.Elementwise(ops.clipped(low, high))


def _function(function: ops.Function) -> Builder:
    return lambda constants, operator: ops.Elementwise(function)


def _leaky(constants: LearnedConstants, operator: Operator) -> ops.Trained:
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
