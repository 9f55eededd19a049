"""Arrays in block floating point as they pass from operation to operation: one exponent for the whole array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.arrays import IntArray
from bfpga.formats.block_float import decode, encode_samples
from bfpga.formats.block_format import BlockFormat

HostArray = npt.NDArray[Any]


@dataclass(frozen=True)
class ArrayBlock:
    """One block: value = mantissa * 2**exponent, mantissas of any shape; the position of FP 2.1 is -exponent."""

    mantissa: IntArray
    exponent: int

    def decoded(self) -> npt.NDArray[np.float32]:
        """The values as float32."""
        return np.asarray(decode(self.mantissa, np.int32(self.exponent)), np.float32)


def encode_block(values: npt.ArrayLike, form: BlockFormat, what: str) -> ArrayBlock:
    """Numbers of any shape as one block with the exponent of their maximum.

    DataError for what is not a number, not finite, or empty; ``what`` names it.
    """
    numbers = np.asarray(values)
    if numbers.dtype == object or not (np.issubdtype(numbers.dtype, np.number) or numbers.dtype == np.bool_):
        raise DataError(f"{what} has type {numbers.dtype}; numbers are needed")
    if np.iscomplexobj(numbers):
        raise DataError(f"{what} holds complex numbers; real ones are needed")
    if numbers.size == 0:
        raise DataError(f"{what} has shape {numbers.shape}: there is nothing in it")
    try:
        mantissa, exponent = encode_samples(numbers[np.newaxis], form)
    except DataError as error:
        raise DataError(f"{what}: {error}") from None
    largest = min(form.mantissa_max * 2.0**form.exponent_max, float(np.finfo(np.float32).max))
    if np.abs(numbers).max() > largest:
        raise DataError(f"{what} holds magnitudes beyond {largest:.3g}, the largest of the format and of float32")
    return ArrayBlock(mantissa[0], int(exponent[0]))
