"""The function unit: sigmoid and tanh from 257-entry tables, ReLU, leaky ReLU, clip (BFP 4.4, R11).

``TABLES`` is the one truth: the C++ header is rendered from it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import ACTIVATION_EXPONENT
from bfpga.contract.descriptor import Function
from bfpga.formats.arrays import Int64Array
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.rounding import shift_round, shift_saturate

#: Steps of a table; it has one entry more.
TABLE_STEPS = 256
#: Fraction bits of the grid the argument is rounded to.
GRID_BITS = 10


def _sigmoid(x: Decimal) -> Decimal:
    return 1 / (1 + (-x).exp())


def _tanh(x: Decimal) -> Decimal:
    square = (2 * x).exp()
    return (square - 1) / (square + 1)


def _table(function: Callable[[Decimal], Decimal], limit: int) -> tuple[int, ...]:
    """function * 2**14 at 257 points of [-limit, limit]. Decimal, not the C library, so every platform agrees."""
    with localcontext(Context(prec=40)):
        return tuple(
            int(
                (function(Decimal(2 * limit * step) / TABLE_STEPS - limit) * (1 << -ACTIVATION_EXPONENT)).quantize(
                    Decimal(1), ROUND_HALF_EVEN
                )
            )
            for step in range(TABLE_STEPS + 1)
        )


#: Function -> limit of its argument, values at 257 equidistant points with exponent -14.
TABLES: dict[str, tuple[int, tuple[int, ...]]] = {
    "sigmoid": (8, _table(_sigmoid, 8)),
    "tanh": (4, _table(_tanh, 4)),
}
_ARRAYS = {name: np.array(values, np.int64) for name, (_, values) in TABLES.items()}


def interpolate(name: str, v: Int64Array, e3: npt.ArrayLike) -> Int64Array:
    """sigmoid or tanh of v * 2**e3 as integers with exponent -14; the grid's rounding is always half to even."""
    limit = TABLES[name][0] << GRID_BITS
    table = _ARRAYS[name]
    fraction_bits = (2 * limit // TABLE_STEPS).bit_length() - 1
    argument, _ = shift_saturate(v, -(np.asarray(e3, np.int64) + GRID_BITS), "rne", -limit, limit)
    argument = argument + limit
    step = argument >> fraction_bits
    fraction = argument & ((1 << fraction_bits) - 1)
    start = table[step]
    # The fraction is 0 at the last entry, so its clamped neighbour does not matter.
    slope = table[np.minimum(step + 1, TABLE_STEPS)] - start
    result: Int64Array = start + shift_round(slope * fraction, fraction_bits, "rne")
    return result


def apply_function(
    v: Int64Array,
    e3: Int64Array,
    function: int,
    argument: int,
    function_exponent: int,
    fmt: BlockFormat,
    accumulator_bits: int,
) -> tuple[Int64Array, Int64Array]:
    """The function of v * 2**e3 (e3 broadcasts to v): values and exponents, step 3 of the output stage.

    argument: right shift of leaky ReLU, or mantissa of clip's upper bound, whose exponent is ``function_exponent``.
    """
    if function == Function.RELU:
        return np.maximum(v, 0), e3
    if function == Function.LEAKY_RELU:
        return np.where(v < 0, shift_round(v, argument, fmt.rounding), v), e3
    if function == Function.CLIP:
        largest = (1 << (accumulator_bits - 1)) - 1
        bound, _ = shift_saturate(argument, e3 - function_exponent, fmt.rounding, -largest - 1, largest)
        return np.minimum(np.maximum(v, 0), bound), e3
    if function in (Function.SIGMOID, Function.TANH):
        return interpolate(Function(function).name.lower(), v, e3), np.full_like(e3, ACTIVATION_EXPONENT)
    return v, e3
