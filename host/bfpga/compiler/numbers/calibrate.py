"""Ranges of the network's values on sample data, and the exponents that suit them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, RowPart, positions
from bfpga.compiler.numbers.tail import Tail, fit_tail
from bfpga.compiler.numbers.values import Float32Array
from bfpga.compiler.read.importer import Graph
from bfpga.contract.rows import RowOperation
from bfpga.errors import DataError, ModelError
from bfpga.formats.block_format import BlockFormat

Floats = npt.NDArray[np.float64]
#: Magnitudes are counted by their exponent and the first 6 bits after the leading one.
BIN_SHIFT = 23 - 6
BINS = 1 << (31 - BIN_SHIFT)
#: Bits of an infinite magnitude; those of NaN are more.
INFINITE = 0x7F800000
#: Bins that are kept of a tensor, down to 2^-32 of its largest value: smaller values become zero at every exponent that
#: the error search tries, also where channels are scaled by factors, and do not count.
KEPT_BINS = 32 << (23 - BIN_SHIFT)
#: Exponents that the error search tries, down from the one at which few samples saturate; it tries one above it too.
CANDIDATES = 5
#: Share of all samples that may exceed the largest number of a tensor whose exponent is chosen without overflow.
BEYOND = 1 / 20
#: Mantissas of this many bits or more can spare one for values larger than any calibration sample showed.
WIDE_BITS = 12
BEYOND_WIDE = 1 / 1000


@dataclass
class Histogram:
    """Counts of magnitudes (``BINS``), in bins that are 1/64 of a power of two wide, and each sample's largest one."""

    counts: npt.NDArray[np.int64]
    #: (samples,)
    peaks: Floats

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return float(self.peaks.max(initial=0.0))

    @functools.cached_property
    def tail(self) -> Tail:
        """What the samples' largest magnitudes predict for further samples."""
        return fit_tail(self.peaks)

    def squared_error(self, exponent: int, mantissa_max: int) -> float:
        """Sum of squared errors when the values become mantissas of ``exponent``, saturation included."""
        counts, center, width = self._filled
        step = 2.0**exponent
        rounded = np.minimum(np.rint(center / step), mantissa_max) * step
        error = (center - rounded) ** 2
        # A bin wider than half a step spreads its values over the grid: their error is that of even spread.
        spread = (width > step / 2) & (center < mantissa_max * step)
        error[spread] = step * step / 12
        return float(np.dot(counts, error))

    @functools.cached_property
    def _filled(self) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
        """The bins with values: counts, centers and widths."""
        filled = np.flatnonzero(self.counts)
        low = (filled.astype(np.uint32) << BIN_SHIFT).view(np.float32).astype(np.float64)
        high = ((filled + 1).astype(np.uint32) << BIN_SHIFT).view(np.float32).astype(np.float64)
        return self.counts[filled], (low + high) / 2, high - low


@dataclass
class Grouping:
    """How the user's samples are arranged in the values of a network that computes ``size`` of them together.

    items: of all calibration samples; what fills the last group does not count. None: every one.
    """

    size: int = 1
    items: int | None = None

    def apart(self, values: Float32Array, tensor: ArrayTensor, seen: int) -> Float32Array:
        """The magnitudes of a batch (groups, elements) of a tensor (..., size, K) as (items, elements of one).

        seen: items of earlier batches.
        """
        if self.size > 1:
            values = values.reshape(len(values), -1, self.size, tensor.onnx_shape[-1]).swapaxes(1, 2)
        magnitude = np.abs(np.ascontiguousarray(values, np.float32)).reshape(len(values) * self.size, -1)
        return magnitude if self.items is None else magnitude[: max(0, self.items - seen)]

    def layout(self, tensor: ArrayTensor) -> IndexArray:
        """A tensor's layout (height, width, channels) as that of its first item (positions, channels)."""
        flat = tensor.layout.reshape(-1, tensor.channels)
        if self.size == 1:
            return flat
        row, column = np.divmod(flat, tensor.onnx_shape[-1])
        before, item = np.divmod(row, self.size)
        first: IndexArray = (before * tensor.onnx_shape[-1] + column)[(item == 0).all(axis=1)]
        return first


#: Values that are counted together: their cells stay in the cache between the steps.
CACHED = 1 << 17


class ChannelOrder:
    """Elements of an item, channel by channel. layout: (positions, channels), as ``Grouping.layout`` gives it."""

    def __init__(self, layout: IndexArray) -> None:
        self.size, self.channels, order = layout.size, layout.shape[1], layout.T
        #: None where they are in this order already.
        self._order = None if np.array_equal(order, positions(order.shape)) else order.reshape(-1)

    def spread(self, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Numbers of channels (channels,) for every element of an item."""
        repeated = np.repeat(values, self.size // self.channels)
        if self._order is None:
            return repeated
        result = np.empty_like(repeated)
        result[self._order] = repeated
        return result

    def apart(self, values: Float32Array) -> Float32Array:
        """Values (items, elements) as (items, channels, positions)."""
        ordered = values if self._order is None else values[:, self._order]
        return ordered.reshape(len(values), self.channels, -1)


class ChannelHistograms:
    """Magnitudes of tensors, counted channel by channel where channels may be scaled by factors of their own.

    Which factors these are is chosen by the same pass over the samples, so they are applied to the counts: a power of
    two moves them by whole bins. count: of the calibration samples.
    """

    def __init__(
        self, tensors: Mapping[str, ArrayTensor], by_channel: bool, count: int, grouping: Grouping | None = None
    ) -> None:
        self.names = sorted(tensors)
        self.samples = count
        grouping = grouping or Grouping()
        self._counts = {name: _ChannelCounts(tensors[name], by_channel, grouping) for name in self.names}

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for name in self.names:
            self._counts[name].add(values[name])

    def histogram(self, name: str, scale: Floats | None = None) -> Histogram:
        """The histogram of a tensor. scale: the binary logarithm of what each channel is scaled by."""
        return self._counts[name].histogram(scale)

    def channels(self, name: str) -> ChannelCounts:
        """The counts of a tensor's channels, one for all of them where they were not counted apart."""
        return self._counts[name].channel_counts()


@dataclass(frozen=True)
class ChannelCounts:
    """Magnitudes of a tensor by channel.

    counts: (channels, bins); centers: (bins,) of the bins, rising; peaks: (samples, channels) largest magnitudes.
    Values too small for every exponent are not counted.
    """

    counts: npt.NDArray[np.uint32]
    centers: Floats
    peaks: Float32Array


class _ChannelCounts:
    """Counts of one tensor, a row for each of its channels or one for all."""

    def __init__(self, tensor: ArrayTensor, by_channel: bool, grouping: Grouping) -> None:
        self.name, self.tensor, self.grouping, self.seen = tensor.name, tensor, grouping, 0
        layout = grouping.layout(tensor) if by_channel else positions((tensor.layout.size // grouping.size, 1))
        self.channels, self.order = layout.shape[1], ChannelOrder(layout)
        #: (elements,): where the row of an element begins.
        self.rows = self.order.spread(np.arange(self.channels, dtype=np.int32) * (KEPT_BINS + 1))
        #: (channels, bins): the bins below the kept ones, then ``KEPT_BINS`` up to ``top``. No cell counts 2^32 values.
        self.counts = np.zeros((self.channels, KEPT_BINS + 1), np.uint32)
        #: (samples, channels) of each batch: the largest magnitudes.
        self.peaks: list[Float32Array] = []
        self.top = 0
        #: What ``_together`` found last, and of which groups.
        self._groups: tuple[IndexArray, list[tuple[Float32Array, npt.NDArray[np.int64]]]] | None = None

    def add(self, values: Float32Array) -> None:
        self._groups = None
        magnitude = self.grouping.apart(values, self.tensor, self.seen)
        if not len(magnitude):
            return
        self.seen += len(magnitude)
        top = int(magnitude.view(np.int32).max())
        if top >= INFINITE:
            raise ModelError(
                f"value {self.name} is infinite or NaN on the calibration samples: it leaves the range of float32, so "
                "its exponent cannot be found; scale the weights before it, or the samples"
            )
        self.peaks.append(self.order.apart(magnitude).max(axis=2))
        self._raise(top >> BIN_SHIFT)
        for start in range(0, magnitude.shape[1], max(1, CACHED // len(magnitude))):
            part = slice(start, start + max(1, CACHED // len(magnitude)))
            self._count(magnitude[:, part], self.rows[part])

    def _count(self, magnitude: Float32Array, rows: npt.NDArray[np.int32]) -> None:
        """Count magnitudes (items, elements) whose rows begin at ``rows``."""
        cells = magnitude.view(np.int32) >> BIN_SHIFT
        cells -= self.top - KEPT_BINS
        np.maximum(cells, 0, out=cells)
        cells += rows
        cells = cells.reshape(-1)
        # A single count costs several times as much as a word of a whole table.
        low, high = int(rows.min()), int(rows.max()) + KEPT_BINS + 1
        if cells.size < (high - low) // 4:
            np.add.at(self.counts.reshape(-1), cells, 1)
        else:
            cells -= low
            self.counts.reshape(-1)[low:high] += np.bincount(cells, minlength=high - low).astype(np.uint32)

    def _raise(self, top: int) -> None:
        """Make the kept bins end with ``top``, if they do not already."""
        moved = min(top - self.top, KEPT_BINS)
        if moved > 0:
            kept = np.zeros_like(self.counts)
            kept[:, 1 : KEPT_BINS + 1 - moved] = self.counts[:, 1 + moved :]
            self.counts = kept
        self.top = max(top, self.top)

    def channel_counts(self) -> ChannelCounts:
        """The counts without those below the kept bins, and without bins that no channel fills."""
        filled = np.flatnonzero(self.counts[:, 1:].any(axis=0))
        bins = (filled + (self.top - KEPT_BINS + 1)).astype(np.uint32)
        centers = ((bins << BIN_SHIFT) + (1 << BIN_SHIFT - 1)).view(np.float32).astype(np.float64)
        return ChannelCounts(self.counts[:, 1 + filled], centers, np.concatenate(self.peaks))

    def histogram(self, scale: Floats | None) -> Histogram:
        """The counts of all channels together, the bins of each moved as its factor 2^scale requires.

        Where channels were not counted apart, all have the same factor.
        """
        scale = np.zeros(self.channels) if scale is None else scale[: self.channels]
        factors = np.exp2(scale.astype(np.float32))
        peaks = (np.concatenate(self.peaks) * factors).max(axis=1)
        result = Histogram(np.zeros(BINS, np.int64), peaks.astype(np.float64))
        values, member = np.unique(factors, return_inverse=True)
        for factor, (center, counts) in zip(values, self._together(member), strict=True):
            np.add.at(result.counts, (center * factor).view(np.uint32) >> BIN_SHIFT, counts)
        return result

    def _together(self, member: npt.NDArray[np.int64]) -> list[tuple[Float32Array, npt.NDArray[np.int64]]]:
        """Centers of the bins that channels of each group fill, and how often; member: the group of each channel.

        Factors of whole tensors leave the groups as they are, so those of the last call are kept.
        """
        if self._groups is None or not np.array_equal(self._groups[0], member):
            found = []
            for group in range(int(member.max()) + 1):
                counts = self.counts[member == group, 1:].sum(axis=0, dtype=np.int64)
                filled = np.flatnonzero(counts)
                bins = (filled + (self.top - KEPT_BINS + 1)).astype(np.uint32)
                center = ((bins << BIN_SHIFT) + (1 << BIN_SHIFT - 1)).view(np.float32)
                found.append((center, counts[filled]))
            self._groups = member, found
        return self._groups[1]


def exponent_without_overflow(largest: float, form: BlockFormat) -> int:
    """The smallest exponent at which ``largest`` is not saturated by more than rounding (BFP equations 2 to 4)."""
    if largest <= 0:
        return form.exponent_min
    _, power = np.frexp(largest)
    exponent = int(power) - 1 - (form.mantissa_bits - 2)
    return int(np.clip(exponent, form.exponent_min, form.exponent_max))


def best_exponent(histogram: Histogram, form: BlockFormat, method: str = "mse") -> int:
    """The static exponent of a tensor: ``max``, so that few samples saturate, or ``mse``, the least squared error.

    Both look beyond the calibration samples, by the tail of these. Wide mantissas can spare bits for the rarest.
    """
    wide = form.mantissa_bits >= WIDE_BITS
    top = exponent_without_overflow(histogram.tail.reach(BEYOND_WIDE if wide else BEYOND), form)
    if wide:
        spared = min(exponent_without_overflow(histogram.largest, form) + 1, form.exponent_max)
        return max(top, spared)
    if method == "max" or histogram.largest <= 0:
        return top
    candidates = range(max(top - CANDIDATES + 1, form.exponent_min), min(top + 1, form.exponent_max) + 1)
    return min(reversed(candidates), key=lambda exponent: expected_error(histogram, exponent, form.mantissa_max))


def expected_error(histogram: Histogram, exponent: int, mantissa_max: int) -> float:
    """Squared error of a sample at ``exponent``: of the calibration samples in the mean, and what the tail adds."""
    counted = histogram.squared_error(exponent, mantissa_max) / len(histogram.peaks)
    return counted + histogram.tail.squared_excess(mantissa_max * 2.0**exponent)


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


def worst_case(layer: Layer, inputs: list[float]) -> float:
    """The largest magnitude a layer can give when its inputs reach ``inputs`` (BFP R35)."""
    if layer.kind != "gemm" or layer.weights is None:
        if layer.kind == "scale":
            return inputs[0] * inputs[1]
        if layer.operand is not None:
            return layer.operand.terms * inputs[0] * inputs[1]
        if layer.rows is not None:
            return _worst_row(layer, layer.rows, inputs)
        return sum(inputs) if layer.kind == "sum" else max(inputs)
    sums = np.abs(layer.weights).reshape(len(layer.weights), -1).sum(axis=1) * inputs[0]
    if layer.bias is not None:
        sums = sums + np.abs(layer.bias)
    return float(sums.max())


def _worst_row(layer: Layer, rows: RowPart, inputs: list[float]) -> float:
    """The same of rows: no element is further from the mean than the deviation times the root of their number."""
    if rows.scale is None:
        return inputs[0] * inputs[1] if rows.operation is RowOperation.PRODUCT else 1.0
    largest = np.sqrt(layer.channels) * np.abs(rows.scale)
    return float((largest if layer.bias is None else largest + np.abs(layer.bias)).max())
