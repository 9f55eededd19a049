"""Layer after layer: the weights go without which its results change least, and those that stay make up for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bfpga.formats.arrays import BoolArray, Float32Array, FloatArray
from bfpga.pruning.layers import Group, PrunableLayer
from bfpga.pruning.least_squares import Squares, pruned_squares
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
    one's, by what it reads behind the layers that are pruned already.

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
        count = self._samples(inputs)
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

    def _samples(self, inputs: Mapping[str, Float32Array]) -> int:
        shapes = self.exact.graph.shapes
        each = 8 * sum(int(np.prod(shapes[name])) for name in [*inputs, *(step.output for step in self.exact.steps)])
        return min(len(next(iter(inputs.values()))), max(1, BYTES // each))

    def _prune(self, trained: ops.Trained, x: FloatArray, y: FloatArray) -> None:
        """Prune what an operator holds: x are the values that it reads now, y its results before."""
        if isinstance(trained, ops.Depthwise):
            self._drop_smallest(trained.weights)
        elif isinstance(trained, ops.Weighted):
            dense = trained.layer.dense if isinstance(trained.layer, Convolution) else trained.layer
            inputs, outputs = dense.weights.value.shape
            if outputs * float(inputs) ** 3 > self._largest:
                self._drop_smallest(dense.weights)
            else:
                self._solve(self._layers[id(dense.weights)], trained.layer, dense, x, y)

    def _drop_smallest(self, weights: Parameter) -> None:
        layer = self._layers[id(weights)]
        weights.value = weights.value * self._kept(layer, weights.value, self.shares[layer.name])

    def _solve(
        self, layer: PrunableLayer, rows: Convolution | Dense, dense: Dense, x: FloatArray, y: FloatArray
    ) -> None:
        """Set the weights, and the biases where they are constants of the network, as one more input that is 1."""
        biased = any(dense.bias is item for item in self.pruned.parameters)
        weights, outputs = dense.weights.value, dense.weights.value.shape[1]
        values = np.concatenate([weights, dense.bias.value[None]]) if biased else weights
        squares = Squares.none(*values.shape)
        for start in range(0, len(x), PART):
            part = x[start : start + PART]
            read = rows.window.matrix(part) if isinstance(rows, Convolution) else part
            if biased:
                read = np.concatenate([read, np.ones((len(read), 1), read.dtype)], axis=1)
            squares.add(read, y[start : start + PART].reshape(-1, outputs))

        def choose(worth: FloatArray, share: float) -> BoolArray:
            kept = np.ones(values.shape, np.bool_)
            kept[: len(weights)] = self._kept(layer, worth[: len(weights)], share)
            return kept

        found = pruned_squares(squares, values, self.shares[layer.name], choose)
        dense.weights.value = found[: len(weights)]
        if biased:
            dense.bias.value = found[-1]

    def _kept(self, layer: PrunableLayer, worth: FloatArray, share: float) -> BoolArray:
        """Which weights stay, in the layout of the parameter."""
        learned = self.pruned.learned[layer.constant]
        kept = layer.kept(learned.outward(worth), share, self.group)
        return np.asarray(learned.inward(kept.astype(np.float64)) != 0)
