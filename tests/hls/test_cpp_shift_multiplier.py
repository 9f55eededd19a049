"""shift_multiplier.hpp against the decoder of the formats and the vectors, with native integers and with ap_int."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import BUILDS, library
from shift_cases import DECODE, PRODUCTS, vector_format

from bfpga.devices.csim import Integers
from bfpga.formats.logarithmic import code_values, split_words
from bfpga.formats.shift_format import ShiftFormat, SignMode, WeightMode, ZeroCode, ZeroScope

_MODES = {0: (WeightMode.TWO_HOT, WeightMode.POW2), 1: (WeightMode.TWO_HOT,)}


@dataclass(frozen=True)
class CppFormat:
    """One format of the list in tests/cpp/shift_multiplier.cpp, as its parameters tell."""

    number: int
    format: ShiftFormat
    modes: tuple[WeightMode, ...]
    word_bits: int
    term_bits: int
    sum_bits: int


@functools.cache
def cpp_formats(integers: Integers = "native") -> list[CppFormat]:
    """All formats of the list."""
    formats: list[CppFormat] = []
    values = (ctypes.c_int32 * 11)()
    while library("shift_multiplier", integers).unit_shift_format(len(formats), values) == 0:
        x_width, exp_width, d, base, zero, sign, scope, modes, *bits = values
        fmt = ShiftFormat(
            x_width=x_width, exp_width=exp_width, d=d, base_log2=base, zero_code=get_args(ZeroCode)[zero],
            sign_mode=get_args(SignMode)[sign], zero_scope=get_args(ZeroScope)[scope],
        )  # fmt: skip
        formats.append(CppFormat(len(formats), fmt, _MODES[modes], *bits))
    return formats


def find(integers: Integers, fmt: ShiftFormat) -> CppFormat:
    return next(each for each in cpp_formats(integers) if each.format == fmt)


def pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def cpp_products(
    integers: Integers, each: CppFormat, mode: WeightMode, x: npt.ArrayLike, words: npt.ArrayLike
) -> npt.NDArray[np.int64]:
    """A, B, C and the two signed products (5, activations, words)."""
    operand, word = np.array(x, np.int32), np.array(words, np.int32)
    result = np.empty((operand.size, word.size, 5), np.int64)
    arguments = (int(mode), operand.size, pointer(operand), word.size, pointer(word), pointer(result))
    assert library("shift_multiplier", integers).unit_shift_products(each.number, *arguments) == 0
    return np.moveaxis(result, 2, 0)


def signed_products(
    fmt: ShiftFormat, mode: WeightMode, x: npt.NDArray[np.int64], words: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """What both accumulators add (2, activations, words): products of the integers that the words stand for."""
    values = code_values(fmt, mode)
    if mode == WeightMode.TWO_HOT:
        first, second = values[words], np.zeros(words.size, np.int64)
    else:
        first, second = (values[field] for field in split_words(words, fmt))
    return np.stack([np.outer(x, first), np.outer(x, second)])


def activations(fmt: ShiftFormat) -> npt.NDArray[np.int64]:
    """All of up to 8 bits, of more the extremes and a thousandth."""
    return np.unique([*range(fmt.x_min, fmt.x_max + 1, 1 << max(0, fmt.x_width - 8)), fmt.x_max, 0, 1])


@pytest.mark.parametrize("integers", BUILDS)
def test_every_word_times_every_activation(integers: Integers) -> None:
    """SM R2, SM R7-R9, SM R11-R14, SM R16, SM R17, SM R20, SM R23: all widths, distances, bases, signs and zero codes.

    Words and products are as wide as the format says, and no product leaves its width."""
    formats = cpp_formats(integers)
    assert len(formats) == {"native": 58, "ap_int": 25}[integers]
    for each in formats:
        fmt, x, words = each.format, activations(each.format), np.arange(1 << each.word_bits)
        assert (each.word_bits, each.term_bits, each.sum_bits) == (fmt.word_bits, fmt.term_bits, fmt.sum_bits)
        for mode in each.modes:
            a, b, c, *signed = cpp_products(integers, each, mode, x, words)
            np.testing.assert_array_equal(signed, signed_products(fmt, mode, x, words), str(fmt))
            for product, bits in ((a, each.term_bits), (b, each.sum_bits), (c, each.term_bits)):
                assert -(1 << (bits - 1)) <= product.min() <= product.max() < 1 << (bits - 1)


#: Activations of an array are signed.
SIGNED = [case for case in PRODUCTS if vector_format(case["format"]).x_signed]


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("case", SIGNED, ids=lambda case: case["id"])
def test_product_vectors(case: dict[str, Any], integers: Integers) -> None:
    """SM R1, SM R7-R9, SM R11-R14, SM R18: A, B and C, and where they go."""
    each = find(integers, vector_format(case["format"]))
    two_hot, pow2 = case["two_hot"], case["pow2"]
    found = cpp_products(integers, each, WeightMode.TWO_HOT, [case["x"]], [case["word"]]).reshape(-1)
    assert found.tolist() == [two_hot["A"], two_hot["B"], two_hot["C"], two_hot["product"], 0]
    found = cpp_products(integers, each, WeightMode.POW2, [case["x"]], [case["word"]]).reshape(-1)
    assert [found[0], found[2], *found[3:]] == [pow2["A"], pow2["C"], *pow2["products"]]


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("table", DECODE, ids=lambda table: str(vector_format(table["format"])))
def test_decoding_vectors(table: dict[str, Any], integers: Integers) -> None:
    """SM R2, SM R3, SM R5, SM R36: every word, as the product with one"""
    each, words = find(integers, vector_format(table["format"])), [code["code"] for code in table["codes"]]
    two_hot = cpp_products(integers, each, WeightMode.TWO_HOT, [1], words)
    assert two_hot[3].reshape(-1).tolist() == [code["two_hot"] for code in table["codes"]]
    pow2 = cpp_products(integers, each, WeightMode.POW2, [1], words)
    assert pow2[3:, 0].T.tolist() == [code["pow2"] for code in table["codes"]]
