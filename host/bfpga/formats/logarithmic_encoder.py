"""Real weights as powers of two or sums of two: the nearest code, and the scale of a layer or a channel (SM 2.5).

A weight w is looked at as w * 2**weight_frac and gets the nearest integer of the format. Every number between two
neighbours' thresholds gets the same code, so one pass sorts all weights into the intervals between the thresholds of
all scales that are tried; count and sum of an interval then give the squared error of every scale.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.arrays import Float64Array, FloatArray, Int32Array, Int64Array, IntArray
from bfpga.formats.interval_search import IntervalSearch
from bfpga.formats.logarithmic import code_dtype, code_values, decode, decode_real
from bfpga.formats.shift_format import WEIGHT_FRAC_MAX, WEIGHT_FRAC_MIN, ShiftFormat, WeightMode

#: ``linear``: smallest error. ``log``: smallest ratio, the threshold between 2**k and 2**(k+1) is sqrt(2) * 2**k.
Nearest = Literal["linear", "log"]
#: ``least_squares``: smallest squared error of 16 scales. ``max``: the largest weight comes nearest the largest value,
#: from below.
ScaleRule = Literal["least_squares", "max"]

#: Scales that are tried, relative to the one of the ``max`` rule. A smaller scale helps where the finest octave is not
#: the last; a larger one clamps outliers.
_SCALE_OFFSETS = tuple(range(-4, 12))
#: Squared errors that differ by less than this part of the weights' power are equal: more is noise of summation.
_EQUAL_ERRORS = 1e-11
#: Weights are scaled by 2**(weight_frac + 8), which is never below one, so that no weight underflows.
_GUARD = -WEIGHT_FRAC_MIN
#: Elements looked at in one piece (they stay in a cache), and rows in one piece (so do their statistics).
_PIECE, _PIECE_ROWS = 1 << 16, 256
#: In place of the largest number below zero, whatever the floating point type.
_BELOW_ZERO = -math.ulp(0.0)


@dataclass(frozen=True)
class Grid:
    """What a mode can represent: ``values`` ascending, the lowest code of each, and the thresholds between them.

    last: the largest float64 that still goes to the lower of two neighbours. A tie goes to the smaller magnitude, and
    between -1 and 1 to the positive value.
    """

    values: Int64Array
    codes: npt.NDArray[Any]
    last: Float64Array

    @property
    def largest(self) -> int:
        return int(np.abs(self.values).max())


def _last_below_square_root(product: int) -> float:
    """The largest float64 whose square is not above ``product``."""
    root = math.sqrt(product)
    while Fraction(root) ** 2 > product:
        root = math.nextafter(root, 0)
    while Fraction(above := math.nextafter(root, math.inf)) ** 2 <= product:
        root = above
    return root


def _last_of_lower(low: int, high: int, nearest: Nearest) -> float:
    if nearest == "log" and low > 0:
        return _last_below_square_root(low * high)
    if nearest == "log" and high < 0:
        return -math.nextafter(_last_below_square_root(low * high), math.inf)
    # Sums of neighbours have less than 53 bits: the middle is exact.
    middle = (low + high) / 2
    return middle if middle > 0 else math.nextafter(middle, -math.inf)


@functools.lru_cache(maxsize=64)
def grid(fmt: ShiftFormat, mode: WeightMode, nearest: Nearest = "linear", largest: int | None = None) -> Grid:
    """Values, lowest codes and thresholds of a mode. largest: bound of the magnitudes, where not all may be used."""
    values, codes = np.unique(code_values(fmt, mode), return_index=True)
    if largest is not None:
        kept = np.abs(values) <= largest
        values, codes = values[kept], codes[kept]
    neighbours = zip(values[:-1].tolist(), values[1:].tolist(), strict=True)
    last = np.array([_last_of_lower(low, high, nearest) for low, high in neighbours])
    return Grid(values, codes.astype(code_dtype(fmt.code_bits(mode))), last)


@dataclass(frozen=True)
class EncodedWeights:
    """Weights of one layer. codes: of the weights' shape; weight_frac: one, or one for each of the first axis."""

    format: ShiftFormat
    mode: WeightMode
    codes: npt.NDArray[Any]
    weight_frac: Int32Array

    def integers(self) -> Int64Array:
        """Integer weights."""
        return decode(self.codes, self.format, self.mode)

    def real(self, dtype: npt.DTypeLike = np.float32) -> FloatArray:
        """Real weights: integers * 2**-weight_frac."""
        return decode_real(self.codes, self.format, self.mode, self.weight_frac, dtype)


def _checked(w: npt.ArrayLike, fmt: ShiftFormat) -> FloatArray:
    weights: npt.NDArray[Any] = np.asarray(w)
    if weights.dtype not in (np.float32, np.float64):
        weights = weights.astype(np.float64)
    if not np.isfinite(weights).all():
        position = tuple(int(i) for i in np.argwhere(~np.isfinite(weights))[0])
        raise DataError(f"the weight at index {position} is {weights[position]}: a format needs finite numbers")
    if not fmt.weight_signed and weights.min(initial=0) < 0:
        raise DataError("there are negative weights, but weight_signed: false keeps no signs")
    return weights


def _max_rule(largest: Float64Array, largest_value: int) -> Int64Array:
    """The largest scales that bring ``largest`` (one for a group) not above the largest value; 0 for zeros."""
    fraction, power = np.frexp(largest)
    value_fraction, value_power = math.frexp(largest_value)
    frac = value_power - power.astype(np.int64) - (fraction > value_fraction)
    return np.clip(np.where(largest > 0, frac, 0), WEIGHT_FRAC_MIN, WEIGHT_FRAC_MAX)


def _thresholds(chosen: Grid, offset: int, dtype: np.dtype[Any]) -> FloatArray:
    """Largest numbers of ``dtype`` that go to the lower neighbour, ``offset`` scales beyond that of the data."""
    exact = np.ldexp(chosen.last, _GUARD - offset)
    rounded: FloatArray = exact.astype(dtype)
    rounded = np.where(rounded > exact, np.nextafter(rounded, dtype.type(-np.inf)), rounded)
    return np.where(chosen.last == _BELOW_ZERO, np.nextafter(dtype.type(0), dtype.type(-1)), rounded)


class _Intervals:
    """The intervals between the thresholds of all scales, and the index into the grid that each has at each scale."""

    def __init__(self, chosen: Grid, offsets: Sequence[int], dtype: np.dtype[Any]) -> None:
        thresholds = [_thresholds(chosen, offset, dtype) for offset in offsets]
        bounds = np.unique(np.concatenate(thresholds))
        self.search = IntervalSearch(bounds)
        self.count = bounds.size + 1
        self.index = np.stack([np.searchsorted(own, bounds, "right") for own in thresholds])
        self.index = np.pad(self.index, ((0, 0), (1, 0)))
        scales = np.ldexp(1.0, _GUARD - np.array(offsets))
        self.values: Float64Array = chosen.values[self.index] * scales[:, None]
        self.codes = chosen.codes[self.index]


def _pieces(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    rows, columns = shape
    height = max(1, min(_PIECE_ROWS, _PIECE // max(columns, 1)))
    for row in range(0, rows, height):
        for column in range(0, columns, _PIECE):
            yield slice(row, row + height), slice(column, column + _PIECE)


def _place(weights: FloatArray, frac: Int64Array, intervals: _Intervals) -> npt.NDArray[np.uint16]:
    """Interval of every weight. weights: (groups, n); frac: (groups,), what offset 0 of the intervals means."""
    scale = np.ldexp(weights.dtype.type(1), (frac + _GUARD).astype(np.int32))[:, None]
    places = np.empty(weights.shape, np.uint16)
    with np.errstate(over="ignore"):  # infinity is beyond the last threshold
        for rows, columns in _pieces(places.shape):
            places[rows, columns] = intervals.search(weights[rows, columns] * scale[rows])
    return places


def _squared_errors(
    weights: FloatArray, frac: Int64Array, places: npt.NDArray[np.uint16], intervals: _Intervals
) -> tuple[Float64Array, Float64Array]:
    """Squared error of each group at each scale (groups, scales), and the groups' power (groups,)."""
    groups, count = len(weights), intervals.count
    scale = np.ldexp(1.0, (frac + _GUARD).astype(np.int32))
    power, error = np.zeros(groups), np.zeros((groups, len(intervals.values)))
    for rows, columns in _pieces(weights.shape):
        piece = weights[rows, columns].astype(np.float64) * scale[rows, None]
        bins = places[rows, columns] + count * np.arange(len(piece), dtype=np.int64)[:, None]
        size = len(piece) * count
        number = np.bincount(bins.reshape(-1), minlength=size).reshape(-1, count)
        total = np.bincount(bins.reshape(-1), piece.reshape(-1), size).reshape(-1, count)
        square = np.einsum("ij,ij->i", piece, piece)
        power[rows] += square
        error[rows] += square[:, None] - 2 * (total @ intervals.values.T) + number @ (intervals.values**2).T
    return error, power


def _best_scale(error: Float64Array, power: Float64Array, frac: Int64Array) -> Int64Array:
    """Index into the scales with the least error in each group; of equal ones the nearest to the ``max`` rule."""
    offsets = np.array(_SCALE_OFFSETS)
    wanted = frac[:, None] + offsets
    error = np.where((wanted < WEIGHT_FRAC_MIN) | (wanted > WEIGHT_FRAC_MAX), np.inf, error)
    order = np.argsort(np.abs(offsets), kind="stable")
    good = error <= (error.min(axis=1) + _EQUAL_ERRORS * power)[:, None]
    best: Int64Array = order[np.argmax(good[:, order], axis=1)]
    return best


def _given_scale(weight_frac: npt.ArrayLike, groups: int) -> Int64Array:
    frac: IntArray = np.atleast_1d(np.asarray(weight_frac))
    if frac.dtype.kind not in "iu" or frac.shape not in ((1,), (groups,)):
        raise DataError(f"weight_frac must be one whole number or one for each of {groups} output channels")
    if frac.min() < WEIGHT_FRAC_MIN or frac.max() > WEIGHT_FRAC_MAX:
        raise DataError(f"weight_frac must be in {WEIGHT_FRAC_MIN} to {WEIGHT_FRAC_MAX}, not {frac.tolist()}")
    return frac.astype(np.int64)


def encode(
    w: npt.ArrayLike,
    fmt: ShiftFormat,
    mode: WeightMode,
    *,
    weight_frac: npt.ArrayLike | None = None,
    per_channel: bool = False,
    scale: ScaleRule = "least_squares",
    nearest: Nearest = "linear",
    largest: int | None = None,
) -> EncodedWeights:
    """Real weights as the nearest codes of a mode.

    w: floats of any shape, finite. weight_frac: the scale instead of one that is chosen, a number or one for each of
    the first axis. per_channel: choose one for each of the first axis. scale: how to choose. nearest: what is nearest.
    largest: bound of the integers' magnitudes, for hardware that does not take all of the format's.
    A tie goes to the smaller magnitude, of codes with one value the lowest is taken, magnitudes beyond the largest are
    clamped. ``DataError`` for numbers the format cannot take. SM 2.5, R36.
    """
    weights = _checked(w, fmt)
    channels = len(weights) if weights.ndim else 1
    chosen = grid(fmt, mode, nearest, largest)
    if weight_frac is not None:
        frac = _given_scale(weight_frac, channels)
        rows = weights.reshape(len(frac), -1) if weights.size else weights.reshape(len(frac), 0)
        shape = np.shape(weight_frac)
    else:
        groups = channels if per_channel else 1
        rows = weights.reshape(groups, weights.size // max(groups, 1))
        peaks = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0)).astype(np.float64)
        frac = _max_rule(peaks, chosen.largest)
        shape = (groups,) if per_channel else ()
    searched = weight_frac is None and scale == "least_squares"
    intervals = _Intervals(chosen, _SCALE_OFFSETS if searched else (0,), rows.dtype)
    places = _place(rows, frac, intervals)
    best: Int64Array = np.zeros(len(rows), np.int64)
    if searched:
        with np.errstate(over="ignore", invalid="ignore"):  # a power beyond float64 decides nothing
            best = _best_scale(*_squared_errors(rows, frac, places, intervals), frac)
        frac = frac + np.array(_SCALE_OFFSETS)[best]
    codes = np.empty(rows.shape, chosen.codes.dtype)
    for piece, columns in _pieces(rows.shape):
        codes[piece, columns] = intervals.codes[best[piece, None], places[piece, columns]]
    return EncodedWeights(fmt, mode, codes.reshape(weights.shape), frac.astype(np.int32).reshape(shape))


@dataclass(frozen=True)
class FormatReport:
    """How well a mode represents weights: signal to quantization noise in dB (inf: exact) and bits of one weight."""

    mode: WeightMode
    sqnr_db: float
    weight_bits: int
    weight_frac: Int32Array


def signal_to_noise_db(w: npt.ArrayLike, quantized: npt.ArrayLike) -> float:
    """10 log10(sum of w**2 / sum of (w - quantized)**2); infinite if they are equal."""
    exact = np.asarray(w, np.float64)
    noise = float(np.sum((exact - np.asarray(quantized, np.float64)) ** 2))
    signal = float(np.sum(exact**2))
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def compare_modes(w: npt.ArrayLike, fmt: ShiftFormat, *, per_channel: bool = False) -> dict[WeightMode, FormatReport]:
    """Both formats of a layer's weights, to choose its mode by. SM R37."""
    reports = {}
    for mode in WeightMode:
        encoded = encode(w, fmt, mode, per_channel=per_channel)
        ratio = signal_to_noise_db(w, encoded.real(np.float64))
        reports[mode] = FormatReport(mode, ratio, fmt.code_bits(mode), encoded.weight_frac)
    return reports
