"""The numbers of a lowered network: what channels and tensors are stored times, values in parts, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bfpga.compiler.lower.layers import Lowered
from bfpga.compiler.numbers.averages import fold_averages, inner, stored_scales
from bfpga.compiler.numbers.calibrate import ChannelHistograms, Histogram
from bfpga.compiler.numbers.channel_factors import fill_channels
from bfpga.compiler.numbers.cheap_parts import with_cheap_parts
from bfpga.compiler.numbers.equalize import equalize
from bfpga.compiler.numbers.masks import SeenRange
from bfpga.compiler.numbers.measurements import Measurements
from bfpga.compiler.numbers.parts import moments_of_parts, with_parts
from bfpga.compiler.numbers.remainders import with_image_parts
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.numbers.tensor_factors import fill_mantissas, free_families, takes_factors
from bfpga.compiler.numbers.wide_limits import with_limits
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.schedule.fitting import oversized_layers
from bfpga.contract.configuration import KernelConfig
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Float64Array


@dataclass(frozen=True)
class Scales:
    """Powers of two (binary logarithms) that tensors are stored times, by tensor.

    shifts: of the channels; channels: of the channels with the factors of averages and of whole tensors;
    tensors: factors of whole tensors (not logarithms).
    """

    shifts: Mapping[str, Float64Array] = field(default_factory=dict)
    channels: Mapping[str, Float64Array] = field(default_factory=dict)
    tensors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Numbers:
    """A lowered network whose layers and tensors have their scales, parts and limits."""

    graph: Graph
    lowered: Lowered
    scales: Scales
    histograms: Mapping[str, Histogram]
    moments: Mapping[str, Moments]
    notes: tuple[str, ...]
    #: Of masked sums, by name.
    seen: Mapping[str, SeenRange] = field(default_factory=dict)


def choose_numbers(
    graph: Graph, lowered: Lowered, config: KernelConfig, options: CompileOptions, measured: Measurements | None
) -> Numbers:
    """Scales, parts and limits of a lowered network. measured: None without calibration samples.

    The weights of the layers take up the scales of their channels. Raises ConfigurationError if the values cannot have
    the parts that the options ask for.
    """
    scales = _scales(graph, lowered, config, options, measured)
    histograms = measured.histograms_by_name(scales.channels) if measured is not None else {}
    moments = measured.moments.moments(scales.channels) if measured is not None and measured.moments is not None else {}
    lowered, moments, notes = _with_parts(graph, lowered, config, options, moments, measured is not None)
    seen = measured.masks(lowered, config.format, options.exponents) if measured is not None else {}
    before = graph.grids
    lowered, grids = with_limits(lowered, before, histograms, config)
    limited = {name for name, grid in before.items() if grid.saturates and not grids[name].saturates}
    histograms = {name: item for name, item in histograms.items() if name not in limited}
    return Numbers(replace(graph, grids=grids, consumers={}), lowered, scales, histograms, moments, tuple(notes), seen)


def _scales(
    graph: Graph, lowered: Lowered, config: KernelConfig, options: CompileOptions, measured: Measurements | None
) -> Scales:
    shifts: dict[str, Float64Array] = {}
    if measured is not None and measured.ranges is not None:
        equalized = equalize(lowered, measured.ranges, config.format)
        shifts = {name: np.asarray(shift, np.float64) for name, shift in equalized.items()}
    averages = fold_averages(lowered, graph.outputs, config, options)
    scales = Scales(shifts, stored_scales(shifts, averages))
    if measured is None or not options.fill_mantissas or not takes_factors(config):
        return scales
    return _filled(scales, graph, lowered, config, options, measured.histograms)


def _filled(
    scales: Scales,
    graph: Graph,
    lowered: Lowered,
    config: KernelConfig,
    options: CompileOptions,
    histograms: ChannelHistograms,
) -> Scales:
    """Scales with the factors that fill the mantissas of channels and of whole tensors."""
    shifts, channels = dict(scales.shifts), dict(scales.channels)
    if options.equalize:
        families = free_families(lowered, graph.outputs, options)
        for name, factors in fill_channels(lowered, families, histograms, channels, config.format).items():
            shifts[name] = shifts.get(name, np.zeros(len(factors))) + factors
            channels[name] = channels.get(name, np.zeros(len(factors))) + factors
    tensors = fill_mantissas(lowered, graph.outputs, histograms, channels, config, options)
    for name, factor in tensors.items():
        channels[name] = channels.get(name, np.zeros(lowered.tensors[name].channels)) + np.log2(factor)
    return Scales(shifts, channels, tensors)


def _with_parts(
    graph: Graph,
    lowered: Lowered,
    config: KernelConfig,
    asked: CompileOptions,
    moments: Mapping[str, Moments],
    calibrated: bool,
) -> tuple[Lowered, dict[str, Moments], list[str]]:
    """Results and weights in the parts that the options ask for; moments are of the whole values before; notes."""
    fixed, options, notes = {}, asked, list[str]()
    if calibrated:
        options, notes = with_image_parts(lowered, graph, config, options)
        options, cheap = with_cheap_parts(lowered, graph, config, options)
        notes += cheap
    for name, tensor in lowered.tensors.items():
        whole = options.layers.get(name) == asked.layers.get(name)
        if whole and not inner(name, lowered, graph.outputs):
            fixed[name] = f"{name} leaves the array"
        elif tensor.remainder:
            fixed[name] = f"{name} has channels for its remainders"
    before = {layer.name: layer for layer in lowered.layers}
    lowered = with_parts(lowered, fixed, options, calibrated)
    for name, reason in oversized_layers(lowered, config).items():
        raise ConfigurationError(f"{name} does not fit the array with values in parts: {reason}")
    found = dict(moments)
    for layer in lowered.layers:
        if layer.name in found:
            found[layer.name] = moments_of_parts(found[layer.name], before[layer.name], layer)
    return lowered, found, list(notes)
