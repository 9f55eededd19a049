"""Remainders of images: what rounding takes from the network's input is kept in channels of its own.

Values that come in 256 levels (pixels, features of 8 bits) lose a bit or more to mantissas of 8 bits with a sign, and
no later layer can compensate that. A second set of channels takes what rounding left, enlarged; the layers that read
the image multiply it by the same weights, made as much smaller. An image of few channels leaves lanes of its memory
words empty, where this is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, Layer, Lowered
from bfpga.compiler.numbers.calibrate import WIDE_BITS
from bfpga.compiler.numbers.weight_formats import layers_cycles
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig

#: Remainders are scaled by 2^BITS. More bits round them more finely, but leave their weights fewer: with 8 bits both
#: errors are equal between 3 and 4.
BITS = 4


def with_remainders(
    lowered: Lowered, inputs: Iterable[str], config: KernelConfig, options: CompileOptions
) -> Lowered:
    """The network with channels for remainders of its ``inputs``: where they cost no cycle, or as options request.

    Inputs that the network itself quantizes in steps of an exponent have none.
    Arrays with shift units do without: their few values of a weight leave too little for those of remainders.
    """
    form = config.format
    fit = form.mantissa_bits < WIDE_BITS and form.saturation != "wrap" and config.weight_formats == ("linear",)
    if options.remainders == "never" or not fit:
        return lowered
    result = lowered
    for name in inputs:
        tensor = lowered.tensors.get(name)
        readers = [layer for layer in lowered.layers if name in layer.inputs]
        image = tensor is not None and tensor.height * tensor.width > 1
        if tensor is None or name in lowered.exact or not image or not all(_multiplies(layer) for layer in readers):
            continue
        found = _widened(result, tensor)
        before, after = (layers_cycles(item.layers, config) for item in (result, found))
        if options.remainders == "always" or after <= before:
            result = found
            if after > before:
                cost = 100 * (after - before) / before
                note = f"{name} is kept with its remainders, for {cost:.1f} % more cycles of products"
                result = replace(result, notes=[*result.notes, note])
    return result


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
