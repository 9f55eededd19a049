"""The systolic array in numpy: one layer of a program for a batch of samples, bit for bit (docs/systolic-array.md).

Exact accumulators (`engines.kernel.accumulators`) pass the output stage (`engines.output.stage`); the policy registers
choose the exponent and learn, sample by sample where a policy looks at earlier results. Counters and status bits are
those of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import LeadRule, Policy
from bfpga.contract.flows import Sample, everything
from bfpga.contract.program import ArrayNode, Tile
from bfpga.engines.kernel.accumulators import Accumulate, Block, accumulator_function
from bfpga.engines.kernel.streams import working_columns
from bfpga.engines.output.collector import PositionHistogram, collect, histogram_of, rule_exponent
from bfpga.engines.output.exponents import LEARNING, PolicyRegisters, magnitudes
from bfpga.engines.output.functions import collected_exponent, result_exponent
from bfpga.engines.output.stage import Added, StageResult, block_lead, evaluate, exponent_from_lead, requantize
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray
from bfpga.formats.block_float import mantissa_dtype
from bfpga.formats.block_format import Status

#: Samples are computed in chunks whose intermediate values take about this many bytes: they should stay in a cache.
CHUNK_BYTES = 8 << 20
#: Counters of the kernel wrap at 32 bits.
COUNTER_MASK = (1 << 32) - 1


@dataclass
class LayerCounters:
    """What the output stage counted: overflows, underflows, sticky ``Status`` bits.

    saturated_samples, most_saturated: samples with an overflow, and the most overflows in one sample; None where values
    alone are counted, as kernels do. histogram: of what the collector measured, with rules that look at it; None of
    compiled layers of the emulator, and of kernels without a trace. These take no part in comparisons of counters.
    """

    overflows: int = 0
    underflows: int = 0
    status: int = 0
    saturated_samples: int | None = field(default=None, compare=False)
    most_saturated: int | None = field(default=None, compare=False)
    histogram: PositionHistogram | None = field(default=None, compare=False)

    def add(self, overflows: Int64Array, underflows: Int64Array, status: Int64Array) -> None:
        """Add the counts of samples; their status bits are derived from the counts."""
        self.overflows = (self.overflows + int(overflows.sum())) & COUNTER_MASK
        self.underflows = (self.underflows + int(underflows.sum())) & COUNTER_MASK
        self.status |= int(np.bitwise_or.reduce(status, initial=0))
        self.status |= int(Status.OVERFLOW) if overflows.any() else 0
        self.status |= int(Status.UNDERFLOW) if underflows.any() else 0
        self._add_samples(np.count_nonzero(overflows), int(overflows.max(initial=0)))

    def include(self, other: LayerCounters) -> None:
        """Add the counts of another run (of another layer: samples are then counted once a layer)."""
        self.overflows = (self.overflows + other.overflows) & COUNTER_MASK
        self.underflows = (self.underflows + other.underflows) & COUNTER_MASK
        self.status |= other.status
        if other.saturated_samples is not None and other.most_saturated is not None:
            self._add_samples(other.saturated_samples, other.most_saturated)
        if other.histogram is not None:
            self.add_histogram(other.histogram)

    def add_histogram(self, histogram: PositionHistogram) -> None:
        """Add what the collector measured of more samples. FP R49."""
        self.histogram = histogram if self.histogram is None else self.histogram + histogram

    @property
    def compared(self) -> dict[str, int]:
        """What every device counts, by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.compare}

    def _add_samples(self, saturated: int, most: int) -> None:
        self.saturated_samples = (self.saturated_samples or 0) + saturated
        self.most_saturated = max(self.most_saturated or 0, most)


class LayerEngine:
    """One layer prepared for an array: weights in the type that makes products exact, bound once.

    The policy registers belong to the array and are shared by its layers; what they learn lasts from call to call.
    """

    def __init__(
        self,
        layer: ArrayNode,
        config: KernelConfig,
        registers: PolicyRegisters,
        accumulate: Accumulate | None = None,
    ) -> None:
        """accumulate: how the layer's accumulators are found, if not by its own weights (products of activations)."""
        self.layer = layer
        self.config = config
        self.registers = registers
        self._accumulate = accumulate or accumulator_function(layer, config.format)

    def run(self, inputs: Sequence[Block]) -> tuple[Block, LayerCounters]:
        """The output tensor of this layer for a batch, and what was counted."""
        samples, window = len(inputs[0].mantissa), self.layer.window
        pixels = window.output_height * window.output_width
        mantissa = np.empty((samples, pixels, self.layer.channels), mantissa_dtype(self.config.format.mantissa_bits))
        exponent = np.empty(samples, np.int32)
        counters = LayerCounters()
        for start, end in self._chunks(inputs[0].mantissa):
            part = [Block(block.mantissa[start:end], block.exponent[start:end]) for block in inputs]
            acc, e_acc = self._accumulate(part)
            stage = self._stage(acc, e_acc, part)
            exponent[start:end] = self._requantize(stage, e_acc, mantissa[start:end], counters)
        shape = (samples, window.output_height, window.output_width, self.layer.channels)
        return Block(mantissa.reshape(shape), exponent), counters

    def _chunks(self, x: IntArray) -> Iterator[tuple[int, int]]:
        """Ranges of samples whose patches and accumulators take about CHUNK_BYTES."""
        window = self.layer.window
        taps = window.kernel_height * window.kernel_width if self.layer.kind == "gemm" else 1
        values = window.output_height * window.output_width * max(taps * x.shape[3], 2 * self.layer.channels)
        size = max(1, CHUNK_BYTES // (4 * values))
        return ((start, min(start + size, len(x))) for start in range(0, len(x), size))

    def _stage(self, acc: Int64Array, e_acc: Int64Array, inputs: Sequence[Block]) -> StageResult:
        layer, added = self.layer, None
        if layer.adds_second:
            second = inputs[1].mantissa
            added = Added(second.reshape(len(second), -1, second.shape[3])[:, :, : layer.channels], inputs[1].exponent)
        return evaluate(
            acc,
            e_acc,
            self.config,
            row_exponents=layer.weight_exponents,
            added=added,
            bias=layer.bias,
            bias_exponent=layer.bias_exponent,
            function=layer.function,
            function_argument=layer.function_argument,
            function_exponent=layer.function_exponent,
            function_first=layer.function_first,
        )

    def _requantize(
        self, stage: StageResult, e_acc: Int64Array, mantissa: Int64Array, counters: LayerCounters
    ) -> Int64Array:
        """Mantissas of a chunk into ``mantissa``; returns the exponents (samples,)."""
        policy, fmt = self.layer.policy, self.config.format
        if policy.policy in LEARNING and not policy.inherit:
            return self._one_by_one(stage, e_acc, mantissa, counters)
        status = stage.status
        if policy.inherit:
            e4 = e_acc
        elif policy.policy == Policy.STATIC:
            e4 = np.full(len(stage.v), policy.exponent, np.int64)
        else:
            measured = policy.sample or everything(self.layer.channels)
            e4, bits = exponent_from_lead(*self._lead(stage, e_acc, measured, counters), fmt)
            status = status | bits
        mantissa[...], overflows, underflows = requantize(stage.v, stage.e3, e4, fmt)
        counters.add(overflows, underflows, status)
        return e4

    def _lead(
        self, stage: StageResult, e_acc: Int64Array, sample: Sample, counters: LayerCounters
    ) -> tuple[Int64Array, BoolArray]:
        """Lead of each sample (samples,) by the layer's rule, from the outputs in ``sample``; whether it has one."""
        policy, form = self.layer.policy, self.config.format
        part, channels = self._sampled(stage, sample)
        if policy.rule == LeadRule.LEAD:
            lead, nonzero = block_lead(part.v, part.e3, form.log)
            return lead + policy.margin, nonzero
        accumulators, exponents = e_acc.reshape(-1, 1), self.layer.weight_exponents
        unit = collected_exponent(self.layer.function, e_acc)
        of_rows = accumulators if exponents is None else accumulators + np.asarray(exponents, np.int64)[channels]
        rows = result_exponent(self.layer.function, of_rows)
        seen = collect(part.v, part.e3, rows, unit + policy.base, self.config.position_bins)
        counters.add_histogram(histogram_of(seen))
        found = rule_exponent(seen, policy.rule, policy.rate, policy.margin, form.mantissa_bits)
        return found + form.mantissa_bits - 2, np.ones(len(found), np.bool_)

    def _sampled(self, stage: StageResult, sample: Sample) -> tuple[StageResult, IntArray]:
        """The results in a sample, and their channels."""
        channels = np.concatenate([np.arange(*block) for block in sample.blocks])
        if sample == everything(self.layer.channels):
            return stage, channels
        window = self.layer.window
        pixels = np.arange(window.output_height * window.output_width).reshape(-1, window.output_width)
        measured = pixels[sample.rows(window.output_height)].reshape(-1)
        e3 = np.broadcast_to(stage.e3, (len(stage.v), *stage.e3.shape[1:]))
        e3 = e3[:, measured] if e3.shape[1] > 1 else e3
        e3 = e3[:, :, channels] if e3.shape[2] > 1 else e3
        return StageResult(stage.v[:, measured][:, :, channels], e3, stage.status), channels

    def _one_by_one(
        self, stage: StageResult, e_acc: Int64Array, mantissa: Int64Array, counters: LayerCounters
    ) -> Int64Array:
        """The same for policies that predict: each sample's exponent follows from the samples before it."""
        exponents = np.empty(len(stage.v), np.int64)
        e3 = np.broadcast_to(stage.e3, (len(stage.v), *stage.e3.shape[1:]))
        for sample in range(len(stage.v)):
            one = slice(sample, sample + 1)
            part = StageResult(stage.v[one], e3[one], stage.status[one])
            exponents[sample] = self._predict(part, e_acc[one], mantissa[one], counters)
        return exponents

    def _predict(self, stage: StageResult, e_acc: Int64Array, mantissa: Int64Array, counters: LayerCounters) -> int:
        policy, fmt, registers = self.layer.policy, self.config.format, self.registers
        lead: int | None = None
        if policy.policy != Policy.STATISTICS or registers.needs_lead(policy.policy, policy.slot, policy.preset):
            leads, nonzero = self._lead(stage, e_acc, everything(self.layer.channels), counters)
            lead = int(leads[0]) if nonzero[0] else None
        e4, chosen = registers.choose(policy.policy, policy.slot, policy.exponent, policy.preset, lead)
        mantissa[...], overflows, underflows = requantize(stage.v, stage.e3, [e4], fmt)
        drained = self._drained(stage, e4) if policy.policy == Policy.STATISTICS else None
        learned = registers.learn(
            policy.policy,
            policy.slot,
            e4,
            window=policy.window,
            factor=policy.factor,
            lead=lead,
            margin=policy.margin,
            overflows=int(overflows[0]),
            drained=drained,
        )
        counters.add(overflows, underflows, stage.status | chosen | learned)
        return e4

    def _drained(self, stage: StageResult, e4: int) -> Int64Array:
        """What the statistics unit on column 0 sees of one sample, in drain order: tile, group, row block, row."""
        width = self.layer.window.output_width
        e3 = np.broadcast_to(stage.e3, stage.v.shape)
        columns = working_columns(self.layer, self.config)
        seen = []
        for tile in self.layer.tiles or [Tile(0, self.layer.window.output_height, 0, self.layer.channels)]:
            x0, x1 = tile.columns(width)
            pixels = (np.arange(tile.y0, tile.y1)[:, None] * width + np.arange(x0, x1)).reshape(-1)[::columns]
            part = (0, pixels, slice(tile.m0, tile.m1))
            seen.append(magnitudes(stage.v[part], e3[part], e4, self.config.format).reshape(-1))
        return np.concatenate(seen)
