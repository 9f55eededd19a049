"""The exponent policy of every layer: recipe, calibration and the rules that tie layers together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import Layer
from bfpga.compiler.numbers.calibrate import Histogram, best_exponent, exponent_without_overflow, worst_case
from bfpga.compiler.options import CompileOptions, LayerOptions, position_flow, position_rule
from bfpga.compiler.read.grids import Grids
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import LeadRule, Policy
from bfpga.contract.program import PolicySpec
from bfpga.errors import ConfigurationError

PREDICTING = {
    "stats": Policy.STATISTICS,
    "static_history": Policy.STATISTICS,
    "rolling_max": Policy.ROLLING_MAX,
    "feedback": Policy.FEEDBACK,
    "delayed": Policy.ROLLING_MAX,
}
#: Policies that need an output stage which looks at results.
AT_RUN_TIME = ("max", "dynamic", *PREDICTING)
#: Policies with which maxima keep the exponent of what they are taken from: nothing would be gained by another.
PASSING = ("auto", "static", "max", "dynamic", "delayed")

#: Mantissas of so few bits round inputs too coarsely where their exponents hold the very largest value.
COARSE_BITS = 6


class PolicyChoice:
    """Chooses policies in the order of the layers; ``exponents`` are the static exponents known so far."""

    def __init__(
        self,
        config: KernelConfig,
        options: CompileOptions,
        histograms: Mapping[str, Histogram],
        layers: list[Layer],
        edges: frozenset[str] = frozenset(),
        grids: Grids | None = None,
        parts: Mapping[str, int] | None = None,
    ) -> None:
        """edges: inputs and outputs of the network. What is unusual shows in their largest values: they keep them.

        Inputs do not where mantissas have no more than ``COARSE_BITS``; of scores that saturate none is the largest.

        grids: what a quantized network says of its values; a step that is a power of two is their exponent, other
        ranges serve where no samples give more. parts: of tensors' values, where each is rounded
        at a place of its own.
        """
        self.parts = parts or {}
        self.grids = grids or {}
        self.config = config
        self.form = config.format
        self.options = options
        self.histograms = histograms
        self.policy_slots = config.policy_slots
        self.measured = 0  # layers whose samples were chosen; the next one starts a row later (FP R30)
        self.next_slot = 1  # slot 0 serves all layers without memory of earlier results
        self.made = {layer.output for layer in layers}
        self.edges = edges if config.format.mantissa_bits > COARSE_BITS else edges & self.made
        self.joined = {name for name, count in Counter(layer.output for layer in layers).items() if count > 1}
        self.exponents: dict[str, int] = {}

    def input_exponent(self, name: str) -> int | None:
        """The exponent of a tensor that comes from the host; None: that of each sample's maximum."""
        measured = self.options.policy in ("max", "dynamic", "delayed") or not self._known(name)
        if measured and not self._rounds(name):
            return None
        self.exponents[name] = self._best(name)
        return self.exponents[name]

    def given(self, layer: Layer, exponent: int) -> PolicySpec:
        """The policy of a layer whose result can have one exponent only."""
        self.exponents[layer.output] = exponent
        return PolicySpec(exponent=exponent)

    def of(self, layer: Layer) -> PolicySpec:
        """The policy of a layer's result.

        Raises ConfigurationError if the recipe asks for something that needs calibration samples or more slots.
        """
        options = self.options.layer(layer.name, layer.output)
        spec = self._spec(layer, options)
        if not spec.inherit and spec.policy == Policy.STATIC:
            self.exponents[layer.output] = spec.exponent
        return spec

    def _spec(self, layer: Layer, options: LayerOptions) -> PolicySpec:
        if layer.output in self.joined:
            return PolicySpec(exponent=self._joined_exponent(layer, options))
        keeps_unit = layer.function.row.unit == "accumulator"
        if layer.kind == "max" and keeps_unit and options.policy in PASSING and self._passes(layer):
            if layer.inputs[0] in self.exponents:
                self.exponents[layer.output] = self.exponents[layer.inputs[0]]
            return PolicySpec(inherit=True, exponent=self.exponents.get(layer.output, 0))
        policy = options.policy
        if policy != "lookup" and self._rounds(layer.output):
            return PolicySpec(exponent=self._best(layer.output))
        if policy == "auto":
            policy = "static" if self._known(layer.output) or self.config.static_exponents else "max"
        if self.config.static_exponents and policy in AT_RUN_TIME:
            raise ConfigurationError(
                f"layer {layer.name}: policy {policy} finds exponents at run time, and those of this accelerator are "
                "static (key static_exponents): choose policy static with calibration samples, or another accelerator"
            )
        if policy == "max":
            return PolicySpec(Policy.MAX, margin=options.margin)
        if policy == "dynamic":
            return self._dynamic(layer, options)
        if policy in PREDICTING:
            return self._predicting(layer, options)
        return PolicySpec(exponent=self._static(layer, options))

    def _joined_exponent(self, layer: Layer, options: LayerOptions) -> int:
        if options.policy == "lookup" and options.exponent is not None:
            return self._checked(layer, options.exponent)
        return self._calibrated(layer, "a concatenation")

    def _checked(self, layer: Layer, exponent: int) -> int:
        """An exponent of the recipe; ConfigurationError for one that the format does not have."""
        low, high = self.form.exponent_min, self.form.exponent_max
        if not low <= exponent <= high:
            raise ConfigurationError(f"layer {layer.name}: exponent = {exponent} is not between {low} and {high}")
        return exponent

    def _static(self, layer: Layer, options: LayerOptions) -> int:
        if options.policy == "lookup":
            if options.exponent is None:
                raise ConfigurationError(f"layer {layer.name}: policy lookup needs its exponent in the recipe")
            return self._checked(layer, options.exponent)
        if options.policy == "known_range":
            bound = options.range or layer.function.row.largest
            largest = bound or self._histogram(layer, "known_range").largest
            return exponent_without_overflow(largest, self.form)
        if options.policy == "worst_case":
            inputs = [self._histogram_of(name, layer, "worst_case").largest for name in layer.inputs]
            return exponent_without_overflow(worst_case(layer, inputs), self.form)
        return self._calibrated(layer, "static")

    def _predicting(self, layer: Layer, options: LayerOptions) -> PolicySpec:
        if self.next_slot >= self.policy_slots:
            raise ConfigurationError(
                f"layer {layer.name}: at most {self.policy_slots - 1} layers predict their exponents, each in a "
                "policy slot of the kernel; give this one and those after it policy static or max (recipe, `layers`)"
            )
        slot, self.next_slot = self.next_slot, self.next_slot + 1
        policy = PREDICTING[options.policy]
        spec = PolicySpec(policy, slot=slot, margin=options.margin)
        if policy == Policy.STATISTICS:
            spec.window, spec.factor = options.window.bit_length() - 1, round(4 * options.k)
        elif options.policy == "delayed":
            spec.window, spec.rule, spec.rate = 1, self._rule(layer, options), options.rate
        elif policy == Policy.ROLLING_MAX:
            spec.window = options.history
        else:
            spec.factor = options.limit
        if options.policy == "static_history":
            spec.preset = True
            spec.exponent = min(self._calibrated(layer, "static_history") + options.margin, self.form.exponent_max)
        return spec

    def _dynamic(self, layer: Layer, options: LayerOptions) -> PolicySpec:
        """Found by the data of the same pass: what precedes the layer measures all of it or a sample (FP 3.4)."""
        self.measured += 1
        rule = self._rule(layer, options)
        flow = position_flow(options.flow, position_rule(options.rule, self.config))
        if flow.startswith("keep") and not self.config.keeps:
            raise ConfigurationError(
                f"layer {layer.name}: flow {flow} needs a place for accumulators; choose two_pass_sampled, or "
                "an accelerator with wide_words or wide_memory"
            )
        return PolicySpec(
            Policy.MAX, rule=rule, rate=options.rate, margin=options.margin, flow=flow,
            sample_period=options.sample, sample_offset=self.measured - 1,
        )  # fmt: skip

    def _rule(self, layer: Layer, options: LayerOptions) -> LeadRule:
        rule = LeadRule[position_rule(options.rule, self.config).upper()]
        if rule != LeadRule.LEAD and not self.config.position_bins:
            raise ConfigurationError(
                f"layer {layer.name}: rule {options.rule} needs a collector of statistics; choose rule lead, or an "
                "accelerator with position_bins"
            )
        return rule

    def _known(self, name: str) -> bool:
        """Whether samples or quantizers give the range of a tensor."""
        return name in self.histograms or name in self.grids

    def _passes(self, layer: Layer) -> bool:
        """Whether maxima may keep the exponent of what they are taken from: no quantizer asks for another one."""
        fixed = self._grid_exponent(layer.output)
        return fixed is None or fixed == self.exponents.get(layer.inputs[0], fixed)

    def _rounds(self, name: str) -> bool:
        """Whether a tensor has few values, which no exponent but its quantizer's leaves as they are."""
        return name in self.grids and self.grids[name].rounds and self._grid_exponent(name) is not None

    def _grid_exponent(self, name: str) -> int | None:
        """The exponent that a quantizer's step is, if the mantissas reach its range.

        Where they reach further and nothing else limits a value that may exceed its range, it is smaller: they saturate
        as the quantizer does.
        """
        grid = self.grids.get(name)
        if grid is None or grid.power is None or grid.largest > (self.form.mantissa_max + 1) * grid.step:
            return None
        power = grid.power
        if grid.saturates and self._exceeds(name, grid.largest):
            while (self.form.mantissa_max + 1) * 2.0 ** (power - 1) >= grid.largest:
                power -= 1
        return int(np.clip(power, self.form.exponent_min, self.form.exponent_max))

    def _exceeds(self, name: str, largest: float) -> bool:
        """Whether values may be larger than their quantizer's largest: samples decide; without any, inputs are not."""
        if name in self.histograms:
            return self.histograms[name].largest > largest
        return name in self.made

    def _calibrated(self, layer: Layer, policy: str) -> int:
        """The static exponent of a layer's result; ConfigurationError if nothing gives its range."""
        if not self._known(layer.output):
            self._histogram(layer, policy)
        return self._best(layer.output)

    def _best(self, name: str) -> int:
        fixed = self._grid_exponent(name)
        if fixed is not None:
            return fixed
        if name not in self.histograms:
            return exponent_without_overflow(self.grids[name].largest, self.form)
        method = "max" if name in self.edges else self.options.exponents
        # Parts have finer steps between them: less is gained by letting large values saturate.
        finer = self.parts.get(name, 1).bit_length() - 1
        form = replace(self.form, mantissa_bits=self.form.mantissa_bits + finer)
        return min(best_exponent(self.histograms[name], form, method) + finer, self.form.exponent_max)

    def _histogram(self, layer: Layer, policy: str) -> Histogram:
        return self._histogram_of(layer.output, layer, policy)

    def _histogram_of(self, name: str, layer: Layer, policy: str) -> Histogram:
        if name not in self.histograms:
            other = "another accelerator: this one has static_exponents" if self.config.static_exponents else "max"
            text = f"{policy} needs calibration samples; give some or use {other}"
            raise ConfigurationError(f"layer {layer.name}: {text}")
        return self.histograms[name]
