"""The parameters of a block floating point format: widths, rounding, saturation (BFP 2.1, 2.2).

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Annotated, Literal

from bfpga.formats.checked_fields import Between, check_fields

Rounding = Literal["trunc", "tozero", "half_up", "half_away", "rne"]
Saturation = Literal["sym", "full", "wrap"]
LogMode = Literal["floor", "ceil"]


def container_bits(bits: int) -> int:
    """Width a value of ``bits`` takes in memory and on streams: the next power of two, 4 at least (BFP 2.1)."""
    return max(4, 1 << (bits - 1).bit_length())


@dataclass(frozen=True)
class BlockFormat:
    """A block floating point format: value = mantissa * 2**exponent (BFP 2.1, 2.2).

    ConfigurationError for a field of another type or out of its range.
    """

    mantissa_bits: Annotated[int, Between(2, 64)] = 8
    exponent_bits: Annotated[int, Between(2, 32)] = 8
    rounding: Rounding = "rne"
    saturation: Saturation = "sym"
    log: LogMode = "floor"

    def __post_init__(self) -> None:
        check_fields(self, "number format")

    @property
    def exponent_min(self) -> int:
        return -(1 << (self.exponent_bits - 1))

    @property
    def exponent_max(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def mantissa_max(self) -> int:
        return (1 << (self.mantissa_bits - 1)) - 1

    @property
    def mantissa_min(self) -> int:
        return -self.mantissa_max - (0 if self.saturation == "sym" else 1)

    @property
    def container_bits(self) -> int:
        return container_bits(self.mantissa_bits)


class Status(IntFlag):
    """Sticky status bits of a kernel run."""

    NONE = 0
    OVERFLOW = 1  # a mantissa was saturated (or wrapped)
    UNDERFLOW = 2  # a value that is not zero became a zero mantissa
    BIAS_SATURATED = 4  # a left shift of the bias left the accumulator's range
    ACCUMULATOR_SATURATED = 8  # accumulator + bias left the accumulator's range
    EXPONENT_LOW = 16  # the wanted exponent was below the format's
    EXPONENT_HIGH = 32  # the wanted exponent was above the format's
    ZERO_BLOCK = 64  # a block of zeros got the canonical exponent
