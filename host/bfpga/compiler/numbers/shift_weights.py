"""Weights of shift units: rows of integers that are powers of two or sums of two, each row with its exponent.

The nearest integer and the scale of a row are those of ``formats.logarithmic_encoder``. Where samples show how the
inputs of a layer go together, the error of one weight is compensated by the weights after it: then not the weights come
closest to the float ones, but the sums they give. That serves linear weights too.
"""

from __future__ import annotations

import functools

import numpy as np

from bfpga.contract.configuration import SHIFT_MODES, KernelConfig, WeightFormat
from bfpga.formats.arrays import BoolArray, FloatArray, IntArray
from bfpga.formats.logarithmic_encoder import Grid, encode, grid

#: Part of the inputs' mean power that is added to the power of each: inputs that the samples never showed.
DAMPING = 0.01
#: Terms that are rounded before their errors reach all later terms, as one matrix product.
_TERMS = 32
#: Rows are scaled so that the encoder's limits on scales (SM 2.1) are never reached.
_LARGEST_BITS = 8


def shift_grid(config: KernelConfig, weight_format: WeightFormat) -> Grid:
    """Integers that weights of a format may be on an array, and the thresholds between them."""
    assert config.shift is not None
    return grid(config.shift, SHIFT_MODES[weight_format], "linear", config.largest_weight(weight_format))


def linear_grid(config: KernelConfig) -> Grid:
    """All integers that linear weights may be on an array; of two that are equally near the lower one is taken."""
    values = np.asarray(representable_integers(config, "linear"), np.int64)
    return Grid(values, values, (values[:-1] + values[1:]) / 2)


def representable_integers(config: KernelConfig, weight_format: WeightFormat) -> IntArray:
    """Sorted integers that weights of a format may be on an array."""
    if weight_format == "linear":
        largest = config.largest_weight(weight_format)
        return np.arange(-largest, largest + 1)
    return shift_grid(config, weight_format).values


def nearest(choice: Grid, y: FloatArray) -> IntArray:
    """The nearest integer to each number; of two that are equally near the smaller magnitude (SM 2.5)."""
    return choice.values[np.searchsorted(choice.last, y)]


def shift_exponents(weights: FloatArray, config: KernelConfig, weight_format: WeightFormat) -> IntArray:
    """For each row (rows, terms) the exponent, among 16, at which the integers fit its weights best (SM 2.5)."""
    assert config.shift is not None
    bound = config.largest_weight(weight_format)
    largest = np.abs(weights).max(axis=1, initial=0.0)
    # Row maxima are in [1/2, 1) times 2**(bits of the bound - 8), so that the best scale is about 2**8.
    normal = np.frexp(np.where(largest > 0, largest, 1.0))[1].astype(np.int64) - bound.bit_length() + _LARGEST_BITS
    scaled = np.ldexp(weights, -normal[:, None])
    encoded = encode(scaled, config.shift, SHIFT_MODES[weight_format], per_channel=True, largest=bound)
    exponents = normal - encoded.weight_frac
    used = largest > 0
    exponents = np.where(used, exponents, exponents[used].max() if used.any() else 0)
    return np.clip(exponents, config.format.exponent_min, config.format.exponent_max)


class Moments:
    """Second moments of what the rows of a layer read: the mean of x x^T over samples, for each group of channels.

    matrix: (groups, terms, terms). What the rounding needs of it is computed once.
    """

    def __init__(self, matrix: FloatArray) -> None:
        self.matrix = np.asarray(matrix, np.float64)

    def power(self, weights: FloatArray) -> FloatArray:
        """Mean square of the sums that rows (rows, terms) of weights give, (rows,)."""
        grouped = weights.reshape(len(self.matrix), -1, weights.shape[1])
        return np.asarray((np.matmul(grouped, self.matrix) * grouped).sum(axis=2).reshape(-1))

    @functools.cached_property
    def order(self) -> IntArray:
        """(groups, terms): terms by their power, the strongest first."""
        return np.argsort(-np.einsum("gii->gi", self.matrix), axis=1, kind="stable")

    @functools.cached_property
    def inverse_factor(self) -> FloatArray:
        """The upper triangular U with U^T U = (matrix + damping)^-1, terms in ``order``."""
        lead = np.arange(len(self.matrix))[:, None, None]
        ordered = self.matrix[lead, self.order[:, :, None], self.order[:, None, :]]
        terms = ordered.shape[-1]
        mean = np.einsum("gii->g", ordered) / terms
        damping = np.where(mean > 0, DAMPING * mean, 1.0)
        inverse = np.linalg.inv(ordered + damping[:, None, None] * np.eye(terms))
        return np.asarray(np.linalg.cholesky((inverse + inverse.transpose(0, 2, 1)) / 2).transpose(0, 2, 1))


def shift_integers(
    scaled: FloatArray, config: KernelConfig, weight_format: WeightFormat, moments: Moments | None = None
) -> IntArray:
    """Integers for weights (rows, terms) that are in units of their rows' exponents; nearest ones without moments."""
    choice = shift_grid(config, weight_format)
    return nearest(choice, scaled) if moments is None else compensated(choice, scaled, moments)


def compensated_integers(
    scaled: FloatArray, config: KernelConfig, weight_format: WeightFormat, moments: Moments
) -> IntArray:
    """Integers of any format, linear ones too, for weights (rows, terms) that compensate each other's errors.

    Zeros stay zeros where these take no time.
    """
    choice = linear_grid(config) if weight_format == "linear" else shift_grid(config, weight_format)
    return compensated(choice, scaled, moments, config.array.zeros == "weights")


def compensated(choice: Grid, scaled: FloatArray, moments: Moments, keeps_zeros: bool = False) -> IntArray:
    """Integers for rows (rows, terms) whose sums come close to those of ``scaled``.

    Term by term, the strongest inputs first, the nearest integer is taken, and the terms that follow are moved so that
    the expected squared error of the sum is least: the optimal brain surgeon, applied to one weight after the other.
    keeps_zeros: of zeros, none other than zero is taken.
    """
    order, upper = moments.order, moments.inverse_factor
    groups, terms = order.shape
    left = np.take_along_axis(scaled.reshape(groups, -1, terms), order[:, None, :], axis=2)
    free = (left != 0) | (not keeps_zeros)
    result = np.empty(left.shape, np.int64)
    for start in range(0, terms, _TERMS):
        part = slice(start, min(start + _TERMS, terms))
        result[:, :, part], errors = _compensated_part(choice, left[:, :, part], upper[:, part, part], free[:, :, part])
        left[:, :, part.stop :] -= np.matmul(errors, upper[:, part, part.stop :])
    back = np.argsort(order, axis=1)
    return np.take_along_axis(result, back[:, None, :], axis=2).reshape(scaled.shape)


def _compensated_part(
    choice: Grid, left: FloatArray, upper: FloatArray, free: BoolArray
) -> tuple[IntArray, FloatArray]:
    """The same for a few terms (groups, rows, terms): integers, and the errors that later terms compensate.

    free: which integers may be others than zero.
    """
    # Terms first: what is computed together is then contiguous.
    left, factors = np.ascontiguousarray(left.transpose(2, 0, 1)), upper.transpose(1, 2, 0)[..., None]
    free = np.ascontiguousarray(free.transpose(2, 0, 1))
    integers, errors = np.empty(left.shape, np.int64), np.empty(left.shape)
    for term, values in enumerate(left):
        integers[term] = nearest(choice, values) * free[term]
        errors[term] = (values - integers[term]) / factors[term, term]
        left[term + 1 :] -= errors[term] * factors[term, term + 1 :]
    return integers.transpose(1, 2, 0), np.ascontiguousarray(errors.transpose(1, 2, 0))
