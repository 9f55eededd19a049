"""Which format the weights of a layer get: by the error they take and by the cycles they cost (SM R33, R35, R37)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bfpga.compiler.lower.layers import Layer
from bfpga.compiler.numbers.parts import terms_of_parts
from bfpga.compiler.numbers.quantize import quantize_rows
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.options import CompileOptions, FormatChoice, LayerOptions
from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.program import EXACT_DB, ArrayNode, FormatFigures
from bfpga.engines.kernel.descriptors import channel_runs, taps
from bfpga.engines.kernel.streams import block_rows, input_window, working_columns
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import piece_window
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Float64Array, IntArray

#: An average is used as it is, so its weight must be as good as activations of 8 bits.
AVERAGE_SNR_DB = 50.0


@dataclass(frozen=True)
class WeightChoice:
    """The format of a layer's weights, why, and what the array's formats would cost; no figures without a choice."""

    weight_format: WeightFormat
    reason: str = ""
    figures: list[FormatFigures] = field(default_factory=list)


def format_figures(
    layer: Layer, config: KernelConfig, method: str, moments: Moments | None = None
) -> list[FormatFigures]:
    """What every format that the array offers would cost the layer. moments: of its inputs, where known."""
    assert layer.weights is not None
    weights = np.asarray(layer.weights, np.float64).reshape(layer.channels, -1)
    result = []
    parts = terms_of_parts(layer)
    whole = weights if parts is None else weights[:, parts].sum(axis=2)
    for weight_format in config.weight_formats:
        error = weights - _rounded(weights, config, method, weight_format, parts=parts)
        sums = None
        if moments is not None:
            left = weights - _rounded(weights, config, method, weight_format, moments)
            sums = _decibel(float(moments.power(weights).sum()), float(moments.power(left).sum()))
        error = error if parts is None else error[:, parts].sum(axis=2)
        own = _decibel(float((whole**2).sum()), float((error**2).sum()))
        result.append(FormatFigures(weight_format, own, sums, product_cycles(layer, config, weight_format)))
    return result


def _rounded(
    weights: Float64Array,
    config: KernelConfig,
    method: str,
    weight_format: WeightFormat,
    moments: Moments | None = None,
    parts: IntArray | None = None,
) -> Float64Array:
    rows = quantize_rows(weights, config, None, method, weight_format, moments, parts=parts)
    return np.ldexp(rows.mantissas.astype(np.float64), rows.exponents[:, None])


def _decibel(signal: float, noise: float) -> float:
    if noise <= 0 or signal <= 0:
        return EXACT_DB
    return round(float(np.clip(10 * np.log10(signal / noise), -EXACT_DB, EXACT_DB)), 3)


def product_cycles(layer: Layer, config: KernelConfig, weight_format: WeightFormat) -> int:
    """Cycles of a layer's passes for one sample: kernel steps, or the drain if that is longer."""
    assert layer.weights is not None
    if config.array.stores_entries:
        return _skipping_cycles(layer, config)
    node = ArrayNode(
        layer.name, layer.kind, layer.inputs, layer.output, layer.channels, layer.window, groups=layer.groups,
        weights=np.empty(layer.weights.shape, np.int8), weight_format=weight_format,
    )  # fmt: skip
    groups, rows = -(-layer.pixels // working_columns(node, config)), block_rows(node, config)
    total = 0
    for m0, m1 in channel_runs(node, config):
        steps = taps(node, config) * input_window(node, config, m0, m1).channel_words
        total += groups * -(-(m1 - m0) // rows) * max(steps, rows)
    return total


def _skipping_cycles(layer: Layer, config: KernelConfig) -> int:
    """The same on a skip array: the windows, the weights that are not zero, or the sums that leave."""
    shape, groups, total = SkipShape.of(config), -(-layer.pixels // config.columns), 0
    weights = np.asarray(layer.weights)
    node = ArrayNode(layer.name, layer.kind, layer.inputs, layer.output, layer.channels, weights=weights)
    for m0, m1 in channel_runs(node, config):
        window = piece_window(weights, layer.groups, m0, m1, shape)
        loaded = window.steps * window.blocks * shape.step_clocks(apart=window.apart)
        entries = int(np.count_nonzero(weights[m0:m1])) // config.array.skip_groups(config)
        total += max(loaded, entries, config.array.halves * (m1 - m0))
    return -(-groups // config.array.halves) * total


def layers_cycles(layers: Iterable[Layer], config: KernelConfig) -> int:
    """Cycles of all products with weights, for one sample and linear weights."""
    return sum(product_cycles(layer, config, "linear") for layer in layers if layer.weights is not None)


def check_formats(config: KernelConfig, options: CompileOptions) -> None:
    """ConfigurationError if a format is asked for, of the network or of a layer, that the array does not have."""
    asked = {"": options.formats, **{f"layer {name}: ": options.layer(name).formats for name in options.layers}}
    for place, wanted in asked.items():
        _check_format(place, wanted, config)


def _check_format(place: str, wanted: FormatChoice, config: KernelConfig) -> None:
    if wanted != "auto" and wanted not in config.weight_formats:
        raise ConfigurationError(
            f"{place}weights of format {wanted} are not for this array; it takes {' or '.join(config.weight_formats)}"
        )


def choose_format(
    layer: Layer, config: KernelConfig, options: LayerOptions, method: str, moments: Moments | None = None
) -> WeightChoice:
    """The format of a layer's weights; ConfigurationError if the array does not have the one that is asked for.

    ``auto`` begins with the array's most exact format and takes a faster one if it keeps ``weight_snr_db``: of the sums
    where samples were measured, else of the weights.
    """
    offered = config.weight_formats
    if layer.weights is None:
        return WeightChoice("linear")
    wanted = options.formats
    _check_format(f"layer {layer.name}: ", wanted, config)
    if len(offered) == 1:
        return WeightChoice(offered[0])
    figures = format_figures(layer, config, method, moments)
    if wanted != "auto":
        return WeightChoice(wanted, "asked for", figures)
    needed = max(options.weight_snr_db, AVERAGE_SNR_DB) if layer.uniform_weights else options.weight_snr_db
    return _by_error_and_time(figures, needed)


def _by_error_and_time(figures: list[FormatFigures], needed: float) -> WeightChoice:
    exact = figures[0]
    faster = [item for item in figures[1:] if item.cycles < exact.cycles]
    good = [item for item in faster if _measure(item) >= needed]
    if good:
        best = min(good, key=lambda item: item.cycles)
        return WeightChoice(best.weight_format, f"faster, and keeps {needed:g} dB", figures)
    reason = f"{faster[0].weight_format} does not keep {needed:g} dB" if faster else "nothing is faster"
    return WeightChoice(exact.weight_format, reason, figures)


def _measure(figures: FormatFigures) -> float:
    return figures.weight_snr_db if figures.sum_snr_db is None else figures.sum_snr_db
