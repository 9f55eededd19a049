"""Factors of single channels between powers of two, so that each channel fills the mantissas as the largest one does.

``equalize`` stores channels times powers of two, so the largest value of a channel still uses between half and all of
what the tensor's exponent offers. The rest is filled up here: the layers that give a channel multiply by its factor,
the layers that read it divide their weights by it, and a row's weights move by less than one bit against each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.numbers.calibrate import ChannelCounts, ChannelHistograms
from bfpga.compiler.numbers.equalize import Family, move_shifts
from bfpga.compiler.numbers.tail import channel_tails
from bfpga.formats.arrays import Float64Array
from bfpga.formats.block_format import BlockFormat

#: Factors from one power of two to the next; as few as this, so that channels with the same factor are many.
STEPS = 8
#: Ends of a channel's mantissas that are tried: quarters of a power of two, relative to its largest value.
ENDS = np.arange(-12, 5) / 4


def fill_channels(
    lowered: Lowered,
    families: Collection[Family],
    histograms: ChannelHistograms,
    scales: Mapping[str, Float64Array],
    form: BlockFormat,
) -> dict[str, Float64Array]:
    """Choose a factor for every channel of the families and move it into weights and biases.

    scales: binary logarithms of what channels are scaled by so far. Returns the binary logarithms of the factors
    (channels,) by tensor, between 0 and 1. Families next to an average have none: all its weights must stay equal.
    """
    result: dict[str, Float64Array] = {}
    for family in families:
        if _adjacent_to_average(family, lowered.layers):
            continue
        factors = _factors(family, histograms, scales, form)
        if factors is not None and factors.any():
            result.update(dict.fromkeys(family.tensors, factors))
    for layer in lowered.layers:
        move_shifts(layer, result)
    return result


def _adjacent_to_average(family: Family, layers: Collection[Layer]) -> bool:
    return any(
        layer.uniform_weights and (layer.output in family.tensors or set(layer.inputs) & family.tensors)
        for layer in layers
    )


def _factors(
    family: Family, histograms: ChannelHistograms, scales: Mapping[str, Float64Array], form: BlockFormat
) -> Float64Array | None:
    """Binary logarithms of a family's factors; None where its channels were not counted apart."""
    ends = []
    for name in sorted(family.tensors):
        counts = histograms.channels(name)
        if len(counts.counts) < 2:
            return None
        ends.append(best_ends(counts, form.mantissa_max) * np.exp2(scales.get(name, 0.0)))
    end = np.max(ends, axis=0)
    room = np.log2(end.max(initial=0.0) / np.where(end > 0, end, 1.0), where=end > 0, out=np.zeros(len(end)))
    return np.asarray(np.floor(np.clip(room, 0, 1 - 1 / STEPS) * STEPS) / STEPS)


@dataclass(frozen=True)
class _Sums:
    """Of each channel's values up to each bin: how many there are, and their first and second powers; (channels, bins).

    The first column is of no bin.
    """

    centers: Float64Array
    powers: tuple[Float64Array, Float64Array, Float64Array]

    @staticmethod
    def of(counts: ChannelCounts) -> _Sums:
        numbers = counts.counts.astype(np.float64)

        def sums(values: Float64Array) -> Float64Array:
            result = np.zeros((len(values), values.shape[1] + 1))
            np.cumsum(values, axis=1, out=result[:, 1:])
            return result

        powers = sums(numbers), sums(numbers * counts.centers), sums(numbers * counts.centers**2)
        return _Sums(counts.centers, powers)

    def below(self, limits: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        """The three sums over values below a limit of each channel."""
        index = np.searchsorted(self.centers, limits)[:, None]
        first, second, third = (np.take_along_axis(item, index, axis=1)[:, 0] for item in self.powers)
        return first, second, third


def best_ends(counts: ChannelCounts, mantissa_max: int) -> Float64Array:
    """For each channel the magnitude of the largest mantissa with the least squared error; 0 for channels of zeros.

    Values below half a step become zero, those between it and the end are rounded, those beyond it saturate; beyond the
    calibration samples a channel's tail predicts.
    """
    sums, tails = _Sums.of(counts), channel_tails(counts.peaks)
    all_values = tuple(item[:, -1] for item in sums.powers)
    largest = np.asarray(counts.peaks.max(axis=0), np.float64)
    ends = largest * np.exp2(ENDS)[:, None]
    errors = []
    for end in ends:
        step = end / mantissa_max
        zeros, inside = sums.below(step / 2), sums.below(end)
        number, first, second = (whole - part for whole, part in zip(all_values, inside, strict=True))
        saturated = second - 2 * end * first + end**2 * number
        error = zeros[2] + step**2 / 12 * (inside[0] - zeros[0]) + saturated
        errors.append(error / len(counts.peaks) + tails.squared_excess(end))
    best: Float64Array = np.take_along_axis(ends, np.argmin(errors, axis=0)[None], axis=0)[0]
    return best
