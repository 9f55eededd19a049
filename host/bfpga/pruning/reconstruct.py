"""Layer after layer: the weights go without which its results change least, and those that stay make up for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bfpga.formats.arrays import BoolArray, Float32Array, FloatArray
from bfpga.pruning.layers import Group, PrunableLayer
from bfpga.pruning.least_squares import Squares, pruned_squares, pruned_stepwise
from bfpga.training import operators as ops
from bfpga.training.layers import Convolution, Dense, Parameter
from bfpga.training.network import LearningNetwork

#: Bytes that all values of all samples may take, and samples whose windows are made at once.
BYTES, PART = 1 << 30, 8
#: Multiplications of a layer's solutions above which its smallest weights go and the others stay as they are: minutes;
#: and where shares of zeros are tried alone, a second.
LARGEST, LARGEST_TRIED = 1e12, 2e10


class Reconstruction:
    """Two copies of a network: one stays, the other is pruned so that each of its layers gives the results of the first
    one's, by what it reads after the layers that are pruned already.

    For every output of a layer that is a problem of least squares. The weights go whose absence, made up for by the
    others, adds least to the error (Frantar and Alistarh, "Optimal brain compression", NeurIPS 2022). Depthwise and
    very large layers lose their smallest weights.
    """

    def __init__(
        self,
        networks: tuple[LearningNetwork, LearningNetwork],
        layers: Sequence[PrunableLayer],
        shares: Mapping[str, float],
        group: Group | None = None,
        largest: float = LARGEST,
    ) -> None:
        """networks: copies of one. shares: of zeros, by the layer's name. largest: as of ``LARGEST``."""
        self.exact, self.pruned = networks
        self.shares, self.group, self._largest = shares, group, largest
        self._layers = {id(self.pruned.learned[layer.constant].parameter): layer for layer in layers}

    def run(
        self, inputs: Mapping[str, Float32Array], progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Float32Array]:
        """The learned constants of the pruned network, by as many of the samples as there is room for."""
        count = samples_held(self.exact, inputs)
        exact = {name: ops.last_channels(np.asarray(values[:count])) for name, values in inputs.items()}
        pruned = dict(exact)
        for index, (step, own) in enumerate(zip(self.exact.steps, self.pruned.steps, strict=True)):
            exact[step.output] = step.layer.forward(self.exact.products, *(exact[name] for name in step.inputs))
            values = [pruned[name] for name in own.inputs]
            self._prune(own.layer, values[0], exact[step.output])
            pruned[own.output] = own.layer.forward(self.pruned.products, *values)
            if progress is not None:
                progress(index + 1, len(self.exact.steps))
        return self.pruned.constants()

    def _prune(self, trained: ops.Trained, x: FloatArray, y: FloatArray) -> None:
        """Prune what an operator holds: x are the values that it reads now, y its results before."""
        if isinstance(trained, ops.Depthwise):
            self._drop_smallest(trained.weights)
        elif isinstance(trained, ops.Weighted):
            dense = dense_of(trained.layer)
            if cost(dense) > self._largest:
                self._drop_smallest(dense.weights)
            else:
                self._solve(self._layers[id(dense.weights)], trained.layer, x, y)

    def _drop_smallest(self, weights: Parameter) -> None:
        layer = self._layers[id(weights)]
        kept = kept_inward(self.pruned, layer, weights.value, self.shares[layer.name], self.group)
        weights.value = weights.value * kept

    def _solve(self, layer: PrunableLayer, rows: Convolution | Dense, x: FloatArray, y: FloatArray) -> None:
        own = LayerSquares.of(self.pruned, layer, rows, self.group)
        own.set(pruned_squares(own.squares(x, y), own.values, self.shares[layer.name], own.choose))


@dataclass(frozen=True)
class LayerSquares:
    """A layer of a network as a problem of least squares. biased: its bias is a constant of the network, which is then
    the weight of one more input that is 1."""

    network: LearningNetwork
    layer: PrunableLayer
    rows: Convolution | Dense
    biased: bool
    group: Group | None

    @classmethod
    def of(
        cls, network: LearningNetwork, layer: PrunableLayer, rows: Convolution | Dense, group: Group | None
    ) -> LayerSquares:
        """The problem of one layer of ``network``, which holds its weights as ``rows``."""
        bias = dense_of(rows).bias
        return cls(network, layer, rows, any(bias is item for item in network.parameters), group)

    @property
    def values(self) -> FloatArray:
        """Weights and biases: (inputs, outputs)."""
        dense = dense_of(self.rows)
        weights = dense.weights.value
        return np.concatenate([weights, dense.bias.value[None]]) if self.biased else weights

    def squares(self, x: FloatArray, y: FloatArray) -> Squares:
        """The sums for a layer that reads x and shall give y."""
        found = Squares.none(*self.values.shape)
        for start in range(0, len(x), PART):
            part = x[start : start + PART]
            read = self.rows.window.matrix(part) if isinstance(self.rows, Convolution) else part
            if self.biased:
                read = np.concatenate([read, np.ones((len(read), 1), read.dtype)], axis=1)
            found.add(read, y[start : start + PART].reshape(len(read), -1))
        return found

    def choose(self, worth: FloatArray, share: float) -> BoolArray:
        """Which values stay: every bias does."""
        weights = len(worth) - self.biased
        kept = np.ones(worth.shape, np.bool_)
        kept[:weights] = kept_inward(self.network, self.layer, worth[:weights], share, self.group)
        return kept

    def set(self, values: FloatArray) -> None:
        """Take weights and biases."""
        dense = dense_of(self.rows)
        dense.weights.value = values[: len(values) - self.biased]
        if self.biased:
            dense.bias.value = values[-1]


def alone(
    network: LearningNetwork,
    layers: Sequence[PrunableLayer],
    inputs: Mapping[str, Float32Array],
    group: Group | None,
    levels: Sequence[float],
    largest: float = LARGEST,
) -> Iterator[tuple[PrunableLayer, Iterator[dict[str, Float32Array]]]]:
    """Each layer, with the constants of the network when it alone is rebuilt at each of the rising shares of zeros.

    All constants of a layer are to be taken before the next layer is asked for. Left out are depthwise layers, and
    those whose solution would take more than ``largest`` multiplications.
    """
    count = samples_held(network, inputs)
    values = {name: ops.last_channels(np.asarray(x[:count])) for name, x in inputs.items()}
    known = {id(network.learned[layer.constant].parameter): layer for layer in layers}

    def steps(one: LayerSquares, x: FloatArray, y: FloatArray) -> Iterator[dict[str, Float32Array]]:
        before = one.values.copy()
        for found in pruned_stepwise(one.squares(x, y), before, levels, one.choose):
            one.set(found)
            yield network.constants()
        one.set(before)

    for step in network.steps:
        values[step.output] = step.layer.forward(network.products, *(values[name] for name in step.inputs))
        if isinstance(step.layer, ops.Weighted):
            rows = step.layer.layer
            rows.forget()
            if cost(dense_of(rows)) <= largest:
                one = LayerSquares.of(network, known[id(dense_of(rows).weights)], rows, group)
                yield one.layer, steps(one, values[step.inputs[0]], values[step.output])


def samples_held(network: LearningNetwork, inputs: Mapping[str, Float32Array]) -> int:
    """How many of the samples there is room for."""
    shapes = network.graph.shapes
    each = 8 * sum(int(np.prod(shapes[name])) for name in [*inputs, *(step.output for step in network.steps)])
    return min(len(next(iter(inputs.values()))), max(1, BYTES // each))


def dense_of(rows: Convolution | Dense) -> Dense:
    """What holds the weights of a layer."""
    return rows.dense if isinstance(rows, Convolution) else rows


def cost(dense: Dense) -> float:
    """Multiplications of a layer's solution."""
    inputs, outputs = dense.weights.value.shape
    return outputs * float(inputs) ** 3


def kept_inward(
    network: LearningNetwork, layer: PrunableLayer, worth: FloatArray, share: float, group: Group | None
) -> BoolArray:
    """Which weights stay, in the layout of the parameter."""
    learned = network.learned[layer.constant]
    kept = layer.kept(learned.outward(worth), share, group)
    return np.asarray(learned.inward(kept.astype(np.float64)) != 0)
