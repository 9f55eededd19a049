"""Formats of powers of two and sums of two: parameters, layout, values, decoder."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shift_cases import DECODE, reference_values, vector_format
from shift_strategies import shift_formats

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.logarithmic import (
    code_values,
    decode,
    decode_real,
    join_fields,
    split_words,
)
from bfpga.formats.logarithmic_encoder import grid
from bfpga.formats.shift_format import ShiftFormat, WeightMode, ZeroCode

TWO_HOT, POW2 = WeightMode


# --- parameters and layout


def test_defaults_are_those_of_the_specification() -> None:
    """SM R2: 4-bit fields, 8-bit words; d by the exponent width"""
    fmt = ShiftFormat()
    assert (fmt.x_width, fmt.x_signed, fmt.exp_width, fmt.d, fmt.base_log2) == (8, True, 3, 0, 1)
    assert (fmt.zero_code, fmt.sign_mode, fmt.zero_scope) == ("neg_min", "relative", "auto")
    assert [ShiftFormat(exp_width=width).d for width in (1, 2, 3, 4)] == [1, 1, 0, 0]
    assert [ShiftFormat(exp_width=width).word_bits for width in (1, 2, 3, 4)] == [4, 6, 8, 10]
    assert [ShiftFormat(exp_width=width).field_bits for width in (1, 2, 3, 4)] == [2, 3, 4, 5]
    assert ShiftFormat(zero_code="flag").word_bits == 10
    assert ShiftFormat(weight_signed=False, zero_code="none").word_bits == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x_width": 1}, "x_width is 1, it must be a whole number from 2 to 16"),
        ({"x_width": 17}, "x_width is 17"),
        ({"x_width": 8.0}, r"x_width is 8\.0, it must be a whole number"),
        ({"exp_width": 0}, "exp_width is 0, it must be a whole number from 1 to 4"),
        ({"exp_width": 5}, "exp_width is 5"),
        ({"d": 16}, "d is 16, it must be a whole number from 0 to 15"),
        ({"d": -2}, "d is -2"),
        ({"d": True}, "d is True"),
        ({"base_log2": 3}, "base_log2 is 3, it must be a whole number from 1 to 2"),
        ({"zero_code": "max"}, "zero_code is 'max', it must be one of none, neg_min, exp_max, flag"),
        ({"zero_scope": "all"}, "zero_scope is 'all', it must be one of auto, both, pow2"),
        ({"sign_mode": "own"}, "sign_mode is 'own', it must be one of relative, absolute"),
        ({"x_signed": "no"}, "x_signed is 'no', it must be one of True, False"),
        ({"weight_signed": False}, "zero_code neg_min is the field of -1, but weight_signed: false"),
    ],
)
def test_parameters_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    """SM R1, SM R6, SM R14: also exponents beyond 4 bits and bases beyond 4, which the specification leaves out"""
    with pytest.raises(ConfigurationError, match=message):
        ShiftFormat(**options)


@given(fmt=shift_formats())
def test_formats_survive_a_dictionary(fmt: ShiftFormat) -> None:
    assert ShiftFormat.from_dict(fmt.to_dict()) == fmt


@given(fmt=shift_formats(), data=st.data())
def test_fields_lie_side_by_side(fmt: ShiftFormat, data: st.DataObject) -> None:
    """SM R2, SM R5: field 2 above field 1, sign above exponent"""
    fields = st.integers(0, (1 << fmt.field_bits) - 1)
    field2, field1 = data.draw(fields), data.draw(fields)
    word = int(join_fields(field2, field1, fmt))
    assert word == field2 * 2**fmt.field_bits + field1
    assert tuple(map(int, split_words(word, fmt))) == (field2, field1)


# --- values


@pytest.mark.parametrize("table", DECODE, ids=lambda table: str(vector_format(table["format"])))
def test_decoding_vectors(table: dict[str, Any]) -> None:
    """SM R36: the value of every word in both modes"""
    fmt, codes = vector_format(table["format"]), table["codes"]
    words = np.array([code["code"] for code in codes])
    assert decode(words, fmt, TWO_HOT).tolist() == [code["two_hot"] for code in codes]
    field2, field1 = (decode(field, fmt, POW2) for field in split_words(words, fmt))
    assert np.stack((field2, field1), axis=1).tolist() == [code["pow2"] for code in codes]


@given(fmt=shift_formats())
def test_values_of_any_format(fmt: ShiftFormat) -> None:
    """SM R6, SM R13, SM R14, SM R36: every word of any base, sign mode, zero code and scope"""
    words = range(1 << fmt.word_bits)
    expected = [reference_values(fmt, word) for word in words]
    assert code_values(fmt, TWO_HOT).tolist() == [two_hot for two_hot, _ in expected]
    assert code_values(fmt, POW2).tolist() == [c for _, (_, c) in expected[: 1 << fmt.field_bits]]
    for mode in WeightMode:
        assert np.abs(code_values(fmt, mode)).max() <= fmt.largest_weight(mode)


@pytest.mark.parametrize(
    ("exp_width", "d", "distinct", "largest", "smallest", "native_zero"),
    [
        (1, 0, 9, 4, 1, True), (1, 1, 13, 6, 1, True), (1, 2, 14, 10, 2, False),
        (2, 0, 25, 16, 1, True), (2, 2, 49, 40, 2, True), (2, 4, 62, 136, 8, False),
        (3, 0, 105, 256, 1, True), (3, 1, 133, 384, 1, True), (3, 4, 209, 2176, 8, True),
        (3, 8, 254, 32896, 128, False),
    ],
)  # fmt: skip
def test_sets_of_two_hot_values(
    exp_width: int, d: int, distinct: int, largest: int, smallest: int, native_zero: bool
) -> None:
    """SM R13: the table of SM 2.3; terms cancel exactly when d <= exp_max"""
    values = grid(ShiftFormat(exp_width=exp_width, d=d, zero_code="none"), TWO_HOT).values
    assert (values.size, values.max(), values[values > 0].min()) == (distinct, largest, smallest)
    assert (0 in values) == native_zero == (d <= (1 << exp_width) - 1)


def test_zero_codes_cost_what_the_specification_says() -> None:
    """SM R13: neg_min takes -1, exp_max the largest, flag nothing; everywhere, neg_min takes 5 of 105 two-hot values"""
    powers = {sign * 2**k for sign in (1, -1) for k in range(8)}
    expected = {
        "none": powers,
        "neg_min": powers - {-1} | {0},
        "exp_max": powers - {128, -128} | {0},
        "flag": powers | {0},
    }
    for code in get_args(ZeroCode):
        assert set(code_values(ShiftFormat(zero_code=code), POW2).tolist()) == expected[code]
        assert grid(ShiftFormat(zero_code=code), TWO_HOT).values.size == 105
    assert 0 in code_values(ShiftFormat(d=8), TWO_HOT)
    assert 0 not in code_values(ShiftFormat(d=8, zero_scope="pow2"), TWO_HOT)
    native = set(grid(ShiftFormat(), TWO_HOT).values.tolist())
    assert len(native - set(grid(ShiftFormat(zero_scope="both"), TWO_HOT).values.tolist())) == 5


def test_decoder_scales_by_layer_and_by_channel() -> None:
    """SM R36"""
    codes = np.array([[0, 2], [10, 8]], np.uint8)
    assert decode_real(codes, ShiftFormat(), POW2, 2).tolist() == [[0.25, 1.0], [-1.0, 0.0]]
    assert decode_real(codes, ShiftFormat(), POW2, [2, -1]).tolist() == [[0.25, 1.0], [-8.0, 0.0]]


@pytest.mark.parametrize(("codes", "message"), [([16], "16 is none"), ([-1], "-1 is none"), ([0.5], "whole numbers")])
def test_numbers_that_are_no_codes_are_refused(codes: list[Any], message: str) -> None:
    """SM R36"""
    with pytest.raises(DataError, match=message):
        decode(codes, ShiftFormat(), POW2)
