"""Adam where a layer's inputs are uncorrelated: steps in which the weights that stay do not work against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bfpga.formats.arrays import BoolArray, Float32Array, FloatArray, Int64Array
from bfpga.training import operators as ops
from bfpga.training.layers import Convolution, Dense, Parameter
from bfpga.training.network import LearningNetwork
from bfpga.training.steps import RelativeAdam

#: Samples by which inputs are turned, samples at once, and what every direction has at least, of the mean power.
SAMPLES, PART, LEAST = 256, 16, 1e-3
#: Multiplications for the directions of a layer above which its weights learn one by one: about a minute.
LARGEST = 4e9


@dataclass
class Turned:
    """The weights of a layer that stay, each output's by the directions in which what it reads does not correlate.

    Nearby pixels and channels say much the same, so a gradient by single weights hardly moves what distinguishes them.
    In these directions, each of power 1, every step changes results alike (Adam in the eigenbasis of the inputs, as
    SOAP: Vyas et al. 2024). places: (outputs, weights) rows of each output's weights, the bias after all weights; a row
    of zeros after that fills up. directions: (outputs, weights, directions). size: root mean square of weights by them.
    """

    dense: Dense
    biased: bool
    places: Int64Array
    directions: FloatArray
    size: float
    mean: FloatArray = field(init=False)
    square: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.mean, self.square = np.zeros(self.places.shape), np.zeros(self.places.shape)

    @classmethod
    def of(cls, dense: Dense, biased: bool, power: FloatArray) -> Turned:
        """power: mean products of what the layer reads and of 1, (inputs + 1, inputs + 1)."""
        rows = _rows(dense, biased)
        kept = _kept(dense, biased)
        most = max(1, int(kept.sum(axis=0).max()))
        places = np.full((kept.shape[1], most), len(rows) - 1, np.int64)
        directions, squares = np.zeros((kept.shape[1], most, most)), 0.0
        for output in range(kept.shape[1]):
            own = np.flatnonzero(kept[:, output])
            count = len(own)
            if not count:
                continue
            read = power[np.ix_(own, own)]
            powers, vectors = np.linalg.eigh(read)
            scales = np.sqrt(np.maximum(powers, 0) + (LEAST * float(np.diag(read).mean()) or 1.0))
            places[output, :count] = own
            directions[output, :count, :count] = vectors / scales
            squares += float(np.square(scales * (vectors.T @ rows[own, output])).sum())
        return cls(dense, biased, places, directions, float(np.sqrt(squares / max(1, int(kept.sum())))))

    def update(self, rate: float, updates: int) -> None:
        """One step, the ``updates``-th; gradients start over."""
        outputs = np.arange(len(self.places))[:, None]
        weights, bias = self.dense.weights, self.dense.bias
        gradient = np.concatenate([weights.gradient, bias.gradient[None], np.zeros((1, len(outputs)))])
        turned = np.matmul(gradient[self.places, outputs][:, None], self.directions)[:, 0]
        self.mean += 0.1 * (turned - self.mean)
        self.square += 0.001 * (np.square(turned) - self.square)
        first, second = self.mean / (1 - 0.9**updates), self.square / (1 - 0.999**updates)
        step = rate * self.size * first / (np.sqrt(second) + 1e-12)
        moved = np.zeros_like(gradient)
        moved[self.places, outputs] = np.matmul(self.directions, step[:, :, None])[:, :, 0]
        weights.value = weights.value - moved[:-2]
        weights.gradient[...] = 0
        if self.biased:
            bias.value = bias.value - moved[-2]
            bias.gradient[...] = 0


class UncorrelatedAdam:
    """Adam whose steps are shares of what a layer's weights do to its results; weights that are zero stay zero.

    Convolutions and connected layers learn as ``Turned``; depthwise and very large layers, and constants that are
    added, as ``RelativeAdam`` has it. ``rate``: share of a step; the caller may change it.
    """

    def __init__(self, network: LearningNetwork, inputs: Mapping[str, Float32Array], rate: float) -> None:
        """inputs: samples by which it is found what inputs correlate."""
        self.rate, self._updates = rate, 0
        learned = {id(parameter) for parameter in network.parameters}
        powers = _powers(network, {name: values[:SAMPLES] for name, values in inputs.items()})
        self._turned = [Turned.of(dense, id(dense.bias) in learned, power) for dense, power in powers]
        turned = {id(item.dense.weights) for item in self._turned}
        turned |= {id(item.dense.bias) for item in self._turned if item.biased}
        rest: list[Parameter] = [item for item in network.parameters if id(item) not in turned]
        self._rest = RelativeAdam(rest, rate)
        self._held = [(item, item.value != 0) for item in rest if (item.value == 0).any() and item.value.ndim > 1]

    def update(self) -> None:
        """Move every parameter against its gradient, and start gradients over."""
        self._updates += 1
        for item in self._turned:
            item.update(self.rate, self._updates)
        self._rest.rate = self.rate
        self._rest.update()
        for parameter, kept in self._held:
            parameter.value *= kept


def _rows(dense: Dense, biased: bool) -> FloatArray:
    """Weights, biases and a row of zeros: (inputs + 2, outputs)."""
    bias = dense.bias.value if biased else np.zeros_like(dense.bias.value)
    return np.concatenate([dense.weights.value, bias[None], np.zeros((1, len(bias)))])


def _kept(dense: Dense, biased: bool) -> BoolArray:
    """Which weights and biases learn: (inputs + 1, outputs)."""
    weights = dense.weights.value
    return np.concatenate([weights != 0, np.full((1, weights.shape[1]), biased)])


def _powers(network: LearningNetwork, inputs: Mapping[str, Float32Array]) -> list[tuple[Dense, FloatArray]]:
    """Mean products of what each layer reads and of 1, (inputs + 1, inputs + 1), of all that are not too large."""
    found: dict[int, tuple[Dense, FloatArray]] = {}
    counts: dict[int, int] = {}
    for start in range(0, len(next(iter(inputs.values()))), PART):
        values = {name: ops.last_channels(x[start : start + PART]) for name, x in inputs.items()}
        for step in network.steps:
            layer = step.layer.layer if isinstance(step.layer, ops.Weighted) else None
            dense = layer.dense if isinstance(layer, Convolution) else layer
            if dense is not None and _cost(dense) <= LARGEST:
                x = values[step.inputs[0]]
                read = np.asarray(layer.window.matrix(x) if isinstance(layer, Convolution) else x)
                read = np.concatenate([read, np.ones((len(read), 1), read.dtype)], axis=1)
                _, power = found.setdefault(id(dense), (dense, np.zeros((read.shape[1],) * 2)))
                power += read.T @ read
                counts[id(dense)] = counts.get(id(dense), 0) + len(read)
            values[step.output] = step.layer.forward(network.products, *(values[name] for name in step.inputs))
            if layer is not None:
                layer.forget()
    return [(dense, power / counts[key]) for key, (dense, power) in found.items()]


def _cost(dense: Dense) -> float:
    """Multiplications to find the directions of a layer."""
    most = 1 + int(np.count_nonzero(dense.weights.value, axis=0).max())
    return float(dense.weights.value.shape[1]) * most**3
