"""The function unit on arrays: the rows of ``contract/functions.py`` applied to accumulators (BFP 4.4, R11)."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from bfpga.contract.functions import ACTIVATION_EXPONENT, GRID_BITS, TABLE_STEPS, Function, Setting, Table
from bfpga.formats.arrays import Int64Array
from bfpga.formats.rounding import shift_round, shift_saturate


@cache
def _points(table: Table) -> Int64Array:
    return np.array(table.points, np.int64)


def interpolate(table: Table, v: Int64Array, e3: npt.ArrayLike) -> Int64Array:
    """What a table holds for v * 2**e3, in units of 2**-14; the grid's rounding is always half to even."""
    limit, points = table.limit << GRID_BITS, _points(table)
    argument, _ = shift_saturate(v, -(np.asarray(e3, np.int64) + GRID_BITS), "rne", -limit, limit)
    offset = argument + limit if table.symmetry == "none" else np.abs(argument)
    fraction_bits = ((table.width << GRID_BITS) // TABLE_STEPS).bit_length() - 1
    step = offset >> fraction_bits
    fraction = offset & ((1 << fraction_bits) - 1)
    start = points[step]
    # The fraction is 0 at the last entry, so its clamped neighbour does not matter.
    slope = points[np.minimum(step + 1, TABLE_STEPS)] - start
    result: Int64Array = start + shift_round(slope * fraction, fraction_bits, "rne")
    return np.where(argument < 0, -result, result) if table.symmetry == "odd" else result


def result_exponent(function: int, e3: Int64Array) -> Int64Array:
    """Exponents of the results of values with exponents e3."""
    unit = Function(function).row.unit
    if unit == "finer":
        return np.minimum(e3, ACTIVATION_EXPONENT)
    return np.full_like(e3, ACTIVATION_EXPONENT) if unit == "table" else e3


def collected_exponent(function: int, e_acc: Int64Array) -> Int64Array:
    """What the bins of the collector are counted from, for accumulators with exponents e_acc."""
    return np.full_like(e_acc, ACTIVATION_EXPONENT) if Function(function).row.unit == "table" else e_acc


def _less(v: Int64Array, e3: Int64Array, number: Int64Array, accumulator_bits: int) -> Int64Array:
    """max(v, 0) * 2**e3 less a table's number, in the finer of their units: the other moves left, and may saturate."""
    largest = (1 << (accumulator_bits - 1)) - 1
    unit = np.minimum(e3, ACTIVATION_EXPONENT)
    positive, _ = shift_saturate(np.maximum(v, 0), unit - e3, "trunc", 0, largest)
    taken, _ = shift_saturate(number, unit - ACTIVATION_EXPONENT, "trunc", 0, largest)
    return positive - taken


def _more(v: Int64Array, e3: Int64Array, number: Int64Array, accumulator_bits: int) -> Int64Array:
    """max(v, 0) * 2**e3, rounded half to even to the unit of tables, and a table's number; saturates."""
    largest = (1 << (accumulator_bits - 1)) - 1
    positive, _ = shift_saturate(np.maximum(v, 0), ACTIVATION_EXPONENT - e3, "rne", 0, largest)
    result: Int64Array = np.minimum(positive + number, largest)
    return result


def apply_function(v: Int64Array, e3: Int64Array, function: int, setting: Setting) -> tuple[Int64Array, Int64Array]:
    """The function of v * 2**e3 (e3 broadcasts to v): values and exponents, step 3 of the output stage."""
    method = Function(function).row.method
    if not isinstance(method, Table):
        return method.compute(v, e3, setting), result_exponent(function, e3)
    value = interpolate(method, v, e3)
    if method.holds != "value":
        join = _less if method.holds == "below_relu" else _more
        value = join(v, e3, value, setting.accumulator_bits)
    return value, result_exponent(function, e3)
