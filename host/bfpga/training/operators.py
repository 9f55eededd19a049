"""Operators between the layers with weights, forward and backward: what the host does in a training (FP R4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from bfpga.formats.arrays import FloatArray
from bfpga.training.layers import Convolution, Dense, Parameter
from bfpga.training.products import Products
from bfpga.training.windows import Sliding

#: A function of one value, and its slope by the value and its result.
Function = tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray, FloatArray], FloatArray]]


class Trained(Protocol):
    """One operator of a network that learns; ``backward`` takes back the last use of ``forward``."""

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """The result of the values, images as (samples, height, width, channels)."""

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray | tuple[FloatArray, ...] | None:
        """Gradients of the values by that of the result; None where they are unused."""


class Weighted:
    """A layer whose products an array may compute."""

    def __init__(self, layer: Dense | Convolution) -> None:
        self.layer = layer

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """The layer's results."""
        return np.asarray(self.layer.forward(products, values[0]))

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray | None:
        """Gradients of the layer's input; those of its parameters are added to them."""
        return self.layer.backward(products, gradient)


class Elementwise:
    """A function of every element."""

    def __init__(self, function: Function) -> None:
        self.function, self.slope = function
        self._kept: tuple[FloatArray, FloatArray] | None = None

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """The function of the value."""
        result = self.function(values[0])
        self._kept = values[0], result
        return result

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray:
        """By the chain rule."""
        assert self._kept is not None
        return gradient * self.slope(*self._kept)


class Sum:
    """The sum of two values."""

    def __init__(self, second: int = 1) -> None:
        """second: -1 for the difference."""
        self.second = second
        self._shapes: tuple[tuple[int, ...], ...] = ()

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """Both together."""
        self._shapes = values[0].shape, values[1].shape
        return values[0] + values[1] if self.second > 0 else values[0] - values[1]

    def backward(self, products: Products, gradient: FloatArray) -> tuple[FloatArray, ...]:
        """The gradient as it is, for both."""
        return reduced(gradient, self._shapes[0]), reduced(self.second * gradient, self._shapes[1])


class Product:
    """Two values multiplied element by element."""

    def __init__(self) -> None:
        self._values: tuple[FloatArray, ...] = ()

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """Both multiplied."""
        self._values = values
        return values[0] * values[1]

    def backward(self, products: Products, gradient: FloatArray) -> tuple[FloatArray, ...]:
        """Of each, the gradient times the other one."""
        one, other = self._values
        return reduced(gradient * other, one.shape), reduced(gradient * one, other.shape)


class Bias:
    """Constants added along the channels, which learn."""

    def __init__(self, values: FloatArray) -> None:
        """values: as many as channels, or one."""
        self.bias = Parameter(values)

    @property
    def parameters(self) -> list[Parameter]:
        """What an update changes."""
        return [self.bias]

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """The value with the constants added."""
        return values[0] + self.bias.value.astype(values[0].dtype)

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray:
        """The gradient as it is; summed up for the constants."""
        self.bias.gradient += reduced(gradient, self.bias.value.shape)
        return gradient


class Depthwise:
    """A convolution of every channel by itself."""

    def __init__(self, weights: FloatArray, bias: FloatArray, window: Sliding, input_gradient: bool = True) -> None:
        """weights: (kernel rows, kernel columns, channels)."""
        self.weights, self.bias, self.window = Parameter(weights), Parameter(bias), window
        self.input_gradient = input_gradient
        self._images: FloatArray | None = None

    @property
    def parameters(self) -> list[Parameter]:
        """What an update changes."""
        return [self.weights, self.bias]

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """Results (samples, height, width, channels), a tap after the other."""
        self._images = values[0]
        padded, weights = self.window.padded(values[0]), self.weights.value.astype(values[0].dtype)
        results = self.window.results(*values[0].shape[1:3])
        total = np.zeros((len(padded), *results, padded.shape[3]), padded.dtype)
        for tap, place in self.window.taps(results):
            total += padded[place] * weights[tap]
        total += self.bias.value.astype(total.dtype)
        return total

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray | None:
        """Add the gradients of the parameters; those of the images."""
        assert self._images is not None
        padded, weights = self.window.padded(self._images), self.weights.value.astype(gradient.dtype)
        self.bias.gradient += gradient.sum(axis=(0, 1, 2))
        result = np.zeros(padded.shape, gradient.dtype)
        for tap, place in self.window.taps((gradient.shape[1], gradient.shape[2])):
            self.weights.gradient[tap] += np.einsum("nhwc,nhwc->c", padded[place], gradient)
            result[place] += gradient * weights[tap]
        return self.window.inner(result, self._images.shape) if self.input_gradient else None


class MaxPool:
    """The largest value of a window; the first of equal ones gets the gradient."""

    def __init__(self, window: Sliding) -> None:
        self.window = window
        self._first: list[FloatArray] = []
        self._shape: tuple[int, ...] = ()

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """The largest values."""
        padded, self._shape = self.window.padded(values[0], -np.inf), values[0].shape
        places = [place for _, place in self.window.taps(self.window.results(*self._shape[1:3]))]
        result: FloatArray = np.maximum.reduce([padded[place] for place in places])
        left = np.ones(result.shape, bool)
        self._first = []
        for place in places:
            first = left & (padded[place] == result)
            left &= ~first
            self._first.append(first)
        return result

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray:
        """Gradients where the largest values were."""
        result = np.zeros(self.window.padded_shape(self._shape), gradient.dtype)
        for first, (_, place) in zip(
            self._first, self.window.taps((gradient.shape[1], gradient.shape[2])), strict=True
        ):
            result[place] += gradient * first
        return self.window.inner(result, self._shape)


class AveragePool:
    """The mean of a window; zeros around the image count only with ``count_pads``."""

    def __init__(self, window: Sliding, count_pads: bool = False) -> None:
        self.window, self.count_pads = window, count_pads
        self._shape: tuple[int, ...] = ()

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """Means."""
        self._shape = values[0].shape
        padded = self.window.padded(values[0])
        places = self.window.taps(self.window.results(*self._shape[1:3]))
        return np.asarray(sum(padded[place] for _, place in places) * self._shares(padded.dtype))

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray:
        """To every pixel of a window the same share of the gradient."""
        result = np.zeros(self.window.padded_shape(self._shape), gradient.dtype)
        shared = gradient * self._shares(gradient.dtype)
        for _, place in self.window.taps((gradient.shape[1], gradient.shape[2])):
            result[place] += shared
        return self.window.inner(result, self._shape)

    def _shares(self, kind: np.dtype[np.floating[Any]]) -> FloatArray:
        """1 / pixels of each window: (1, rows, columns, 1)."""
        ones = self.window.padded(np.ones((1, *self._shape[1:3], 1), kind), float(self.count_pads))
        places = self.window.taps(self.window.results(*self._shape[1:3]))
        return np.asarray(1 / sum(ones[place] for _, place in places), kind)


class Concatenation:
    """Values concatenated along an axis."""

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self._ends: list[int] = []

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """All values in one."""
        self._ends = np.cumsum([value.shape[self.axis] for value in values]).tolist()
        return np.concatenate(values, self.axis)

    def backward(self, products: Products, gradient: FloatArray) -> tuple[FloatArray, ...]:
        """To each its part."""
        return tuple(np.split(gradient, self._ends[:-1], self.axis))


class Reshaped:
    """Each sample in another shape, in the order of ONNX: channels first."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        """shape: as ONNX has it, the batch left out."""
        self.shape = shape
        self._source: tuple[int, ...] = ()

    def forward(self, products: Products, *values: FloatArray) -> FloatArray:
        """(samples, *shape); images with the channels last."""
        source = first_channels(values[0])
        self._source = source.shape
        return last_channels(source.reshape(len(source), *self.shape))

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray:
        """Gradients in the shape of the value."""
        return last_channels(first_channels(gradient).reshape(self._source))


def last_channels(values: FloatArray) -> FloatArray:
    """Images of ONNX (samples, channels, height, width) as they are here; other values as they are."""
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1)) if values.ndim == 4 else values


def first_channels(values: FloatArray) -> FloatArray:
    """Images as ONNX has them."""
    return values.transpose(0, 3, 1, 2) if values.ndim == 4 else values


def reduced(gradient: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """The gradient of a value of ``shape`` that was repeated along axes: its sum over these."""
    more = tuple(range(gradient.ndim - len(shape)))
    ones = tuple(axis for axis, size in enumerate(shape, len(more)) if size == 1 and gradient.shape[axis] > 1)
    return gradient.sum(axis=more + ones, keepdims=True).reshape(shape) if more or ones else gradient


def sigmoid(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)), x.dtype)


RELU: Function = (lambda x: np.maximum(x, 0), lambda x, y: (x > 0).astype(x.dtype))
SIGMOID: Function = (sigmoid, lambda x, y: y * (1 - y))
TANH: Function = (np.tanh, lambda x, y: 1 - y * y)


def clipped(low: float, high: float) -> Function:
    """No less than ``low``, no more than ``high``."""
    return lambda x: np.clip(x, low, high), lambda x, y: ((x > low) & (x < high)).astype(x.dtype)


def leaky(slope: float) -> Function:
    """ReLU with ``slope`` below zero."""
    return lambda x: np.where(x > 0, x, slope * x), lambda x, y: np.where(x > 0, 1, slope).astype(x.dtype)


def affine(scale: FloatArray, shift: FloatArray) -> Function:
    """``scale`` times the value, and ``shift``: constants that do not learn."""
    return lambda x: (x * scale + shift).astype(x.dtype), lambda x, y: scale.astype(x.dtype)
