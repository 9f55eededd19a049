"""Ranges of the network's values on sample data, and the exponents that suit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import Layer
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.simplify import captured_values
from bfpga.errors import DataError
from bfpga.formats.block_format import BlockFormat

#: Magnitudes are counted by their exponent and the first 6 bits after the leading one.
BIN_SHIFT = 23 - 6
BINS = 1 << (31 - BIN_SHIFT)
#: Exponents below the one without overflow that the error search tries.
CANDIDATES = 4
#: Mantissas of this many bits or more can spare one for values larger than any calibration sample showed.
WIDE_BITS = 12


class Histogram:
    """Counts of magnitudes in bins of constant relative width (1/64 of a power of two)."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.largest = 0.0

    def add(self, values: npt.NDArray[np.float32]) -> None:
        """Count the magnitudes of finite values."""
        magnitude = np.abs(np.ascontiguousarray(values, np.float32)).reshape(-1)
        self.largest = max(self.largest, float(magnitude.max(initial=0.0)))
        self.counts += np.bincount(magnitude.view(np.uint32) >> BIN_SHIFT, minlength=BINS)[:BINS]

    def squared_error(self, exponent: int, mantissa_max: int) -> float:
        """Sum of squared errors when the values become mantissas of ``exponent``, saturation included."""
        filled = np.flatnonzero(self.counts)
        low = (filled.astype(np.uint32) << BIN_SHIFT).view(np.float32).astype(np.float64)
        high = ((filled + 1).astype(np.uint32) << BIN_SHIFT).view(np.float32).astype(np.float64)
        center, step = (low + high) / 2, 2.0**exponent
        rounded = np.minimum(np.rint(center / step), mantissa_max) * step
        error = (center - rounded) ** 2
        # A bin wider than half a step spreads its values over the grid: their error is that of even spread.
        spread = (high - low > step / 2) & (center < mantissa_max * step)
        error[spread] = step * step / 12
        return float(np.dot(self.counts[filled], error))


def exponent_without_overflow(largest: float, form: BlockFormat) -> int:
    """The smallest exponent at which ``largest`` is not saturated by more than rounding (BFP equations 2 to 4)."""
    if largest <= 0:
        return form.exponent_min
    _, power = np.frexp(largest)
    exponent = int(power) - 1 - (form.mantissa_bits - 2)
    return int(np.clip(exponent, form.exponent_min, form.exponent_max))


def best_exponent(histogram: Histogram, form: BlockFormat, method: str = "mse") -> int:
    """The static exponent of a tensor: least squared error, or the largest value without saturation (``max``)."""
    spare = 1 if form.mantissa_bits >= WIDE_BITS else 0
    top = min(exponent_without_overflow(histogram.largest, form) + spare, form.exponent_max)
    if spare:
        return top
    if method == "max" or histogram.largest <= 0:
        return top
    candidates = range(max(top - CANDIDATES + 1, form.exponent_min), top + 1)
    return min(reversed(candidates), key=lambda e: histogram.squared_error(e, form.mantissa_max))


def samples_of(graph: Graph, calibration: npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Calibration data as a dictionary of float32 arrays by input name; DataError if shapes do not fit."""
    if not isinstance(calibration, Mapping):
        calibration = {graph.inputs[0]: calibration}
    result = {}
    for name in graph.inputs:
        if name not in calibration:
            raise DataError(f"calibration data has no input {name}; the network has inputs {', '.join(graph.inputs)}")
        values = np.asarray(calibration[name])
        shape = graph.shapes[name]
        if values.ndim == 0 or len(values) == 0 or int(np.prod(values.shape[1:])) != int(np.prod(shape)):
            raise DataError(f"calibration data {name} has shape {values.shape}; expected (samples, {_text(shape)})")
        if not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
            raise DataError(f"calibration data {name} is of type {values.dtype}; expected numbers")
        result[name] = values.astype(np.float32).reshape(len(values), *shape)
        if not np.isfinite(result[name]).all():
            raise DataError(f"calibration data {name} holds NaN or infinite values")
    if len({len(values) for values in result.values()}) > 1:
        raise DataError("calibration data has a different number of samples for each input")
    return result


def _text(shape: tuple[int, ...]) -> str:
    return ", ".join(str(size) for size in shape)


def measure(
    graph: Graph,
    samples: dict[str, npt.NDArray[np.float32]],
    values: list[str],
    scales: Mapping[str, npt.NDArray[np.float32]],
) -> dict[str, Histogram]:
    """Histograms of the named values of the float network, times their ``scales`` (of one sample's shape)."""
    histograms = {name: Histogram() for name in values}
    for part in captured_values(graph.model, samples, values):
        for name in values:
            histograms[name].add(part[name] * scales[name] if name in scales else part[name])
    return histograms


def worst_case(layer: Layer, inputs: list[float]) -> float:
    """The largest magnitude a layer can give when its inputs reach ``inputs`` (BFP R35)."""
    if layer.kind != "gemm" or layer.weights is None:
        return sum(inputs) if layer.kind == "sum" else max(inputs)
    sums = np.abs(layer.weights).reshape(len(layer.weights), -1).sum(axis=1) * inputs[0]
    if layer.bias is not None:
        sums = sums + np.abs(layer.bias)
    return float(sums.max())
