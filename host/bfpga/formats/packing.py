"""The memory format of block floating point matrices (BFP 2.4).

Mantissas are little-endian and row-major in containers of 4, 8, 16 or 32 bits; exponents are in a buffer of their own,
in table order, so that mantissa bursts keep their full width.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from bfpga.errors import DataError
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.block_shapes import BlockShape
from bfpga.formats.containers import pack_elements, unpack_elements

#: Mantissa bits, exponent bits, shape, its two sizes, rows, columns, exponent bias.
_HEADER = struct.Struct("<8i")
HEADER_BYTES = _HEADER.size
_SHAPES = ("whole", "row", "rows", "column", "quarter", "tile", "diagonal", "map")


@dataclass
class BlockMatrix:
    """A matrix in block floating point: mantissa (rows, columns), exponents in the shape's table order."""

    format: BlockFormat
    shape: BlockShape
    mantissa: IntArray
    exponent: IntArray
    exponent_bias: int = 0

    def element_exponents(self) -> Int64Array:
        """Exponent of every element (rows, columns)."""
        rows, columns = self.mantissa.shape
        exponents: Int64Array = np.asarray(self.exponent, np.int64)[self.shape.index(rows, columns)]
        return exponents


@dataclass(frozen=True)
class PackedMatrix:
    """The three buffers of a matrix. Exponents are stored as exponent - bias; an index map follows the header."""

    header: bytes
    mantissas: bytes
    exponents: bytes


def _exponent_type(fmt: BlockFormat) -> np.dtype[Any]:
    return np.dtype("<i1") if fmt.exponent_bits <= 8 else np.dtype("<i2")


def pack_matrix(matrix: BlockMatrix) -> PackedMatrix:
    """A matrix in the memory format; exponents take one byte each (two if they have more than 8 bits)."""
    fmt, shape = matrix.format, matrix.shape
    rows, columns = matrix.mantissa.shape
    first, second = shape.sizes
    header = _HEADER.pack(
        fmt.mantissa_bits, fmt.exponent_bits, _SHAPES.index(shape.kind), first, second, rows, columns,
        matrix.exponent_bias,
    )  # fmt: skip
    if shape.kind == "map":
        header += shape.index(rows, columns).astype("<u4").tobytes()
    stored = np.asarray(matrix.exponent, np.int64) - matrix.exponent_bias
    return PackedMatrix(
        header,
        pack_elements(matrix.mantissa, fmt.container_bits),
        stored.astype(_exponent_type(fmt)).tobytes(),
    )


def unpack_matrix(packed: PackedMatrix) -> BlockMatrix:
    """Inverse of ``pack_matrix`` (rounding and saturation are not stored: defaults); ``DataError`` if sizes differ."""
    if len(packed.header) < HEADER_BYTES:
        raise DataError(f"the header of a packed matrix has {len(packed.header)} bytes: it needs {HEADER_BYTES}")
    mantissa_bits, exponent_bits, kind, first, second, rows, columns, bias = _HEADER.unpack_from(packed.header)
    fmt = BlockFormat(mantissa_bits=mantissa_bits, exponent_bits=exponent_bits)
    if _SHAPES[kind] == "map":
        table = np.frombuffer(packed.header, "<u4", rows * columns, HEADER_BYTES).astype(np.int64)
        shape = BlockShape.from_map(table.reshape(rows, columns))
    else:
        shape = BlockShape(_SHAPES[kind], (first, second))
    needed = -(-rows * columns * fmt.container_bits // 8)
    if len(packed.mantissas) < needed:
        raise DataError(f"{rows} x {columns} mantissas need {needed} bytes, the buffer has {len(packed.mantissas)}")
    mantissa = unpack_elements(packed.mantissas, fmt.container_bits, rows * columns).reshape(rows, columns)
    exponent = np.frombuffer(packed.exponents, _exponent_type(fmt)).astype(np.int64) + bias
    return BlockMatrix(fmt, shape, mantissa, exponent, bias)
