"""Fixed point: value = mantissa * 2**-position, one position for a tensor or for each channel (FP 2.1).

A layer's exact results are *wide*; the converter shifts them right, rounds and saturates them to *narrow* mantissas.
Rounding and saturation are those of every other format (``rounding``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import FloatArray, Int64Array, IntArray
from bfpga.formats.block_float import decode, encode, mantissa_dtype
from bfpga.formats.block_format import BlockFormat, Rounding, Saturation
from bfpga.formats.rounding import HostRounding, shift_round, shift_to_bits

#: Bits of narrow mantissas, bits of wide results, and the positions that an int8 register holds for them. FP 2.1.
OUT_WIDTHS = (4, 16)
ACC_WIDTHS = (16, 48)
POSITIONS = (-32, 47)
ROUNDINGS: tuple[HostRounding, ...] = (*get_args(Rounding), "stochastic")


def require_range(name: str, value: object, limits: tuple[int, int]) -> None:
    """``ConfigurationError`` unless ``value`` is a whole number within ``limits``."""
    if type(value) is not int or not limits[0] <= value <= limits[1]:
        raise ConfigurationError(f"{name} is {value!r}; a whole number from {limits[0]} to {limits[1]} is needed")


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """``ConfigurationError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ConfigurationError(f"{name} is {value!r}; one of {', '.join(choices)} is needed")


@dataclass(frozen=True)
class FixedPointFormat:
    """Widths of narrow and wide integers, and how the first are made of the second. FP 2.1.

    out_width: 4..16 bits; acc_width: 16..48 bits, enough for exact sums; ``ConfigurationError`` for others. saturation:
    ``full`` for activations (the statistics are those of two's complement), ``sym`` for weights.
    """

    out_width: int = 8
    acc_width: int = 32
    rounding: HostRounding = "rne"
    saturation: Saturation = "full"

    def __post_init__(self) -> None:
        require_range("out_width", self.out_width, OUT_WIDTHS)
        require_range("acc_width", self.acc_width, ACC_WIDTHS)
        require_choice("rounding", self.rounding, ROUNDINGS)
        require_choice("saturation", self.saturation, get_args(Saturation))


@dataclass(frozen=True)
class FixedTensor:
    """Mantissas (..., channels) and their position: one number, or one for each channel (channels,). FP 2.1.

    ``DataError`` for a position that an int8 register of -32..47 does not hold, or for the wrong number of them.
    """

    mantissa: IntArray
    position: Int64Array

    def __post_init__(self) -> None:
        position = np.asarray(self.position, np.int64)
        object.__setattr__(self, "position", position)
        if position.ndim and position.shape != self.mantissa.shape[-1:]:
            raise DataError(f"{position.shape} positions do not belong to mantissas of shape {self.mantissa.shape}")
        low, high = POSITIONS
        if position.size and (position.min() < low or position.max() > high):
            raise DataError(f"position {position.tolist()} is outside {low}..{high}; scale the network's numbers")

    @property
    def values(self) -> FloatArray:
        """The real numbers (float64), exact."""
        exponent = np.broadcast_to(-self.position, self.mantissa.shape) if self.position.ndim else -self.position
        return decode(self.mantissa, exponent, np.float64)

    def aligned(self) -> FixedTensor:
        """The same values with one position: the largest of all channels, so that no bit is lost. FP 2.1 (channel)."""
        if not self.position.ndim:
            return self
        largest = self.position.max(initial=POSITIONS[0])
        return FixedTensor(shift_round(self.mantissa, self.position - largest, "trunc"), largest)


@dataclass(frozen=True)
class Converted:
    """Narrow mantissas in the smallest type that holds them, and how many of them saturation changed. FP R12."""

    mantissa: IntArray
    saturated: int


def convert(
    wide: npt.ArrayLike, shift: npt.ArrayLike, fmt: FixedPointFormat, generator: np.random.Generator | None = None
) -> Converted:
    """wide * 2**-shift, rounded, then saturated to ``out_width`` bits. FP R12.

    wide: (..., channels) integers; shift: one, or one for each channel; left if negative. ``stochastic`` rounding needs
    the generator.
    """
    amount = np.asarray(shift, np.int64)
    rounding: Rounding
    if fmt.rounding == "stochastic":
        wide = shift_round(wide, np.maximum(amount, 0), fmt.rounding, generator)
        amount, rounding = np.minimum(amount, 0), "trunc"
    else:
        rounding = fmt.rounding
    result, changed = shift_to_bits(wide, amount, fmt.out_width, rounding, fmt.saturation)
    return Converted(result.astype(mantissa_dtype(fmt.out_width)), int(np.count_nonzero(changed)))


def output_position(accumulator_position: npt.ArrayLike, shift: npt.ArrayLike) -> Int64Array:
    """Position of narrow results: a right shift drops as many fraction bits. FP 2.1, R18."""
    return np.asarray(accumulator_position, np.int64) - np.asarray(shift, np.int64)


def fixed_point_tensor(
    values: npt.ArrayLike,
    width: int = 8,
    saturation: Saturation = "full",
    position: int | None = None,
) -> FixedTensor:
    """Real numbers as mantissas of ``width`` bits, rounded half to even: a network's input, its weights (``sym``).

    position: None takes the largest within -32..47 at which the largest magnitude keeps its leading bit.
    ``DataError`` for numbers that are not finite, ``ConfigurationError`` for a position outside -32..47. FP 2.1.
    """
    require_range("width", width, OUT_WIDTHS)
    fmt = BlockFormat(width, saturation=saturation)
    if position is not None:
        require_range("position", position, POSITIONS)
        return FixedTensor(encode(values, fmt, [-position]).mantissa, np.array(position))
    chosen = -int(encode(values, fmt).exponent[0])
    if not np.any(values):
        chosen = 0
    return fixed_point_tensor(values, width, saturation, min(max(chosen, POSITIONS[0]), POSITIONS[1]))
