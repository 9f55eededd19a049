"""Values in parts: several mantissas of the array hold one value of the network, so that their sum is finer.

A result in n parts is computed n times, into adjacent channels, each time moved by another fraction of the
last place before it is rounded: the mean of the parts has steps n times as small. Layers that read it multiply each
part by an n-th of the weight. The sums of these products are exact, so rows of weights are in parts too: the next one
compensates the rounding of the one before. Where a kernel has one row or one column, weights alone can be in two parts:
the same tap is read twice.

No kernel and no descriptor depends on it: parts are channels, biases and taps (docs/mixed-precision.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import UNSCALED, ArrayTensor, Layer, Lowered
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.options import CompileOptions
from bfpga.contract.descriptor import Function
from bfpga.contract.program import ArrayNode
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import FloatArray, IntArray
from bfpga.program.layout import part_offsets

#: Functions that leave a shift of their input by a part of the last place what it is.
SHIFTED = (Function.NONE, Function.RELU, Function.LEAKY_RELU, Function.CLIP)
#: Policies whose exponents are known before the run, so that the last place is.
CALIBRATED = ("auto", "static", "known_range", "worst_case", "lookup")


def with_parts(lowered: Lowered, fixed: Mapping[str, str], options: CompileOptions, calibrated: bool) -> Lowered:
    """The network with results and weights in the parts that ``options`` ask for.

    fixed: tensors that cannot be in parts, each with the reason. calibrated: whether samples give the exponents.
    Results that additions or maxima tie to each other are in as many parts as the most that is asked for one of them.
    ConfigurationError for a layer that cannot have what is asked for, with the reason.
    """
    count = _result_parts(lowered, fixed, options, calibrated)
    layers = []
    for layer in lowered.layers:
        result = _in_parts(layer, count.get(layer.inputs[0], 1), count.get(layer.output, 1))
        if options.layer(layer.name, layer.output).weight_parts > 1 and result.weights is not None:
            result = _repeated(result, options)
        layers.append(result)
    tensors = {name: _tensor(tensor, count.get(name, 1)) for name, tensor in lowered.tensors.items()}
    return replace(lowered, layers=layers, tensors=tensors)


def in_result_parts(options: CompileOptions, name: str, parts: int) -> CompileOptions:
    """Options that ask for a tensor in so many parts."""
    return replace(options, layers={**options.layers, name: {**options.layers.get(name, {}), "result_parts": parts}})


def tied(layers: Sequence[Layer | ArrayNode]) -> dict[str, frozenset[str]]:
    """For every tensor of the layers those that must be in as many parts: maxima and additions go part by part."""
    families: dict[str, set[str]] = {}
    for layer in layers:
        names = (*layer.inputs, layer.output)
        for name in names:
            families.setdefault(name, {name})
        adds = isinstance(layer, ArrayNode) and layer.adds_second
        if layer.kind in ("max", "sum") or adds:
            joined = set().union(*(families[name] for name in names[int(adds) :]))
            families.update(dict.fromkeys(joined, joined))
    return {name: frozenset(family) for name, family in families.items()}


def refusal(family: Collection[str], layers: Sequence[Layer | ArrayNode], fixed: Mapping[str, str]) -> str:
    """Why the tensors of a family cannot be in parts; empty if they can. fixed: as for ``with_parts``."""
    for name in sorted(family):
        if name in fixed:
            return fixed[name]
        for layer in layers:
            if name in (*layer.inputs, layer.output) and _unscaled(layer):
                return f"{name} is an operand or the result of a product of activations, or of rows"
            if layer.output == name and layer.function not in SHIFTED:
                return f"{layer.name} applies {layer.function.name.lower()}, whose results do not move with its sums"
    return ""


def _unscaled(layer: Layer | ArrayNode) -> bool:
    """Whether a layer computes with its inputs as they are: with weights of run time, or with rows."""
    if isinstance(layer, ArrayNode):
        return bool(layer.factors) or layer.rows is not None
    return layer.kind in UNSCALED


def terms_of_parts(layer: Layer) -> IntArray | None:
    """(values, parts): the terms of a row of weights that multiply parts of one value; None without parts."""
    if layer.weights is None or layer.uniform_weights or (layer.input_parts == 1 and not layer.repeated):
        return None
    rows, columns, channels = layer.weights.shape[1:]
    index = np.arange(rows * columns * channels).reshape(rows, columns, -1, layer.input_parts)
    if layer.repeated:
        index = np.moveaxis(index, layer.repeated - 1, -1)
        index = index.reshape(-1, layer.input_parts * index.shape[-1])
    return index.reshape(-1, index.shape[-1])


def moments_of_parts(moments: Moments, before: Layer, layer: Layer) -> Moments:
    """The moments of a layer's inputs in parts: parts of one value go together entirely."""
    if before.weights is None or layer.weights is None or layer.weights.shape[1:] == before.weights.shape[1:]:
        return moments
    terms = np.arange(int(np.prod(before.weights.shape[1:]))).reshape(before.weights.shape[1:])
    terms = np.repeat(terms, layer.input_parts, axis=2)
    terms = np.repeat(terms, 2, axis=layer.repeated - 1) if layer.repeated else terms
    return Moments(moments.matrix[:, terms.ravel()][:, :, terms.ravel()])


def shift_parts(layer: Layer, parts: int, exponent: int) -> None:
    """Move each part of the results by its fraction of the last place, 2**exponent, in the biases."""
    if parts == 1 or layer.kind != "gemm":
        return
    offsets = part_offsets(parts) * 2.0**exponent
    bias = np.zeros(layer.channels) if layer.bias is None else np.asarray(layer.bias, np.float64)
    layer.bias = bias + np.tile(offsets, layer.channels // parts)


def _result_parts(
    lowered: Lowered, fixed: Mapping[str, str], options: CompileOptions, calibrated: bool
) -> dict[str, int]:
    """Parts of every tensor that has more than one."""
    families = tied(lowered.layers)
    result: dict[str, int] = {}
    made = {layer.output for layer in lowered.layers}
    places = [(layer.name, layer.output) for layer in lowered.layers]
    for names in [*places, *((name, name) for name in lowered.tensors if name not in made and name in families)]:
        count, family = options.layer(*dict.fromkeys(names)).result_parts, families[names[1]]
        reason = "" if count == 1 else refusal(family, lowered.layers, fixed)
        if count == 1 or (reason and not set(names) & set(options.layers)):
            continue
        policies = {options.layer(item.name, item.output).policy for item in lowered.layers if item.output in family}
        if not reason and not (calibrated and policies <= set(CALIBRATED)):
            reason = "exponents must be known before the run, by calibration samples and a static policy"
        if reason:
            raise ConfigurationError(f"layer {names[0]}: result_parts = {count} cannot be: {reason}")
        for name in family:
            result[name] = max(result.get(name, 1), count)
    return result


def _in_parts(layer: Layer, read: int, given: int) -> Layer:
    """A layer that reads values in ``read`` parts and gives results in ``given``."""
    if read == given == 1:
        return layer
    result = replace(layer, channels=layer.channels * given, channel_offset=layer.channel_offset * given)
    if layer.weights is None:
        return result
    weights: FloatArray = np.asarray(layer.weights, np.float64)
    result.weights = np.repeat(np.repeat(weights / read, read, axis=3), given, axis=0)
    result.bias = None if layer.bias is None else np.repeat(np.asarray(layer.bias, np.float64), given)
    result.input_parts = read
    return result


def _repeated(layer: Layer, options: CompileOptions) -> Layer:
    """A layer that reads every value twice, with half of its weight each time."""
    window = layer.window
    assert layer.weights is not None
    if layer.uniform_weights or min(window.kernel_height, window.kernel_width) > 1:
        if layer.name not in options.layers and layer.output not in options.layers:
            return layer
        raise ConfigurationError(
            f"layer {layer.name}: weight_parts = 2 is for kernels with one row or one column; this one has "
            f"{window.kernel_height} x {window.kernel_width}. Give the layer before it result_parts: 2"
        )
    axis = 2 if window.kernel_width == 1 else 1
    weights = np.repeat(np.asarray(layer.weights, np.float64) / 2, 2, axis=axis)
    if axis == 2:
        window = replace(window, kernel_width=2, dilation_x=0)
    else:
        window = replace(window, kernel_height=2, dilation_y=0)
    return replace(layer, window=window, weights=weights, repeated=axis)


def _tensor(tensor: ArrayTensor, parts: int) -> ArrayTensor:
    return replace(tensor, layout=np.repeat(tensor.layout, parts, axis=2), parts=parts) if parts > 1 else tensor
