"""systolic/array.hpp: passes of all kinds of multipliers against integer sums, with operands that come irregularly."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import BUILDS, library
from shift_cases import reference_values

from bfpga.devices.csim import Integers
from bfpga.formats.shift_format import ShiftFormat

#: The arrays of tests/cpp/array_process.cpp whose words are mantissas, and those that shift in all or in some columns.
MULTIPLYING, SHIFTING, MIXED = (0, 1, 2, 3, 4, 9, 10, 11), (5, 8), (6, 7)
#: Those with a row pair for each channel of a word.
REUSING = (0, 9)
#: Value of every two-hot word of the shift units, and of its two fields as powers of two.
TWO_HOT = np.array([reference_values(ShiftFormat(), word)[0] for word in range(256)])
POWERS = np.array([reference_values(ShiftFormat(), word)[1] for word in range(256)])

Integer = npt.NDArray[np.int64]


class _Pass(ctypes.Structure):
    _fields_ = (
        ("beats", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("operand", "mine", "control", "weight")),
        ("two_hot", ctypes.c_uint8),
        ("power_of_two", ctypes.c_uint8),
        ("begins_row", ctypes.c_void_p),
        ("late", ctypes.c_uint8),
        ("rarely", ctypes.c_int32),
        ("seed", ctypes.c_int32),
        ("capacity", ctypes.c_int32),
        ("sum", ctypes.c_void_p),
        ("rows", ctypes.c_int32),
    )


@dataclass
class Array:
    """What an array of the list is."""

    number: int
    integers: Integers
    mantissa_bits: int
    columns: int
    rows: int
    lanes: int
    shift_columns: int
    accumulator_rows: int
    weight_bits: int

    @staticmethod
    def of(number: int, integers: Integers) -> Array:
        numbers = np.zeros(7, np.int32)
        assert library("array_process", integers).unit_array_numbers(number, ctypes.c_void_p(numbers.ctypes.data)) == 0
        return Array(number, integers, *numbers.tolist())

    @property
    def largest_weight(self) -> int:
        """Of weights that are mantissas."""
        return (1 << (self.weight_bits - 1)) - 1

    def run(
        self, beats: Beats, two_hot: bool = False, power_of_two: bool = False, rarely: int = 0,
        begins_row: npt.NDArray[np.uint8] | None = None, late: bool = False,
    ) -> Integer:  # fmt: skip
        """Sums (rows of all passes, columns) of one start. ``rarely``: eighths of the clocks without an operand.

        ``late``: no weight of a pass is there before all sums of the pass before have left.

        begins_row: (columns,), of columns that take taps from their neighbours; None: they do not.
        """
        sums = np.zeros((4096, self.columns), np.int64)
        arrays = [
            np.ascontiguousarray(array, kind)
            for array, kind in (
                (beats.operand, np.int32), (beats.mine, np.uint8), (beats.control, np.uint8), (beats.weight, np.int32),
            )
        ]  # fmt: skip
        job = _Pass(
            len(beats.operand), *(array.ctypes.data for array in arrays), two_hot, power_of_two,
            None if begins_row is None else begins_row.ctypes.data, late, rarely, 7, len(sums), sums.ctypes.data,
        )  # fmt: skip
        assert library("array_process", self.integers).unit_array_run(self.number, ctypes.byref(job)) == 0
        return sums[: job.rows]


@dataclass
class Beats:
    """Operands (beats, columns, lanes), the columns they are for, fires/first/last, weights of the beats that fire."""

    operand: Integer
    mine: Integer
    control: Integer
    weight: Integer


def passes(
    array: Array, rng: np.random.Generator, steps: list[int], slots: int, words: Any
) -> tuple[Beats, list[tuple[Integer, Integer]]]:
    """Passes of so many steps, each step in ``slots`` beats, and operands and weights of each pass.

    A column takes its operand in one of the slots and finds other numbers in the rest.
    """
    limit = 1 << (array.mantissa_bits - 1)
    operand, mine, control, weight, parts = [], [], [], [], []
    for count in steps:
        x = rng.choice([rng.integers(-limit, limit), -limit, limit - 1], (count, array.columns, array.lanes))
        x = np.where(rng.random(x.shape) < 0.8, rng.integers(-limit, limit, x.shape), x)
        w = words((count, array.rows, array.lanes))
        parts.append((x, w))
        for step, slot in itertools.product(range(count), range(slots)):
            turn = np.arange(array.columns) % slots == slot
            noise = rng.integers(-limit, limit, x.shape[1:])
            operand.append(np.where(turn[:, None], x[step], noise))
            mine.append(turn)
            fires = slot == slots - 1
            control.append([fires, step == 0, step == count - 1])
            if fires:
                weight.append(w[step])
    return Beats(*(np.array(values) for values in (operand, mine, control, weight))), parts


def expected(parts: list[tuple[Integer, Integer]]) -> Integer:
    """Rows of sums of all passes."""
    return np.concatenate([np.einsum("ncl,nrl->rc", x, w) for x, w in parts])


def symmetric(array: Array, rng: np.random.Generator) -> Any:
    """Weights of an array that multiplies; the extremes are frequent."""
    limit = array.largest_weight

    def words(shape: tuple[int, ...]) -> Integer:
        return np.where(
            rng.random(shape) < 0.6, rng.integers(-limit, limit + 1, shape), rng.choice([-limit, limit], shape)
        )

    return words


@pytest.mark.parametrize("rarely", [0, 3])
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("number", MULTIPLYING)
@pytest.mark.parametrize("integers", BUILDS)
def test_sums_of_passes_equal_integers(integers: Integers, number: int, slots: int, rarely: int) -> None:
    """Passes shorter and longer than the rows that leave, operands in parts, clocks without an operand, two starts.

    R62: weights go from one block of columns to the next one, a step later.
    """
    array = Array.of(number, integers)
    rng = np.random.default_rng(number)
    for steps in ([1, 1, 1, 7], [array.rows] * 3 + [array.rows - 1, 20, 2]):
        beats, parts = passes(array, rng, steps, slots, symmetric(array, rng))
        assert np.array_equal(array.run(beats, rarely=rarely), expected(parts))


@pytest.mark.parametrize("number", MULTIPLYING)
def test_sums_leave_while_the_weights_of_the_next_pass_are_late(number: int) -> None:
    """Weights may wait behind parameters that are taken with those sums."""
    array = Array.of(number, "native")
    rng = np.random.default_rng(number)
    beats, parts = passes(array, rng, [3, 1, 1, array.rows + 2], 1, symmetric(array, rng))
    assert np.array_equal(array.run(beats, late=True), expected(parts))


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("number", MULTIPLYING)
def test_extremes_of_a_chain(integers: Integers, number: int) -> None:
    """All lanes at their limits, each sign beside each other one in the rows that share a slice."""
    array = Array.of(number, integers)
    limit = 1 << (array.mantissa_bits - 1)
    most = array.largest_weight
    pairs = list(itertools.product((-limit, limit - 1, 0, -1), (-most, most, -1), (-most, most, 1)))
    x = np.array([np.full((array.columns, array.lanes), value) for value, _, _ in pairs])
    w = np.zeros((len(pairs), array.rows, array.lanes), np.int64)
    for step, (_, even, odd) in enumerate(pairs):
        w[step, ::2], w[step, 1::2] = even, odd
    single = np.ones((len(pairs), 3), np.int64)
    result = array.run(Beats(x, np.ones(x.shape[:2], np.int64), single, w))
    assert np.array_equal(result, expected([(x[k : k + 1], w[k : k + 1]) for k in range(len(pairs))]))


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("number", REUSING)
@pytest.mark.parametrize("integers", BUILDS)
def test_columns_take_taps_from_their_neighbours(integers: Integers, number: int, slots: int) -> None:
    """Issue 14, item 5: a kernel row a step, zeros beyond the ends of a row, operands of blocks that hop; then a pass
    without neighbours."""
    array = Array.of(number, integers)
    rng = np.random.default_rng(number)
    begins_row = (np.arange(array.columns) % 5 == 0).astype(np.uint8)
    steps = [1, 3, 3, 9]
    largest = array.largest_weight
    kernels = [rng.integers(-largest, largest + 1, (count, array.lanes, 3)) for count in steps]
    words = iter([row_pairs(array, kernel) for kernel in kernels])
    beats, parts = passes(array, rng, steps, slots, lambda _: next(words))
    sums = [beside(x, kernel, begins_row) for (x, _), kernel in zip(parts, kernels, strict=True)]
    assert np.array_equal(array.run(beats, rarely=1, begins_row=begins_row), np.concatenate(sums))
    beats, parts = passes(array, rng, [2, 5], slots, symmetric(array, rng))
    assert np.array_equal(array.run(beats), expected(parts))


def row_pairs(array: Array, kernel: Integer) -> Integer:
    """Weights (steps, rows, lanes) of kernel rows (steps, channels, 3): lane c of row 2c has the middle tap."""
    words = np.zeros((len(kernel), array.rows, array.lanes), np.int64)
    for channel in range(array.lanes):
        for tap, lane in ((1, channel), (0, channel + 1), (2, channel + 2)):
            words[:, 2 * channel, lane % array.lanes] = kernel[:, channel, tap]
    return words


def beside(x: Integer, kernel: Integer, begins_row: npt.NDArray[np.uint8]) -> Integer:
    """Sums (channels, columns) of operands (steps, columns, channels) and those beside them in their row."""
    left, right = np.roll(x, 1, axis=1), np.roll(x, -1, axis=1)
    left[:, begins_row != 0] = 0
    right[:, [*np.flatnonzero(begins_row)[1:] - 1, -1]] = 0
    return sum(np.einsum("nic,nc->ci", part, kernel[:, :, tap]) for tap, part in enumerate((left, x, right)))


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("number", [*SHIFTING, *MIXED])
def test_two_hot_weights_give_the_same_sums_in_all_columns(integers: Integers, number: int) -> None:
    array = Array.of(number, integers)
    rng = np.random.default_rng(number)
    # Columns that multiply take the values as mantissas.
    words = np.flatnonzero(np.abs(TWO_HOT) < 128)
    beats, parts = passes(array, rng, [3, 1, 12], 2, lambda shape: rng.choice(words, shape))
    sums = expected([(x, TWO_HOT[w]) for x, w in parts])
    assert np.array_equal(array.run(beats, two_hot=True, rarely=2), sums)


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("number", MIXED)
def test_mixed_arrays_multiply_mantissas_in_their_first_columns(integers: Integers, number: int) -> None:
    array = Array.of(number, integers)
    rng = np.random.default_rng(number)
    beats, parts = passes(array, rng, [3, 9], 1, symmetric(array, rng))
    multiplying = slice(0, array.columns - array.shift_columns)
    assert np.array_equal(array.run(beats)[:, multiplying], expected(parts)[:, multiplying])


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("number", SHIFTING)
def test_powers_of_two_give_two_rows_for_each_weight_row(integers: Integers, number: int) -> None:
    """Rows of field 2, then rows of field 1; passes as short as a step, of one row of weights too."""
    array = Array.of(number, integers)
    rng = np.random.default_rng(number)
    for slots, rarely in ((2, 1), (1, 0)):
        beats, parts = passes(array, rng, [1, 1, 5, 2], slots, lambda shape: rng.integers(0, 256, shape))
        both = [(x, np.concatenate([POWERS[w, field] for field in (0, 1)], axis=1)) for x, w in parts]
        assert np.array_equal(array.run(beats, power_of_two=True, rarely=rarely), expected(both))
