"""Everything that the compiler needs of the float network's values, from one pass over the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.numbers.bias_correction import InputMeans
from bfpga.compiler.numbers.calibrate import WIDE_BITS, ChannelHistograms, Grouping, Histogram
from bfpga.compiler.numbers.equalize import ChannelRanges, scalable_families
from bfpga.compiler.numbers.input_moments import LINEAR, SHIFTING, InputMoments
from bfpga.compiler.numbers.masks import RowMaxima, SeenRange, masked_sums, seen_range
from bfpga.compiler.numbers.row_noise import RowInputs, normalizations
from bfpga.compiler.numbers.sampled_inputs import SampledInputs
from bfpga.compiler.numbers.values import Float32Array, Reduction, capture
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.importer import Graph
from bfpga.contract.configuration import KernelConfig
from bfpga.formats.block_format import BlockFormat


@dataclass
class Measurements:
    """What the stages take of the values; None where the options or the array do without.

    None of them depends on what another one leads to: scales of channels and exponents are given when they are read.
    """

    histograms: ChannelHistograms
    ranges: ChannelRanges | None = None
    moments: InputMoments | None = None
    means: InputMeans | None = None
    inputs: SampledInputs | None = None
    rows: RowInputs | None = None
    maxima: RowMaxima | None = None
    #: Layers whose weights are rounded: ``means`` and ``moments`` are of what these read.
    products: list[Layer] = field(default_factory=list)

    def histograms_by_name(self, scales: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, Histogram]:
        """Histograms of all tensors. scales: binary logarithms of what channels are scaled by."""
        return {name: self.histograms.histogram(name, scales.get(name)) for name in self.histograms.names}

    def masks(self, lowered: Lowered, form: BlockFormat, method: str) -> dict[str, SeenRange]:
        """What is known of the scores of masked sums, by the name of the sum. method: of the scores' exponent."""
        maxima = self.maxima
        if maxima is None:
            return {}
        sums = masked_sums(lowered)
        return {item.output: seen_range(item, self.histograms, maxima, form, method) for item in sums}


def measure(
    graph: Graph,
    lowered: Lowered,
    config: KernelConfig,
    options: CompileOptions,
    samples: Mapping[str, Float32Array],
    grouping: Grouping | None = None,
) -> Measurements:
    """Run the network once over the calibration samples and keep what the options and the array need.

    grouping: of the user's samples, where one sample of the network holds several.
    """
    count = len(next(iter(samples.values())))
    tensors = lowered.tensors
    gemm = [layer for layer in lowered.layers if layer.kind == "gemm"]
    products = [layer for layer in gemm if not layer.uniform_weights]
    by_channel = options.equalize or config.weight_formats != ("linear",)
    found = Measurements(ChannelHistograms(tensors, by_channel, count, grouping), products=products)
    reductions: list[Reduction] = [found.histograms]
    if options.equalize:
        names = [name for family in scalable_families(lowered) for name in sorted(family.tensors)]
        found.ranges = ChannelRanges([tensors[name] for name in names], count, grouping)
        reductions.append(found.ranges)
    shifting = config.weight_formats != ("linear",)
    if options.compensation and (shifting or config.format.mantissa_bits < WIDE_BITS):
        found.moments = InputMoments(tensors, products, count, SHIFTING if shifting else LINEAR)
        reductions.append(found.moments)
    if options.bias_correction:
        found.means = InputMeans(tensors, products, count)
        reductions.append(found.means)
    if options.count_zeros and (config.array.computes_runs or config.compressed_maps):
        read = [layer.inputs[0] for layer in gemm]
        # Any tensor may have to leave the chip.
        found.inputs = SampledInputs(tensors, tensors if config.compressed_maps else read)
        reductions.append(found.inputs)
    if normalizations(lowered):
        found.rows = RowInputs(normalizations(lowered), tensors, count)
        reductions.append(found.rows)
    if masked_sums(lowered):
        found.maxima = RowMaxima(masked_sums(lowered), count)
        reductions.append(found.maxima)
    capture(graph, samples, reductions, tensors)
    return found
