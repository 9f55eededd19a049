"""Float layers -> integer nodes: weights with one exponent a row, biases, function arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bfpga.compiler.lower.layers import Layer, RowPart
from bfpga.compiler.numbers.parts import terms_of_parts
from bfpga.compiler.numbers.shift_weights import Moments, compensated_integers, shift_exponents, shift_integers
from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.program import ArrayNode, PolicySpec
from bfpga.contract.rows import SOFTMAX_EXPONENT, RowOperation, RowWork
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.errors import ModelError
from bfpga.formats.arrays import FloatArray, IntArray

#: Binary logarithm of the largest value of a layer's input, where nothing is known of it: at least that is expected, so
#: that biases stay within the accumulator above weights that are much smaller than they.
SMALLEST = -8


@dataclass
class QuantizedRows:
    """Weight mantissas and one exponent for each row; ``lowered`` rows lost bits to the accumulator's limit."""

    mantissas: IntArray
    exponents: IntArray
    lowered: int = 0


def row_exponents(weights: FloatArray, config: KernelConfig, method: str = "mse") -> IntArray:
    """For each row the exponent of its largest weight, or one less where saturating it lowers the squared error."""
    form = config.format
    largest = np.abs(weights).max(axis=1, initial=0.0)
    _, power = np.frexp(np.where(largest > 0, largest, 1.0))
    most = config.largest_weight("linear")
    top = power.astype(np.int64) - most.bit_length()
    usual = int(top[largest > 0].max(initial=-(1 << 14))) if (largest > 0).any() else 0
    top = np.where(largest > 0, top, usual)
    best = top
    if method == "mse":
        errors = np.stack([_row_error(weights, top - lower, most) for lower in (0, 1)])
        best = top - np.argmin(errors, axis=0)
    return np.clip(best, form.exponent_min, form.exponent_max)


def _row_error(weights: FloatArray, exponents: IntArray, largest: int) -> FloatArray:
    step = np.exp2(exponents.astype(np.float64))[:, None]
    rounded = np.clip(np.rint(weights / step), -largest, largest) * step
    return np.asarray(((weights - rounded) ** 2).sum(axis=1))


def quantize_rows(
    weights: FloatArray,
    config: KernelConfig,
    lowest: IntArray | None = None,
    method: str = "mse",
    weight_format: WeightFormat = "linear",
    moments: Moments | None = None,
    biases: FloatArray | None = None,
    parts: IntArray | None = None,
) -> QuantizedRows:
    """Weights (rows, terms) as integers of a format.

    lowest: exponents that rows must not go below (their bias would leave the accumulator). A row whose products could
    leave the accumulator gets a larger exponent: exactness of the sum goes before the weights' last bit (BFP R3).
    moments: of the inputs; weights then compensate each other's errors. biases: as for ``sum_limits``.
    parts: (values, parts) terms that multiply parts of one value: each compensates the rounding of the one before.
    """
    linear = weight_format == "linear"
    exponents = row_exponents(weights, config, method) if linear else shift_exponents(weights, config, weight_format)
    if lowest is not None:
        exponents = np.maximum(exponents, lowest)
    wanted, largest = exponents, config.largest_weight(weight_format)
    while True:
        scaled = np.ldexp(weights, -exponents[:, None])
        if parts is not None and (linear or moments is None):
            mantissas = _in_parts(scaled, parts, lambda values: _rounded(values, config, weight_format))
        elif moments is None:
            mantissas = _rounded(scaled, config, weight_format)
        else:
            mantissas = compensated_integers(scaled, config, weight_format, moments)
        over = np.abs(mantissas).sum(axis=1) > sum_limits(config, exponents, biases)
        if not over.any():
            break
        exponents = exponents + over
    kind = np.int8 if largest < 128 else np.int32
    return QuantizedRows(mantissas.astype(kind), exponents.astype(np.int32), int((exponents > wanted).sum()))


def _rounded(scaled: FloatArray, config: KernelConfig, weight_format: WeightFormat) -> IntArray:
    """The nearest integers of a format."""
    if weight_format != "linear":
        return shift_integers(scaled, config, weight_format)
    largest = config.largest_weight(weight_format)
    return np.clip(np.rint(scaled), -largest, largest).astype(np.int64)


def _in_parts(scaled: FloatArray, parts: IntArray, nearest: Callable[[FloatArray], IntArray]) -> IntArray:
    """Integers for weights (rows, terms): the sum of those that multiply parts of one value comes close to its sum."""
    result = np.zeros(scaled.shape, np.int64)
    wanted = np.cumsum(scaled[:, parts], axis=2)
    given = np.zeros(wanted.shape[:2], np.int64)
    for part in range(parts.shape[1]):
        found = nearest(wanted[:, :, part] - given)
        result[:, parts[:, part]] = found
        given = given + found
    return result


def sum_limits(config: KernelConfig, exponents: IntArray, biases: FloatArray | None) -> IntArray:
    """For each row the largest sum of its weights' magnitudes whose products stay in the accumulator.

    exponents: of the rows' weights; biases: magnitudes of the rows' biases in units of their input. Where they are not
    known, half of the accumulator is left to them; otherwise rows may fill what their own bias leaves.
    """
    largest = max(config.format.mantissa_max, -config.format.mantissa_min)
    half = ((1 << (config.accumulator_bits - 2)) - 1) // largest
    if biases is None:
        return np.full(len(exponents), half)
    room = (1 << (config.accumulator_bits - 1)) - 1
    aligned = np.ceil(np.ldexp(biases, -np.asarray(exponents)))
    left = np.floor((room - np.minimum(aligned, room)) / largest)
    limits: IntArray = np.maximum(half, left.astype(np.int64))
    return limits


def quantize_bias(bias: FloatArray, config: KernelConfig) -> tuple[IntArray, int]:
    """Bias mantissas of ``bias_bits`` with the smallest exponent they share."""
    largest = float(np.abs(bias).max(initial=0.0))
    top = (1 << (config.bias_bits - 1)) - 1
    exponent = 0 if largest == 0 else int(np.frexp(largest)[1]) - 1 - (config.bias_bits - 2)
    if largest > 0 and np.rint(largest * 2.0**-exponent) > top:
        exponent += 1
    return np.rint(bias * 2.0**-exponent).astype(np.int32), exponent


def quantize_product(
    weights: FloatArray,
    bias: FloatArray | None,
    config: KernelConfig,
    input_exponent: int | None,
    method: str = "mse",
    weight_format: WeightFormat = "linear",
    moments: Moments | None = None,
    parts: IntArray | None = None,
) -> tuple[QuantizedRows, tuple[IntArray, int] | None]:
    """Weights (rows, terms) and biases (rows,) of a layer as integers: rows, and the biases with their exponent.

    input_exponent: as for ``quantize_layer``.
    """
    if bias is None:
        rows = quantize_rows(
            weights, config, None, method, weight_format, moments, np.zeros(len(weights)), parts
        )
        return rows, None
    expected = input_exponent if input_exponent is not None else SMALLEST - (config.format.mantissa_bits - 1)
    lead = np.frexp(np.where(bias == 0, 2.0**-200, np.abs(bias)))[1] - 1
    lowest = lead.astype(np.int64) - (config.accumulator_bits - 3) - expected
    mantissas, exponent = quantize_bias(bias, config)
    biases = None
    if input_exponent is not None:
        biases = np.ldexp(np.abs(mantissas.astype(np.float64)), exponent - input_exponent)
    rows = quantize_rows(weights, config, lowest, method, weight_format, moments, biases, parts)
    return rows, (mantissas, exponent)


def quantize_layer(
    layer: Layer,
    config: KernelConfig,
    policy: PolicySpec,
    input_exponent: int | None,
    method: str = "mse",
    weight_format: WeightFormat = "linear",
    moments: Moments | None = None,
) -> tuple[ArrayNode, str]:
    """The integer node of a layer, and a note if its weights lost bits (else empty).

    input_exponent: the smallest exponent its input is expected to have; None if it is only known at run time.
    moments: second moments of its inputs, where samples were measured.
    """
    kind = "gemm" if layer.operand is not None else layer.kind
    node = ArrayNode(
        layer.name, kind, layer.inputs, layer.output, layer.channels, layer.window, layer.channel_offset,
        layer.groups, negate_second=layer.negate_second, policy=policy, uniform_weights=layer.uniform_weights,
        macs=layer.macs, function=layer.function, operand=layer.operand,
    )
    argument = layer.function.row.argument
    if argument is not None:
        node.function_argument, node.function_exponent = argument.encoded(layer.argument)
    if layer.rows is not None:
        node.rows = row_work(layer, layer.rows)
        if layer.bias is not None:
            node.bias, node.bias_exponent = quantize_bias(layer.bias, config)
    if layer.weights is None:
        return node, ""
    weights = np.asarray(layer.weights, np.float64).reshape(layer.channels, -1)
    _check_weights(layer.name, weights, config)
    rows, bias = quantize_product(
        weights, layer.bias, config, input_exponent, method, weight_format, moments, terms_of_parts(layer)
    )
    if bias is not None:
        node.bias, node.bias_exponent = bias
    node.weight_format = weight_format
    node.weights = rows.mantissas.reshape(layer.weights.shape)
    node.weight_exponents = rows.exponents
    note = f"{layer.name}: {rows.lowered} weight rows use fewer bits to stay inside the accumulator"
    return node, note if rows.lowered else ""


def row_work(layer: Layer, rows: RowPart) -> RowWork:
    """What a layer does with rows, in the integers of its process."""
    settings = RowSettings.of(rows.operation, layer.channels, rows.epsilon)
    if rows.scale is None:
        exponent = SOFTMAX_EXPONENT if rows.operation is RowOperation.SOFTMAX else 0
        return RowWork(rows.operation, settings.epsilon, exponent)
    gains = Gains.of(rows.scale, 0.0 if layer.bias is None else layer.bias)
    return RowWork(rows.operation, settings.epsilon, gains.exponent, gains.mantissa.astype(np.int32))


def _check_weights(name: str, weights: FloatArray, config: KernelConfig) -> None:
    """ModelError for weights that no exponent of the format holds: factors of other operators are in them."""
    largest, most = np.abs(weights).max(initial=0.0), config.format.mantissa_max * 2.0**config.format.exponent_max
    if not largest <= most:  # NaN is none of the numbers either
        raise ModelError(
            f"layer {name}: with the factors of the operators around it its weights reach {largest:.3g}; the format of "
            f"the array ends at {most:.3g}: scale the weights of the network"
        )


def scaled_node(layer: Layer, config: KernelConfig, policy: PolicySpec) -> ArrayNode:
    """The node of a product with a factor for each channel: a depthwise layer, its weights known at run time."""
    node = quantize_layer(layer, config, policy, None)[0]
    zeros = np.zeros((layer.channels, 1, 1, 1), np.int64)
    return replace(
        node, kind="gemm", inputs=layer.on_array, factors=layer.inputs[1], groups=layer.channels, weights=zeros,
        weight_exponents=np.zeros(layer.channels, np.int32),
    )  # fmt: skip
