"""The function unit on arrays: the rows of ``contract/functions.py`` applied to accumulators (BFP 4.4, R11)."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from bfpga.contract.functions import ACTIVATION_EXPONENT, GRID_BITS, TABLE_STEPS, Function, Setting, Table
from bfpga.formats.rounding import Int64Array, shift_round, shift_saturate


@cache
def _points(table: Table) -> Int64Array:
    return np.array(table.points, np.int64)


def interpolate(table: Table, v: Int64Array, e3: npt.ArrayLike) -> Int64Array:
    """A table's function of v * 2**e3 in units of 2**-14; the grid's rounding is always half to even."""
    limit, points = table.limit << GRID_BITS, _points(table)
    fraction_bits = (2 * limit // TABLE_STEPS).bit_length() - 1
    argument, _ = shift_saturate(v, -(np.asarray(e3, np.int64) + GRID_BITS), "rne", -limit, limit)
    offset = argument + limit
    step = offset >> fraction_bits
    fraction = offset & ((1 << fraction_bits) - 1)
    start = points[step]
    # The fraction is 0 at the last entry, so its clamped neighbour does not matter.
    slope = points[np.minimum(step + 1, TABLE_STEPS)] - start
    result: Int64Array = start + shift_round(slope * fraction, fraction_bits, "rne")
    return result


def result_exponent(function: int, e3: Int64Array) -> Int64Array:
    """Exponents of the results of values with exponents e3."""
    return np.full_like(e3, ACTIVATION_EXPONENT) if Function(function).row.unit == "table" else e3


def apply_function(v: Int64Array, e3: Int64Array, function: int, setting: Setting) -> tuple[Int64Array, Int64Array]:
    """The function of v * 2**e3 (e3 broadcasts to v): values and exponents, step 3 of the output stage."""
    method = Function(function).row.method
    value = interpolate(method, v, e3) if isinstance(method, Table) else method.compute(v, e3, setting)
    return value, result_exponent(function, e3)
