"""OCP Microscaling (MX) v1.0: elements of a few bits, and for each block of them a power of two that they share.

The shared exponent is that of the block's largest magnitude, less the largest exponent of an element (section 6.3 of
the specification); elements are rounded to the nearest, ties to even, and saturate. All of it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.arrays import Int64Array
from bfpga.formats.block_float import float_lead

Float64Array = npt.NDArray[np.float64]
#: Elements that share an exponent in the formats of the specification.
BLOCK = 32
#: Exponents of E8M0, the type of the shared power of two.
SHARED_EXPONENTS = (-127, 127)


@dataclass(frozen=True)
class Element:
    """A kind of element.

    bits: of one. exponent: of its largest number. fraction: bits after the leading one. least: exponent below which
    steps get no finer; of integers, a fixed point with one bit before the binary point, it is that of the largest.
    highest, lowest: its limits.
    """

    bits: int
    exponent: int
    fraction: int
    least: int
    highest: float
    lowest: float

    @property
    def whole(self) -> bool:
        """Whether all steps are equal."""
        return self.least == self.exponent


def integers(bits: int, symmetric: bool = True) -> Element:
    """Integers of ``bits`` bits. symmetric: without the lowest one, which the specification leaves open."""
    highest = 2.0 - 2.0 ** (2 - bits)
    return Element(bits, 0, bits - 2, 0, highest, -highest if symmetric else -2.0)


def _floats(bits: int, exponent: int, fraction: int, least: int, highest: float) -> Element:
    return Element(bits, exponent, fraction, least, highest, -highest)


#: Elements by the names that exporters use; MXINT8 is ``int8``. Of the specification all but ``int4``.
ELEMENTS = {
    "fp8_e5m2": _floats(8, 15, 2, -14, 57344.0),
    "fp8_e4m3": _floats(8, 8, 3, -6, 448.0),
    "fp6_e3m2": _floats(6, 4, 2, -2, 28.0),
    "fp6_e2m3": _floats(6, 2, 3, 0, 7.5),
    "fp4_e2m1": _floats(4, 2, 1, 0, 6.0),
    "int8": integers(8),
    "int4": integers(4),
}


@dataclass(frozen=True)
class Blocks:
    """Numbers in blocks: elements (..., blocks, size) times 2 ** exponents (..., blocks, 1).

    The last block of an axis that is no multiple of the size is filled with zeros.
    """

    elements: Float64Array
    exponents: Int64Array

    def values(self, like: npt.NDArray[np.generic], axis: int) -> npt.NDArray[np.float32]:
        """The numbers in the shape of what was encoded along ``axis``."""
        with np.errstate(over="ignore"):  # the largest numbers of float32 may round to more
            values = np.ldexp(self.elements, self.exponents.astype(np.int32)).astype(np.float32)
        joined = values.reshape(*values.shape[:-2], -1)[..., : like.shape[axis]]
        return np.ascontiguousarray(np.moveaxis(joined, -1, axis))


def encode_blocks(x: npt.ArrayLike, element: Element, block: int = BLOCK, axis: int = -1) -> Blocks:
    """Finite numbers in blocks along ``axis``, one block if that is shorter; ``DataError`` for others."""
    values = np.moveaxis(np.asarray(x, np.float64), axis, -1)
    block = min(block, max(values.shape[-1], 1))
    if not np.isfinite(values).all():
        raise DataError("blocks of numbers with a shared exponent need finite numbers")
    fill = [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % block)]
    values = np.pad(values, fill).reshape(*values.shape[:-1], -1, block)
    largest = np.abs(values).max(axis=-1, keepdims=True)
    exponents = np.where(largest > 0, float_lead(largest, "floor") - element.exponent, SHARED_EXPONENTS[0])
    exponents = np.clip(exponents, *SHARED_EXPONENTS)
    scaled = np.ldexp(values, -exponents.astype(np.int32))
    steps = np.maximum(float_lead(np.abs(scaled), "floor"), element.least) - element.fraction
    rounded = np.ldexp(np.rint(np.ldexp(scaled, -steps.astype(np.int32))), steps.astype(np.int32))
    return Blocks(np.clip(rounded, element.lowest, element.highest), exponents)


def round_blocks(x: npt.ArrayLike, element: Element, block: int = BLOCK, axis: int = -1) -> npt.NDArray[np.float32]:
    """The numbers that blocks along ``axis`` keep of finite numbers."""
    values = np.asarray(x)
    return encode_blocks(values, element, block, axis).values(values, axis)
