"""Layers that learn: forward and backward as matrix products, the rest on the host in floating point (FP R4)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bfpga.formats.arrays import FloatArray
from bfpga.training.products import Activations, Products
from bfpga.training.windows import Sliding


@dataclass
class Parameter:
    """Master values in floating point and their gradient, summed until the next update."""

    value: FloatArray
    gradient: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.value = np.asarray(self.value, np.float64)
        self.gradient = np.zeros_like(self.value)


class Dense:
    """relu(x @ weights + bias), or without ReLU. FP R3, R4.

    The layer may be used any number of times in one step; ``backward`` takes back its last use that is left. So a
    program is its own graph (FP 4.1).
    """

    def __init__(
        self,
        name: str,
        weights: FloatArray,
        relu: bool = True,
        input_gradient: bool = True,
        bias: FloatArray | None = None,
    ) -> None:
        """weights: (inner, outputs). input_gradient: False for a layer that reads the samples. bias: zeros for None."""
        self.name = name
        self.weights = Parameter(weights)
        self.bias = Parameter(np.zeros(weights.shape[1]) if bias is None else bias)
        self.relu = relu
        self.input_gradient = input_gradient
        self._uses: list[tuple[Activations, Activations]] = []

    @property
    def parameters(self) -> list[Parameter]:
        """What an update changes."""
        return [self.weights, self.bias]

    def forward(self, products: Products, x: Activations) -> Activations:
        """Results (rows, outputs) of x (rows, inner)."""
        y = products.forward(self.name, x, self.weights.value, self.bias.value, self.relu)
        self._uses.append((x, y))
        return y

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray | None:
        """Add the gradients of the parameters; those of the inputs, of (rows, outputs) gradients of the results."""
        x, y = self._uses.pop()
        if self.relu:
            gradient = gradient * (np.asarray(y) > 0)
        self.weights.gradient += products.weight_gradient(self.name, x, gradient)
        self.bias.gradient += gradient.sum(axis=0)
        return products.input_gradient(self.name, gradient, self.weights.value) if self.input_gradient else None

    def forget(self) -> None:
        """Drop what was kept for ``backward``: results that only served a prediction."""
        self._uses.clear()


class Convolution:
    """A convolution with ReLU of images (samples, height, width, channels), as products of windows."""

    def __init__(
        self,
        name: str,
        weights: FloatArray,
        input_gradient: bool = True,
        *,
        window: Sliding | None = None,
        relu: bool = True,
        bias: FloatArray | None = None,
    ) -> None:
        """weights: (kernel rows, kernel columns, channels, outputs). window: without padding, of stride 1 for None."""
        self.window = window or Sliding((weights.shape[0], weights.shape[1]))
        self.dense = Dense(name, weights.reshape(-1, weights.shape[3]), relu, input_gradient, bias)
        self._shapes: list[tuple[int, ...]] = []

    @property
    def parameters(self) -> list[Parameter]:
        """What an update changes."""
        return self.dense.parameters

    def forward(self, products: Products, x: Activations) -> FloatArray:
        """Results (samples, height, width, outputs)."""
        images = np.asarray(x)
        self._shapes.append(images.shape)
        y = np.asarray(self.dense.forward(products, self.window.matrix(images)))
        return y.reshape(len(images), *self.window.results(*images.shape[1:3]), -1)

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray | None:
        """Add the gradients of the parameters; those of the inputs."""
        shape = self._shapes.pop()
        found = self.dense.backward(products, gradient.reshape(-1, gradient.shape[3]))
        return None if found is None else self.window.added(found, shape)

    def forget(self) -> None:
        """Drop what was kept for ``backward``."""
        self._shapes.clear()
        self.dense.forget()
