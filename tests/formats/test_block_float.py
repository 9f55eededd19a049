"""Encoding and decoding block floating point (BFP 2, R20, R21): vectors and exact references."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import load_vectors, reference_mantissa, select_exponent, vector_format
from strategies import FORMATS

from bfpga.errors import DataError
from bfpga.formats.block_float import (
    decode,
    encode,
    encode_rows,
    encode_samples,
    from_sign_magnitude,
    to_sign_magnitude,
)
from bfpga.formats.block_format import BlockFormat, Status

STATUS = {"ok": Status.NONE, "given": Status.NONE, "zero": Status.ZERO_BLOCK,
          "exp_low": Status.EXPONENT_LOW, "exp_high": Status.EXPONENT_HIGH}  # fmt: skip
ENCODE = load_vectors("bfp_encode.json")
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.floats(-100, 100, width=32),
    st.integers(-(2**18), 2**18).map(float),
    st.integers(-1024, 1024).map(lambda n: n / 8),
)


@pytest.mark.parametrize("case", ENCODE["cases"], ids=lambda case: case["id"])
def test_encoding_vectors(case: dict[str, Any]) -> None:
    """BFP 2.2, table 2 of the source, R16"""
    expected = case["expect"]
    result = encode([float.fromhex(x) for x in case["x_hex"]], vector_format(case["format"]), case["exponent_given"])
    assert result.mantissa.tolist() == expected["m"]
    assert result.exponent.tolist() == [expected["e"]]
    assert (result.overflow, result.underflow) == (expected["overflow"], expected["underflow"])
    assert result.status == STATUS[expected["status"]]


@pytest.mark.parametrize("case", ENCODE["cases"], ids=lambda case: case["id"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sample_encoding_equals_the_vectors(case: dict[str, Any], dtype: type[np.floating[Any]]) -> None:
    """BFP 2.2: the fast path of activations gives the same bits."""
    x = np.array([[float.fromhex(x) for x in case["x_hex"]]])
    x = x.astype(dtype) if (x.astype(dtype) == x).all() else x  # some numbers are not float32
    mantissa, exponent = encode_samples(x, vector_format(case["format"]), case["exponent_given"])
    assert mantissa.tolist() == [case["expect"]["m"]]
    assert exponent.tolist() == [case["expect"]["e"]]


def test_table_2_of_the_source() -> None:
    """BFP 5.1: underflow at exponent 3; wrapping and saturating at exponent -3."""
    x = [131072, 256, 1, 0.5, 0.125]
    for row in ENCODE["table2"]:
        for saturation, name in (("wrap", "wrap"), ("sym", "saturate")):
            result = encode(x, BlockFormat(16, saturation=saturation), row["e"])  # type: ignore[arg-type]
            assert result.mantissa.tolist() == row[name]
        assert (result.overflow, result.underflow) == (row["overflow"], row["underflow"])


@pytest.mark.parametrize("row", ENCODE["table3_reconstructed"], ids=lambda row: str(row["x"]))
def test_table_3_of_the_source(row: dict[str, Any]) -> None:
    """BFP 5.1"""
    result = encode([float.fromhex(row["x_hex"])], BlockFormat(16))
    assert (result.exponent.tolist(), result.mantissa.tolist()) == ([row["e"]], [row["m"]])
    assert f"0x{int(result.mantissa[0]) & 0xFFFF:04X}" == row["m_hex"]
    assert decode(result.mantissa, result.exponent[0], np.float64).tolist() == [row["value"]]
    assert result.overflow == row["overflow"]
    assert result.exponent[0] + 14 == row["lead"]


@settings(deadline=None, max_examples=drawn(300))
@given(fmt=FORMATS, x=st.lists(FLOATS, min_size=1, max_size=6), given_exponent=st.none() | st.integers(-8, 7))
def test_encoding_equals_exact_arithmetic(fmt: BlockFormat, x: list[float], given_exponent: int | None) -> None:
    """BFP 2.2: every rounding, saturation and logarithm mode, any width."""
    exponent, status = given_exponent, 0
    if exponent is None:
        exponent, status = select_exponent(max(abs(Fraction(value)) for value in x), fmt)
    exact = [reference_mantissa(Fraction(value), exponent, fmt) for value in x]
    result = encode(x, fmt, given_exponent)
    assert result.mantissa.tolist() == [mantissa for mantissa, _, _ in exact]
    assert result.overflow == sum(overflow for _, overflow, _ in exact)
    assert result.underflow == sum(underflow for _, _, underflow in exact)
    assert (int(result.exponent[0]), result.status) == (exponent, status)
    for dtype in (np.float32, np.float64):
        mantissas, exponents = encode_samples(np.array([x], dtype), fmt, given_exponent)
        assert (mantissas.tolist(), exponents.tolist()) == ([result.mantissa.tolist()], [exponent])


def test_tiny_values_keep_their_sign_when_flooring() -> None:
    """BFP 2.2: a value that vanishes in float64 still rounds down."""
    fmt = BlockFormat(8, exponent_bits=12, rounding="trunc")
    assert encode([-1e-300, 1e-300, 0.0], fmt, 1000).mantissa.tolist() == [-1, 0, 0]


def test_each_sample_has_its_own_exponent() -> None:
    """BFP 2.3 whole: a sample of zeros, tiny and ordinary samples side by side."""
    x = np.zeros((4, 2, 3), np.float32)
    x[1, 0, 0], x[2, 1, 2], x[3] = 1.0, -255.0, 2.0**-140
    mantissa, exponent = encode_samples(x, BlockFormat(16))
    assert exponent.tolist() == [-128, -14, -7, -128]
    assert mantissa.dtype == np.int16
    assert (mantissa[1, 0, 0], mantissa[2, 1, 2], mantissa[0].any(), mantissa[3].any()) == (16384, -32640, False, False)
    assert np.array_equal(decode(mantissa[:3], exponent[:3]), x[:3])


def test_samples_are_independent_of_the_batch() -> None:
    """Fast and general route agree: a sample far outside float32's range of scales changes nothing."""
    x = np.random.default_rng(5).normal(size=(3, 50)).astype(np.float32)
    alone, _ = encode_samples(x[:1], BlockFormat(12))
    x[2] *= np.float32(2.0**-130)
    together, exponent = encode_samples(x, BlockFormat(12))
    assert np.array_equal(together[0], alone[0])
    assert exponent[2] == -128


def test_transposed_data_encodes_like_its_copy() -> None:
    x = np.random.default_rng(1).normal(size=(3, 2, 5, 4)).astype(np.float32).transpose(0, 2, 3, 1)
    for view, copy in zip(encode_samples(x, BlockFormat()), encode_samples(x.copy(), BlockFormat()), strict=True):
        assert np.array_equal(view, copy)


def test_weights_are_symmetric_whatever_the_activations_do() -> None:
    """BFP 7: packed products need symmetric weights."""
    w = np.array([[-1.0, 0.5], [-255.0, 1.0]])
    mantissa, exponent = encode_rows(w, BlockFormat(8, saturation="full", log="ceil"))
    assert exponent.tolist() == [-6, 2]
    assert np.abs(mantissa).max() <= 127
    overflowing, _ = encode_rows(np.array([[-255.9]]), BlockFormat(8, saturation="full"))
    assert overflowing.tolist() == [[-127]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    x = np.zeros((2, 3), np.float32)
    x[1, 2] = bad
    with pytest.raises(DataError, match=r"index \(1, 2\)"):
        encode_samples(x, BlockFormat())
    with pytest.raises(DataError, match="finite"):
        encode(x, BlockFormat())


@settings(deadline=None, max_examples=drawn(100))
@given(fmt=FORMATS, x=st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=1, max_size=6))
def test_decoding_is_exact(fmt: BlockFormat, x: list[float]) -> None:
    """R20"""
    mantissa, exponent = encode_samples(np.array([x]), fmt)
    exact = [float(Fraction(m) * Fraction(2) ** int(exponent[0])) for m in mantissa[0].tolist()]
    assert decode(mantissa, exponent, np.float64).tolist() == [exact]
    assert decode(mantissa, exponent).tolist() == [np.array(exact, np.float32).tolist()]


def test_round_trip_error_is_half_a_unit() -> None:
    """R20"""
    x = np.random.default_rng(3).normal(size=(8, 3, 5, 5)).astype(np.float32)
    mantissa, exponent = encode_samples(x, BlockFormat(16))
    unit = np.ldexp(1.0, exponent)[:, None, None, None]
    assert (np.abs(decode(mantissa, exponent).astype(float) - x) <= unit / 2).all()


def test_unsigned_mantissas_use_the_sign_bit() -> None:
    """R21"""
    result = encode([255, 1, 0.5], BlockFormat(8), signed=False)
    assert (result.mantissa.tolist(), result.exponent.tolist()) == ([255, 1, 0], [0])
    assert encode([1 / 3], BlockFormat(8), signed=False).mantissa.tolist() == [171]
    with pytest.raises(DataError, match="negative"):
        encode([-1.0], BlockFormat(8), signed=False)


def test_sign_magnitude_codes_round_trip() -> None:
    """R21"""
    mantissas = np.arange(-127, 128)
    codes = to_sign_magnitude(mantissas, 8)
    assert codes[0] == 0xFF
    assert codes[-1] == 0x7F
    assert from_sign_magnitude(codes, 8).tolist() == mantissas.tolist()
    assert from_sign_magnitude([0x80], 8).tolist() == [0]
    with pytest.raises(DataError, match="128"):
        to_sign_magnitude([-128], 8)


def test_exponent_bias_moves_the_window() -> None:
    """BFP 2.1: with 5 exponent bits, 2**-20 keeps full precision after a bias of -20."""
    fmt = BlockFormat(16, exponent_bits=5)
    assert encode([2.0**-20], fmt).status == Status.EXPONENT_LOW
    biased = encode([2.0**-20], fmt, exponent_bias=-20)
    assert (biased.exponent.tolist(), biased.mantissa.tolist(), biased.status) == ([-34], [16384], 0)
    assert -16 <= biased.exponent[0] + 20 <= 15


def test_index_map_must_fit_the_data() -> None:
    with pytest.raises(DataError, match=r"\(3,\).*\(2,\)"):
        encode([1.0, 2.0], BlockFormat(), index=[0, 1, 2])


def test_stochastic_encoding_is_right_on_average() -> None:
    """BFP 2.2"""
    x = np.full(20000, 0.3)
    result = encode(x, BlockFormat(8), 0, rounding="stochastic", generator=np.random.default_rng(2))
    assert set(result.mantissa.tolist()) == {0, 1}
    assert abs(result.mantissa.mean() - 0.3) < 0.02
