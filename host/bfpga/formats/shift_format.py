"""Powers of two and sums of two of them as weights: the parameters of such a format and the layout of its words.

A *field* is an unsigned exponent with a sign above it: a power of two. Two fields make a *weight word*, which holds two
power-of-two weights or one two-hot weight, the sum of both. SM 2.1 to 2.4 (SM: shift multiplier specification).

Only the standard library is imported: plain data for every floor.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Literal, get_args

from bfpga.errors import ConfigurationError

ZeroCode = Literal["none", "neg_min", "exp_max", "flag"]
ZeroScope = Literal["auto", "both", "pow2"]
SignMode = Literal["relative", "absolute"]

#: Smallest and largest binary places of a layer's weights: real weight = integer * 2**-weight_frac.
WEIGHT_FRAC_MIN, WEIGHT_FRAC_MAX = -8, 23
#: Marks a ``d`` that follows from the exponent width.
DEFAULT_D = -1
#: Narrow exponents gain by a shifted first term, wide ones do not (measured, SM 2.5).
_D_OF_EXP_WIDTH = {1: 1, 2: 1, 3: 0, 4: 0}


class WeightMode(IntEnum):
    """The mode bit: what the two fields of a word are. SM R3."""

    TWO_HOT = 0
    POW2 = 1


def _check_range(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ConfigurationError(f"shift format: {name} is {value!r}, it must be a whole number from {low} to {high}")


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in choices):  # true is not 1
        names = ", ".join(str(choice) for choice in choices)
        raise ConfigurationError(f"shift format: {name} is {value!r}, it must be one of {names}")


@dataclass(frozen=True)
class ShiftFormat:
    """The numbers that define a shift multiplier's operands (SM 2.1); ``ConfigurationError`` if one is not allowed.

    x_width, x_signed: the activation. exp_width: bits of an exponent. d: left shift of term 1 in two-hot mode, a
    default by the exponent width. base_log2: exponents count powers of 2**base_log2. zero_code: which field means zero.
    zero_scope: where it does; ``auto`` is always in power-of-two mode, in two-hot mode only where d > exp_max, because
    below two terms can cancel. sign_mode: whether s1 is the sign of term 1 relative to term 2 or its own.
    weight_signed: false leaves the sign bits out of the fields.
    """

    x_width: int = 8
    x_signed: bool = True
    exp_width: int = 3
    d: int = DEFAULT_D
    base_log2: int = 1
    zero_code: ZeroCode = "neg_min"
    sign_mode: SignMode = "relative"
    weight_signed: bool = True
    zero_scope: ZeroScope = "auto"

    def __post_init__(self) -> None:
        _check_range("x_width", self.x_width, 2, 16)
        _check_range("exp_width", self.exp_width, 1, 4)
        if self.d == DEFAULT_D:
            object.__setattr__(self, "d", _D_OF_EXP_WIDTH[self.exp_width])
        _check_range("d", self.d, 0, 15)
        _check_range("base_log2", self.base_log2, 1, 2)
        _check_choice("x_signed", self.x_signed, (True, False))
        _check_choice("weight_signed", self.weight_signed, (True, False))
        _check_choice("zero_code", self.zero_code, get_args(ZeroCode))
        _check_choice("zero_scope", self.zero_scope, get_args(ZeroScope))
        _check_choice("sign_mode", self.sign_mode, get_args(SignMode))
        if not self.weight_signed and self.zero_code == "neg_min":
            raise ConfigurationError(
                "shift format: zero_code neg_min is the field of -1, but weight_signed: false leaves no sign bit; "
                "choose none, exp_max or flag"
            )

    @property
    def exp_max(self) -> int:
        """Largest exponent of a field."""
        return (1 << self.exp_width) - 1

    @property
    def largest_shift(self) -> int:
        """Places the largest exponent moves the activation."""
        return self.exp_max * self.base_log2

    @property
    def sign_position(self) -> int:
        """Bit of a field that holds its sign (if it has one)."""
        return self.exp_width

    @property
    def flag_position(self) -> int:
        """Bit of a field that means zero with zero_code ``flag``: above sign and exponent, which keep their places."""
        return self.exp_width + int(self.weight_signed)

    @property
    def field_bits(self) -> int:
        return self.flag_position + int(self.zero_code == "flag")

    @property
    def word_bits(self) -> int:
        """Bits of a weight word in both modes: field 2 above field 1 (SM 2.2)."""
        return 2 * self.field_bits

    def code_bits(self, mode: WeightMode) -> int:
        """Bits of one weight: a word in two-hot mode, a field in power-of-two mode."""
        return self.word_bits if mode == WeightMode.TWO_HOT else self.field_bits

    def zero_code_active(self, mode: WeightMode) -> bool:
        """Whether the zero code means zero in a mode (SM 2.4). Without signs no two terms cancel, so it always does."""
        if self.zero_code == "none":
            return False
        if mode == WeightMode.POW2 or self.zero_scope == "both":
            return True
        return self.zero_scope == "auto" and (self.d > self.exp_max or not self.weight_signed)

    @property
    def x_min(self) -> int:
        return -(1 << (self.x_width - 1)) if self.x_signed else 0

    @property
    def x_max(self) -> int:
        return (1 << (self.x_width - int(self.x_signed))) - 1

    @property
    def x_magnitude(self) -> int:
        """Largest magnitude of an activation."""
        return max(-self.x_min, self.x_max)

    @property
    def term_bits(self) -> int:
        """Width of the products A and C: an unsigned activation takes a sign bit. SM R7, R8."""
        return self.x_width + int(not self.x_signed) + self.largest_shift

    @property
    def sum_bits(self) -> int:
        """Width of the product B. SM R11."""
        return self.term_bits + self.d + 1

    def largest_weight(self, mode: WeightMode) -> int:
        """Bound of a weight's magnitude by its shifts (a zero code may take the largest value away)."""
        power = 1 << self.largest_shift
        return power if mode == WeightMode.POW2 else power + (power << self.d)

    def accumulator_bits(self, terms: int, mode: WeightMode = WeightMode.TWO_HOT, initial: int = 0) -> int:
        """Bits an accumulator needs for ``terms`` products on top of its reset value. SM R24."""
        largest = terms * self.x_magnitude * self.largest_weight(mode) + abs(initial)
        return 1 + largest.bit_length()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ShiftFormat:
        return ShiftFormat(**values)
