"""Averages on arrays whose weights are powers of two: what 1/count loses to rounding moves into adjacent weights.

Every tap of an average has the same weight, so a rounded weight makes the result wrong by one factor. The layers that
read the average divide their weights by it, or else the layer in front does, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.numbers.equalize import input_channels
from bfpga.compiler.numbers.quantize import quantize_rows
from bfpga.compiler.numbers.weight_formats import product_cycles
from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.contract.configuration import KernelConfig, WeightFormat

Floats = npt.NDArray[np.float64]
#: Averages that are wrong by less than this part are left as they are: 8-bit activations are rounded more coarsely.
TOLERANCE = 2.0**-9


@dataclass(frozen=True)
class Adjacent:
    """The layers that can take an average's factor: all its readers, or the one layer that gives its input."""

    readers: Sequence[Layer] = ()
    producer: Layer | None = None


def unfit_averages(
    lowered: Lowered, outputs: Iterable[str], config: KernelConfig, options: CompileOptions
) -> dict[str, str]:
    """Averages that an array without integer weights cannot compute well, by operator, each with the reason."""
    if "linear" in config.weight_formats:
        return {}
    result = {}
    for layer, factors in _inexact(lowered, config, options):
        if _adjacent(layer, lowered, outputs) is None:
            wrong = 100 * float(np.abs(factors - 1).max())
            result[layer.operators[0].name] = (
                f"a mean of {_rows(layer).shape[1]} values is {wrong:.1f} % off with weights that shift units take, "
                "and no adjacent layer can compensate"
            )
    return result


def fold_averages(
    lowered: Lowered, outputs: Iterable[str], config: KernelConfig, options: CompileOptions
) -> dict[str, Floats]:
    """Give averages the weights that the array can hold, and adjacent layers the factor that this makes.

    outputs: of the network. Returns by how much larger than before the channels of tensors are stored, by name.
    """
    result: dict[str, Floats] = {}
    for layer, factors in _inexact(lowered, config, options):
        found = _adjacent(layer, lowered, outputs)
        if found is not None:
            name, factor = _fold(layer, factors, found)
            result[name] = result.get(name, 1.0) * factor
    return result


def stored_scales(shifts: Mapping[str, Floats], factors: Mapping[str, Floats]) -> dict[str, Floats]:
    """The binary logarithm of what each channel of a tensor is scaled by: its shift, and an average's factor."""
    result = dict(shifts)
    for name, factor in factors.items():
        result[name] = result.get(name, 0.0) + np.log2(factor)
    return result


def _inexact(lowered: Lowered, config: KernelConfig, options: CompileOptions) -> Iterator[tuple[Layer, Floats]]:
    """Averages that rounding makes larger or smaller, and by what factor each of their channels."""
    for layer in lowered.layers:
        if layer.uniform_weights:
            weight_format = _fastest(layer, config, options.layer(layer.name, layer.output))
            weights = _rows(layer)[:, :1]
            rows = quantize_rows(weights, config, weight_format=weight_format)
            factors = np.ldexp(rows.mantissas.astype(np.float64), rows.exponents[:, None])[:, 0] / weights[:, 0]
            if weight_format != "linear" and (np.abs(factors - 1) > TOLERANCE).any():
                yield layer, np.asarray(factors)


def _fastest(layer: Layer, config: KernelConfig, options: LayerOptions) -> WeightFormat:
    """The format of an average, whose error does not matter once its factor has moved."""
    if options.formats != "auto" and options.formats in config.weight_formats:
        return options.formats
    return min(config.weight_formats, key=lambda item: product_cycles(layer, config, item))


def _adjacent(layer: Layer, lowered: Lowered, outputs: Iterable[str]) -> Adjacent | None:
    """The layers that can take the factor of an average; None if there are none. outputs: of the network."""
    if layer.function.row.homogeneous and inner(layer.output, lowered, outputs):
        readers = [other for other in lowered.layers if layer.output in other.inputs]
        producers = [other for other in lowered.layers if other.output == layer.output]
        if len(producers) == 1 and readers and all(_multiplies(other) for other in readers):
            return Adjacent(readers=readers)
    source = layer.inputs[0]
    producers = [other for other in lowered.layers if other.output == source]
    alone = [other for other in lowered.layers if source in other.inputs] == [layer]
    if len(producers) == 1 and alone and source not in lowered.exact and inner(source, lowered, outputs):
        producer = producers[0]
        if _multiplies(producer) and producer.function.row.homogeneous:
            return Adjacent(producer=producer)
    return None


def _fold(layer: Layer, factors: Floats, found: Adjacent) -> tuple[str, Floats]:
    """Change the weights of an average and of the adjacent layers; the tensor that is stored larger, and by what."""
    layer.weights = _scaled(layer, factors)
    for reader in found.readers:
        reader.weights = np.asarray(reader.weights, np.float64) / factors[input_channels(reader)][:, None, None, :]
    if found.producer is None:
        return layer.output, factors
    producer = found.producer
    producer.weights = _scaled(producer, 1 / factors)
    producer.bias = None if producer.bias is None else producer.bias / factors
    return layer.inputs[0], 1 / factors


def _multiplies(layer: Layer) -> bool:
    return layer.kind == "gemm" and not layer.uniform_weights


def _rows(layer: Layer) -> Floats:
    assert layer.weights is not None
    return np.asarray(layer.weights, np.float64).reshape(layer.channels, -1)


def _scaled(layer: Layer, factors: Floats) -> Floats:
    assert layer.weights is not None
    return np.asarray(layer.weights * factors[:, None, None, None], np.float64)


def inner(name: str, lowered: Lowered, outputs: Iterable[str]) -> bool:
    """Whether only layers of the array read a tensor, itself or a rearrangement of it."""
    names = {name}
    for output, operator in lowered.views.items():  # in the order of the network
        if operator.inputs[0] in names:
            names.add(output)
    used = {value for operator in lowered.host for value in operator.uses}
    return not names & (used | set(outputs))
