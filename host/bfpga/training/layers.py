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
    """A convolution with ReLU of images (samples, height, width, channels), as products of windows.

    Where the products allow it, a few images are computed after the others: their windows stay in the cache, and are
    made again for ``backward``, which is quicker than to fetch those of all images from memory.
    """

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
        self._kernel = weights.shape
        self._uses: list[tuple[FloatArray, FloatArray]] = []

    @property
    def parameters(self) -> list[Parameter]:
        """What an update changes."""
        return self.dense.parameters

    def forward(self, products: Products, x: Activations) -> FloatArray:
        """Results (samples, height, width, outputs)."""
        images, dense = np.asarray(x), self.dense
        weights, bias = dense.weights.value, dense.bias.value
        shape = (*self.window.results(*images.shape[1:3]), weights.shape[1])
        rows = [
            np.asarray(products.forward(dense.name, self.window.matrix(images[part]), weights, bias, dense.relu))
            for part in self._parts(products, images)
        ]
        y = (rows[0] if len(rows) == 1 else np.concatenate(rows)).reshape(len(images), *shape)
        self._uses.append((images, y))
        return y

    def backward(self, products: Products, gradient: FloatArray) -> FloatArray | None:
        """Add the gradients of the parameters; those of the inputs."""
        images, y = self._uses.pop()
        dense, outputs = self.dense, y.shape[3]
        gradient = gradient.reshape(y.shape)
        if dense.relu:
            gradient = gradient * (y > 0)
        found = []
        for part in self._parts(products, images):
            rows = gradient[part].reshape(-1, outputs)
            dense.weights.gradient += products.weight_gradient(dense.name, self.window.matrix(images[part]), rows)
            dense.bias.gradient += np.ones(len(rows), rows.dtype) @ rows
            if dense.input_gradient:
                found.append(self._input_gradient(products, gradient[part], images[part].shape))
        return np.concatenate(found) if found else None

    def _input_gradient(self, products: Products, gradient: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Gradients of images of ``shape``: a convolution of those of the results where products go part by part and
        the window allows it, else one product that is added where windows overlap."""
        dense, turned = self.dense, self.window.turned if products.part is not None else None
        if turned is None:
            rows = products.input_gradient(dense.name, gradient.reshape(-1, gradient.shape[3]), dense.weights.value)
            return self.window.added(rows, shape)
        weights = dense.weights.value.reshape(self._kernel)[::-1, ::-1].transpose(2, 0, 1, 3)
        rows = products.input_gradient(dense.name, turned.matrix(gradient), weights.reshape(len(weights), -1))
        return rows.reshape(shape)

    def _parts(self, products: Products, images: FloatArray) -> list[slice]:
        """Images that are computed together."""
        if products.part is None:
            return [slice(None)]
        rows, columns = self.window.results(*images.shape[1:3])
        bytes_each = rows * columns * self.dense.weights.value.shape[0] * images.itemsize
        step = max(1, products.part // bytes_each)
        return [slice(start, start + step) for start in range(0, len(images), step)]

    def forget(self) -> None:
        """Drop what was kept for ``backward``."""
        self._uses.clear()
