"""Words of the shift units of an array: integer weights that are representable, and their codes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import ProgramError
from bfpga.formats.arrays import IntArray
from bfpga.formats.logarithmic import code_dtype, code_values, join_fields
from bfpga.formats.shift_format import ShiftFormat, WeightMode


def with_zero(fmt: ShiftFormat) -> ShiftFormat:
    """The format with a zero in two-hot mode too: by its zero code where no two terms cancel."""
    has_zero = bool((code_values(fmt, WeightMode.TWO_HOT) == 0).any())
    return fmt if has_zero else replace(fmt, zero_scope="both")


@lru_cache(maxsize=64)
def representable(fmt: ShiftFormat, mode: WeightMode, largest: int) -> tuple[IntArray, IntArray]:
    """Sorted values of a mode up to a magnitude, and the lowest code of each (SM 2.5)."""
    values, codes = np.unique(code_values(fmt, mode), return_index=True)
    kept = np.abs(values) <= largest
    return values[kept], codes[kept]


def word_codes(weights: IntArray, fmt: ShiftFormat, mode: WeightMode) -> npt.NDArray[Any]:
    """Codes of integer weights; ProgramError if one has no code in this mode."""
    values, codes = representable(fmt, mode, fmt.largest_weight(mode))
    found = np.minimum(np.searchsorted(values, weights), len(values) - 1)
    wrong = values[found] != weights
    if wrong.any():
        raise ProgramError(f"{int(np.asarray(weights)[wrong].flat[0])} is no {mode.name.lower()} weight of this array")
    return np.asarray(codes[found], code_dtype(fmt.code_bits(mode)))


def words(weights: IntArray, fmt: ShiftFormat, mode: WeightMode) -> npt.NDArray[Any]:
    """Weights (..., channels, lanes) as words (..., rows, lanes): in power-of-two mode a word holds two channels.

    The first half of the channels is in field 2, which accumulator 0 sums up, the second half in field 1 (SM R17).
    """
    codes = word_codes(weights, fmt, mode)
    if mode is WeightMode.TWO_HOT:
        return codes
    rows = codes.shape[-2] // 2
    return join_fields(codes[..., :rows, :], codes[..., rows:, :], fmt)
