"""Softmax, normalizations and products in integers against floating point: how far their mantissas may be off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_cases import TOP, Rows, drawn_rows, float_normalized, float_softmax, some_rows

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.rows import (
    EPSILON_BITS,
    GAIN_BITS,
    LARGEST_ROW,
    MANTISSA_BITS,
    RESULT_BITS,
    RowOperation,
    log2_e,
    power_table,
    reciprocal_table,
    root_table,
)
from bfpga.engines.output.stage import evaluate, requantize
from bfpga.engines.rows import arithmetic
from bfpga.engines.rows.arithmetic import RowResults, normalized, products, softmax
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.formats.arrays import Float64Array, Int64Array
from bfpga.formats.block_format import BlockFormat

#: Largest errors in steps of a mantissa of the output, of which rounding alone is a half.
SOFTMAX_ERROR = 0.95
NORM_ERROR = 0.85
NORMS = [RowOperation.LAYER_NORM, RowOperation.RMS_NORM]
EPSILONS = [0.0, 1e-12, 1e-6, 1e-5, 1e-3]
#: A kernel with the fewest bits that it may have: results are its accumulators.
KERNEL = KernelConfig(format=BlockFormat(MANTISSA_BITS), accumulator_bits=RESULT_BITS)


def mantissas(results: RowResults, exponent: int) -> Float64Array:
    """Results in steps of an output's exponent, rounded and within its range."""
    steps = np.ldexp(results.accumulators.astype(np.float64), results.exponent - exponent)
    return np.clip(np.rint(steps), -TOP, TOP)


def error(found: Float64Array, wanted: Float64Array, exponent: int) -> float:
    """The largest one in steps; what is beyond the range of mantissas is to be its end."""
    return float(np.abs(found - np.clip(np.ldexp(wanted, -exponent), -TOP, TOP)).max())


def finest(wanted: Float64Array) -> int:
    """The finest exponent in which the largest number is a mantissa."""
    largest = max(float(np.abs(wanted).max()), 2.0**-4)
    return int(np.ceil(np.log2(largest / TOP)))


def fits(results: RowResults) -> bool:
    return bool(np.abs(results.accumulators).max() < 1 << (RESULT_BITS - 1))


# Tables


def test_points_of_tables_are_the_nearest_numbers() -> None:
    """Of functions of numpy, at the first place of a step or, where the rest of a place is dropped, in its middle."""
    steps = np.arange(256)
    expected = {
        power_table(): 4095 * 2.0 ** (-steps / 256),
        reciprocal_table(): 4096 / (1 + (steps + 0.5) / 256),
        root_table(): 4096 / np.sqrt(np.concatenate([octave * (1 + (steps[:128] + 0.5) / 128) for octave in (1, 2)])),
        (log2_e(),): np.array([np.log2(np.e) * 2**23]),
    }
    for points, exact in expected.items():
        assert np.abs(np.array(points) - exact).max() <= 0.5 + 1e-9


# Softmax


@given(some_rows(), st.integers(-20, 8), st.integers(0, 10))
def test_softmax_is_off_by_less_than_a_step(rows: Rows, exponent: int, finer: int) -> None:
    """Whatever the rows and exponents, up to the finest one that the largest result has."""
    wanted = float_softmax(rows.x, exponent)
    own = max(-7 - finer, finest(wanted))
    results = softmax(rows.x, exponent)
    assert fits(results)
    assert error(mantissas(results, own), wanted, own) <= SOFTMAX_ERROR


@pytest.mark.parametrize("exponent", range(-14, 7))
def test_softmax_of_two_elements_is_off_by_less_than_a_step_for_all_pairs(exponent: int) -> None:
    x = np.stack(np.meshgrid(np.arange(-TOP, TOP + 1), np.arange(-TOP, TOP + 1)), axis=-1).reshape(-1, 2)
    assert error(mantissas(softmax(x, exponent), -7), float_softmax(x, exponent), -7) <= SOFTMAX_ERROR


def test_a_coarser_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a quarter of the points the error is above a step: the bound measures the tables."""
    points = tuple(np.repeat(power_table()[::4], 4).tolist())
    monkeypatch.setattr(arithmetic, "power_table", lambda: points)
    x = drawn_rows("uniform", np.random.default_rng(0), 400, 32)
    found = [error(mantissas(softmax(x, n), -8), float_softmax(x, n), -8) for n in range(-8, -3)]
    assert max(found) > 1.0 > SOFTMAX_ERROR


# Normalizations


@given(
    some_rows(), st.sampled_from(NORMS), st.sampled_from(EPSILONS), st.integers(-12, 6), st.integers(0, 3),
    st.sampled_from([0.0, 0.05, 0.3, 1.0]),
)  # fmt: skip
def test_normalizations_are_off_by_less_than_a_step(
    rows: Rows, operation: RowOperation, epsilon: float, exponent: int, coarser: int, spread: float
) -> None:
    """With a scale for each channel, equal ones and such of which some are small, where the output's exponent has a
    number as large as the largest scale, which is what rows come to."""
    scale = rows.rng.normal(1, spread, rows.channels)
    wanted = float_normalized(rows.x, exponent, max(epsilon, 1e-30), operation == RowOperation.LAYER_NORM) * scale
    results = normalized(rows.x, exponent, RowSettings.of(operation, rows.channels, epsilon), Gains.of(scale))
    own = max(finest(wanted), finest(scale)) + coarser
    assert fits(results)
    assert error(mantissas(results, own), wanted, own) <= NORM_ERROR


@given(some_rows(), st.sampled_from(NORMS), st.integers(-10, 4))
def test_the_output_stage_adds_the_shift(rows: Rows, operation: RowOperation, exponent: int) -> None:
    """Accumulators as they are, through the stage as it is, with the bias of a layer and the kernel's rounding."""
    scale, shift = rows.rng.normal(1, 0.3, rows.channels), rows.rng.normal(0, 2, rows.channels)
    wanted = float_normalized(rows.x, exponent, 1e-5, operation == RowOperation.LAYER_NORM) * scale + shift
    gains = Gains.of(scale, shift)
    results = normalized(rows.x, exponent, RowSettings.of(operation, rows.channels, 1e-5), gains)
    own, unit = max(finest(wanted), finest(scale)), -12
    bias = np.clip(np.rint(np.ldexp(shift, -unit)), -(1 << 17), (1 << 17) - 1)
    stage = evaluate(results.accumulators[None], [int(results.exponent)], KERNEL, bias=bias, bias_exponent=unit)
    found, _, _ = requantize(stage.v, stage.e3, [own], KERNEL.format)
    assert not stage.status.any()
    assert error(found[0].astype(np.float64), wanted, own) <= NORM_ERROR


@pytest.mark.parametrize("channels", [1, 2, 3, 100, 512, 1000, 1024])
def test_what_is_equal_has_no_distance_from_its_mean(channels: int) -> None:
    """Also without an epsilon, where the deviation is 0."""
    x = np.repeat(np.arange(-TOP, TOP + 1)[:, None], channels, axis=1)
    for epsilon in (0.0, 1e-5):
        settings = RowSettings.of(RowOperation.LAYER_NORM, channels, epsilon)
        results = normalized(x, -4, settings, Gains.of(np.ones(channels)))
        assert np.abs(np.ldexp(results.accumulators.astype(np.float64), results.exponent)).max() < 2.0**-6


# Products of two tensors


def test_products_are_exact_for_all_pairs() -> None:
    x, y = (each.reshape(1, -1) for each in np.meshgrid(np.arange(-TOP, TOP + 1), np.arange(-TOP, TOP + 1)))
    results = products(x, y, -9)
    assert np.array_equal(results.accumulators, x * y)
    assert results.exponent == -9


# Exponents and numbers of the host


@given(some_rows(6), st.lists(st.integers(-15, 8), min_size=6, max_size=6))
def test_rows_may_have_an_exponent_each(rows: Rows, exponents: list[int]) -> None:
    """Together they are what each is by itself."""
    own = np.array(exponents)[:, None]
    settings, gains = RowSettings.of(RowOperation.LAYER_NORM, rows.channels, 1e-5), Gains.of(np.ones(rows.channels))
    together = softmax(rows.x, own).accumulators, normalized(rows.x, own, settings, gains).accumulators
    for n, exponent in enumerate(exponents):
        row: Int64Array = rows.x[n : n + 1]
        assert np.array_equal(softmax(row, exponent).accumulators[0], together[0][n])
        assert np.array_equal(normalized(row, exponent, settings, gains).accumulators[0], together[1][n])


@given(st.floats(1e-30, 1e4), st.integers(1, LARGEST_ROW))
def test_settings_have_epsilons_share(epsilon: float, channels: int) -> None:
    mantissa, exponent = RowSettings.of(RowOperation.RMS_NORM, channels, epsilon).epsilon
    assert 1 << (EPSILON_BITS - 1) <= mantissa < 1 << EPSILON_BITS
    assert np.ldexp(float(mantissa), exponent) == pytest.approx(epsilon * channels**2 * 64, rel=2.0**-EPSILON_BITS)


@pytest.mark.parametrize(
    ("channels", "epsilon", "text"),
    [(0, 0.0, "rows of 0 channels"), (1025, 0.0, "takes 1 to 1024"), (8, -1e-5, "-1e-05"), (8, float("nan"), "nan")],
)
def test_settings_refuse_what_the_process_cannot_do(channels: int, epsilon: float, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        RowSettings.of(RowOperation.LAYER_NORM, channels, epsilon)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(0, 1e6))
def test_gains_are_the_scale_within_a_unit_and_leave_room_for_the_shift(scale: list[float], shift: float) -> None:
    gains, channels = Gains.of(scale, shift), len(scale)
    part = channels / (1 << (channels - 1).bit_length())
    unit = 2.0 ** (gains.exponent + 2)
    limit = (1 << (GAIN_BITS - 1)) - 1
    assert np.abs(gains.mantissa).max() <= limit
    assert np.abs(gains.mantissa * unit + np.array(scale) * part).max() <= unit
    assert shift <= 2.0 ** (gains.exponent + RESULT_BITS - 2)
