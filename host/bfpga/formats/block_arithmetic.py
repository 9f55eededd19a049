"""Arithmetic on matrices in block floating point: element by element, segmented products, small linear algebra.

Exponents of results come from the selector (the maximum of the results), not from the operands alone (BFP R48).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.arrays import BoolArray, FloatArray, Int64Array, IntArray
from bfpga.formats.block_float import Encoded, decode, encode, requantize_block
from bfpga.formats.block_format import BlockFormat, Rounding
from bfpga.formats.block_shapes import BlockShape, segment_starts
from bfpga.formats.packing import BlockMatrix
from bfpga.formats.rounding import shift_round, shift_to_bits


@dataclass
class Quotient:
    """Result of a division: the block, and how many elements were divided by zero."""

    block: Encoded
    divided_by_zero: int


def _aligned_sum(a: IntArray, a_exponent: int, b: IntArray, b_exponent: int, fmt: BlockFormat, sign: int) -> Encoded:
    exponent = max(a_exponent, b_exponent)
    first = shift_round(a, exponent - a_exponent, fmt.rounding)
    second = shift_round(b, exponent - b_exponent, fmt.rounding)
    return requantize_block(first + sign * second, exponent, fmt)


def add(a: IntArray, a_exponent: int, b: IntArray, b_exponent: int, fmt: BlockFormat) -> Encoded:
    """a + b of two blocks: the one with the smaller exponent is shifted right, then the sum is requantised. BFP R46."""
    return _aligned_sum(a, a_exponent, b, b_exponent, fmt, 1)


def subtract(a: IntArray, a_exponent: int, b: IntArray, b_exponent: int, fmt: BlockFormat) -> Encoded:
    """a - b of two blocks; cancellation lowers the exponent. BFP R47."""
    return _aligned_sum(a, a_exponent, b, b_exponent, fmt, -1)


def _divide_rounded(numerator: Int64Array, denominator: Int64Array, rounding: Rounding) -> Int64Array:
    """Whole quotients of integers (denominators not zero), rounded; ties do not occur.

    A tie needs a denominator with more factors of two than the numerator; ``divide`` gives the numerator
    mantissa_bits - 1 of them, as many as a mantissa can have.
    """
    numerator = np.where(denominator < 0, -numerator, numerator)
    denominator = np.abs(denominator)
    quotient = numerator // denominator
    rest = numerator - quotient * denominator
    if rounding == "trunc":
        return quotient
    return quotient + ((numerator < 0) & (rest != 0) if rounding == "tozero" else 2 * rest > denominator)


def divide(a: IntArray, a_exponent: int, b: IntArray, b_exponent: int, fmt: BlockFormat) -> Quotient:
    """a / b of two blocks with mantissa_bits - 1 more fraction bits before the result is requantised.

    Division by zero saturates with the dividend's sign, 0 / 0 is 0; both are counted. BFP R45, R49.
    """
    dividend, divisor = np.asarray(a, np.int64), np.asarray(b, np.int64)
    fraction_bits = fmt.mantissa_bits - 1
    zero = divisor == 0
    quotient = _divide_rounded(dividend << fraction_bits, np.where(zero, 1, divisor), fmt.rounding)
    quotient = np.where(zero, np.sign(dividend) << (2 * fraction_bits), quotient)
    block = requantize_block(quotient, a_exponent - b_exponent - fraction_bits, fmt)
    return Quotient(block, int(np.count_nonzero(zero)))


def combine_segments(
    products: npt.ArrayLike, exponents: npt.ArrayLike, inner: int, accumulator_bits: int, fmt: BlockFormat
) -> tuple[Int64Array, Int64Array]:
    """Exact segment sums P_s * 2**E_s (.., segments) aligned and added: sums and their exponents (..).

    The reference exponent leaves as many bits above a product's sum over ``inner`` terms as the accumulator has; left
    shifts are exact, right shifts rounded. A sum of zeros has twice the smallest exponent. BFP R54.
    """
    p, e = np.asarray(products, np.int64), np.asarray(exponents, np.int64)
    head = accumulator_bits - (2 * fmt.mantissa_bits - 1 + (inner - 1).bit_length())
    if head < 0:
        raise DataError(
            f"{inner} products of {fmt.mantissa_bits}-bit mantissas do not fit {accumulator_bits} accumulator bits: "
            f"{accumulator_bits - head} are needed"
        )
    live = p != 0
    largest = np.where(live, e, np.iinfo(np.int32).min).max(axis=-1)
    smallest = np.where(live, e, np.iinfo(np.int32).max).min(axis=-1)
    reference = np.where(live.any(axis=-1), np.maximum(largest - head, smallest), 2 * fmt.exponent_min)
    aligned = shift_round(p, np.where(live, reference[..., None] - e, 0), fmt.rounding)
    return aligned.sum(axis=-1), reference


def segmented_product(
    matrix: BlockMatrix, vector: IntArray, vector_exponents: npt.ArrayLike, accumulator_bits: int
) -> tuple[Int64Array, Int64Array]:
    """matrix @ vector for any block shape: accumulators and their exponents (rows,).

    vector: (columns,) mantissas; vector_exponents: one, or (columns,). Shapes constant along the reduction need one
    accumulation, the others one a segment. BFP R53, R54.
    """
    columns = matrix.mantissa.shape[1]
    exponents = matrix.element_exponents() + np.broadcast_to(np.asarray(vector_exponents, np.int64), (columns,))
    starts = segment_starts(exponents)
    products = matrix.mantissa.astype(np.int64) * np.asarray(vector, np.int64)
    sums = np.add.reduceat(products, starts, axis=1)
    return combine_segments(sums, exponents[:, starts], columns, accumulator_bits, matrix.format)


def encode_matrix(x: npt.ArrayLike, fmt: BlockFormat, shape: BlockShape) -> BlockMatrix:
    """A (rows, columns) matrix of floats in blocks of the given shape. BFP 2.3."""
    values = np.asarray(x, np.float64)
    rows, columns = values.shape
    encoded = encode(values, fmt, index=shape.index(rows, columns), groups=shape.count(rows, columns))
    return BlockMatrix(fmt, shape, encoded.mantissa, encoded.exponent)


def decode_matrix(matrix: BlockMatrix) -> FloatArray:
    """The matrix as float64, exact for exponents of up to 10 bits."""
    return decode(matrix.mantissa, matrix.element_exponents(), np.float64)


def reblock(matrix: BlockMatrix, shape: BlockShape) -> BlockMatrix:
    """The matrix requantised to another block shape on the host, e.g. to `row` for the array. BFP R55."""
    return encode_matrix(decode_matrix(matrix), matrix.format, shape)


def transpose(matrix: BlockMatrix) -> BlockMatrix:
    """The transposed matrix: no mantissa changes, the exponents move with their shape. BFP R50."""
    shape, order = matrix.shape.transposed(*matrix.mantissa.shape)
    exponent = np.asarray(matrix.exponent)[order]
    return BlockMatrix(matrix.format, shape, matrix.mantissa.T, exponent, matrix.exponent_bias)


def _on_host(matrix: BlockMatrix, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    rows, columns = matrix.mantissa.shape
    if rows != columns:
        raise DataError(f"the matrix has shape {(rows, columns)}: inverse and determinant need a square one")
    try:
        return function(decode_matrix(matrix))
    except np.linalg.LinAlgError as error:
        raise DataError(f"the {rows} x {columns} matrix has no inverse: {error}") from error


def inverse(matrix: BlockMatrix) -> BlockMatrix:
    """Inverse of a square matrix, computed on the host on decoded values, in the same format and shape. BFP R51."""
    return encode_matrix(_on_host(matrix, np.linalg.inv), matrix.format, matrix.shape)


def determinant(matrix: BlockMatrix) -> Encoded:
    """Determinant of a square matrix, as one value in the same format. BFP R51."""
    return encode(_on_host(matrix, np.linalg.det), matrix.format)


def to_fixed_point(
    mantissa: IntArray, exponent: int, fraction_bits: int, bits: int, rounding: Rounding = "rne"
) -> tuple[Int64Array, BoolArray]:
    """Block floating point to fixed point of ``bits`` bits: integers with ``fraction_bits``, mask of the saturated.

    BFP R20.
    """
    return shift_to_bits(mantissa, -(exponent + fraction_bits), bits, rounding, "full")


def from_fixed_point(values: IntArray, fraction_bits: int, fmt: BlockFormat) -> Encoded:
    """Fixed point integers as one block, its exponent from the largest magnitude. BFP R20."""
    return requantize_block(values, -fraction_bits, fmt)
