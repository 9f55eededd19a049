"""Remainders of images: what rounding takes from the network's input is kept in channels of its own, or in parts.

Values that come in 256 levels (pixels, features of 8 bits) lose a bit or more to mantissas of 8 bits with a sign, and
no later layer can compensate that. A second set of channels takes what rounding left, enlarged; the layers that read
the image multiply it by the same weights, made as much smaller. An image of few channels leaves lanes of its memory
words empty, where no word and no tap is more (columns that these lanes could take, folded, are).

Weights of few bits have none to spare for being that much smaller: 4 bits all become zero. There an image is in parts
(numbers/parts.py), whose weights are an n-th and gain by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, Layer, Lowered
from bfpga.compiler.numbers.averages import inner
from bfpga.compiler.numbers.calibrate import WIDE_BITS
from bfpga.compiler.numbers.parts import in_result_parts, refusal, tied, with_parts
from bfpga.compiler.numbers.weight_formats import layers_cycles
from bfpga.compiler.options import RESULT_PARTS, CompileOptions
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.schedule.fitting import oversized_layers
from bfpga.contract.configuration import KernelConfig

#: Remainders are scaled by 2^BITS. More bits round them more finely, but leave their weights fewer: with 8 bits both
#: errors are equal between 3 and 4.
BITS = 4
#: Of weights whose remainders' weights keep enough of them.
WEIGHT_BITS = 8


def with_remainders(
    lowered: Lowered, inputs: Iterable[str], config: KernelConfig, options: CompileOptions
) -> Lowered:
    """The network with channels for remainders of its ``inputs``: where lanes are idle, or as options request.

    Inputs that the network itself quantizes in steps of an exponent have none.
    Arrays with shift units do without: their few values of a weight leave too little for those of remainders.
    """
    if not holds_remainders(config):
        return lowered
    result = lowered
    for tensor in _images(lowered, inputs, config, options, lowered.exact):
        found = _widened(result, tensor)
        before, after = (layers_cycles(item.layers, config) for item in (result, found))
        if options.remainders == "always" or after <= before:
            result = found
            if after > before:
                note = f"{tensor.name} is kept with its remainders, {_more(before, after)}"
                result = replace(result, notes=[*result.notes, note])
    return result


def with_image_parts(
    lowered: Lowered, graph: Graph, config: KernelConfig, options: CompileOptions
) -> tuple[CompileOptions, list[str]]:
    """Options with the network's images in parts where weights are too short for remainders; notes.

    As many parts as idle lanes take, or the most if the options request it. What the recipe says of an input stays. To
    be called where calibration gives the exponents.
    """
    found, notes = options, list[str]()
    if holds_remainders(config):
        return found, notes
    largest = config.format.mantissa_max
    held = {name for name, grid in graph.grids.items() if grid.largest <= largest * grid.step}
    for tensor in _images(lowered, graph.inputs, config, options, held & lowered.exact):
        name = tensor.name
        free = inner(name, lowered, graph.outputs) and not refusal(tied(lowered.layers)[name], lowered.layers, {})
        if name in options.layers or not free:
            continue
        before = layers_cycles(with_parts(lowered, {}, found, calibrated=True).layers, config)
        for parts in sorted(RESULT_PARTS[1:], reverse=True):
            tried = in_result_parts(found, name, parts)
            split = with_parts(lowered, {}, tried, calibrated=True)
            after = layers_cycles(split.layers, config)
            if not oversized_layers(split, config) and (options.remainders == "always" or after <= before):
                found = tried
                notes += [f"{name} is in {parts} parts, {_more(before, after)}"] if after > before else []
                break
    return found, notes


def holds_remainders(config: KernelConfig) -> bool:
    """Whether weights have the bits that those of remainders need."""
    return config.weight_bits >= WEIGHT_BITS


def _images(
    lowered: Lowered, inputs: Iterable[str], config: KernelConfig, options: CompileOptions, held: Collection[str]
) -> Iterator[ArrayTensor]:
    """Inputs whose values have more bits than mantissas, as far as layers multiply all of their channels by weights.

    held: names of values that are mantissas as they are.
    """
    form = config.format
    fit = form.mantissa_bits < WIDE_BITS and form.saturation != "wrap" and config.weight_formats == ("linear",)
    if options.remainders == "never" or not fit:
        return
    for name in inputs:
        tensor = lowered.tensors.get(name)
        readers = [layer for layer in lowered.layers if name in layer.inputs]
        image = tensor is not None and tensor.height * tensor.width > 1 and name not in held
        if tensor is not None and image and readers and all(_multiplies(layer) for layer in readers):
            yield tensor


def _more(before: float, after: float) -> str:
    return f"for {100 * (after - before) / before:.1f} % more cycles of products"


def _multiplies(layer: Layer) -> bool:
    """Whether every row of a layer reads all channels, by weights of its own."""
    return layer.kind == "gemm" and layer.groups == 1 and not layer.uniform_weights


def _widened(lowered: Lowered, tensor: ArrayTensor) -> Lowered:
    values = int(np.prod(tensor.onnx_shape))
    layout = np.concatenate([tensor.layout, tensor.layout + values], axis=2)
    tensors = {**lowered.tensors, tensor.name: replace(tensor, layout=layout, remainder=BITS)}
    layers = [_reading(layer) if tensor.name in layer.inputs else layer for layer in lowered.layers]
    return replace(lowered, layers=layers, tensors=tensors)


def _reading(layer: Layer) -> Layer:
    weights = np.asarray(layer.weights, np.float64)
    return replace(layer, weights=np.concatenate([weights, weights * 2.0**-BITS], axis=3))
