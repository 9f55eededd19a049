"""Exact accumulators of one layer on the systolic array: convolution, matrix product, maximum, aligned sum.

Images are (samples, height, width, channels); accumulators are (samples, output pixels, output channels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bfpga.contract.program import ArrayNode, OperandWeights
from bfpga.engines.kernel.products import NumberArray, certified_product, exact_type, row_bound
from bfpga.engines.kernel.windows import WindowShape, padded, patches, taps
from bfpga.engines.rows.layers import row_results
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.rounding import shift_round


class Block(NamedTuple):
    """Activations: mantissa (samples, height, width, channels) integers, exponent (samples,)."""

    mantissa: IntArray
    exponent: IntArray


class Accumulated(NamedTuple):
    """acc: (samples, pixels, channels) exact integers in any number type; exponent: (samples,)."""

    acc: NumberArray
    exponent: Int64Array


Accumulate = Callable[[Sequence[Block]], Accumulated]
Convolve = Callable[[IntArray], NumberArray]


def accumulator_function(layer: ArrayNode, fmt: BlockFormat) -> Accumulate:
    """The function from a layer's input tensors to its accumulators; weights are prepared once, here."""
    if layer.operand is not None:
        return _tensor_products(layer, layer.operand, fmt)
    if layer.kind == "gemm":
        return _products(layer, fmt)
    if layer.kind == "max":
        return _maxima(layer, fmt)
    if layer.kind == "rows":
        return _rows(layer)
    return _sums(layer, fmt)


def _rows(layer: ArrayNode) -> Accumulate:
    results = row_results(layer)
    return lambda inputs: Accumulated(*results([(item.mantissa, item.exponent) for item in inputs]))


def _over_pixels(acc: NumberArray) -> NumberArray:
    """(samples, output_height, output_width, channels) -> (samples, pixels, channels)."""
    return acc.reshape(len(acc), -1, acc.shape[-1])


def _products(layer: ArrayNode, fmt: BlockFormat) -> Accumulate:
    assert layer.weights is not None
    convolve = convolution(np.asarray(layer.weights), layer.window, layer.groups, -fmt.mantissa_min)

    def accumulate(inputs: Sequence[Block]) -> Accumulated:
        return Accumulated(convolve(inputs[0].mantissa), inputs[0].exponent.astype(np.int64))

    return accumulate


def convolution(weights: IntArray, window: WindowShape, groups: int, largest_input: int) -> Convolve:
    """The exact convolution of images (samples, height, width, channels) whose magnitudes do not exceed largest_input.

    weights: (outputs, kernel rows, kernel columns, channels of a group). The function's results are (samples, output
    pixels, outputs), exact integers in a number type.
    """
    kind = exact_type(row_bound(weights, largest_input))
    if groups > 1 and weights.shape[3] == 1 and kind is not None:
        return _depthwise(weights, window, groups, kind)
    if groups > 1:
        return _grouped(weights, window, groups, largest_input)
    return _dense(weights, window, largest_input)


def _dense(weights: IntArray, window: WindowShape, largest_input: int) -> Convolve:
    product = certified_product(weights.reshape(len(weights), -1).T, largest_input)

    def convolve(x: IntArray) -> NumberArray:
        rows = patches(padded(x, window, 0, product.dtype), window)
        samples, pixels = rows.shape[:2]
        # One product over all samples: a stack of small ones costs a call each.
        return product(rows.reshape(samples * pixels, -1)).reshape(samples, pixels, -1)

    return convolve


def _grouped(weights: IntArray, window: WindowShape, groups: int, largest_input: int) -> Convolve:
    outputs = len(weights) // groups
    inner = weights.shape[3]
    product = certified_product(weights.reshape(groups, outputs, -1).transpose(0, 2, 1), largest_input)

    def convolve(x: IntArray) -> NumberArray:
        rows = patches(padded(x, window, 0, product.dtype), window)
        samples, pixels, tap_count, _ = rows.shape
        split = rows.reshape(samples * pixels, tap_count, groups, inner).transpose(2, 0, 1, 3)
        acc = product(split.reshape(groups, samples * pixels, tap_count * inner))
        return acc.transpose(1, 0, 2).reshape(samples, pixels, groups * outputs)

    return convolve


def _depthwise(weights: IntArray, window: WindowShape, groups: int, kind: np.dtype[np.floating[Any]]) -> Convolve:
    """One input channel a group: a sum of scaled images is faster than tiny products."""
    outputs = len(weights) // groups
    factors = weights.reshape(groups, outputs, -1).transpose(2, 0, 1).astype(kind)

    def convolve(x: IntArray) -> NumberArray:
        total: NumberArray | None = None
        for view, factor in zip(taps(padded(x, window, 0, kind), window), factors, strict=True):
            term = view[..., None] * factor if outputs > 1 else view * factor[:, 0]
            if total is None:
                total = term
            else:
                total += term
        assert total is not None
        return total.reshape(len(x), -1, groups * outputs)

    return convolve


def activation_products(inner: int, fmt: BlockFormat) -> Accumulate:
    """Accumulators of products of two activations, one matrix a sample.

    The function takes the first operands (samples, rows, 1, inner) and the second, in place of the weights, as
    (samples, 1, columns, inner) with symmetric mantissas; its exponents are the sums of both.
    """
    kind = exact_type(inner * fmt.mantissa_max * -fmt.mantissa_min) or np.dtype(np.int64)

    def accumulate(inputs: Sequence[Block]) -> Accumulated:
        first, second = (block.mantissa.astype(kind) for block in inputs)
        acc = np.matmul(first[:, :, 0], second[:, 0].transpose(0, 2, 1))
        return Accumulated(acc, inputs[0].exponent.astype(np.int64) + inputs[1].exponent)

    return accumulate


def _tensor_products(layer: ArrayNode, operand: OperandWeights, fmt: BlockFormat) -> Accumulate:
    """Products with the second tensor, another one in each sample; exponents are the sums of both."""
    kind = exact_type(operand.terms * fmt.mantissa_max * -fmt.mantissa_min) or np.dtype(np.int64)
    terms = slice(operand.first_input, operand.first_input + operand.terms)
    channels, count = (operand.terms, layer.channels) if operand.by_pixels else (layer.channels, operand.terms)
    rows = slice(operand.first_pixel, operand.first_pixel + count)
    weights = slice(operand.first_weight, operand.first_weight + channels)

    def accumulate(inputs: Sequence[Block]) -> Accumulated:
        pixels = patches(padded(inputs[0].mantissa, layer.window, 0, kind), layer.window)[:, :, 0, terms]
        second = inputs[1].mantissa
        matrix = second.reshape(len(second), -1, second.shape[3])[:, rows, weights].astype(kind)
        acc = np.matmul(pixels, matrix.transpose(0, 2, 1) if operand.by_pixels else matrix)
        return Accumulated(acc, inputs[0].exponent.astype(np.int64) + inputs[1].exponent)

    return accumulate


def scaled_products(fmt: BlockFormat) -> Accumulate:
    """Accumulators of products with a factor for each channel of every sample, in place of the weights.

    The function takes images and factors (samples, 1, 1, channels) with symmetric mantissas; its exponents are the sums
    of both.
    """
    kind = exact_type(fmt.mantissa_max * -fmt.mantissa_min) or np.dtype(np.int64)

    def accumulate(inputs: Sequence[Block]) -> Accumulated:
        image, factors = (block.mantissa.astype(kind) for block in inputs)
        return Accumulated(_over_pixels(image * factors), inputs[0].exponent.astype(np.int64) + inputs[1].exponent)

    return accumulate


def _maxima(layer: ArrayNode, fmt: BlockFormat) -> Accumulate:
    lowest = -(1 << (fmt.mantissa_bits - 1))

    def accumulate(inputs: Sequence[Block]) -> Accumulated:
        x = inputs[0].mantissa
        largest: NumberArray | None = None
        for view in taps(padded(x, layer.window, lowest, x.dtype), layer.window):
            largest = view.copy() if largest is None else np.maximum(largest, view, out=largest)
        assert largest is not None
        return Accumulated(_over_pixels(largest), inputs[0].exponent.astype(np.int64))

    return accumulate


def _sums(layer: ArrayNode, fmt: BlockFormat) -> Accumulate:
    """Operands aligned to the larger exponent of their sample and added, or the second subtracted (BFP R46, R47)."""

    def accumulate(inputs: Sequence[Block]) -> Accumulated:
        exponents = [block.exponent.astype(np.int64) for block in inputs]
        largest = np.maximum.reduce(exponents)
        total: NumberArray | None = None
        for position, (block, exponent) in enumerate(zip(inputs, exponents, strict=True)):
            shift = (largest - exponent).reshape(-1, 1, 1, 1)
            term = shift_round(block.mantissa, shift, fmt.rounding) if shift.any() else block.mantissa.astype(np.int64)
            if position == 1 and layer.negate_second:
                term = -term
            total = term if total is None else total + term
        assert total is not None
        return Accumulated(_over_pixels(total), largest)

    return accumulate
