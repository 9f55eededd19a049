"""Weights as powers of two and as sums of two: values of every code, decoder, words (SM 2.2 to 2.4).

A *code* is what one weight takes: a word in two-hot mode, a field in power-of-two mode. The encoder is in
``logarithmic_encoder``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.arrays import BoolArray, FloatArray, Int64Array, IntArray
from bfpga.formats.shift_format import ShiftFormat, WeightMode


def code_dtype(bits: int) -> np.dtype[Any]:
    """Smallest unsigned integer type that holds a code or a word of ``bits`` bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16)


class Fields:
    """The parts of fields, as integer arrays: ``negative`` and ``flagged`` are 0 or 1, ``exponent`` is unsigned."""

    def __init__(self, fields: npt.ArrayLike, fmt: ShiftFormat) -> None:
        field: Int64Array = np.asarray(fields, np.int64)
        self.exponent = field & fmt.exp_max
        self.negative = (field >> fmt.sign_position) & int(fmt.weight_signed)
        self.flagged = (field >> fmt.flag_position) & int(fmt.zero_code == "flag")

    def hold_zero_code(self, fmt: ShiftFormat) -> BoolArray:
        """Which of them are the zero code, whether it is active or not. SM R13."""
        if fmt.zero_code == "neg_min":
            return np.asarray((self.negative == 1) & (self.exponent == 0))
        if fmt.zero_code == "exp_max":
            return np.asarray(self.exponent == fmt.exp_max)
        return np.asarray(self.flagged == 1)


def split_words(words: npt.ArrayLike, fmt: ShiftFormat) -> tuple[Int64Array, Int64Array]:
    """Field 2 (high half; A, accumulator 0) and field 1 (low half; C, accumulator 1) of weight words. SM R2, R5."""
    word: Int64Array = np.asarray(words, np.int64)
    mask = (1 << fmt.field_bits) - 1
    return (word >> fmt.field_bits) & mask, word & mask


def join_fields(field2: npt.ArrayLike, field1: npt.ArrayLike, fmt: ShiftFormat) -> npt.NDArray[Any]:
    """Weight words of two fields (two power-of-two codes). Inverse of ``split_words``."""
    word = (np.asarray(field2, np.int64) << fmt.field_bits) | np.asarray(field1, np.int64)
    return word.astype(code_dtype(fmt.word_bits))


def _magnitudes(fields: Fields, fmt: ShiftFormat, mode: WeightMode) -> Int64Array:
    powers = np.int64(1) << (fields.exponent * fmt.base_log2)
    if not fmt.zero_code_active(mode):
        return powers
    return np.where(fields.hold_zero_code(fmt), 0, powers)


def _freeze(values: Int64Array) -> Int64Array:
    values.setflags(write=False)  # it is shared by all who ask
    return values


@functools.lru_cache(maxsize=64)
def code_values(fmt: ShiftFormat, mode: WeightMode) -> Int64Array:
    """Integer value of every code of a mode, by code. SM 2.3, 2.4."""
    codes: Int64Array = np.arange(1 << fmt.code_bits(mode), dtype=np.int64)
    if mode == WeightMode.POW2:
        fields = Fields(codes, fmt)
        return _freeze(np.where(fields.negative, -1, 1) * _magnitudes(fields, fmt, mode))
    field2, field1 = (Fields(part, fmt) for part in split_words(codes, fmt))
    term2 = _magnitudes(field2, fmt, mode)
    term1 = _magnitudes(field1, fmt, mode) << fmt.d
    relative = field1.negative ^ (field2.negative if fmt.sign_mode == "absolute" else 0)
    return _freeze(np.where(field2.negative, -1, 1) * (term2 + np.where(relative, -term1, term1)))


def decode(codes: npt.ArrayLike, fmt: ShiftFormat, mode: WeightMode) -> Int64Array:
    """Integer weights of codes of any shape; ``DataError`` if a number is no code. SM R36."""
    table = code_values(fmt, mode)
    codes = np.asarray(codes)
    check_bits(codes, fmt.code_bits(mode), f"{mode.name.lower()} codes")
    return np.asarray(table[codes])


def check_bits(values: IntArray, bits: int, what: str) -> None:
    """``DataError`` unless all values are integers that fit ``bits`` bits without a sign."""
    if values.dtype.kind not in "iu" and values.size:
        raise DataError(f"{what} are whole numbers, the data is {values.dtype}")
    if values.size and (int(values.min()) < 0 or int(values.max()) >> bits):
        wrong = int(values.min()) if int(values.min()) < 0 else int(values.max())
        raise DataError(f"{what} have {bits} bits (0 to {(1 << bits) - 1}): {wrong} is none")


def decode_real(
    codes: npt.ArrayLike,
    fmt: ShiftFormat,
    mode: WeightMode,
    weight_frac: npt.ArrayLike,
    dtype: npt.DTypeLike = np.float32,
) -> FloatArray:
    """Real weights of codes: integer weight * 2**-weight_frac. weight_frac: one, or one for each of the first axis."""
    values = decode(codes, fmt, mode).astype(np.float64)
    fraction = np.asarray(weight_frac, np.int32)
    scale = fraction.reshape(fraction.shape + (1,) * (values.ndim - fraction.ndim))
    result: FloatArray = np.ldexp(values, -scale).astype(dtype)
    return result
