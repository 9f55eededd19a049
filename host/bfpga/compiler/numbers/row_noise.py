"""Normalizations that mantissas of one exponent are too coarse for: the host keeps them.

A normalization turns what is small beside a few large channels into its results again, whatever the exponent of its
input leaves of it. So each is computed in the integers of its process, on samples, and compared with itself in float.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, Layer, Lowered
from bfpga.compiler.numbers.calibrate import ChannelHistograms, best_exponent
from bfpga.compiler.numbers.quantize import row_work
from bfpga.compiler.numbers.values import Float32Array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode
from bfpga.contract.rows import RowOperation
from bfpga.engines.rows.layers import row_results
from bfpga.formats.arrays import Float64Array

#: Samples that are compared, and the least ratio of signal to noise in decibels: what 4 bits of a uniform signal have.
SAMPLES, LEAST_DB = 8, 24.0


def normalizations(lowered: Lowered) -> list[Layer]:
    """Layers of the process of rows that divide by a deviation."""
    return [layer for layer in lowered.layers if layer.rows is not None and layer.rows.operation.normalizes]


class RowInputs:
    """What normalizations read, of the first samples. count: of all of these."""

    def __init__(self, layers: Iterable[Layer], tensors: Mapping[str, ArrayTensor], count: int) -> None:
        self.names = sorted({layer.inputs[0] for layer in layers})
        self.samples = min(SAMPLES, count)
        self._tensors = tensors
        self._values: dict[str, list[Float32Array]] = {name: [] for name in self.names}

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for name in self.names:
            self._values[name].append(np.array(values[name], np.float32))

    def value(self, name: str) -> Float64Array:
        """(samples, height, width, channels) as in memory."""
        found = np.concatenate(self._values[name])
        return found.reshape(len(found), -1)[:, self._tensors[name].layout].astype(np.float64)


def coarse_rows(
    lowered: Lowered, inputs: RowInputs, histograms: ChannelHistograms, config: KernelConfig
) -> dict[str, str]:
    """Operators whose normalization would lose too much, each with the reason."""
    result = {}
    for layer in normalizations(lowered):
        x = inputs.value(layer.inputs[0])
        exponent = best_exponent(histograms.histogram(layer.inputs[0]), config.format)
        found, wanted = _in_integers(layer, x, exponent, config), _in_float(layer, x)
        noise = float(np.mean((found - wanted) ** 2))
        ratio = 10 * np.log10(max(float(np.mean(wanted**2)), 1e-300) / max(noise, 1e-300))
        if ratio < LEAST_DB:
            result[layer.operators[0].name] = (
                f"mantissas of {config.format.mantissa_bits} bits leave its rows {ratio:.0f} dB: a few channels are "
                "much larger than what counts"
            )
    return result


def _in_integers(layer: Layer, x: Float64Array, exponent: int, config: KernelConfig) -> Float64Array:
    """(samples, pixels, channels) as the process computes it."""
    assert layer.rows is not None
    largest = config.format.mantissa_max
    mantissas = np.clip(np.rint(np.ldexp(x, -exponent)), -largest, largest).astype(np.int64)
    node = ArrayNode(layer.name, "rows", layer.inputs, layer.output, layer.channels, layer.window)
    node.rows = row_work(layer, layer.rows)
    found, exponents = row_results(node)([(mantissas, np.full(len(x), exponent, np.int64))])
    return np.asarray(np.ldexp(found.astype(np.float64), exponents[:, None, None]))


def _in_float(layer: Layer, x: Float64Array) -> Float64Array:
    """The same by definition, without the shift that is added to it."""
    rows = layer.rows
    assert rows is not None
    x = x.reshape(len(x), -1, layer.channels)
    moved = x - x.mean(axis=2, keepdims=True) if rows.operation is RowOperation.LAYER_NORM else x
    deviation = np.sqrt(np.square(moved).mean(axis=2, keepdims=True) + rows.epsilon)
    return np.asarray(moved / np.where(deviation == 0, 1.0, deviation) * rows.scale)
