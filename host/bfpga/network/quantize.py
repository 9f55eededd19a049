"""Float layers -> integer nodes: weights with one exponent a row, biases, function arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.engines.configuration import SHIFT_MODES, SystolicConfig, WeightFormat
from bfpga.engines.descriptor import Function
from bfpga.engines.shift_words import representable
from bfpga.network.layers import Layer
from bfpga.network.program import ArrayNode, IntArray, PolicySpec

FloatArray = npt.NDArray[np.floating[Any]]
#: Bits of the clip bound's mantissa; whole numbers and simple fractions are exact.
BOUND_BITS = 16
#: Exponents that are tried for a row of two-hot or power-of-two weights.
SEARCHED_EXPONENTS = 16


@dataclass
class QuantizedRows:
    """Weight mantissas and one exponent for each row; ``lowered`` rows lost bits to the accumulator's limit."""

    mantissas: IntArray
    exponents: IntArray
    lowered: int = 0


def row_exponents(weights: FloatArray, config: SystolicConfig, method: str = "mse") -> IntArray:
    """For each row the exponent of its largest weight, or one less where saturating it lowers the squared error."""
    form = config.format
    largest = np.abs(weights).max(axis=1, initial=0.0)
    _, power = np.frexp(np.where(largest > 0, largest, 1.0))
    top = power.astype(np.int64) - 1 - (form.mantissa_bits - 2)
    usual = int(top[largest > 0].max(initial=-(1 << 14))) if (largest > 0).any() else 0
    top = np.where(largest > 0, top, usual)
    best = top
    if method == "mse":
        errors = np.stack([_row_error(weights, top - lower, form.mantissa_max) for lower in (0, 1)])
        best = top - np.argmin(errors, axis=0)
    return np.clip(best, form.exponent_min, form.exponent_max)


def _row_error(weights: FloatArray, exponents: IntArray, mantissa_max: int) -> FloatArray:
    step = np.exp2(exponents.astype(np.float64))[:, None]
    rounded = np.clip(np.rint(weights / step), -mantissa_max, mantissa_max) * step
    return np.asarray(((weights - rounded) ** 2).sum(axis=1))


def representable_integers(config: SystolicConfig, weight_format: WeightFormat) -> IntArray:
    """Sorted integers that weights of a format may be on an array."""
    largest = config.largest_weight(weight_format)
    if weight_format == "linear":
        return np.arange(-largest, largest + 1)
    assert config.shift is not None
    return representable(config.shift, SHIFT_MODES[weight_format], largest)[0]


def nearest(values: IntArray, y: FloatArray) -> IntArray:
    """The nearest of sorted ``values`` to each number; of two that are equally near the smaller magnitude (SM 2.5)."""
    upper = np.clip(np.searchsorted(values, y), 1, len(values) - 1)
    low, high = values[upper - 1], values[upper]
    below, above = y - low, high - y
    return np.where((below < above) | ((below == above) & (np.abs(low) < np.abs(high))), low, high)


def shift_exponents(weights: FloatArray, values: IntArray, config: SystolicConfig) -> IntArray:
    """For each row the exponent, among 16, at which representable values meet its weights best (SM 2.5)."""
    largest = np.abs(weights).max(axis=1, initial=0.0)
    _, power = np.frexp(np.where(largest > 0, largest, 1.0))
    first = power.astype(np.int64) - int(values[-1]).bit_length() - 3
    errors = []
    for step in range(SEARCHED_EXPONENTS):
        scale = np.exp2((first + step).astype(np.float64))[:, None]
        errors.append(((nearest(values, weights / scale) * scale - weights) ** 2).sum(axis=1))
    best = first + np.argmin(np.stack(errors), axis=0)
    return np.clip(best, config.format.exponent_min, config.format.exponent_max)


def quantize_rows(
    weights: FloatArray,
    config: SystolicConfig,
    lowest: IntArray | None = None,
    method: str = "mse",
    weight_format: WeightFormat = "linear",
) -> QuantizedRows:
    """Weights (rows, terms) as integers of a format.

    lowest: exponents that rows must not go below (their bias would leave the accumulator). A row whose products could
    leave the accumulator gets a larger exponent: exactness of the sum goes before the weights' last bit (BFP R3).
    """
    largest = config.largest_weight(weight_format)
    values = representable_integers(config, weight_format)
    linear = weight_format == "linear"
    exponents = row_exponents(weights, config, method) if linear else shift_exponents(weights, values, config)
    if lowest is not None:
        exponents = np.maximum(exponents, lowest)
    wanted = exponents
    limit = ((1 << (config.accumulator_bits - 2)) - 1) // max(config.format.mantissa_max, -config.format.mantissa_min)
    while True:
        scaled = weights / np.exp2(exponents.astype(np.float64))[:, None]
        chosen = np.clip(np.rint(scaled), -largest, largest) if linear else nearest(values, scaled)
        mantissas = chosen.astype(np.int64)
        over = np.abs(mantissas).sum(axis=1) > limit
        if not over.any():
            break
        exponents = exponents + over
    kind = np.int8 if largest < 128 else np.int32
    return QuantizedRows(mantissas.astype(kind), exponents.astype(np.int32), int((exponents > wanted).sum()))


def quantize_bias(bias: FloatArray, config: SystolicConfig) -> tuple[IntArray, int]:
    """Bias mantissas of ``bias_bits`` with the smallest exponent they share."""
    largest = float(np.abs(bias).max(initial=0.0))
    top = (1 << (config.bias_bits - 1)) - 1
    exponent = 0 if largest == 0 else int(np.frexp(largest)[1]) - 1 - (config.bias_bits - 2)
    if largest > 0 and np.rint(largest * 2.0**-exponent) > top:
        exponent += 1
    return np.rint(bias * 2.0**-exponent).astype(np.int32), exponent


def bound_argument(bound: float) -> tuple[int, int]:
    """A clip bound as (mantissa, exponent), the mantissa odd."""
    _, power = np.frexp(bound)
    exponent = int(power) - BOUND_BITS
    mantissa = round(bound * 2.0**-exponent)
    while mantissa % 2 == 0:
        mantissa, exponent = mantissa // 2, exponent + 1
    return mantissa, exponent


def quantize_layer(
    layer: Layer,
    config: SystolicConfig,
    policy: PolicySpec,
    input_exponent: int | None,
    method: str = "mse",
    weight_format: WeightFormat = "linear",
) -> tuple[ArrayNode, str]:
    """The integer node of a layer, and a note if its weights lost bits (else empty).

    input_exponent: the smallest exponent its input is expected to have; None if it is only known at run time.
    """
    node = ArrayNode(
        layer.name, layer.kind, layer.inputs, layer.output, layer.channels, layer.window, layer.channel_offset,
        layer.groups, negate_second=layer.negate_second, policy=policy, uniform_weights=layer.uniform_weights,
        macs=layer.macs, function=layer.function,
    )
    if layer.function == Function.LEAKY_RELU:
        node.function_argument = int(layer.argument)
    elif layer.function == Function.CLIP:
        node.function_argument, node.function_exponent = bound_argument(layer.argument)
    if layer.weights is None:
        return node, ""
    bias = layer.bias
    lowest = None
    if bias is not None and input_exponent is not None:
        lead = np.frexp(np.where(bias == 0, 2.0**-200, np.abs(bias)))[1] - 1
        lowest = lead.astype(np.int64) - (config.accumulator_bits - 3) - input_exponent
    rows = quantize_rows(layer.weights.reshape(layer.channels, -1), config, lowest, method, weight_format)
    node.weight_format = weight_format
    node.weights = rows.mantissas.reshape(layer.weights.shape)
    node.weight_exponents = rows.exponents
    if bias is not None:
        node.bias, node.bias_exponent = quantize_bias(bias, config)
    note = f"{layer.name}: {rows.lowered} weight rows use fewer bits to stay inside the accumulator"
    return node, note if rows.lowered else ""
