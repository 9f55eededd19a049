"""The output stage of the array: accumulator -> bias -> function -> leading position -> mantissa, bit for bit.

Steps and names are those of section 5 of `docs/systolic-array.md`. Arrays are (samples, pixels, channels); a sample is
one tensor with one exponent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function, Setting
from bfpga.engines.output.functions import apply_function
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray
from bfpga.formats.block_float import exponent_from_lead, integer_lead, requantize_values
from bfpga.formats.block_format import BlockFormat, LogMode, Status
from bfpga.formats.rounding import shift_saturate

__all__ = ["Added", "StageResult", "block_lead", "evaluate", "exponent_from_lead", "requantize"]

#: Lead of a block without a value, before it is looked at (any number below all exponents).
_NO_LEAD = -(1 << 31)


class StageResult(NamedTuple):
    """v: (samples, pixels, channels) int64; e3: broadcasts to v; status: ``Status`` bits of each sample (samples,)."""

    v: Int64Array
    e3: Int64Array
    status: Int64Array


class Added(NamedTuple):
    """A tensor that is added to sums. mantissa: (samples, pixels, channels) integers; exponent: (samples,)."""

    mantissa: IntArray
    exponent: npt.ArrayLike


def _flag(mask: BoolArray, bit: Status) -> Int64Array:
    """``bit`` for each sample (first axis) in which the mask is set somewhere."""
    return np.where(mask.any(axis=(1, 2)), np.int64(bit), np.int64(0))


def _add_bias(
    v: Int64Array, e3: Int64Array, bias: npt.ArrayLike, bias_exponent: int, cfg: KernelConfig
) -> StageResult:
    """Step 2: the bias aligned to the accumulators and added; both clamp to the accumulator's range (BFP R8-R10)."""
    largest = (1 << (cfg.accumulator_bits - 1)) - 1
    bias = np.asarray(bias, np.int64).reshape(1, 1, -1)
    aligned, outside = shift_saturate(bias, e3 - bias_exponent, cfg.format.rounding, -largest - 1, largest)
    total = v + aligned
    status = np.zeros(len(v), np.int64)
    if outside.any():
        alone = (v == 0) & outside  # nothing but the bias: it keeps its own unit
        total = np.where(alone, bias, total)
        e3 = np.where(alone, bias_exponent, e3)
        status |= _flag(outside & (v != 0), Status.BIAS_SATURATED)
    if total.max(initial=0) > largest or total.min(initial=0) < -largest - 1:
        status |= _flag((total > largest) | (total < -largest - 1), Status.ACCUMULATOR_SATURATED)
        total = np.clip(total, -largest - 1, largest)
    return StageResult(total, e3, status)


def _add_second(v: Int64Array, e3: Int64Array, added: Added, cfg: KernelConfig) -> tuple[Int64Array, Int64Array]:
    """The second tensor of a layer that adds it, aligned to the sums and added; both clamp to the accumulator's range.

    The sums, and the status bits of each sample.
    """
    largest = (1 << (cfg.accumulator_bits - 1)) - 1
    exponent = np.asarray(added.exponent, np.int64).reshape(-1, 1, 1)
    aligned, outside = shift_saturate(added.mantissa, e3 - exponent, cfg.format.rounding, -largest - 1, largest)
    total = v + aligned
    clamped = np.clip(total, -largest - 1, largest)
    return clamped, _flag(outside | (clamped != total), Status.ACCUMULATOR_SATURATED)


def evaluate(
    acc: IntArray,
    e_acc: npt.ArrayLike,
    cfg: KernelConfig,
    *,
    row_exponents: npt.ArrayLike | None = None,
    added: Added | None = None,
    bias: npt.ArrayLike | None = None,
    bias_exponent: int = 0,
    function: int = Function.NONE,
    function_argument: int = 0,
    function_exponent: int = 0,
    function_first: bool = False,
) -> StageResult:
    """Steps 1 to 3: accumulators with exponents to results with exponents.

    acc: (samples, pixels, channels) integers within the accumulator's range; e_acc: (samples,); row_exponents, bias:
    (channels,) or None; added: what is added to the sums before the bias. The result's e3 broadcasts to v and is as
    small as it can be. BFP R5, R7-R14.
    """
    v = np.asarray(acc, np.int64)
    e3 = np.asarray(e_acc, np.int64).reshape(-1, 1, 1)
    if row_exponents is not None:
        e3 = e3 + np.asarray(row_exponents, np.int64).reshape(1, 1, -1)
    status = np.zeros(len(v), np.int64)
    setting = Setting(function_argument, function_exponent, cfg.format, cfg.accumulator_bits)
    if added is not None:
        v, status = _add_second(v, e3, added, cfg)
    if function_first:
        v, e3 = apply_function(v, e3, function, setting)
    if bias is not None:
        v, e3, bits = _add_bias(v, e3, bias, bias_exponent, cfg)
        status = status | bits
    if not function_first:
        v, e3 = apply_function(v, e3, function, setting)
    return StageResult(v, e3, status)


def block_lead(v: Int64Array, e3: IntArray, log: LogMode) -> tuple[Int64Array, BoolArray]:
    """Step 4: largest leading position of each sample (samples,), and whether it has a value that is not zero.

    v: (samples, pixels, channels), e3 broadcasts to it. The lead of a block of zeros is meaningless. BFP R24.
    """
    samples = len(v)
    if v.size == 0:
        return np.full(samples, _NO_LEAD, np.int64), np.zeros(samples, np.bool_)
    # Values that share an exponent are reduced before their logarithm is taken.
    shared = tuple(axis for axis in (1, 2) if e3.shape[axis] == 1)
    largest = np.maximum(v.max(axis=shared, keepdims=True), -v.min(axis=shared, keepdims=True))
    leads = np.where(largest > 0, integer_lead(largest, log) + e3, _NO_LEAD)
    lead = np.broadcast_to(leads, (samples, *leads.shape[1:])).max(axis=(1, 2))
    return lead, lead > _NO_LEAD


def requantize(
    v: Int64Array, e3: IntArray, e4: npt.ArrayLike, fmt: BlockFormat
) -> tuple[IntArray, Int64Array, Int64Array]:
    """Step 6: mantissas at exponent e4 (samples,); overflows and underflows of each sample (samples,). BFP R16, R17."""
    output_exponents = np.asarray(e4, np.int64).reshape(-1, 1, 1)
    mantissa, overflow, underflow = requantize_values(v, e3, output_exponents, fmt)
    return mantissa, np.count_nonzero(overflow, axis=(1, 2)), np.count_nonzero(underflow, axis=(1, 2))
