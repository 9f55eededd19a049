"""Factors of whole tensors, so that their values fill the mantissas: the step is then as fine as their range allows.

Exponents are powers of two, so the largest value of a tensor uses between half and all of the mantissas. The layers
that give a tensor multiply their weights by any factor, the layers that read it divide theirs; the rows of both have
exponents of their own and are rounded as finely as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.numbers.averages import inner
from bfpga.compiler.numbers.calibrate import WIDE_BITS, ChannelHistograms, best_exponent, expected_error
from bfpga.compiler.numbers.equalize import Family, scalable_families
from bfpga.compiler.numbers.quantize import quantize_rows
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.formats.arrays import Float64Array

#: Factors that are tried between one power of two and the next.
STEPS = 8
#: Policies whose exponents follow from the calibration samples.
CALIBRATED = ("auto", "static")


def fill_mantissas(
    lowered: Lowered,
    outputs: Iterable[str],
    histograms: ChannelHistograms,
    scales: Mapping[str, Float64Array],
    config: KernelConfig,
    options: CompileOptions,
) -> dict[str, float]:
    """Choose a factor for every tensor that only layers give and read, and move it into their weights and biases.

    outputs: of the network; scales: binary logarithms of what channels are scaled by so far. Returns the factors by
    tensor, 1 left out. Tensors that are added share theirs.
    """
    if not takes_factors(config):
        return {}
    result: dict[str, float] = {}
    for family in sorted(free_families(lowered, outputs, options), key=lambda item: _turn(item, lowered)):
        factor = _best_factor(family, lowered, histograms, scales, config, options)
        factor = _exact(factor, [layer for layer in _givers(family, lowered) if layer.uniform_weights], config)
        if factor != 1:
            _move(lowered, family, factor)
            result.update(dict.fromkeys(family.tensors, factor))
    return result


def takes_factors(config: KernelConfig) -> bool:
    """Whether an array gains by factors between powers of two: its weights are linear, its mantissas narrow."""
    return config.weight_formats == ("linear",) and config.format.mantissa_bits < WIDE_BITS


def free_families(lowered: Lowered, outputs: Iterable[str], options: CompileOptions) -> list[Family]:
    """Tensors that only layers give and read, and whose exponents follow from samples."""
    return [item for item in scalable_families(lowered) if _free(item, lowered, outputs, options)]


def _turn(family: Family, lowered: Lowered) -> int:
    """What averages give comes last, one after the other: their one weight must stay exact, whatever their input is
    scaled by.
    """
    averages = [k for k, layer in enumerate(lowered.layers) if layer.output in family.tensors and layer.uniform_weights]
    return 1 + max(averages, default=-1)


def _givers(family: Family, lowered: Lowered) -> list[Layer]:
    return [layer for layer in lowered.layers if layer.output in family.tensors]


def _free(family: Family, lowered: Lowered, outputs: Iterable[str], options: CompileOptions) -> bool:
    """Whether only layers read a family's tensors, and its exponents follow from samples."""
    givers = _givers(family, lowered)
    made = {layer.output for layer in givers}
    return (
        bool(family.readers)
        and all(name in made and inner(name, lowered, outputs) for name in family.tensors)
        and all(options.layer(layer.name, layer.output).policy in CALIBRATED for layer in givers)
        and sum(layer.uniform_weights for layer in givers) in (0, len(givers) if len(givers) == 1 else 0)
    )


def _best_factor(
    family: Family,
    lowered: Lowered,
    histograms: ChannelHistograms,
    scales: Mapping[str, Float64Array],
    config: KernelConfig,
    options: CompileOptions,
) -> float:
    """The factor with which rounding and saturation cost least, in units of the float values."""
    form, costs = config.format, np.zeros(STEPS)
    for name in sorted(family.tensors):
        scale = scales.get(name, np.zeros(lowered.tensors[name].channels))
        for step in range(STEPS):
            histogram = histograms.histogram(name, scale + step / STEPS)
            exponent = best_exponent(histogram, form, options.exponents)
            costs[step] += expected_error(histogram, exponent, form.mantissa_max) * 4.0 ** (-step / STEPS)
    return float(2.0 ** (int(np.argmin(costs)) / STEPS))


def _exact(factor: float, averages: list[Layer], config: KernelConfig) -> float:
    """The factor near ``factor`` with which the weight of an average is a mantissa times a power of two."""
    for layer in averages:
        assert layer.weights is not None
        weight = np.asarray(layer.weights, np.float64).reshape(-1)[:1]
        rows = quantize_rows(weight[None] * factor, config)
        factor = float(np.ldexp(float(rows.mantissas[0, 0]), int(rows.exponents[0])) / weight[0])
    return factor


def _move(lowered: Lowered, family: Family, factor: float) -> None:
    for layer in lowered.layers:
        if layer.kind == "gemm":
            assert layer.weights is not None
            given, read = layer.output in family.tensors, layer.inputs[0] in family.tensors
            if not (given or read):
                continue
            layer.weights = np.asarray(layer.weights, np.float64) * (factor if given else 1) / (factor if read else 1)
            layer.bias = layer.bias * factor if given and layer.bias is not None else layer.bias
