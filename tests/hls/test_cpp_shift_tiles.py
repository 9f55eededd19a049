"""shift_tiles.hpp and column_weights.hpp against the decoder of the formats: with native integers and with ap_int."""

from __future__ import annotations

import ctypes
import functools
import itertools
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import BUILDS, library
from shift_cases import reference_values

from bfpga.devices.csim import Integers
from bfpga.formats.logarithmic import code_values
from bfpga.formats.shift_format import ShiftFormat, SignMode, WeightMode, ZeroCode, ZeroScope

Int64Array = npt.NDArray[np.int64]

#: Arrays of the list in tests/cpp/shift_tiles.cpp: those whose columns all shift, then the mixed ones.
SHIFT_ARRAYS, MIXED_ARRAYS = range(9), range(9, 16)
ROWS, LANES, COLUMNS = 2, 2, 3
#: Columns of a mixed array: with DSP slices, and with shift units.
DSP_COLUMN, SHIFT_COLUMN = 0, COLUMNS - 1
#: What the accumulators hold before a clock: odd, so that a sum that is not taken shows.
BEFORE = np.array([1001, -2003, 3007, -4001], np.int64)


@dataclass(frozen=True)
class CppArray:
    """One array of the list, as its parameters tell."""

    number: int
    integers: Integers
    format: ShiftFormat
    shift_columns: int
    weight_bits: int
    accumulator_rows: int

    @property
    def words(self) -> Int64Array:
        return np.arange(1 << self.format.word_bits, dtype=np.int64)

    @property
    def activations(self) -> Int64Array:
        return np.arange(self.format.x_min, self.format.x_max + 1, dtype=np.int64)

    def clocks(
        self,
        weights: npt.ArrayLike,
        x: npt.ArrayLike,
        power_of_two: bool = False,
        column: int = SHIFT_COLUMN,
        two_hot: bool = True,
        keep: bool = False,
    ) -> Int64Array:
        """Accumulators (clocks, accumulators) after each clock of a column: weights (clocks, rows, lanes), x
        (clocks, lanes)."""
        word, operand = np.array(weights, np.int32), np.array(x, np.int32)
        assert word.shape == (len(operand), ROWS, LANES)
        assert operand.shape == (len(operand), LANES)
        result = np.empty((len(operand), self.accumulator_rows), np.int64)
        arguments = (column, int(two_hot), int(power_of_two), int(keep), len(operand))
        pointers = map(_pointer, (word, operand, BEFORE, result))
        assert library("shift_tiles", self.integers).unit_array_clocks(self.number, *arguments, *pointers) == 0
        return result


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


@functools.cache
def cpp_array(number: int, integers: Integers) -> CppArray:
    """An array by its number."""
    parameters = (ctypes.c_int32 * 10)()
    assert library("shift_tiles", integers).unit_array_parameters(number, parameters) == 0
    x_width, exp_width, d, base, zero, scope, sign, columns, bits, accumulators = parameters
    fmt = ShiftFormat(
        x_width=x_width, exp_width=exp_width, d=d, base_log2=base, zero_code=get_args(ZeroCode)[zero],
        zero_scope=get_args(ZeroScope)[scope], sign_mode=get_args(SignMode)[sign],
    )  # fmt: skip
    return CppArray(number, integers, fmt, columns, bits, accumulators)


def test_the_list_ends_where_this_file_says() -> None:
    parameters = (ctypes.c_int32 * 10)()
    assert library("shift_tiles", "native").unit_array_parameters(MIXED_ARRAYS.stop, parameters) == 1
    assert [cpp_array(n, "native").shift_columns for n in SHIFT_ARRAYS] == [0] * len(SHIFT_ARRAYS)
    assert [cpp_array(n, "native").shift_columns for n in MIXED_ARRAYS] == [1] * len(MIXED_ARRAYS)


@pytest.mark.parametrize("number", SHIFT_ARRAYS)
@pytest.mark.parametrize("integers", BUILDS)
def test_sums_of_many_clocks_are_those_of_plain_integers(number: int, integers: Integers) -> None:
    """SM R17, SM R20, SM R22, SM R23, SM R31: either mode; two-hot products never reach accumulators of second rows."""
    array, rng = cpp_array(number, integers), np.random.default_rng(number)
    words = rng.choice(array.words, (200, ROWS, LANES))
    x = rng.choice(array.activations, (200, LANES))
    for pow2 in (False, True):
        found = array.clocks(words, x, power_of_two=pow2, keep=True)
        sums = [int(value) for value in BEFORE]
        for n in range(len(words)):
            for r, lane in itertools.product(range(ROWS), range(LANES)):
                two_hot, (first, second) = reference_values(array.format, int(words[n, r, lane]))
                sums[r] += (first if pow2 else two_hot) * int(x[n, lane])
                sums[ROWS + r] += (second if pow2 else 0) * int(x[n, lane])
            assert found[n].tolist() == sums


def mantissa_words(array: CppArray) -> Int64Array:
    """Two-hot words that a mixed array may get: their values are mantissas."""
    values = code_values(array.format, WeightMode.TWO_HOT)
    kept: Int64Array = array.words[np.abs(values) <= array.format.x_max]
    return kept


@pytest.mark.parametrize("number", MIXED_ARRAYS)
@pytest.mark.parametrize("integers", BUILDS)
def test_columns_of_both_kinds_give_the_same_sums(number: int, integers: Integers) -> None:
    """SM R32: two-hot words that are mantissas, at random in all cells."""
    array, rng = cpp_array(number, integers), np.random.default_rng(number)
    allowed, values = mantissa_words(array), code_values(array.format, WeightMode.TWO_HOT)
    cells, operands = rng.choice(allowed, (2000, ROWS, LANES)), rng.choice(array.activations, (2000, LANES))
    shifted = array.clocks(cells, operands, column=SHIFT_COLUMN)
    multiplied = array.clocks(cells, operands, column=DSP_COLUMN)
    np.testing.assert_array_equal(shifted, multiplied)
    sums = np.einsum("nrl,nl->nr", values[cells], operands)
    np.testing.assert_array_equal(shifted, BEFORE[:ROWS] + sums)


@pytest.mark.parametrize("number", MIXED_ARRAYS)
@pytest.mark.parametrize("integers", BUILDS)
def test_columns_of_dsp_slices_take_any_mantissa_of_a_linear_layer(number: int, integers: Integers) -> None:
    array, rng = cpp_array(number, integers), np.random.default_rng(number)
    limit = array.format.x_max
    mantissas = rng.integers(-limit, limit + 1, (500, ROWS, LANES))
    mantissas[:4] = [[[limit, -limit], [-limit, limit]]] * 4
    operands = rng.choice(array.activations, (500, LANES))
    operands[:4] = [[low, high] for low in (-limit - 1, limit) for high in (-limit - 1, limit)]
    found = array.clocks(mantissas, operands, column=DSP_COLUMN, two_hot=False)
    np.testing.assert_array_equal(found, BEFORE[:ROWS] + np.einsum("nrl,nl->nr", mantissas, operands))
