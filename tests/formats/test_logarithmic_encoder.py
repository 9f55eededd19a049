"""Encoder of powers of two and sums of two: nearest codes, scales, noise, speed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from effort import drawn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shift_cases import ENCODE, code_value, vector_format
from shift_strategies import shift_formats

from bfpga.errors import DataError
from bfpga.formats.interval_search import IntervalSearch
from bfpga.formats.logarithmic import (
    code_values,
)
from bfpga.formats.logarithmic_encoder import Nearest, compare_modes, encode, grid, signal_to_noise_db
from bfpga.formats.shift_format import WEIGHT_FRAC_MAX, WEIGHT_FRAC_MIN, ShiftFormat, WeightMode, ZeroCode

TWO_HOT, POW2 = WeightMode
MODES = st.sampled_from(WeightMode)
FloatArray = npt.NDArray[Any]


# --- nearest codes


@pytest.mark.parametrize("rows", ENCODE, ids=lambda rows: f"{vector_format(rows['format'])} mode {rows['mode']}")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_encoding_vectors(rows: dict[str, Any], dtype: npt.DTypeLike) -> None:
    """SM R36: nearest value and lowest code of 20 weights"""
    fmt, mode = vector_format(rows["format"]), WeightMode(rows["mode"])
    weights = np.array([row["w"] for row in rows["rows"]], dtype)
    encoded = encode(weights, fmt, mode, weight_frac=rows["weight_frac"])
    assert encoded.codes.tolist() == [row["code"] for row in rows["rows"]]
    assert encoded.integers().tolist() == [row["value"] for row in rows["rows"]]
    assert encoded.real(np.float64).tolist() == [row["real"] for row in rows["rows"]]


def brute_force(fmt: ShiftFormat, mode: WeightMode, y: Fraction, nearest: Nearest) -> tuple[int, int]:
    """Value and code of the smallest error (or ratio), ties to smaller magnitude, positive value, lowest code."""
    codes = [(code_value(fmt, mode, code), code) for code in range(1 << fmt.code_bits(mode))]

    def distance(value: int) -> Any:
        if nearest == "linear":
            return abs(value - y)
        # A value of the same sign has a ratio, which decides; others come behind.
        return (0, max(value / y, y / value)) if value * y > 0 else (1, abs(value - y))

    return min(codes, key=lambda each: (distance(each[0]), abs(each[0]), -each[0], each[1]))


def interesting_weights(fmt: ShiftFormat, mode: WeightMode, frac: int) -> st.SearchStrategy[float]:
    """Values, middles between neighbours, their neighbours as floats, and any number."""
    values = grid(fmt, mode).values.astype(np.float64)
    places = np.ldexp(np.concatenate([values, (values[1:] + values[:-1]) / 2, [2 * values[-1]]]), -frac)
    near = st.builds(lambda place, step: float(np.nextafter(place, place + step)), st.sampled_from(places.tolist()),
                     st.sampled_from((-1.0, 0.0, 1.0)))  # fmt: skip
    bound = float(2 * np.abs(places).max())
    return st.one_of(near, st.floats(-bound, bound), st.sampled_from((0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300)))


@settings(max_examples=drawn(150))
@given(fmt=shift_formats(), mode=MODES, frac=st.integers(WEIGHT_FRAC_MIN, WEIGHT_FRAC_MAX), data=st.data())
def test_the_nearest_code_is_found(fmt: ShiftFormat, mode: WeightMode, frac: int, data: st.DataObject) -> None:
    """SM R36: as a search through all codes in exact arithmetic finds it; magnitudes beyond the largest are clamped"""
    w = data.draw(interesting_weights(fmt, mode, frac))
    w = w if fmt.weight_signed else abs(w)
    encoded = encode([w], fmt, mode, weight_frac=frac)
    value, code = brute_force(fmt, mode, Fraction(w) * Fraction(2) ** frac, "linear")
    assert (encoded.integers().item(), encoded.codes.item()) == (value, code)


@given(fmt=shift_formats(), mode=MODES, data=st.data())
def test_float32_weights_get_the_codes_of_their_values(fmt: ShiftFormat, mode: WeightMode, data: st.DataObject) -> None:
    """SM R36: thresholds that float32 cannot hold decide right too"""
    strategy = interesting_weights(fmt, mode, 3).filter(lambda w: abs(w) < 1e38)
    weights = np.array(data.draw(st.lists(strategy, min_size=1, max_size=20)), np.float32)
    weights = weights if fmt.weight_signed else np.abs(weights)
    single, double = (encode(weights.astype(kind), fmt, mode, weight_frac=3) for kind in (np.float32, np.float64))
    assert single.codes.tolist() == double.codes.tolist()


@settings(max_examples=drawn(60))
@given(fmt=shift_formats(), mode=MODES, data=st.data())
def test_the_nearest_ratio_is_found(fmt: ShiftFormat, mode: WeightMode, data: st.DataObject) -> None:
    """SM R36: rounding in the logarithmic domain, where a representable value of the same sign is on both sides"""
    w = data.draw(interesting_weights(fmt, mode, 0))
    w = w if fmt.weight_signed else abs(w)
    values = grid(fmt, mode).values
    same = np.abs(values[np.sign(values) == np.sign(w)])
    if same.size and abs(w) >= same.min():
        value, code = brute_force(fmt, mode, Fraction(w), "log")
        encoded = encode([w], fmt, mode, weight_frac=0, nearest="log")
        assert (encoded.integers().item(), encoded.codes.item()) == (value, code)


def test_threshold_of_the_logarithmic_domain() -> None:
    """SM R36: sqrt(2) * 2**k instead of 1.5 * 2**k; towards zero half the smallest step remains"""
    w, fmt = [1.41, 1.42, 1.5, 1.51, 5.65, 5.66, -11.31, -11.32, 0.5, 0.51], ShiftFormat()
    assert encode(w, fmt, POW2, weight_frac=0).integers().tolist() == [1, 1, 1, 2, 4, 4, -8, -8, 0, 1]
    log = encode(w, fmt, POW2, weight_frac=0, nearest="log")
    assert log.integers().tolist() == [1, 2, 2, 2, 4, 8, -8, -16, 0, 1]


def test_every_value_is_encoded_as_itself() -> None:
    """SM R36"""
    for exp_width in (1, 2, 3, 4):
        for mode in WeightMode:
            fmt = ShiftFormat(exp_width=exp_width)
            values = code_values(fmt, mode).reshape(-1, 2)
            for nearest in get_args(Nearest):
                assert (encode(values / 8, fmt, mode, weight_frac=3, nearest=nearest).integers() == values).all()


# --- scales


def squared_error(w: FloatArray, fmt: ShiftFormat, mode: WeightMode, frac: int) -> float:
    values = grid(fmt, mode).values.astype(np.float64)
    y = np.ldexp(w.astype(np.float64), frac)
    return float(np.sum(np.min(np.abs(y[:, None] - values), axis=1) ** 2)) / 4.0**frac


def window(w: FloatArray, fmt: ShiftFormat, mode: WeightMode) -> range:
    """The 16 scales around the one that brings the largest weight to the largest value."""
    largest = int(np.abs(grid(fmt, mode).values).max())
    fitting = max(frac for frac in range(-99, 99) if Fraction(float(np.abs(w).max())) * Fraction(2) ** frac <= largest)
    centre = min(max(fitting, WEIGHT_FRAC_MIN), WEIGHT_FRAC_MAX)
    return range(max(centre - 4, WEIGHT_FRAC_MIN), min(centre + 11, WEIGHT_FRAC_MAX) + 1)


@settings(max_examples=drawn(60))
@given(fmt=shift_formats(), mode=MODES, seed=st.integers(0, 1 << 30), power=st.integers(-30, 14))
def test_the_scale_with_the_least_squared_error_is_found(
    fmt: ShiftFormat, mode: WeightMode, seed: int, power: int
) -> None:
    """SM R36: as trying all 16 finds it"""
    w = np.random.default_rng(seed).laplace(0, 2.0**power, 60).astype(np.float32)
    w = w if fmt.weight_signed else np.abs(w)
    encoded = encode(w, fmt, mode)
    errors = {frac: squared_error(w, fmt, mode, frac) for frac in window(w, fmt, mode)}
    assert errors[int(encoded.weight_frac)] <= min(errors.values()) * (1 + 1e-9)
    found = np.sum((w.astype(np.float64) - encoded.real(np.float64)) ** 2)
    np.testing.assert_allclose(found, errors[int(encoded.weight_frac)], rtol=1e-9)


@settings(max_examples=drawn(40))
@given(fmt=shift_formats(), mode=MODES, seed=st.integers(0, 1 << 30), channels=st.integers(1, 300))
@example(fmt=ShiftFormat(), mode=TWO_HOT, seed=1, channels=300)
def test_scales_of_channels_are_those_of_layers_of_their_own(
    fmt: ShiftFormat, mode: WeightMode, seed: int, channels: int
) -> None:
    """SM R36: one weight_frac for each output channel"""
    rng = np.random.default_rng(seed)
    w = np.abs(rng.normal(0, 1, (channels, 3, 4)) * np.ldexp(1.0, rng.integers(-20, 12, channels))[:, None, None])
    encoded = encode(w, fmt, mode, per_channel=True)
    assert encoded.weight_frac.shape == (channels,)
    for channel in range(0, channels, 1 + channels // 10):
        own = encode(w[channel], fmt, mode)
        assert own.weight_frac == encoded.weight_frac[channel]
        assert own.codes.tolist() == encoded.codes[channel].tolist()
    again = encode(w, fmt, mode, weight_frac=encoded.weight_frac)
    assert again.codes.tolist() == encoded.codes.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_weights_are_encoded_like_few(dtype: npt.DTypeLike) -> None:
    """SM R36: pieces of a large layer, and the table of upper halves"""
    w = np.random.default_rng(2).normal(0, 0.1, 300_000).astype(dtype)
    for mode in WeightMode:
        encoded = encode(w, ShiftFormat(), mode)
        pieces = [encode(part, ShiftFormat(), mode, weight_frac=encoded.weight_frac) for part in np.split(w, 300)]
        assert encoded.codes.tolist() == np.concatenate([piece.codes for piece in pieces]).tolist()


def test_scale_by_the_largest_weight() -> None:
    """SM R36: the max rule"""
    fmt = ShiftFormat()
    for largest, frac in (
        (128.0, 0),
        (128.1, -1),
        (64.0, 1),
        (0.3, 8),
        (1e9, WEIGHT_FRAC_MIN),
        (1e-9, WEIGHT_FRAC_MAX),
    ):
        assert int(encode([0.1 * largest, -largest], fmt, POW2, scale="max").weight_frac) == frac
        assert int(encode([-largest], fmt, TWO_HOT, scale="max").weight_frac) == min(frac + 1, WEIGHT_FRAC_MAX) or (
            frac == WEIGHT_FRAC_MIN
        )


def test_weights_that_are_represented_exactly_have_no_error() -> None:
    """SM R37: of equal errors the scale of the max rule; zeros have scale 0"""
    w = np.array([0.5, -0.25, 0.0, 0.125])
    encoded = encode(w, ShiftFormat(), POW2)
    assert encoded.real(np.float64).tolist() == w.tolist()
    assert int(encoded.weight_frac) == 8
    zeros = encode(np.zeros((2, 3)), ShiftFormat(), TWO_HOT, per_channel=True)
    assert zeros.weight_frac.tolist() == [0, 0]
    assert not zeros.integers().any()
    assert encode(np.zeros((0, 3)), ShiftFormat(), POW2, per_channel=True).codes.shape == (0, 3)
    assert encode(np.zeros((2, 0)), ShiftFormat(), POW2).codes.shape == (2, 0)


def test_pruned_weights_stay_zero() -> None:
    """SM R13, SM R36: with every zero code, in both modes; without one they become +1"""
    w = np.where(np.arange(1000) % 2, 0.0, np.random.default_rng(1).normal(0, 1, 1000))
    for code in get_args(ZeroCode):
        encoded = encode(w, ShiftFormat(zero_code=code), POW2)
        assert set(encoded.integers()[1::2].tolist()) == ({1} if code == "none" else {0})
        assert not encode(w, ShiftFormat(zero_code=code), TWO_HOT).integers()[1::2].any()


@pytest.mark.parametrize(
    ("w", "options", "message"),
    [
        ([1.0, math.nan], {}, r"the weight at index \(1,\) is nan"),
        ([[1.0], [math.inf]], {}, r"the weight at index \(1, 0\) is inf"),
        ([1.0], {"weight_frac": 24}, "weight_frac must be in -8 to 23"),
        ([1.0], {"weight_frac": -9}, "weight_frac must be in -8 to 23"),
        ([1.0, 2.0], {"weight_frac": [1, 2, 3]}, "one whole number or one for each of 2 output channels"),
        ([1.0], {"weight_frac": 1.5}, "one whole number"),
    ],
)
def test_weights_and_scales_that_cannot_be_are_refused(w: Any, options: dict[str, Any], message: str) -> None:
    """SM R36"""
    with pytest.raises(DataError, match=message):
        encode(w, ShiftFormat(), POW2, **options)


def test_negative_weights_need_signs() -> None:
    """SM R6"""
    with pytest.raises(DataError, match="weight_signed: false keeps no signs"):
        encode([-1.0], ShiftFormat(weight_signed=False, zero_code="flag"), POW2)


# --- how good the formats are


def distributions() -> dict[str, FloatArray]:
    """The samples of the specification: 20000 of each, fixed seed."""
    rng, n = np.random.default_rng(20240101), 20000
    gauss, laplace = rng.normal(0, 1, n), rng.laplace(0, 1, n)
    bimodal = np.where(rng.random(n) < 0.7, rng.normal(0, 0.15, n), rng.normal(1.6, 0.12, n))
    return {"gauss": gauss, "laplace": laplace, "bimodal": bimodal}


@pytest.mark.parametrize(
    ("options", "mode", "figures"),
    [
        ({}, POW2, (14.2, 14.2, 12.4)),
        ({"zero_code": "exp_max"}, POW2, (14.2, 14.2, 12.4)),
        ({}, TWO_HOT, (28.6, 28.5, 27.0)),
        ({"d": 4}, TWO_HOT, (28.6, 28.4, 27.0)),
        ({"exp_width": 2, "d": 0}, TWO_HOT, (22.6, 19.6, 21.9)),
        ({"exp_width": 2}, TWO_HOT, (26.1, 22.6, 25.2)),
        ({"exp_width": 1, "d": 0}, TWO_HOT, (14.9, 12.4, 16.8)),
        ({"exp_width": 1}, TWO_HOT, (16.8, 13.7, 18.8)),
    ],
)
def test_signal_to_noise_of_the_specification(options: Any, mode: WeightMode, figures: tuple[float, ...]) -> None:
    """SM R37: the table of SM 2.5 to 0.1 dB"""
    for w, figure in zip(distributions().values(), figures, strict=True):
        report = compare_modes(w, ShiftFormat(**options))[mode]
        assert report.sqnr_db == pytest.approx(figure, abs=0.0501)
        assert report.weight_bits == ShiftFormat(**options).code_bits(mode)


def test_samples_inside_the_second_peak() -> None:
    """SM 2.5: a power-of-two grid has no value inside the second peak of the distribution, a two-hot grid has five"""
    w, count = distributions()["bimodal"], {}
    for mode in WeightMode:
        values = np.ldexp(
            grid(ShiftFormat(), mode).values.astype(float), -int(encode(w, ShiftFormat(), mode).weight_frac)
        )
        count[mode] = int(np.sum((values >= 1.25) & (values <= 1.95)))
    assert count == {TWO_HOT: 5, POW2: 0}


def test_signal_to_noise_at_its_ends() -> None:
    """SM R37"""
    assert signal_to_noise_db([1.0, 2.0], [1.0, 2.0]) == math.inf
    assert signal_to_noise_db([0.0], [0.0]) == math.inf
    assert signal_to_noise_db([0.0], [1.0]) == -math.inf
    assert signal_to_noise_db([10.0, 0.0], [10.0, 1.0]) == pytest.approx(20.0)


# --- the search itself


@pytest.mark.parametrize("count", [1, 30, 900, 4000])
def test_interval_search_counts_the_bounds_below(count: int) -> None:
    """exact with the table of upper halves: bounds themselves, their neighbours, both signs, infinities"""
    rng = np.random.default_rng(count)
    bounds = np.unique((rng.standard_normal(count) * np.exp2(rng.integers(-9, 9, count))).astype(np.float32))
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3.4e38], np.float32)
    exact = np.repeat(bounds, 3).reshape(-1, 3)
    exact[:, 1], exact[:, 2] = np.nextafter(bounds, np.float32(9e9)), np.nextafter(bounds, np.float32(-9e9))
    values = np.concatenate([exact.ravel(), special, rng.standard_normal(60_000).astype(np.float32)])
    np.testing.assert_array_equal(IntervalSearch(bounds)(values), np.searchsorted(bounds, values, "left"))
