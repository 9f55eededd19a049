"""The vectors of the shift multiplier, and an independent scalar reference of its words."""

from __future__ import annotations

from typing import Any

from reference import load_vectors

from bfpga.formats.shift_format import ShiftFormat, WeightMode

DECODE = load_vectors("shift_multiplier_decode.json")["tables"]
PRODUCTS = load_vectors("shift_multiplier_products.json")["cases"]
ENCODE = load_vectors("shift_multiplier_encode.json")["sets"]


def vector_format(fields: dict[str, Any]) -> ShiftFormat:
    """The format of a vector."""
    return ShiftFormat(
        x_width=fields["XW"],
        x_signed=fields["x_signed"],
        exp_width=fields["EW"],
        d=fields["D"],
        base_log2=fields["base_log2"],
        zero_code=fields["zero_code"],
        zero_scope=fields["zero_scope"],
    )


def field_parts(fmt: ShiftFormat, field: int) -> tuple[int, int, bool]:
    """Sign, exponent, and whether the field is the zero code."""
    exponent, rest = field % (1 << fmt.exp_width), field >> fmt.exp_width
    sign = 0
    if fmt.weight_signed:
        sign, rest = rest & 1, rest >> 1
    zero = {
        "none": False,
        "neg_min": sign == 1 and exponent == 0,
        "exp_max": exponent == fmt.exp_max,
        "flag": rest == 1,
    }[fmt.zero_code]
    return sign, exponent, zero


def reference_values(fmt: ShiftFormat, word: int) -> tuple[int, tuple[int, int]]:
    """The two-hot weight of a word, and its two power-of-two weights (A, C), by the sentences of SM 2.3 and 2.4."""
    base = 2**fmt.base_log2
    high, low = divmod(word, 1 << fmt.field_bits)
    (s2, e2, zero2), (s1, e1, zero1) = field_parts(fmt, high), field_parts(fmt, low)
    a = 0 if zero2 else (-1) ** s2 * base**e2
    c = 0 if zero1 else (-1) ** s1 * base**e1
    no_native_zero = fmt.d > fmt.exp_max or not fmt.weight_signed
    active = fmt.zero_scope == "both" or (fmt.zero_scope == "auto" and no_native_zero)
    term2 = 0 if active and zero2 else base**e2
    term1 = 0 if active and zero1 else base**e1 * 2**fmt.d
    if fmt.sign_mode == "absolute":
        return (-1) ** s2 * term2 + (-1) ** s1 * term1, (a, c)
    return (-1) ** s2 * (term2 + (-1) ** s1 * term1), (a, c)


def code_value(fmt: ShiftFormat, mode: WeightMode, code: int) -> int:
    """The value of one code."""
    if mode == WeightMode.TWO_HOT:
        return reference_values(fmt, code)[0]
    return reference_values(fmt, code)[1][1]
