"""Results in several parts where that costs next to nothing: outputs, and what the last small layers give.

Mantissas of 8 bits round the scores of a classifier to a few dozen steps, so the two largest often coincide in one and
the class with the smaller number wins, right or wrong. The layers before it are small too: parts have finer steps
(numbers/parts.py) for a few cycles more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.numbers.averages import inner
from bfpga.compiler.numbers.calibrate import WIDE_BITS
from bfpga.compiler.numbers.parts import CALIBRATED, in_result_parts, refusal, tied, with_parts
from bfpga.compiler.numbers.weight_formats import layers_cycles, product_cycles
from bfpga.compiler.options import RESULT_PARTS, CompileOptions
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.schedule.fitting import oversized_layers
from bfpga.contract.configuration import KernelConfig

#: Share of the network's cycles that parts may take together.
ALLOWED = 0.03


def with_cheap_parts(
    lowered: Lowered, graph: Graph, config: KernelConfig, options: CompileOptions
) -> tuple[CompileOptions, list[str]]:
    """The options with result parts for tensors where these are cheap, and notes of it; the cheapest ones come first.

    To be called where calibration gives the exponents. What the recipe says of a layer's parts stays.
    """
    form = config.format
    narrow = form.mantissa_bits < WIDE_BITS and form.saturation != "wrap" and config.weight_formats == ("linear",)
    if not narrow or not options.cheap_parts:
        return options, []
    whole = layers_cycles(lowered.layers, config)
    left = ALLOWED * whole
    costs = {name: _cost(lowered, name, 2, config, options) for name in _candidates(lowered, graph, options)}
    found = options
    for name in sorted(costs, key=lambda item: costs[item]):
        for parts in sorted(RESULT_PARTS[1:], reverse=True):
            cost = _cost(lowered, name, parts, config, found) if costs[name] <= left else np.inf
            if cost <= left and _stay(lowered, in_result_parts(found, name, parts), config):
                left -= cost
                found = in_result_parts(found, name, parts)
                break
    if found is options or oversized_layers(with_parts(lowered, {}, found, calibrated=True), config):
        return options, []
    named = ", ".join(name for name in costs if found.layers.get(name) != options.layers.get(name))
    cost = 100 * (ALLOWED - left / whole)
    return found, [f"results in several parts, for about {cost:.1f} % more cycles of products: {named}"]


def _stay(lowered: Lowered, options: CompileOptions, config: KernelConfig) -> bool:
    """Whether the weights, those of parts too, leave a quarter of their memory free: else they would be streamed."""
    found = with_parts(lowered, {}, options, calibrated=True)
    return 4 * _weights(found.layers) <= 3 * config.weight_words * config.array.weights_of_word(config)


def _candidates(lowered: Lowered, graph: Graph, options: CompileOptions) -> list[str]:
    """One tensor of every family whose parts nothing forbids; outputs only where layers do not read them."""
    result: list[str] = []
    families = tied(lowered.layers)
    made = {layer.output for layer in lowered.layers}
    for name in dict.fromkeys(layer.output for layer in lowered.layers):
        family = families[name]
        if name != min(family) or not family <= made or refusal(family, lowered.layers, {}):
            continue
        alone = len(family) == 1 and not any(name in layer.inputs for layer in lowered.layers)
        seen = not all(inner(other, lowered, graph.outputs) for other in family)
        # Parts of larger tensors change how strips fit the memory, which their products do not show.
        if not all(lowered.tensors[other].height * lowered.tensors[other].width == 1 for other in family):
            continue
        exact = any(other in graph.grids or other in lowered.exact for other in family)
        givers = [layer for layer in lowered.layers if layer.output in family]
        # Parts of a grouped layer read its input once each: an operation for every block of rows.
        if any(layer.groups > 1 for layer in givers):
            continue
        if not exact and (alone or not seen) and all(_may_have_parts(layer, options) for layer in givers):
            result.append(name)
    return result


def _may_have_parts(layer: Layer, options: CompileOptions) -> bool:
    chosen = options.layer(layer.name, layer.output)
    named = [options.layers.get(name, {}) for name in (layer.name, layer.output)]
    return chosen.policy in CALIBRATED and chosen.result_parts == 1 and not any("result_parts" in it for it in named)


def _cost(lowered: Lowered, name: str, parts: int, config: KernelConfig, options: CompileOptions) -> float:
    """Cycles that parts of a tensor's family take, as the layers that give and read it are computed."""
    family = tied(lowered.layers)[name]
    layers = [layer for layer in lowered.layers if family & {layer.output, *layer.inputs}]
    part = replace(lowered, layers=layers)
    tried = in_result_parts(options, name, parts)
    before, after = (with_parts(part, {}, item, calibrated=True) for item in (options, tried))
    if oversized_layers(after, config):
        return np.inf
    room = config.weight_words * config.array.weights_of_word(config)
    resident = _weights(lowered.layers) + _weights(after.layers) <= room
    return _cycles(after, config, resident) - _cycles(before, config, resident)


def _cycles(lowered: Lowered, config: KernelConfig, resident: bool) -> float:
    """Of products, of weights that do not stay on the chip, and of the results' transfer at the worst."""
    beat, total = config.stream_bits // config.format.mantissa_bits, 0.0
    for layer in lowered.layers:
        steps = product_cycles(layer, config, "linear") if layer.weights is not None else layer.pixels
        load = 0 if resident else _weights([layer]) / beat
        total += max(steps, load) + layer.pixels * layer.channels / beat
    return total


def _weights(layers: list[Layer]) -> int:
    return sum(np.size(layer.weights) for layer in layers if layer.weights is not None)
