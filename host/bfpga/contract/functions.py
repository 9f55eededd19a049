"""The functions of the output stage: one row each, which all other code reads.

A new function with a table is a member of ``Function`` with its row in ``ROWS``, no more; one by arithmetic has its
lines in C++ too (output/activation_unit.hpp, where an assertion counts them). The names in YAML files, the ONNX
operators that become it, its numbers in a descriptor, numpy's arithmetic, tables and dispatch in C++, the native layers
of the emulator, the cost, the random networks of `bfpga verify` and the table of the documentation follow from the row.
Only the standard library, numpy and ``bfpga.formats`` are imported: a board loads this module too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from enum import IntEnum
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from bfpga.formats.arrays import FloatArray, Int64Array
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.rounding import shift_round, shift_saturate

#: Exponent of what tables hold (BFP 4.4).
ACTIVATION_EXPONENT = -14
#: Fraction bits of the grid that a table's argument is rounded to.
GRID_BITS = 10
#: Steps of a table; it has one entry more.
TABLE_STEPS = 256
#: LUTs of one table in a column: 257 x 15 bits, read twice a cycle.
TABLE_LUT = 2 * 64
#: Largest limit of a table, half of it where it has no symmetry: tables that are loaded have it too.
LARGEST_LIMIT = 16
#: Mantissa bits that a clip bound may take.
BOUND_BITS = 16
#: Times the limit of a table: functions have reached their tails there.
_FAR = 128
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


class Function(IntEnum):
    """The function unit (BFP R11)."""

    NONE = 0
    RELU = 1
    LEAKY_RELU = 2
    SIGMOID = 3
    TANH = 4
    CLIP = 5
    HARD_SIGMOID = 6
    HARD_SWISH = 7
    SILU = 8
    GELU = 9
    SOFTPLUS = 10
    MISH = 11
    ELU = 12
    ERF = 13

    @staticmethod
    def named(key: str) -> Function:
        """The function of a name in a YAML file; KeyError for others."""
        return Function[key.upper()]

    @property
    def key(self) -> str:
        """Its name in YAML files, reports and eager calls."""
        return self.name.lower()

    @property
    def row(self) -> FunctionRow:
        """What there is to know about it."""
        return ROWS[self]


class UnfitArgumentError(ValueError):
    """The function unit cannot have this argument; the text says why."""


class Setting(NamedTuple):
    """What arithmetic may read with the value: a descriptor's argument with its exponent, numbers of the array."""

    argument: int
    exponent: int
    format: BlockFormat
    accumulator_bits: int


@dataclass(frozen=True)
class Arithmetic:
    """A function by integer arithmetic on accumulators.

    compute: of values v with exponents e3 (broadcast to v), in the same unit; lut: of one column, from the
    accumulator's bits and the stages of a shifter for them.
    """

    compute: Callable[[Int64Array, Int64Array, Setting], Int64Array]
    lut: Callable[[int, int], int]


@dataclass(frozen=True)
class Table:
    """A function by linear interpolation between ``TABLE_STEPS`` + 1 equidistant points of [-limit, limit].

    Beyond the limit (a power of two, up to ``LARGEST_LIMIT``) it keeps its value there. exact: in decimal numbers, not
    by the C library, so that every platform makes the same points.
    holds: f(x), or its distance from max(x, 0), to which the argument contributes without being rounded: what it is
    below (max(x, 0) - f(x)) or above (f(x) - max(x, 0)); no point of a distance is negative.
    symmetry: "even" and "odd" tables cover [0, limit] only, so their steps are half as wide; -x has the same point or
    the negative one. A distance over [-limit, limit] ends in what it is far outside, so that tails are exact.
    """

    exact: Callable[[Decimal], Decimal]
    limit: int
    holds: Literal["value", "below_relu", "above_relu"] = "value"
    symmetry: Literal["none", "even", "odd"] = "none"

    @property
    def width(self) -> int:
        """From the first point to the last one."""
        return 2 * self.limit if self.symmetry == "none" else self.limit

    @cached_property
    def points(self) -> tuple[int, ...]:
        """The values in units of 2**``ACTIVATION_EXPONENT``."""
        with localcontext(Context(prec=40)):
            steps = [Decimal(self.width * step) / TABLE_STEPS for step in range(TABLE_STEPS + 1)]
            return tuple(self._point(self.limit - self.width + x) for x in steps)

    def _point(self, x: Decimal) -> int:
        if self.holds == "value":
            value = self.exact(x)
        else:
            x = x * _FAR if self.symmetry == "none" and abs(x) == self.limit else x
            value = abs(max(x, Decimal(0)) - self.exact(x))
        return int((value * (1 << -ACTIVATION_EXPONENT)).quantize(Decimal(1), ROUND_HALF_EVEN))


@dataclass(frozen=True)
class Argument:
    """The argument of a function: ``plain`` takes it as a number, a descriptor as two integers.

    usual: where none is given. seen: it from the value of the function at ``probe``. encoded: the descriptor's
    function_argument and function_exponent; raises UnfitArgumentError. drawn: what `bfpga verify` draws these from.
    """

    meaning: str
    usual: float
    probe: float
    seen: Callable[[float], float]
    encoded: Callable[[float], tuple[int, int]]
    drawn: tuple[range, range]


@dataclass(frozen=True)
class FunctionRow:
    """One function.

    formula: of the documentation. operators: ONNX operators that give it, if their attributes and constants do
    (``compiler/lower/functions.py`` compares values). plain: in floating point, of values and the argument.
    method: how the function unit computes it. unit: the results have the accumulator's exponent, that of the tables, or
    the smaller one of the two.
    homogeneous: f(2 x) = 2 f(x), so channels may be scaled by powers of two. largest: bound of its magnitude.
    usual: whether accelerators have it whose file names no functions.
    """

    formula: str
    operators: tuple[str, ...]
    plain: Callable[[FloatArray, float], FloatArray]
    method: Arithmetic | Table
    unit: Literal["accumulator", "table", "finer"] = "accumulator"
    homogeneous: bool = False
    largest: float | None = None
    argument: Argument | None = None
    usual: bool = False

    @property
    def on_grid(self) -> bool:
        """Whether its argument is rounded to the tables' grid first."""
        return self.table is not None

    @property
    def table(self) -> Table | None:
        """Its table, if it has one."""
        return self.method if isinstance(self.method, Table) else None

    @property
    def least_accumulator_bits(self) -> int:
        """What an accumulator must hold: numbers of a table, and arguments up to 512 in their unit where they join."""
        if self.table is None:
            return 0
        return 16 if self.table.holds == "value" else 24

    def lut(self, bits: int, stages: int) -> int:
        """LUTs of one column, without what tables share."""
        return TABLE_LUT if isinstance(self.method, Table) else self.method.lut(bits, stages)


# Arguments


def _leaky_shift(slope: float) -> tuple[int, int]:
    mantissa, exponent = np.frexp(slope)
    shift = 1 - int(exponent)
    if mantissa != 0.5 or not 1 <= shift <= 15:
        raise UnfitArgumentError(f"a slope of {slope:g} is no power of two from 1/2 to 2^-15")
    return shift, 0


def bound_argument(bound: float) -> tuple[int, int]:
    """A clip bound as (mantissa, exponent), the mantissa odd. Raises UnfitArgumentError unless it is positive."""
    if not 0 < bound < np.inf:
        raise UnfitArgumentError(f"an upper bound of {bound:g}: the array clips from 0 on")
    _, power = np.frexp(bound)
    exponent = int(power) - BOUND_BITS
    mantissa = round(bound * 2.0**-exponent)
    while mantissa % 2 == 0:
        mantissa, exponent = mantissa // 2, exponent + 1
    return mantissa, exponent


# Arithmetic


def _identity(v: Int64Array, e3: Int64Array, setting: Setting) -> Int64Array:
    return v


def _relu(v: Int64Array, e3: Int64Array, setting: Setting) -> Int64Array:
    return np.maximum(v, 0)


def _leaky_relu(v: Int64Array, e3: Int64Array, setting: Setting) -> Int64Array:
    return np.where(v < 0, shift_round(v, setting.argument, setting.format.rounding), v)


def _clip(v: Int64Array, e3: Int64Array, setting: Setting) -> Int64Array:
    largest = (1 << (setting.accumulator_bits - 1)) - 1
    distance = e3 - setting.exponent
    bound, _ = shift_saturate(setting.argument, distance, setting.format.rounding, -largest - 1, largest)
    return np.minimum(np.maximum(v, 0), bound)


# Functions of decimal numbers


def _sigmoid(x: Decimal) -> Decimal:
    return 1 / (1 + (-x).exp())


def _tanh(x: Decimal) -> Decimal:
    square = (2 * x).exp()
    return (square - 1) / (square + 1)


def _hard_sigmoid(x: Decimal) -> Decimal:
    return min(max(x / 6 + Decimal("0.5"), Decimal(0)), Decimal(1))


def _hard_swish(x: Decimal) -> Decimal:
    return x * _hard_sigmoid(x)


def _silu(x: Decimal) -> Decimal:
    return x * _sigmoid(x)


def _erf(x: Decimal) -> Decimal:
    """The error function by its power series, whose terms grow to 10^13 up to x = 5.7."""
    with localcontext(Context(prec=60)):
        term, total, order = x, x, 0
        while abs(term) > Decimal("1e-30"):
            order += 1
            term *= -x * x / order
            total += term / (2 * order + 1)
        return 2 * total / PI.sqrt()


def _gelu(x: Decimal) -> Decimal:
    """x times the normal distribution's share below it."""
    with localcontext(Context(prec=60)):
        return x * (1 + _erf(x / Decimal(2).sqrt())) / 2


def _softplus(x: Decimal) -> Decimal:
    return max(x, Decimal(0)) + (1 + (-abs(x)).exp()).ln()


def _mish(x: Decimal) -> Decimal:
    return x * _tanh(_softplus(x))


def _elu(x: Decimal) -> Decimal:
    return x if x >= 0 else x.exp() - 1


def _plain_erf(x: FloatArray) -> FloatArray:
    result: FloatArray = np.vectorize(math.erf, otypes=[x.dtype])(x)
    return result


ROWS: dict[Function, FunctionRow] = {
    Function.NONE: FunctionRow(
        formula="x",
        operators=(),
        plain=lambda x, _: x,
        method=Arithmetic(_identity, lambda bits, stages: 0),
        homogeneous=True,
        usual=True,
    ),
    Function.RELU: FunctionRow(
        formula="max(x, 0)",
        operators=("Relu", "Clip"),
        plain=lambda x, _: np.maximum(x, 0),
        method=Arithmetic(_relu, lambda bits, stages: bits // 2),
        homogeneous=True,
        usual=True,
    ),
    Function.LEAKY_RELU: FunctionRow(
        formula="x from 0 on, else slope * x",
        operators=("LeakyRelu",),
        plain=lambda x, slope: np.where(x > 0, x, x * np.float32(slope)),
        method=Arithmetic(_leaky_relu, lambda bits, stages: bits * stages // 2),
        homogeneous=True,
        argument=Argument(
            "slope, a power of two from 1/2 to 2^-15", 0.125, -1.0, lambda value: -value, _leaky_shift,
            (range(6), range(1)),
        ),
        usual=True,
    ),
    Function.SIGMOID: FunctionRow(
        formula="1 / (1 + e^-x)",
        operators=("Sigmoid",),
        plain=lambda x, _: 0.5 * (np.tanh(0.5 * x) + 1),
        method=Table(_sigmoid, 8),
        unit="table",
        largest=1.0,
        usual=True,
    ),
    Function.TANH: FunctionRow(
        formula="tanh(x)",
        operators=("Tanh",),
        plain=lambda x, _: np.tanh(x),
        method=Table(_tanh, 4),
        unit="table",
        largest=1.0,
        usual=True,
    ),
    Function.CLIP: FunctionRow(
        formula="min(max(x, 0), bound)",
        operators=("Clip",),
        plain=lambda x, bound: np.clip(x, 0, bound),
        method=Arithmetic(_clip, lambda bits, stages: bits),
        argument=Argument(
            "bound, above 0", 6.0, 2.0**100, lambda value: value, bound_argument, (range(1, 100), range(-12, 3))
        ),
        usual=True,
    ),
    # Its bends at -3 and 3 are points of the table, and between them a straight line loses nothing.
    Function.HARD_SIGMOID: FunctionRow(
        formula="min(max(x / 6 + 1/2, 0), 1)",
        operators=("HardSigmoid",),
        plain=lambda x, _: np.clip(x / 6 + 0.5, 0, 1),
        method=Table(_hard_sigmoid, 4),
        unit="table",
        largest=1.0,
    ),
    Function.HARD_SWISH: FunctionRow(
        formula="x * min(max(x / 6 + 1/2, 0), 1)",
        operators=("HardSwish",),
        plain=lambda x, _: x * np.clip(x / 6 + 0.5, 0, 1),
        method=Table(_hard_swish, 4, "below_relu", "even"),
        unit="finer",
    ),
    # At -8 it is still 44 units of 2^-14 below 0.
    Function.SILU: FunctionRow(
        formula="x / (1 + e^-x)",
        operators=("Swish",),
        plain=lambda x, _: x * 0.5 * (np.tanh(0.5 * x) + 1),
        method=Table(_silu, 16, "below_relu", "even"),
        unit="finer",
    ),
    # The form with tanh differs by less than half the grid, so it is the same function.
    Function.GELU: FunctionRow(
        formula="x * (1 + erf(x / sqrt(2))) / 2",
        operators=("Gelu",),
        plain=lambda x, _: x * 0.5 * (1 + _plain_erf(x * math.sqrt(0.5))),
        method=Table(_gelu, 8, "below_relu", "even"),
        unit="finer",
    ),
    # Above 0 everywhere, so its results have the unit of the table: a finer one could not hold them.
    Function.SOFTPLUS: FunctionRow(
        formula="ln(1 + e^x)",
        operators=("Softplus",),
        plain=lambda x, _: np.logaddexp(x, np.zeros_like(x)),
        method=Table(_softplus, 16, "above_relu", "even"),
        unit="table",
    ),
    # At -8 it is still 44 units of 2^-14 below 0, which it keeps from there on.
    Function.MISH: FunctionRow(
        formula="x * tanh(ln(1 + e^x))",
        operators=("Mish",),
        plain=lambda x, _: x * np.tanh(np.logaddexp(x, np.zeros_like(x))),
        method=Table(_mish, 8, "below_relu"),
        unit="finer",
    ),
    Function.ELU: FunctionRow(
        formula="x from 0 on, else e^x - 1",
        operators=("Elu",),
        plain=lambda x, _: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        method=Table(_elu, 8, "below_relu"),
        unit="finer",
    ),
    Function.ERF: FunctionRow(
        formula="erf(x)",
        operators=("Erf",),
        plain=lambda x, _: _plain_erf(x),
        method=Table(_erf, 4, symmetry="odd"),
        unit="table",
        largest=1.0,
    ),
}  # fmt: skip

#: Bits of an argument on the grid, sign included.
ARGUMENT_BITS = 1 + (LARGEST_LIMIT << GRID_BITS).bit_length()
#: Names in YAML files, in the order of the codes: digests do not depend on the order in a file.
FUNCTION_NAMES = tuple(function.key for function in Function)
#: Functions of an accelerator whose file names none.
USUAL_FUNCTIONS = tuple(function.key for function in Function if function.row.usual)
