"""Exact integer matrix products at the speed of floating point.

Integers are carried in float32 or float64. A product is exact, in any order of summation and with or without fused
multiply-add, when no sum of magnitudes can leave the integers the type holds: 2**24 for float32, 2**53 for float64.
This bound is the certificate; it is computed from the weights, never assumed (BFP R3, R81).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.formats.arrays import Int64Array, IntArray

NumberArray = npt.NDArray[Any]

#: Largest magnitude up to which every integer is a number of the type.
EXACT_FLOAT32 = 1 << 24
EXACT_FLOAT64 = 1 << 53


def exact_type(bound: int) -> np.dtype[Any] | None:
    """The smallest floating point type in which sums bounded by ``bound`` are exact; None if there is none."""
    if bound <= EXACT_FLOAT32:
        return np.dtype(np.float32)
    if bound <= EXACT_FLOAT64:
        return np.dtype(np.float64)
    return None


def row_bound(weights: IntArray, largest_input: int) -> int:
    """Largest possible sum of magnitudes of one output. weights: (outputs, ...)."""
    if weights.size == 0:
        return 0
    return int(np.abs(weights.reshape(len(weights), -1).astype(np.int64)).sum(axis=1).max()) * largest_input


@dataclass(frozen=True)
class ExactProduct:
    """``x @ matrix`` for integers x with |x| <= the bound that was certified.

    parts: rows [start, end) of the matrix and these rows in the type that makes their product exact. More than one
    part is needed only beyond 2**53; their sum is then taken in int64.
    """

    parts: tuple[tuple[int, int, NumberArray], ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which x is wanted (any other integer or floating type is converted)."""
        return self.parts[0][2].dtype

    @property
    def whole(self) -> bool:
        return len(self.parts) == 1

    def __call__(self, x: NumberArray) -> NumberArray:
        """x: (..., inner) integers in any type that holds them -> (..., outputs), exact integers in a number type."""
        if self.whole:
            matrix = self.parts[0][2]
            result: NumberArray = np.matmul(x.astype(matrix.dtype, copy=False), matrix)
            return result
        total: Int64Array | None = None
        for start, end, matrix in self.parts:
            part = np.matmul(x[..., start:end].astype(matrix.dtype), matrix).astype(np.int64)
            total = part if total is None else total + part
        assert total is not None
        return total


def certified_product(matrix: IntArray, largest_input: int) -> ExactProduct:
    """The exact product with ``matrix`` (inner, outputs) or (batch, inner, outputs) for |x| <= largest_input.

    Sums must fit int64. Beyond 2**53 the inner axis is cut into pieces that are certified one by one.
    """
    inner = matrix.shape[-2]
    magnitudes = np.abs(matrix.astype(np.int64)).reshape(-1, inner, matrix.shape[-1])
    kind = exact_type(int(magnitudes.sum(axis=1).max(initial=0)) * largest_input)
    if kind is not None:
        return ExactProduct(((0, inner, np.ascontiguousarray(matrix, kind)),))
    largest_term = int(magnitudes.max()) * largest_input
    if largest_term > EXACT_FLOAT64:
        raise ValueError(f"a single product reaches {largest_term}: no floating point type holds it exactly")
    length = EXACT_FLOAT64 // largest_term
    return ExactProduct(
        tuple(
            (
                start,
                min(start + length, inner),
                np.ascontiguousarray(matrix[..., start : start + length, :], np.float64),
            )
            for start in range(0, inner, length)
        )
    )
