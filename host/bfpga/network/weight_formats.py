"""Which format the weights of a layer get: by the error they take and by the clocks they cost (SM R33, R35, R37)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.configuration import SystolicConfig, WeightFormat
from bfpga.errors import ConfigurationError
from bfpga.network.layers import Layer
from bfpga.network.options import LayerOptions
from bfpga.network.quantize import quantize_rows


@dataclass(frozen=True)
class FormatFigures:
    """One format of a layer: signal to noise of its weights in dB, clocks of its products alone."""

    weight_format: WeightFormat
    snr_db: float
    cycles: int


def format_figures(layer: Layer, config: SystolicConfig, method: str) -> list[FormatFigures]:
    """What every format that the array offers would cost the layer."""
    assert layer.weights is not None
    weights = np.asarray(layer.weights, np.float64).reshape(layer.channels, -1)
    power = float((weights**2).sum())
    result = []
    for weight_format in config.weight_formats:
        rows = quantize_rows(weights, config, None, method, weight_format)
        error = weights - rows.mantissas * np.exp2(rows.exponents.astype(np.float64))[:, None]
        noise = float((error**2).sum())
        snr = np.inf if noise == 0 else 10 * np.log10(max(power, 1e-300) / noise)
        result.append(FormatFigures(weight_format, float(snr), product_cycles(layer, config, weight_format)))
    return result


def product_cycles(layer: Layer, config: SystolicConfig, weight_format: WeightFormat) -> int:
    """Clocks of a layer's passes: groups of pixels, blocks of channels, steps or the drain that hides behind them."""
    assert layer.weights is not None
    window, rows = layer.window, config.block_rows(weight_format)
    pixels = window.output_height * window.output_width
    words = -(-int(layer.weights.shape[3]) // config.lanes)
    steps = max(window.kernel_height * window.kernel_width * words, rows)
    return -(-pixels // config.active_columns(weight_format)) * -(-layer.channels // rows) * steps


def choose_format(layer: Layer, config: SystolicConfig, options: LayerOptions, method: str) -> WeightFormat:
    """The format of a layer's weights; ConfigurationError if the array does not have the one that is asked for."""
    offered = config.weight_formats
    if layer.weights is None:
        return "linear"
    if options.formats != "auto":
        if options.formats not in offered:
            raise ConfigurationError(
                f"layer {layer.name}: weights of format {options.formats} are not for this array; it takes "
                f"{' or '.join(offered)}"
            )
        return options.formats
    if len(offered) == 1:
        return offered[0]
    figures = format_figures(layer, config, method)
    exact = figures[0]
    good = [item for item in figures[1:] if item.snr_db >= options.weight_snr_db and item.cycles < exact.cycles]
    return min(good, key=lambda item: item.cycles, default=exact).weight_format
