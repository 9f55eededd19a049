"""Channel shifts: each channel of a tensor may be scaled by a power of two of its own.

A block has one exponent, so a channel of small values next to one of large values keeps few bits. Row exponents of the
weights are free to choose: the layer that gives a channel multiplies it by 2^k at no cost, and the layers that read it
divide their weights for it by 2^k. ReLU and its leaky form, maxima, averages and additions pass the factor on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import UNSCALED, ArrayTensor, IndexArray, Layer, Lowered
from bfpga.compiler.numbers.calibrate import ChannelOrder, Grouping
from bfpga.compiler.numbers.tail import channel_reach
from bfpga.compiler.numbers.values import Float32Array, within_squares
from bfpga.formats.block_format import BlockFormat

Floats = npt.NDArray[np.float64]
#: Samples whose channel ranges are taken.
SAMPLES = 96
#: Largest shift in either direction; channels seen to be smaller than 2^-LIMIT of the range are treated as that large.
LIMIT = 5
#: A channel may be this much larger on other data than on the calibration samples; and as large as all but this share
#: of the samples leave it, by the tail of those that were seen.
MARGIN = 1.25
BEYOND = 1 / 1000
ROUNDS = 4
#: Shifts that cost the readers' weights bits must at least halve the expected error: smaller gains are not certain.
GAIN = 0.5


@dataclass
class ChannelRange:
    """Largest magnitude and mean square of every channel of a tensor.

    reach: what a channel may come to on other data; infinity: unknown. None: ``MARGIN`` times its largest.
    """

    largest: Floats
    square: Floats
    reach: Floats | None = None

    @property
    def expected(self) -> Floats:
        """The magnitude that is expected of every channel, at most ``MARGIN`` times the largest of all channels."""
        seen = self.largest * MARGIN
        reach = seen if self.reach is None else np.maximum(seen, self.reach)
        return np.asarray(np.minimum(reach, seen.max(initial=0.0)))


class ChannelRanges:
    """Ranges of every channel of tensors on the first calibration samples. count: of all of these."""

    def __init__(self, tensors: Iterable[ArrayTensor], count: int, grouping: Grouping | None = None) -> None:
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self.names = list(self._tensors)
        size = (grouping or Grouping()).size
        items = min(SAMPLES, count * size if grouping is None or grouping.items is None else grouping.items)
        self.grouping, self.samples, self._items = Grouping(size, items), -(-items // size), items
        self._seen = dict.fromkeys(self.names, 0)
        self.found = {
            name: ChannelRange(np.zeros(item.channels), np.zeros(item.channels)) for name, item in self._tensors.items()
        }

        self._orders = {name: ChannelOrder(self.grouping.layout(item)) for name, item in self._tensors.items()}
        self._peaks: dict[str, list[Float32Array]] = {name: [] for name in self._tensors}

    def range(self, name: str) -> ChannelRange:
        """The range of every channel of a tensor, once all samples were added."""
        found = self.found[name]
        found.reach = channel_reach(np.concatenate(self._peaks[name]), BEYOND)
        return found

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for name in self.names:
            magnitude = self.grouping.apart(values[name], self._tensors[name], self._seen[name])
            if not len(magnitude):
                continue
            self._seen[name] += len(magnitude)
            by_channel = self._orders[name].apart(magnitude)
            peaks = by_channel.max(axis=2)
            self._peaks[name].append(peaks)
            found = self.found[name]
            found.largest = np.maximum(found.largest, peaks.max(axis=0))
            numbers, factor = within_squares(by_channel)
            squares = np.square(numbers).sum(axis=(0, 2), dtype=np.float64) * factor**2
            found.square += squares / self._items / by_channel.shape[2]


@dataclass
class Reader:
    """A matrix layer that reads a tensor.

    power: sum of its squared weights for each channel of the tensor; largest: (rows, inputs) largest weight over the
    taps; channel: (rows, inputs) the channel they multiply; taps: their number.
    """

    power: Floats
    largest: Floats
    channel: IndexArray
    taps: int

    @property
    def free(self) -> bool:
        """Whether the weights of one row multiply one channel only: the row's exponent absorbs any shift."""
        return bool(self.channel.shape[1] == 1)

    @property
    def whole(self) -> bool:
        """Whether every row multiplies all channels, in their order."""
        return self.channel.shape[1] == len(self.power)


@dataclass
class Family:
    """Tensors that must share their shifts, because additions or maxima tie them."""

    tensors: set[str]
    scalable: bool = True
    readers: list[Layer] = field(default_factory=list)


def equalize(lowered: Lowered, ranges: ChannelRanges, form: BlockFormat) -> dict[str, IndexArray]:
    """Choose channel shifts by tensor name, and move them into the layers' weights and biases.

    ranges: of the tensors of ``scalable_families``.
    """
    shifts: dict[str, IndexArray] = {}
    for family in scalable_families(lowered):
        members = [ranges.range(name) for name in sorted(family.tensors)]
        together = ChannelRange(
            np.max([item.largest for item in members], axis=0),
            np.max([item.square for item in members], axis=0),
            np.max([item.expected for item in members], axis=0),
        )
        readers = [_reader(layer, len(together.largest)) for layer in family.readers]
        shift = choose_shifts(together, readers, form)
        if shift.any():
            shifts.update(dict.fromkeys(family.tensors, shift))
    for layer in lowered.layers:
        move_shifts(layer, shifts)
    return shifts


def scalable_families(lowered: Lowered) -> list[Family]:
    """Tensors whose channels may be scaled by powers of two, those that must share their shifts together."""
    return [family for family in _families(lowered) if family.scalable]


def _families(lowered: Lowered) -> list[Family]:
    owner = {name: Family({name}) for name in lowered.tensors}
    for layer in lowered.layers:
        if layer.kind in ("max", "sum"):
            whole = all(lowered.tensors[name].channels == layer.channels for name in (*layer.inputs, layer.output))
            merged = _merge(owner, (*layer.inputs, layer.output) if whole else ())
            for family in [merged] if merged else [owner[name] for name in (*layer.inputs, layer.output)]:
                family.scalable &= whole and layer.function.row.homogeneous
    for name, tensor in lowered.tensors.items():
        fixed = tensor.remainder or tensor.constant is not None or name in lowered.exact
        owner[name].scalable &= not fixed
    for layer in lowered.layers:
        if layer.kind in UNSCALED:
            for name in (*layer.inputs, layer.output):
                owner[name].scalable = False
        elif layer.kind == "gemm":
            owner[layer.output].scalable &= layer.function.row.homogeneous
            owner[layer.inputs[0]].readers.append(layer)
    return list({id(family): family for family in owner.values()}.values())


def _merge(owner: dict[str, Family], names: Iterable[str]) -> Family | None:
    families = list({id(owner[name]): owner[name] for name in names}.values())
    if not families:
        return None
    first = families[0]
    for other in families[1:]:
        first.tensors |= other.tensors
        first.scalable &= other.scalable
        for name in other.tensors:
            owner[name] = first
    return first


def _reader(layer: Layer, channels: int) -> Reader:
    assert layer.weights is not None
    weights = np.asarray(layer.weights, np.float64).reshape(layer.channels, -1, layer.weights.shape[3])
    channel = input_channels(layer)
    power = np.bincount(channel.ravel(), (weights**2).sum(axis=1).ravel(), channels)
    return Reader(np.asarray(power, np.float64), np.abs(weights).max(axis=1), channel, weights.shape[1])


def input_channels(layer: Layer) -> IndexArray:
    """(output channels, inputs of a group): the input channel that each weight multiplies."""
    assert layer.weights is not None
    inputs = int(layer.weights.shape[3])
    group = np.arange(layer.channels) // (layer.channels // layer.groups)
    return np.asarray(group[:, None] * inputs + np.arange(inputs), np.int64)


def choose_shifts(ranges: ChannelRange, readers: list[Reader], form: BlockFormat) -> IndexArray:
    """The shifts with the least expected squared error at the readers' outputs, relative to their size.

    Two errors work against each other: an amplified channel is rounded more finely, but its readers' weights become
    smaller and are rounded more coarsely than the others of their row. Tries several ranges, the largest channels of
    which are then attenuated.
    """
    top = float(ranges.largest.max(initial=0.0))
    if top <= 0:
        return np.zeros(len(ranges.largest), np.int64)
    seen = np.maximum(ranges.expected, top * 2.0**-LIMIT)
    best, best_cost = np.zeros(len(seen), np.int64), np.inf
    for reduction in range(LIMIT + 1):
        limit = np.floor(np.log2(top * MARGIN * 2.0**-reduction / seen)).astype(np.int64)
        step = top * 2.0**-reduction / form.mantissa_max
        shift, cost = _refine(limit, step, ranges, readers, form)
        if cost < best_cost * (1 - 1e-6):
            best, best_cost = shift, cost
    if all(reader.free for reader in readers):
        return best
    none = np.zeros_like(best)
    return best if _cost(best, ranges, readers, form) < GAIN * _cost(none, ranges, readers, form) else none


def _refine(
    limit: IndexArray, step: float, ranges: ChannelRange, readers: list[Reader], form: BlockFormat
) -> tuple[IndexArray, float]:
    """Shifts up to ``limit`` for one step of the activations, refined as the weights' steps follow; their cost."""
    limit = np.clip(limit, -LIMIT, LIMIT)
    known: dict[bytes, tuple[Floats, Floats]] = {}

    def errors(shift: IndexArray) -> tuple[Floats, Floats]:
        key = shift.tobytes()
        if key not in known:
            known[key] = _errors(shift, step, ranges, readers, form)
        return known[key]

    candidates = [limit, np.minimum(limit, 0)]
    shift = np.minimum(limit, 0)
    for _ in range(ROUNDS):
        rounding, weighing = errors(shift)
        with np.errstate(divide="ignore", invalid="ignore"):
            ideal = np.where(weighing > 0, 0.25 * np.log2(rounding / weighing), np.inf)
        ideal = np.where(np.isnan(ideal), 0, ideal)
        shift = np.minimum(limit, np.rint(np.clip(ideal, -LIMIT, LIMIT)).astype(np.int64))
        candidates.append(shift)
    costs = []
    for candidate in candidates:
        rounding, weighing = errors(candidate)
        factor = np.exp2(2.0 * candidate)
        costs.append(float((rounding / factor + weighing * factor).sum()))
    best = int(np.argmin(costs))
    return candidates[best], costs[best]


def _cost(shift: IndexArray, ranges: ChannelRange, readers: list[Reader], form: BlockFormat) -> float:
    """The readers' expected error when the step follows from the largest shifted channel."""
    step = float((ranges.largest * np.exp2(shift.astype(np.float64))).max()) / form.mantissa_max
    rounding, weighing = _errors(shift, step, ranges, readers, form)
    factor = np.exp2(2.0 * shift)
    return float((rounding / factor + weighing * factor).sum())


def _errors(
    shift: IndexArray, step: float, ranges: ChannelRange, readers: list[Reader], form: BlockFormat
) -> tuple[Floats, Floats]:
    """For each channel the readers' error of rounded activations and of rounded weights, both before any shift."""
    channels = len(shift)
    rounding, weighing = np.zeros(channels), np.zeros(channels)
    if not readers:
        return np.full(channels, step * step), weighing
    for reader in readers:
        size = float((reader.power * ranges.square).sum())
        if size <= 0:
            continue
        rounding += reader.power * step * step / size
        if not reader.free:
            factor = np.exp2(-shift.astype(np.float64))
            scaled = reader.largest * (factor if reader.whole else factor[reader.channel])
            error = (scaled.max(axis=1) / form.mantissa_max) ** 2 * reader.taps / size
            if reader.whole:
                weighing += np.cumsum(error)[-1] * ranges.square  # added one after the other, as below
                continue
            met = np.broadcast_to(error[:, None], reader.channel.shape)
            weighing += np.bincount(reader.channel.ravel(), met.ravel(), channels) * ranges.square
    return rounding, weighing


def move_shifts(layer: Layer, shifts: Mapping[str, IndexArray] | Mapping[str, Floats]) -> None:
    """Divide a layer's weights by its input's shifts and multiply its rows by its output's.

    shifts: binary logarithms of the channels' factors by tensor.
    """
    if layer.kind != "gemm":
        return
    assert layer.weights is not None
    weights = np.asarray(layer.weights, np.float64)
    if layer.inputs[0] in shifts:
        factor = np.exp2(-shifts[layer.inputs[0]].astype(np.float64))[input_channels(layer)]
        weights = weights * factor[:, None, None, :]
    if layer.output in shifts:
        part = slice(layer.channel_offset, layer.channel_offset + layer.channels)
        factor = np.exp2(shifts[layer.output][part].astype(np.float64))
        weights = weights * factor[:, None, None, None]
        layer.bias = None if layer.bias is None else layer.bias * factor
    layer.weights = weights
