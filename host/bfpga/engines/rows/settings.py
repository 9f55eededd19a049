"""What the host makes of a row operation's numbers before the process gets them: 1/channels, epsilon, scales."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.contract.rows import (
    DROPPED,
    EPSILON_BITS,
    GAIN_BITS,
    INVERSE_BITS,
    LARGEST_ROW,
    NORMAL_FRACTION,
    RESULT_BITS,
    VARIANCE_FRACTION,
    RowOperation,
    RowWork,
)
from bfpga.formats.arrays import Int64Array

#: Bits that results are finer than gains.
_GAIN_UNITS = NORMAL_FRACTION - DROPPED
#: Exponent of the unit of zeros.
_FINEST = -64


@dataclass(frozen=True)
class RowSettings:
    """An operation over rows of so many channels; whole numbers, as the process has them.

    epsilon: mantissa and exponent of epsilon * channels**2 * 2**``VARIANCE_FRACTION``.
    """

    operation: RowOperation
    channels: int
    epsilon: tuple[int, int] = (0, 0)

    @staticmethod
    def of(operation: RowOperation, channels: int, epsilon: float = 0.0) -> RowSettings:
        """Of an operation as networks have it. ValueError for what the process cannot do."""
        if not 1 <= channels <= LARGEST_ROW:
            raise ValueError(f"rows of {channels} channels: the process takes 1 to {LARGEST_ROW}")
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"an epsilon of {epsilon:g} is no finite number from 0 on")
        return RowSettings(operation, channels, _share(epsilon, channels) if operation.normalizes else (0, 0))

    @staticmethod
    def of_layer(work: RowWork, channels: int) -> RowSettings:
        """Of a layer of a program."""
        return RowSettings(work.operation, channels, (work.epsilon[0], work.epsilon[1]))

    @property
    def magnitude(self) -> int:
        """ceil(log2 channels)."""
        return (self.channels - 1).bit_length()

    @property
    def inverse(self) -> int:
        """2**``magnitude`` / channels, in [1, 2), with ``INVERSE_BITS`` - 1 fraction bits; rounded half up."""
        twice = (1 << (self.magnitude + INVERSE_BITS)) // self.channels
        return (twice + 1) >> 1


def _share(epsilon: float, channels: int) -> tuple[int, int]:
    fraction, power = math.frexp(epsilon * channels**2 * 2.0**VARIANCE_FRACTION)
    mantissa = round(fraction * 2.0**EPSILON_BITS)
    exponent = power - EPSILON_BITS
    if mantissa >> EPSILON_BITS:
        mantissa, exponent = mantissa >> 1, exponent + 1
    return mantissa, exponent if mantissa else 0


@dataclass(frozen=True)
class Gains:
    """The scale of a normalization: a factor for each channel, and the exponent of the results.

    mantissa (channels,): negated, since the process subtracts from the mean, and times channels / 2**magnitude, which
    its 1/deviation lacks.
    """

    mantissa: Int64Array
    exponent: int

    @staticmethod
    def of(scale: npt.ArrayLike, shift: npt.ArrayLike = 0.0) -> Gains:
        """Of a scale as networks have it, a finite number for each channel.

        The unit of the results is as fine as the scale allows, and coarse enough for the ``shift`` added to them.
        """
        numbers = np.asarray(scale, np.float64)
        channels = len(numbers)
        factors = -numbers * (channels / (1 << (channels - 1).bit_length()))
        unit = max(_unit(factors, GAIN_BITS), _unit(shift, RESULT_BITS - 1) + _GAIN_UNITS)
        largest = (1 << (GAIN_BITS - 1)) - 1
        mantissa = np.clip(np.rint(np.ldexp(factors, -unit)), -largest, largest).astype(np.int64)
        return Gains(mantissa, unit - _GAIN_UNITS)


def _unit(numbers: npt.ArrayLike, bits: int) -> int:
    """The exponent of a unit in which numbers have so many bits with their sign."""
    magnitude = float(np.abs(numbers).max())
    return math.frexp(magnitude)[1] - (bits - 1) if magnitude else _FINEST
