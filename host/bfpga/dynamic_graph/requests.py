"""Every operation that the array computes, from blocks as the user shapes them to a layer and back.

A request is an ``ArrayCall`` with the way from its result (height, width, channels) to the user's axes. Shapes and
arguments are checked here, each mistake with one DataError; what the array cannot do is NotOnArrayError: the caller
lets numpy do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bfpga.compiler.lower.layers import Kind, Layer
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import UnfitArgumentError
from bfpga.contract.program import Window
from bfpga.dynamic_graph.blocks import ArrayBlock
from bfpga.dynamic_graph.calls import RESULT, Activation, ArrayCall, image, operand_names
from bfpga.dynamic_graph.host_functions import named_function
from bfpga.dynamic_graph.windows import columns_of, stacked
from bfpga.errors import DataError
from bfpga.formats.arrays import FloatArray, IntArray

Shaper = Callable[[IntArray], IntArray]
#: Elements that operations element by element take as channels of a pixel, at most.
PIXEL = 64


@dataclass
class Request:
    """A call, and how mantissas of its result (height, width, channels) get the user's shape."""

    call: ArrayCall
    shaped: Shaper


def _layer(name: str, kind: Kind, count: int, channels: int, window: Window, activation: Activation) -> Layer:
    layer = Layer(name, kind, operand_names(count), RESULT, channels, window)
    layer.function, layer.argument = activation.function, activation.argument
    return layer


def _with_weights(layer: Layer, weights: FloatArray, bias: FloatArray | None) -> Layer:
    """weights: (output channels, kernel rows, kernel columns, input channels of a group)."""
    layer.weights = np.ascontiguousarray(weights, np.float64)
    layer.bias = None if bias is None else np.asarray(bias, np.float64)
    layer.macs = layer.pixels * layer.weights.size
    return layer


def product(name: str, x: ArrayBlock, weights: FloatArray, bias: FloatArray | None, activation: Activation) -> Request:
    """(..., K) x (K, M): the leading axes are the rows of one matrix."""
    inner, columns = weights.shape
    lead = x.mantissa.shape[:-1]
    rows = int(np.prod(lead))
    window = Window(output_height=rows)
    layer = _layer(name, "gemm", 1, columns, window, activation)
    _with_weights(layer, weights.T.reshape(columns, 1, 1, inner), bias)
    call = ArrayCall(layer, [image(x, (rows, 1, inner))], (rows, 1, columns))
    return Request(call, lambda result: result.reshape(*lead, columns))


def products(x: ArrayBlock, weights: FloatArray) -> Request:
    """(..., R, K) x (..., K, M): matrices side by side as groups of channels, so that all have one exponent.

    DataError for leading axes that do not go together.
    """
    shapes = x.mantissa.shape, weights.shape
    try:
        lead = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    except ValueError:
        raise DataError(f"matmul: the leading axes of {shapes[0]} and {shapes[1]} do not go together") from None
    (inner, columns), rows, batch = shapes[1][-2:], shapes[0][-2], int(np.prod(lead))
    first = np.broadcast_to(x.mantissa, (*lead, rows, inner)).reshape(batch, rows, inner)
    second = np.broadcast_to(weights, (*lead, inner, columns)).reshape(batch, inner, columns)
    layer = _layer("matmul", "gemm", 1, batch * columns, Window(output_height=rows), Activation())
    layer.groups = batch
    _with_weights(layer, second.transpose(0, 2, 1).reshape(batch * columns, 1, 1, inner), None)
    transposed = ArrayBlock(first.transpose(1, 0, 2), x.exponent)
    call = ArrayCall(layer, [image(transposed, (rows, 1, batch * inner))], (rows, 1, batch * columns))
    return Request(
        call, lambda result: result.reshape(rows, batch, columns).transpose(1, 0, 2).reshape(*lead, rows, columns)
    )


def convolution(
    x: ArrayBlock,
    weights: FloatArray,
    bias: FloatArray | None,
    window: Window,
    groups: int,
    activation: Activation,
    config: KernelConfig,
) -> Request:
    """Images (N, channels, height, width); weights (output channels, channels of a group, rows, columns)."""
    images = x.mantissa.transpose(0, 2, 3, 1)
    taps = weights.transpose(0, 2, 3, 1)
    if not _readable(window, config):
        return _unfolded(x, images, taps, bias, window, groups, activation)
    flat, wide = stacked(images, window, pools=False)
    layer = _layer("conv2d", "gemm", 1, len(weights), wide, activation)
    layer.groups = groups
    return _pixels(_with_weights(layer, taps, bias), ArrayBlock(flat, x.exponent), len(images), window)


def _unfolded(
    x: ArrayBlock,
    images: IntArray,
    taps: FloatArray,
    bias: FloatArray | None,
    window: Window,
    groups: int,
    activation: Activation,
) -> Request:
    """The same by way of the im2col matrix: for strides with which all columns would read one bank."""
    outputs, kernel_height, kernel_width, inner = taps.shape
    matrix = columns_of(images, window).reshape(-1, kernel_height * kernel_width, groups, inner)
    matrix = matrix.transpose(0, 2, 1, 3).reshape(len(matrix), 1, -1)
    layer = _layer("conv2d", "gemm", 1, outputs, Window(output_height=len(matrix)), activation)
    layer.groups = groups
    _with_weights(layer, taps.reshape(outputs, 1, 1, -1), bias)
    return _pixels(layer, ArrayBlock(matrix, x.exponent), len(images), window)


def average_pool(x: ArrayBlock, window: Window, config: KernelConfig) -> Request:
    """Images (N, channels, height, width); pixels outside the image count as zeros."""
    images = x.mantissa.transpose(0, 2, 3, 1)
    channels, count = images.shape[3], window.kernel_height * window.kernel_width
    weights = np.full((channels, window.kernel_height, window.kernel_width, 1), 1.0 / count)
    if not _readable(window, config):
        raise NotOnArrayError(_same_bank(window, config))
    if "linear" not in config.weight_formats and count & (count - 1):
        raise NotOnArrayError(f"1 / {count} is no weight of shift units")
    flat, wide = stacked(images, window, pools=False)
    layer = _layer("average_pool2d", "gemm", 1, channels, wide, Activation())
    layer.groups, layer.uniform_weights = channels, True
    return _pixels(_with_weights(layer, weights, None), ArrayBlock(flat, x.exponent), len(images), window)


def max_pool(x: ArrayBlock, window: Window, config: KernelConfig) -> Request:
    """Images (N, channels, height, width); the result keeps the exponent (FP R35)."""
    if not _readable(window, config):
        raise NotOnArrayError(_same_bank(window, config))
    images = x.mantissa.transpose(0, 2, 3, 1)
    flat, wide = stacked(images, window, pools=True)
    layer = _layer("max_pool2d", "max", 1, images.shape[3], wide, Activation())
    return _pixels(layer, ArrayBlock(flat, x.exponent), len(images), window)


def _pixels(layer: Layer, flat: ArrayBlock, count: int, window: Window) -> Request:
    """A call whose result are ``count`` images, and the way back to (N, channels, height, width)."""
    height, width, channels = window.output_height, window.output_width, layer.channels
    inner = (layer.window.output_height, layer.window.output_width, channels)
    call = ArrayCall(layer, [ArrayBlock(np.ascontiguousarray(flat.mantissa), flat.exponent)], inner)
    return Request(call, lambda result: result.reshape(count, height, width, channels).transpose(0, 3, 1, 2))


def _readable(window: Window, config: KernelConfig) -> bool:
    """Whether adjacent columns read different banks."""
    return config.columns == 1 or window.output_width == 1 or window.stride_x % config.banks != 0


def _same_bank(window: Window, config: KernelConfig) -> str:
    return f"with a stride of {window.stride_x} all columns read one of the {config.banks} banks"


def addition(name: str, x: ArrayBlock, y: ArrayBlock) -> Request:
    """``add`` or ``subtract`` of two blocks; DataError for shapes that numpy would not broadcast."""
    shapes = x.mantissa.shape, y.mantissa.shape
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise DataError(f"{name}: shapes {shapes[0]} and {shapes[1]} do not go together") from None
    inner = _pixel_shape(shape)
    operands = [ArrayBlock(np.broadcast_to(block.mantissa, shape), block.exponent) for block in (x, y)]
    window = Window(kernel_width=2, output_height=inner[0])
    layer = _layer(name, "sum", 2, inner[2], window, Activation())
    layer.negate_second = name == "subtract"
    return Request(ArrayCall(layer, [image(block, inner) for block in operands], inner), _reshaper(shape))


def function(name: str, x: ArrayBlock, activation: Activation) -> Request:
    """A block through the function unit."""
    shape = x.mantissa.shape
    inner = _pixel_shape(shape)
    layer = _layer(name, "sum", 1, inner[2], Window(output_height=inner[0]), activation)
    return Request(ArrayCall(layer, [image(x, inner)], inner), _reshaper(shape))


def scaling(x: ArrayBlock, factor: float) -> Request:
    """Every element times a number: one weight for each channel of a pixel."""
    shape = x.mantissa.shape
    inner = _pixel_shape(shape)
    layer = _by_channel("multiply", inner, np.full(inner[2], factor), None, Activation())
    return Request(ArrayCall(layer, [image(x, inner)], inner), _reshaper(shape))


def affine(
    name: str, x: ArrayBlock, scale: FloatArray, shift: FloatArray | None, axis: int, activation: Activation
) -> Request:
    """x * scale + shift, with a number for each index of an axis."""
    moved = np.moveaxis(x.mantissa, axis, -1)
    inner = (moved.size // len(scale), 1, len(scale))
    layer = _by_channel(name, inner, scale, shift, activation)
    call = ArrayCall(layer, [image(ArrayBlock(moved, x.exponent), inner)], inner)
    return Request(call, lambda result: np.moveaxis(result.reshape(moved.shape), -1, axis))


def _by_channel(
    name: str, inner: tuple[int, int, int], scale: FloatArray, shift: FloatArray | None, activation: Activation
) -> Layer:
    """A product with a weight of its own for each channel."""
    layer = _layer(name, "gemm", 1, inner[2], Window(output_height=inner[0]), activation)
    layer.groups = inner[2]
    return _with_weights(layer, scale.reshape(-1, 1, 1, 1), shift)


def _reshaper(shape: tuple[int, ...]) -> Shaper:
    return lambda result: result.reshape(shape)


def _pixel_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Elements in order as (rows, 1, channels): the most channels up to PIXEL that divide their number."""
    size = int(np.prod(shape))
    channels = max(count for count in range(1, min(size, PIXEL) + 1) if size % count == 0)
    return size // channels, 1, channels


def check_product(x: tuple[int, ...], weights: tuple[int, ...], name: str) -> None:
    """DataError unless the last axis of one is the first but last of the other."""
    if not x or not weights or x[-1] != weights[-2:][0]:
        raise DataError(f"{name}: shapes {x} and {weights} do not go together")


def check_convolution(images: tuple[int, ...], weights: tuple[int, ...], groups: int) -> None:
    """DataError unless images and weights have four axes and channels that go together."""
    shaped = len(images) == len(weights) == 4
    if not shaped or groups < 1 or images[1] != weights[1] * groups or weights[0] % groups:
        raise DataError(
            f"conv2d: images {images} and weights {weights} in {groups} groups do not go together; images are (N, "
            "channels, height, width), weights (outputs, channels / groups, rows, columns)"
        )


def check_channels(shape: tuple[int, ...], axis: int, name: str, **numbers: FloatArray | None) -> None:
    """DataError unless each of ``numbers`` has one for every index of an axis."""
    if not -len(shape) <= axis < len(shape):
        raise DataError(f"{name}: an array of shape {shape} has no axis {axis}")
    for what, values in numbers.items():
        if values is not None and values.shape != (shape[axis],):
            raise DataError(f"{name}: the {what} has shape {values.shape}; ({shape[axis]},) is needed, for axis {axis}")


def activation_of(function: str | tuple[str, float], config: KernelConfig) -> Activation:
    """The function unit's setting; NotOnArrayError for a function, slope or bound that it cannot have."""
    found, argument = named_function(function)
    if found.key not in config.known_functions:
        raise NotOnArrayError(f"the accelerator has no {found.key}")
    if found.row.argument is not None:
        try:
            found.row.argument.encoded(argument)
        except UnfitArgumentError as error:
            raise NotOnArrayError(str(error)) from None
    return Activation(found, argument)
