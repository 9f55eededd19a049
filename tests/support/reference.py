"""Slow, exact references in Python integers and fractions: what the vectorised code must equal, bit for bit.

Written from the specification, value by value; shared by the tests of formats, emulator and C++.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function, Table
from bfpga.formats.block_format import BlockFormat, Status

VECTORS = Path(__file__).parents[1] / "vectors"


@cache
def load_vectors(name: str) -> dict[str, Any]:
    """The vector file ``name`` of tests/vectors."""
    content: dict[str, Any] = json.loads((VECTORS / name).read_text())
    return content


def vector_format(fields: dict[str, Any]) -> BlockFormat:
    """The format of a vector case."""
    return BlockFormat(fields["MW"], fields["EW"], fields["round"], fields["sat"], fields["log"])


def round_fraction(x: Fraction, rounding: str) -> int:
    """A rational rounded to an integer."""
    floor = math.floor(x)
    rest = x - floor
    half = Fraction(1, 2)
    raised = {
        "trunc": False,
        "tozero": x < 0 and rest > 0,
        "half_up": rest >= half,
        "half_away": rest > half or (rest == half and x > 0),
        "rne": rest > half or (rest == half and floor % 2 == 1),
    }[rounding]
    return floor + raised


def shift(value: int, amount: int, rounding: str) -> int:
    """value * 2**-amount, rounded."""
    return round_fraction(Fraction(value) * Fraction(2) ** -amount, rounding)


def clamp(value: int, bits: int) -> int:
    """value in the two's complement range of ``bits``."""
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def saturate(value: int, bits: int, mode: str) -> tuple[int, bool]:
    """value brought into a mantissa of ``bits`` bits, and whether that changed it."""
    high = (1 << (bits - 1)) - 1
    if mode == "wrap":
        wrapped = (value + high + 1) % (1 << bits) - high - 1
        return wrapped, wrapped != value
    limited = max(-high - (mode == "full"), min(high, value))
    return limited, limited != value


def leading_position(x: Fraction, log: str) -> int:
    """floor or ceil of log2 of a positive rational."""
    position = x.numerator.bit_length() - x.denominator.bit_length()
    while Fraction(2) ** position > x:
        position -= 1
    while Fraction(2) ** (position + 1) <= x:
        position += 1
    return position + (log == "ceil" and Fraction(2) ** position != x)


def select_exponent(largest: Fraction, fmt: BlockFormat) -> tuple[int, int]:
    """Exponent of a block from its largest magnitude, and status bits (equations 2-4)."""
    if largest == 0:
        return fmt.exponent_min, Status.ZERO_BLOCK
    wanted = leading_position(largest, fmt.log) - (fmt.mantissa_bits - 2)
    if wanted < fmt.exponent_min:
        return fmt.exponent_min, Status.EXPONENT_LOW
    if wanted > fmt.exponent_max:
        return fmt.exponent_max, Status.EXPONENT_HIGH
    return wanted, Status.NONE


def reference_mantissa(x: Fraction, exponent: int, fmt: BlockFormat) -> tuple[int, bool, bool]:
    """Mantissa of x at an exponent; overflow; underflow."""
    rounded = round_fraction(x / Fraction(2) ** exponent, fmt.rounding)
    mantissa, overflow = saturate(rounded, fmt.mantissa_bits, fmt.saturation)
    return mantissa, overflow, mantissa == 0 and x != 0 and not overflow


def _with_bias(v: int, e3: int, bias: int, bias_exponent: int, cfg: KernelConfig) -> tuple[int, int, int]:
    bits = cfg.accumulator_bits
    aligned = shift(bias, e3 - bias_exponent, cfg.format.rounding)
    limited = clamp(aligned, bits)
    if limited != aligned and v == 0:
        return bias, bias_exponent, Status.NONE
    total = v + limited
    status = Status.BIAS_SATURATED if limited != aligned else Status.NONE
    if clamp(total, bits) != total:
        status |= Status.ACCUMULATOR_SATURATED
    return clamp(total, bits), e3, status


def _interpolated(position: int, width: int, table: tuple[int, ...]) -> int:
    """position: from the first point, on the grid; width: from the first to the last point."""
    step = (width << 10) // 256
    i, fraction = divmod(max(0, min(width << 10, position)), step)
    if i == 256:
        return table[256]
    return table[i] + round_fraction(Fraction((table[i + 1] - table[i]) * fraction, step), "rne")


@cache
def _points(function: Function) -> tuple[int, ...]:
    """Points of a table from floating point, whose errors are far from deciding a rounding."""
    table = function.row.method
    assert isinstance(table, Table)
    x = np.linspace(table.limit - table.width, table.limit, 257)
    if table.holds != "value" and table.symmetry == "none":
        x[[0, -1]] *= 1000  # the tails, exactly
    values = function.row.plain(x, 0.0)
    if table.holds != "value":
        values = np.abs(np.maximum(x, 0) - values)
    return tuple(round(float(value) * 2**14) for value in values)


def _with_function(
    v: int, e3: int, function: int, argument: int, exponent: int, cfg: KernelConfig
) -> tuple[int, int]:
    rounding, bits = cfg.format.rounding, cfg.accumulator_bits
    if function == Function.RELU:
        return max(v, 0), e3
    if function == Function.LEAKY_RELU:
        return (shift(v, argument, rounding) if v < 0 else v), e3
    if function == Function.CLIP:
        bound = clamp(shift(argument, e3 - exponent, rounding), cfg.accumulator_bits)
        return min(max(v, 0), bound), e3
    method = Function(function).row.method
    if isinstance(method, Table):
        points, argument = _points(Function(function)), shift(v, -(e3 + 10), "rne")
        place = argument + (method.limit << 10) if method.symmetry == "none" else abs(argument)
        number, largest = _interpolated(place, method.width, points), clamp(1 << 99, bits)
        if method.holds == "value":
            return (-number if method.symmetry == "odd" and argument < 0 else number), -14
        if method.holds == "above_relu":
            return min(min(shift(max(v, 0), -14 - e3, "rne"), largest) + number, largest), -14
        unit = min(e3, -14)
        return min(max(v, 0) << (e3 - unit), largest) - min(number << (-14 - unit), largest), unit
    assert function == Function.NONE, f"no reference of {Function(function).key}"
    return v, e3


def reference_value(
    acc: int,
    e_acc: int,
    cfg: KernelConfig,
    *,
    row_exponent: int = 0,
    bias: int | None = None,
    bias_exponent: int = 0,
    function: int = Function.NONE,
    function_argument: int = 0,
    function_exponent: int = 0,
    function_first: bool = False,
) -> tuple[int, int, int]:
    """Steps 1 to 3 of the output stage (section 5 of docs/systolic-array.md) for one value: v, e3, status bits."""
    v, e3, status = acc, e_acc + row_exponent, int(Status.NONE)
    for stage in ("function", "bias") if function_first else ("bias", "function"):
        if stage == "function":
            v, e3 = _with_function(v, e3, function, function_argument, function_exponent, cfg)
        elif bias is not None:
            v, e3, status = _with_bias(v, e3, bias, bias_exponent, cfg)
    return v, e3, status


def reference_magnitude(v: int, e3: int, e4: int, fmt: BlockFormat) -> int:
    """The value as the statistics unit sees it."""
    return min(shift(abs(v), e4 - e3, fmt.rounding), (1 << (fmt.mantissa_bits + 2)) - 1)


def reference_statistics(values: list[int], factor: int, unit: int) -> int | None:
    """Leading position of mean + k sigma of a window, by exact comparison; None: all zero. factor is 4k."""
    count = len(values)
    mean = Fraction(sum(values), count)
    variance = Fraction(sum(value * value for value in values), count) - mean * mean
    if mean == 0:
        return None

    def reached(limit: Fraction) -> bool:
        distance = limit - mean
        return distance <= 0 or Fraction(factor, 4) ** 2 * variance >= distance * distance

    position = leading_position(mean, "floor")
    while reached(Fraction(2) ** (position + 1)):
        position += 1
    return position + unit


def packed_dot(terms: list[tuple[int, int, int]], distance: int) -> tuple[int, int]:
    """Sums of w1*x and w0*x from one accumulator of (w1 << distance) + w0 times x (BFP 7)."""
    total = sum((w1 * (1 << distance) + w0) * x for w1, w0, x in terms)
    low = total & ((1 << distance) - 1)
    low -= (low >> (distance - 1)) << distance
    return (total >> distance) + (total >> (distance - 1) & 1), low
