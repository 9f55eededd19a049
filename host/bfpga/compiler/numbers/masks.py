"""The numbers of masked scores: exponents and constants with which a Softmax gives exactly zero where a mask says so.

The sum of scores and mask has one exponent, and a masked element has to be far below the largest one of its row. Three
things keep that from costing mantissas that the scores need:

* Masked elements saturate: two sums with the lowest number take each of them to the lowest mantissa, whatever it was.
* Only the largest elements of the rows have to be far from it. What is as low as masked elements is as good as masked.
* A Softmax does not change when a row is moved: the largest elements are moved towards the highest number. Of a row of
  which one element is seen, that one is moved there, whatever it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log2

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, Layer, Lowered, RowMask
from bfpga.compiler.numbers.calibrate import BEYOND, ChannelHistograms, best_exponent
from bfpga.compiler.numbers.values import Float32Array
from bfpga.contract.rows import KEPT_FRACTION, MANTISSA_BITS, POSITION, RowOperation
from bfpga.engines.rows.arithmetic import power_scale
from bfpga.formats.arrays import Float64Array
from bfpga.formats.block_format import BlockFormat

#: Mantissas of 8 bits that reach further are steps of more than 4: nothing is left of scores.
FARTHEST_SCORE = 512.0


@dataclass(frozen=True)
class MaskedSum:
    """The layers that add a constant mask to scores, one after the other.

    constants: of both; one tensor where the first adds nothing to what is seen.
    """

    layers: tuple[Layer, Layer]
    constants: tuple[ArrayTensor, ArrayTensor]
    mask: RowMask

    @property
    def scores(self) -> str:
        """What the mask is added to."""
        return self.layers[0].inputs[0]

    @property
    def output(self) -> str:
        """Scores with their mask."""
        return self.layers[1].output

    @property
    def shared(self) -> bool:
        return self.constants[0] is self.constants[1]


def masked_sums(lowered: Lowered) -> list[MaskedSum]:
    """All of them."""
    made = {layer.output: layer for layer in lowered.layers if layer.kind == "sum"}
    found = []
    for second in made.values():
        first, mask = made.get(second.inputs[0]), lowered.tensors[second.inputs[0]].mask
        if first is not None and mask is not None:
            first_constant, second_constant = (lowered.tensors[layer.inputs[1]] for layer in (first, second))
            found.append(MaskedSum((first, second), (first_constant, second_constant), mask))
    return found


class RowMaxima:
    """The largest elements of masked rows of which more than one element is seen. count: of the samples."""

    def __init__(self, sums: Sequence[MaskedSum], count: int) -> None:
        self.names = sorted(item.output for item in sums)
        self.samples = count
        self._masks = {item.output: item.mask for item in sums}
        self._extremes: dict[str, list[float]] = {name: [] for name in self.names}

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for name in self.names:
            mask = self._masks[name]
            elements = np.where(mask.masked.reshape(-1), -np.inf, values[name].reshape(len(values[name]), -1))
            found = elements[:, mask.rows[~mask.single]].max(axis=2)
            self._extremes[name] += [float(found.min()), float(found.max())] if found.size else []

    def extremes(self, name: str) -> tuple[float, float]:
        """The smallest and the largest of them."""
        found = self._extremes[name] or [0.0]
        return min(found), max(found)


@dataclass(frozen=True)
class SeenRange:
    """What is known of the scores of a masked sum.

    exponent: of their mantissas. least, most: of the largest elements of its rows, mask included.
    """

    exponent: int
    least: float
    most: float


@dataclass(frozen=True)
class PlacedMask:
    """exponent: of both sums. constants: what they add, and the exponent of these."""

    exponent: int
    constants: tuple[Float64Array, Float64Array]
    constant_exponent: int


def seen_range(
    found: MaskedSum, histograms: ChannelHistograms, maxima: RowMaxima, form: BlockFormat, method: str
) -> SeenRange:
    """With what further samples are expected to exceed the calibration samples by. method: of the scores' exponent."""
    histogram = histograms.histogram(found.scores)
    beyond = histogram.tail.reach(BEYOND) - histogram.largest
    least, most = maxima.extremes(found.output)
    return SeenRange(best_exponent(histogram, form, method), least - beyond, most + beyond)


def vanishing_bits(length: int) -> int:
    """Of how many powers of two less than the largest of its row an exponential is nothing to its Softmax.

    The second product drops it, and a row of ``length`` of them is no step of a mantissa beside the largest element.
    """
    return max(KEPT_FRACTION, MANTISSA_BITS + ceil(log2(length)))


def vanishing_steps(exponent: int, length: int) -> int:
    """The same as a distance in mantissas of an exponent."""
    return -(-(vanishing_bits(length) << POSITION) // max(int(power_scale(exponent)), 1))


def placed_mask(found: MaskedSum, seen: SeenRange, form: BlockFormat) -> PlacedMask | None:
    """The finest exponent of sums with a mask, and the constants; None if no exponent has room for both.

    Whatever the scores are within their range, masked elements become zero.
    """
    length, added = found.mask.rows.shape[1], np.asarray(found.constants[0].constant, np.float64)
    for exponent in range(form.exponent_min, form.exponent_max + 1):
        # Operands are aligned to the larger exponent, so that constants of this one cost the scores nothing.
        own = max(exponent, seen.exponent)
        step, limit = 2.0**exponent, form.mantissa_max * 2.0**exponent
        grain = 2.0**own * (2 if found.shared else 1)
        # A step is for the rounding of the sum, half of one for that of the constant.
        spare = step + (grain / 2 if added.any() else 0.0)
        distance = vanishing_steps(exponent, length) * step
        moved = float(np.ceil((distance - limit - seen.least + spare) / grain)) * grain
        if max(moved + seen.most, distance - limit) <= limit:
            largest = form.mantissa_max * 2.0**own
            first, second = (moved / 2, moved / 2) if found.shared else (moved, 0.0)
            wanted = added + first, np.full(added.shape, second)
            constants = _written(found.mask, wanted[0], largest), _written(found.mask, wanted[1], largest)
            return PlacedMask(exponent, constants, own)
    return None


def _written(mask: RowMask, seen: Float64Array, largest: float) -> Float64Array:
    """The constant of a mask: the lowest number where it hides, the highest for what is seen alone in its row."""
    result = np.where(mask.masked, -largest, np.clip(seen, -largest, largest)).reshape(-1)
    alone = mask.rows[mask.single].reshape(-1)
    result[alone] = np.where(mask.masked.reshape(-1)[alone], -largest, largest)
    return result.reshape(seen.shape)


def unfit_masks(
    lowered: Lowered, histograms: ChannelHistograms, maxima: RowMaxima, form: BlockFormat, method: str
) -> dict[str, str]:
    """Sums that the host keeps with their Softmax, by operator, each with the reason."""
    result = {}
    for found in masked_sums(lowered):
        largest = histograms.histogram(found.scores).largest
        if found.mask.distance < 2 * largest + vanishing_bits(found.mask.rows.shape[1]) * log(2):
            reason = f"its scores, of up to {largest:.3g}, may reach over the mask"
        elif placed_mask(found, seen_range(found, histograms, maxima, form, method), form) is None:
            reason = "no exponent holds both its scores and its mask"
        else:
            continue
        result[found.layers[0].operators[0].name] = reason
    return result


def masked_by_inputs(lowered: Lowered, histograms: ChannelHistograms) -> dict[str, str]:
    """Operators around a Softmax whose scores reach further than scores do: a mask that samples bring is among them."""
    result = {}
    for layer in lowered.layers:
        softmax = layer.rows is not None and layer.rows.operation is RowOperation.SOFTMAX
        if not softmax or lowered.tensors[layer.inputs[0]].mask is not None:
            continue
        largest = histograms.histogram(layer.inputs[0]).largest
        if largest > FARTHEST_SCORE:
            sums = [made for made in lowered.layers if made.kind == "sum" and made.output == layer.inputs[0]]
            for operator in (item for made in (layer, *sums) for item in made.operators):
                result[operator.name] = f"its scores reach {largest:.3g} on the samples, as masks do that are computed"
    return result
