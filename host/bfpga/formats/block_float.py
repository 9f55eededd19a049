"""Block floating point: value = mantissa * 2**exponent, one exponent for a block of values (BFP 2).

Encoding follows equations 2-4 of the specification: the largest magnitude of a block occupies the highest bit of the
mantissa. The same selection and the same requantiser serve the engines' output stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.arrays import BoolArray, FloatArray, Int32Array, Int64Array, IntArray
from bfpga.formats.block_format import BlockFormat, LogMode, Saturation, Status
from bfpga.formats.rounding import HostRounding, ceil_log2, floor_log2, shift_to_bits, wrap

#: float32 powers of two that are normal numbers: scaling by them is exact.
_NORMAL_FLOAT32 = (-126, 126)


@dataclass
class Encoded:
    """Blocks in block floating point.

    mantissa: integers of the data's shape; exponent: (groups,) or a scalar array; overflow, underflow: number of
    mantissas that were saturated, and of values not zero that became zero; status: ``Status`` bits of all blocks.
    """

    mantissa: IntArray
    exponent: Int64Array
    overflow: int = 0
    underflow: int = 0
    status: int = 0


def mantissa_dtype(bits: int) -> np.dtype[Any]:
    """Smallest signed integer type that holds a mantissa of ``bits`` bits."""
    return np.dtype(np.int8 if bits <= 8 else np.int16 if bits <= 16 else np.int32)


def exponent_from_lead(
    lead: npt.ArrayLike, nonzero: npt.ArrayLike, fmt: BlockFormat, *, signed: bool = True, exponent_bias: int = 0
) -> tuple[Int64Array, Int64Array]:
    """Exponents of blocks whose largest magnitude has its leading one at ``lead``, and their ``Status`` bits.

    A block without a value (``nonzero`` false) gets the smallest exponent. ``exponent_bias`` moves the range of
    representable exponents. BFP equation 4, R24.
    """
    low, high = fmt.exponent_min + exponent_bias, fmt.exponent_max + exponent_bias
    wanted = np.asarray(lead, np.int64) - (fmt.mantissa_bits - (2 if signed else 1))
    status = np.where(wanted < low, int(Status.EXPONENT_LOW), 0) | np.where(wanted > high, int(Status.EXPONENT_HIGH), 0)
    exponent = np.where(nonzero, np.clip(wanted, low, high), low)
    return exponent, np.where(nonzero, status, int(Status.ZERO_BLOCK))


def integer_lead(magnitudes: npt.ArrayLike, log: LogMode) -> Int64Array:
    """Position of the leading one of integers >= 0 (rounded up for ``ceil``); zero gives the position of one."""
    positive = np.maximum(np.asarray(magnitudes, np.int64), 1)
    return floor_log2(positive) if log == "floor" else ceil_log2(positive)


def float_lead(magnitudes: npt.ArrayLike, log: LogMode) -> Int64Array:
    """The same of floats >= 0, exact; zero gives an arbitrary position."""
    fraction, power = np.frexp(np.asarray(magnitudes, np.float64))
    lead = power.astype(np.int64) - 1
    if log == "ceil":
        lead += fraction > 0.5
    return lead


def requantize_values(
    values: npt.ArrayLike, exponents: npt.ArrayLike, output_exponents: npt.ArrayLike, fmt: BlockFormat
) -> tuple[IntArray, BoolArray, BoolArray]:
    """Mantissas of values * 2**exponents at ``output_exponents``; masks of overflows and of underflows. BFP R16, R17.

    All arrays broadcast. One rounding per element; underflow is a value not zero whose mantissa is zero.
    """
    values = np.asarray(values, np.int64)
    shift = np.asarray(output_exponents, np.int64) - np.asarray(exponents, np.int64)
    wide, overflow = shift_to_bits(values, shift, fmt.mantissa_bits, fmt.rounding, fmt.saturation)
    mantissa = wide.astype(mantissa_dtype(fmt.mantissa_bits))
    underflow = mantissa == 0
    underflow &= values != 0
    if fmt.saturation == "wrap":  # only a wrapped value overflows to zero
        underflow &= ~overflow
    return mantissa, overflow, underflow


def requantize_block(
    values: npt.ArrayLike, exponents: npt.ArrayLike, fmt: BlockFormat, output_exponent: int | None = None
) -> Encoded:
    """One block of integers with exponents (one, or one a value) in the format; None: exponent of its maximum."""
    values = np.asarray(values, np.int64)
    exponents = np.asarray(exponents, np.int64)
    status = 0
    if output_exponent is None:
        nonzero = values != 0
        leads = np.where(nonzero, integer_lead(np.abs(values), fmt.log) + exponents, np.iinfo(np.int32).min)
        chosen, bits = exponent_from_lead(leads.max(initial=np.iinfo(np.int32).min), nonzero.any(), fmt)
        output_exponent, status = int(chosen), int(bits)
    mantissa, overflow, underflow = requantize_values(values, exponents, output_exponent, fmt)
    return Encoded(
        mantissa, np.asarray(output_exponent), int(np.count_nonzero(overflow)), int(np.count_nonzero(underflow)), status
    )


def _round_float(
    values: npt.NDArray[np.float64], rounding: HostRounding, generator: np.random.Generator | None
) -> npt.NDArray[np.float64]:
    """Floats rounded to whole numbers, exact for every mode (no value + 0.5, which itself would round)."""
    if rounding == "rne":
        return np.rint(values)
    if rounding == "tozero":
        return np.trunc(values)
    if rounding == "half_away":
        whole = np.trunc(values)
        return np.asarray(whole + np.copysign(np.abs(values - whole) >= 0.5, values))
    whole = np.floor(values)
    if rounding == "trunc":
        return whole
    if rounding == "half_up":
        return np.asarray(whole + (values - whole >= 0.5))
    if generator is None:
        raise ValueError("stochastic rounding needs a random generator")
    return np.asarray(whole + (generator.random(values.shape) < values - whole))


def _finite(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        raise DataError(_not_finite(values))
    return values


def _not_finite(values: FloatArray) -> str:
    position = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
    return f"the data holds {values[position]} at index {position}: block floating point needs finite numbers"


def _float_mantissas(
    values: npt.NDArray[np.float64],
    exponents: Int64Array,
    fmt: BlockFormat,
    rounding: HostRounding,
    signed: bool,
    generator: np.random.Generator | None,
) -> tuple[IntArray, BoolArray]:
    """Mantissas of floats at given exponents, and the mask of those that saturation changed."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinity saturates
        scaled = np.ldexp(values, -exponents.astype(np.int32))
        # A scaled value below the smallest float is still not zero: flooring must see its sign.
        scaled = np.where((scaled == 0) & (values < 0), -np.finfo(np.float64).tiny, scaled)
        rounded = _round_float(scaled, rounding, generator)
    low, high = (fmt.mantissa_min, fmt.mantissa_max) if signed else (0, (1 << fmt.mantissa_bits) - 1)
    changed = (rounded < low) | (rounded > high)
    if fmt.saturation == "wrap" and signed:
        finite = np.where(np.isfinite(rounded), rounded, 0.0)  # beyond float64 no low bit is set
        return wrap(np.fmod(finite, float(1 << fmt.mantissa_bits)).astype(np.int64), fmt.mantissa_bits), changed
    return np.clip(rounded, low, high).astype(np.int64), changed


def encode(
    x: npt.ArrayLike,
    fmt: BlockFormat,
    exponents: npt.ArrayLike | None = None,
    index: npt.ArrayLike | None = None,
    *,
    groups: int | None = None,
    signed: bool = True,
    exponent_bias: int = 0,
    rounding: HostRounding | None = None,
    generator: np.random.Generator | None = None,
) -> Encoded:
    """Real numbers in block floating point, with any map of elements to exponents.

    x: floats of any shape, finite (``DataError`` otherwise). index: block of every element (x's shape; default: one
    block), of ``groups`` blocks (default: as many as the index names). exponents: (groups,) to use instead of those of
    the blocks' maxima. signed false: mantissas 0..2**bits - 1, the sign is kept elsewhere (negative numbers are a
    ``DataError``). exponent_bias: added to the format's exponent range; the stored exponent is exponent - bias.
    rounding: overrides the format's, ``stochastic`` needs the generator. BFP 2.1-2.3, R21.
    """
    values = _finite(x)
    if not signed and (values < 0).any():
        raise DataError("unsigned mantissas cannot hold negative numbers: encode the magnitudes, keep the signs apart")
    blocks = np.zeros(values.shape, np.int64) if index is None else np.asarray(index, np.int64)
    if blocks.shape != values.shape:
        raise DataError(f"the index map has shape {blocks.shape}, the data {values.shape}: they must be equal")
    status = 0
    if exponents is None:
        largest = np.zeros(groups if groups is not None else int(blocks.max(initial=0)) + 1)
        np.maximum.at(largest, blocks.ravel(), np.abs(values).ravel())
        chosen, bits = exponent_from_lead(
            float_lead(largest, fmt.log), largest > 0, fmt, signed=signed, exponent_bias=exponent_bias
        )
        status = int(np.bitwise_or.reduce(bits))
    else:
        chosen = np.atleast_1d(np.asarray(exponents, np.int64))
    mantissa, changed = _float_mantissas(values, chosen[blocks], fmt, rounding or fmt.rounding, signed, generator)
    underflow = (mantissa == 0) & (values != 0) & ~changed
    return Encoded(mantissa, chosen, int(np.count_nonzero(changed)), int(np.count_nonzero(underflow)), status)


def _largest_magnitudes(x: FloatArray) -> FloatArray:
    """Largest |x| of each sample (first axis); ``DataError`` if a number is not finite."""
    if x.size == 0:
        return np.zeros(len(x), x.dtype)
    axes = tuple(range(1, x.ndim))  # not a reshape: it would copy transposed data
    largest: FloatArray = np.maximum(x.max(axis=axes), -x.min(axis=axes))
    if not np.isfinite(largest).all():
        raise DataError(_not_finite(x))
    return largest


def encode_samples(x: npt.ArrayLike, fmt: BlockFormat, exponent: int | None = None) -> tuple[IntArray, Int32Array]:
    """Activations, one exponent per sample (shape `whole`): mantissas of x's shape and exponents (samples,) int32.

    x: (samples, ...) floats, finite (``DataError`` otherwise). exponent: one for all samples instead of each sample's
    own. The mantissas have the smallest integer type that holds them. BFP 2.2, R25.
    """
    values: FloatArray = np.asarray(x)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    largest = _largest_magnitudes(values)
    if exponent is None:
        exponents, _ = exponent_from_lead(float_lead(largest, fmt.log), largest > 0, fmt)
    else:
        exponents = np.full(len(values), exponent, np.int64)
    # A sample of zeros has the smallest exponent, but any scale will do.
    scale = np.where(largest > 0, exponents, 0).reshape(-1, *(1,) * (values.ndim - 1))
    mantissa: npt.NDArray[Any]
    if fmt.rounding == "rne" and fmt.saturation != "wrap" and _scales_exactly(scale):
        factor = np.ldexp(values.dtype.type(1), -scale.astype(np.int32))
        with np.errstate(over="ignore"):  # a given exponent may be far too small: infinity saturates
            mantissa = values * factor
            highest = np.rint(largest * factor.reshape(-1))
        np.rint(mantissa, out=mantissa)
        for sample in np.flatnonzero(highest > min(fmt.mantissa_max, -fmt.mantissa_min)):  # few saturate
            np.clip(mantissa[sample], fmt.mantissa_min, fmt.mantissa_max, out=mantissa[sample])
    else:
        mantissa, _ = _float_mantissas(values.astype(np.float64), scale, fmt, fmt.rounding, True, None)
    return mantissa.astype(mantissa_dtype(fmt.mantissa_bits)), exponents.astype(np.int32)


def encode_remainders(
    x: npt.ArrayLike, mantissa: IntArray, exponent: IntArray, fmt: BlockFormat, bits: int
) -> IntArray:
    """What ``encode_samples`` took from samples, times 2**bits: mantissas of x's shape, at the same exponents.

    mantissa, exponent: what it returned for x. Values beyond the format leave remainders that saturate too.
    """
    values: FloatArray = np.asarray(x)
    exponents = np.asarray(exponent, np.int32).reshape(-1, *(1,) * (values.ndim - 1))
    left: npt.NDArray[Any]
    with np.errstate(over="ignore"):  # infinity saturates
        if values.dtype == np.float32 and _scales_exactly(exponents):  # what is left is a float32, or saturates
            left = values * np.ldexp(np.float32(1), -exponents) - mantissa
        else:
            left = np.ldexp(values.astype(np.float64), -exponents) - mantissa
    largest = float(1 << fmt.mantissa_bits)
    np.clip(left, -largest, largest, out=left)
    left *= 2.0**bits
    return encode_samples(left, fmt, 0)[0]


def _scales_exactly(exponents: IntArray) -> bool:
    """True if 2**exponent and its inverse are normal float32 numbers for all exponents."""
    low, high = _NORMAL_FLOAT32
    return exponents.size == 0 or (int(exponents.min()) >= low and int(exponents.max()) <= high)


def encode_rows(w: npt.ArrayLike, fmt: BlockFormat, saturation: Saturation = "sym") -> tuple[IntArray, Int32Array]:
    """Weights, one exponent per row (shape `row`): mantissas of w's shape (rows, ...) and exponents (rows,) int32.

    Weights are symmetric by default whatever the activations' saturation: packed products need it (BFP 7).
    """
    return encode_samples(w, replace(fmt, saturation=saturation))


def decode(mantissa: npt.ArrayLike, exponent: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> FloatArray:
    """mantissa * 2**exponent as floats of ``dtype``, rounded once where it cannot hold them.

    exponent: as many leading axes as it has are matched with the mantissa's ((samples,) for activations, (rows,) for
    weights, the mantissa's shape for any map). BFP R20.
    """
    mantissa = np.asarray(mantissa)
    exponent = np.asarray(exponent, np.int32)
    exponent = exponent.reshape(exponent.shape + (1,) * (mantissa.ndim - exponent.ndim))
    dtype = np.dtype(dtype)
    if dtype == np.float32 and _scales_exactly(exponent) and mantissa.dtype.itemsize <= 2:
        scaled: FloatArray = mantissa * np.ldexp(np.float32(1), exponent)
        return scaled
    with np.errstate(over="ignore"):  # beyond the largest float32 is infinity
        result: FloatArray = np.ldexp(mantissa.astype(np.float64), exponent).astype(dtype)
    return result


def to_sign_magnitude(mantissa: npt.ArrayLike, bits: int) -> Int64Array:
    """Symmetric mantissas as codes of ``bits`` bits with a separate sign bit on top; zero is positive. BFP R21."""
    mantissa = np.asarray(mantissa, np.int64)
    if (np.abs(mantissa) >> (bits - 1)).any():
        raise DataError(f"sign-magnitude codes of {bits} bits hold magnitudes below {1 << (bits - 1)} only")
    code: Int64Array = np.abs(mantissa) | ((mantissa < 0).astype(np.int64) << (bits - 1))
    return code


def from_sign_magnitude(code: npt.ArrayLike, bits: int) -> Int64Array:
    """Inverse of ``to_sign_magnitude``; minus zero is zero."""
    code = np.asarray(code, np.int64)
    magnitude = code & ((1 << (bits - 1)) - 1)
    return np.where(code >> (bits - 1) & 1, -magnitude, magnitude)
