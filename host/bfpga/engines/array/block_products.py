"""Exact matrix products of operands whose exponents change along the reduction axis (BFP 2.3, R54), on the host.

Both operands are held as numbers, mantissa * 2**exponent. Relative to the smallest exponents of its row and column each
sum is an integer, so a floating point product is exact, in any order of summation, as long as no sum of magnitudes
leaves the integers the type holds. Cauchy and Schwarz bound that sum by the product of the rows' norms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfpga.engines.array.products import EXACT_FLOAT32, EXACT_FLOAT64, Int64Array, IntArray

FloatArray = npt.NDArray[np.floating[Any]]
#: Exponents beyond this might leave the normal numbers of float32 once two of them are multiplied.
LARGEST_EXPONENT = 50


class BlockRows(NamedTuple):
    """Rows in blocks along the reduction axis: mantissa (rows, inner), exponent (rows, inner / block length)."""

    mantissa: IntArray
    exponent: IntArray


def _unit(rows: BlockRows) -> Int64Array:
    """Smallest exponent of each row, (rows, 1)."""
    smallest: Int64Array = rows.exponent.min(axis=1, keepdims=True).astype(np.int64)
    return smallest


def _values(rows: BlockRows, unit: Int64Array, kind: type[np.floating[Any]]) -> FloatArray:
    """The rows as integers in units of 2**unit."""
    count, blocks = rows.exponent.shape
    scale = np.ldexp(kind(1), (rows.exponent - unit).astype(np.int32))
    shaped = rows.mantissa.reshape(count, blocks, -1) * scale[..., None]
    result: FloatArray = shaped.reshape(count, -1).astype(kind, copy=False)
    return result


def _largest_norm(values: FloatArray) -> float:
    """The largest Euclidean norm of a row, never too small: float64 sums of squares with room for their rounding."""
    squares = np.einsum("rk,rk->r", values, values, dtype=np.float64)
    return float(np.sqrt(squares.max(initial=0.0)) * (1 + 1e-12))


def block_product(first: BlockRows, second: BlockRows) -> tuple[npt.NDArray[np.float64], Int64Array]:
    """first @ second.T exactly: sums (rows, columns) as whole numbers and their exponents (rows, columns).

    ``ValueError`` if some sum may need more than 53 bits.
    """
    units = _unit(first), _unit(second)
    spread = max(int((rows.exponent - unit).max(initial=0)) for rows, unit in zip((first, second), units, strict=True))
    kind: type[np.floating[Any]] = np.float32 if spread <= LARGEST_EXPONENT else np.float64
    a, b = (_values(rows, unit, kind) for rows, unit in zip((first, second), units, strict=True))
    bound = _largest_norm(a) * _largest_norm(b)
    if bound > EXACT_FLOAT64 or spread > 2 * LARGEST_EXPONENT:
        raise ValueError(f"sums reach 2**{np.log2(bound):.1f}: more than float64 holds exactly")
    if bound > EXACT_FLOAT32:
        a, b = a.astype(np.float64), b.astype(np.float64)
    return np.matmul(a, b.T).astype(np.float64, copy=False), units[0] + units[1].T
