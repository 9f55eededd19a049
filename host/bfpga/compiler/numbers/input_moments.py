"""Second moments of what layers read: how strong each input of a row is, and which inputs go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.numbers.values import Float32Array, within_squares
from bfpga.engines.kernel.windows import padded, patches

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]
#: Samples that are looked at.
SAMPLES = 256


@dataclass(frozen=True)
class Limits:
    """Windows of a layer that are looked at over all samples, and the most terms of a row.

    Layers with more are left out: their matrix would take longer than the rest of the compiler.
    """

    windows: int
    terms: int


#: Where weights are powers of two, much depends on it; linear weights of 8 bits gain less.
SHIFTING, LINEAR = Limits(16384, 2048), Limits(4096, 640)


class InputMoments:
    """Sums of products of what layers read, over windows of the float network's values.

    Terms are in the order of a row's weights: tap by tap, the channels of a group inside. Layers with very long rows
    are left out. count: of the calibration samples.
    """

    def __init__(
        self, tensors: Mapping[str, ArrayTensor], layers: Iterable[Layer], count: int, limits: Limits = SHIFTING
    ) -> None:
        self._layers = [layer for layer in layers if _terms(layer) <= limits.terms]
        self._sums = {layer.name: np.zeros((layer.groups, _terms(layer), _terms(layer))) for layer in self._layers}
        self._windows = dict.fromkeys(self._sums, 0)
        self.names = sorted({layer.inputs[0] for layer in self._layers})
        self.samples = min(SAMPLES, count)
        most = max(1, limits.windows // max(self.samples, 1))
        self._looks = {layer.name: _Look.of(layer, tensors[layer.inputs[0]], most) for layer in self._layers}

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for layer in self._layers:
            rows, factor = within_squares(_by_group(self._looks[layer.name].at(values[layer.inputs[0]]), layer))
            products = np.matmul(rows.transpose(0, 2, 1), rows)
            self._sums[layer.name] += products if factor == 1 else products.astype(np.float64) * factor**2
            self._windows[layer.name] += rows.shape[1]

    def moments(self, scales: Mapping[str, Vector]) -> dict[str, Moments]:
        """Moments by layer name, of the values as the array stores them.

        scales: binary logarithms of what the channels of tensors are scaled by, by name.
        """
        result = {}
        for layer in self._layers:
            sums = self._sums[layer.name]
            if layer.inputs[0] in scales:
                factor = _factors(layer, scales[layer.inputs[0]])
                sums = sums * factor[:, :, None] * factor[:, None, :]
            result[layer.name] = Moments(_shrunk(sums, self._windows[layer.name]))
        return result


def _factors(layer: Layer, scale: Vector) -> Matrix:
    """(groups, terms): what each term of a row is scaled by."""
    assert layer.weights is not None
    channels = np.exp2(scale).reshape(layer.groups, layer.weights.shape[3])
    return np.tile(channels, int(np.prod(layer.weights.shape[1:3])))


def _shrunk(sums: Matrix, windows: int) -> Matrix:
    """Mean moments (groups, terms, terms), moved towards their diagonal: few windows say little about many pairs."""
    terms = sums.shape[-1]
    kept = windows / (windows + terms)
    mean = sums / max(windows, 1)
    return mean * (kept + (1 - kept) * np.eye(terms))


def _terms(layer: Layer) -> int:
    assert layer.weights is not None
    return int(np.prod(layer.weights.shape[1:]))


@dataclass(frozen=True)
class _Look:
    """What is looked at of a tensor: some windows of a layer, spread evenly over each sample.

    elements: (pixels, channels) of a sample that the windows reach, in no order; pixels: (windows, taps) rows of these,
    the one after the last for padding.
    """

    elements: IndexArray
    pixels: IndexArray

    @staticmethod
    def of(layer: Layer, tensor: ArrayTensor, most: int) -> _Look:
        """Of ``most`` windows of each sample."""
        numbers = np.arange(tensor.layout.shape[0] * tensor.layout.shape[1]).reshape(1, *tensor.layout.shape[:2], 1)
        found = patches(padded(numbers, layer.window, -1, np.int64), layer.window)[0, :, :, 0]
        if len(found) > most:
            found = found[np.linspace(0, len(found) - 1, most).astype(np.int64)]
        reached = np.unique(found[found >= 0])
        rows = np.where(found < 0, len(reached), np.searchsorted(reached, found))
        return _Look(tensor.layout.reshape(-1, tensor.layout.shape[2])[reached], rows)

    def at(self, value: Float32Array) -> Float32Array:
        """(samples, windows, taps, channels) of a tensor's values."""
        reached = value.reshape(len(value), -1)[:, self.elements]
        if self.pixels.max() == len(self.elements):
            outside = np.zeros((len(reached), 1, reached.shape[2]), reached.dtype)
            reached = np.concatenate([reached, outside], axis=1)
        return reached[:, self.pixels]


def _by_group(windows: Float32Array, layer: Layer) -> Float32Array:
    """Windows (samples, windows, taps, channels) of each group: (groups, windows, terms)."""
    assert layer.weights is not None
    samples, count, taps, _ = windows.shape
    split = windows.reshape(samples * count, taps, layer.groups, layer.weights.shape[3])
    return np.ascontiguousarray(split.transpose(2, 0, 1, 3)).reshape(layer.groups, samples * count, -1)
