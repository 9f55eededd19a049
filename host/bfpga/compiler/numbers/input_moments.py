"""Second moments of what layers read: how strong each input of a row is, and which inputs go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import ArrayTensor, Layer
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.numbers.values import Float32Array, stored
from bfpga.engines.array.windows import padded, patches

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
        self._tensors, self._most = tensors, limits.windows
        self._layers = [layer for layer in layers if _terms(layer) <= limits.terms]
        self._sums = {layer.name: np.zeros((layer.groups, _terms(layer), _terms(layer))) for layer in self._layers}
        self._windows = dict.fromkeys(self._sums, 0)
        self.names = sorted({layer.inputs[0] for layer in self._layers})
        self.samples = min(SAMPLES, count)

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for layer in self._layers:
            x = stored(values[layer.inputs[0]], self._tensors[layer.inputs[0]])
            rows = _windows(x, layer, max(1, self._most // self.samples))
            self._sums[layer.name] += np.matmul(rows.transpose(0, 2, 1), rows)
            self._windows[layer.name] += rows.shape[1]

    def moments(self, scales: Mapping[str, Vector]) -> dict[str, Moments]:
        """Moments by layer name, of the values as the array stores them.

        scales: binary logarithms of what the channels of tensors are stored times, by name.
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
    """(groups, terms): what each term of a row is stored times."""
    assert layer.weights is not None
    channels = np.exp2(scale).reshape(layer.groups, layer.weights.shape[3])
    return np.tile(channels, int(np.prod(layer.weights.shape[1:3])))


def _shrunk(sums: Matrix, windows: int) -> Matrix:
    """Mean moments (groups, terms, terms), moved towards their diagonal: few windows tell little of many pairs."""
    terms = sums.shape[-1]
    kept = windows / (windows + terms)
    mean = sums / max(windows, 1)
    return mean * (kept + (1 - kept) * np.eye(terms))


def _terms(layer: Layer) -> int:
    assert layer.weights is not None
    return int(np.prod(layer.weights.shape[1:]))


def _windows(x: Float32Array, layer: Layer, most: int) -> Float32Array:
    """Windows of each group (groups, windows, terms): ``most`` of each sample, evenly spread."""
    assert layer.weights is not None
    found = patches(padded(x, layer.window, 0, np.float32), layer.window)
    pixels = found.shape[1]
    if pixels > most:
        found = found[:, np.linspace(0, pixels - 1, most).astype(np.int64)]
    samples, pixels, taps, _ = found.shape
    split = found.reshape(samples * pixels, taps, layer.groups, layer.weights.shape[3])
    return np.ascontiguousarray(split.transpose(2, 0, 1, 3)).reshape(layer.groups, samples * pixels, -1)
