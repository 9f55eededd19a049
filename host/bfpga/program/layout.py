"""Between the host's values (float32, ONNX layout) and the array's tensors (pixels x channels, one exponent)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import BlockTensor, TensorSpec
from bfpga.errors import DataError
from bfpga.formats.arrays import FloatArray, IntArray
from bfpga.formats.block_float import decode, encode_remainders, encode_samples
from bfpga.formats.block_format import BlockFormat


@dataclass(frozen=True)
class MemoryOrder:
    """How an ONNX value (batch left out) is in memory: in this shape, with its axes in this order."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]


def memory_order(spec: TensorSpec) -> MemoryOrder:
    """The order of a tensor's values; channels last where the program does not say."""
    shape = spec.split or onnx_shape(spec)
    usual = (1, 2, 0) if len(shape) == 3 else tuple(range(len(shape)))
    return MemoryOrder(shape, spec.axes or usual)


def onnx_shape(spec: TensorSpec) -> tuple[int, ...]:
    """Shape of the ONNX value without the batch axis."""
    return spec.onnx_shape or (spec.channels, spec.height, spec.width)


def check_shape(x: npt.NDArray[Any], spec: TensorSpec) -> None:
    """``DataError`` unless x is (samples, *onnx_shape)."""
    if x.shape[1:] != onnx_shape(spec):
        raise DataError(
            f"tensor {spec.name} has shape {x.shape[1:]} for a sample; the program expects {onnx_shape(spec)}"
        )


def to_array(x: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[Any]:
    """(samples, *onnx_shape) -> (samples, height, width, channels). ``DataError`` if the shape differs."""
    check_shape(x, spec)
    order = memory_order(spec)
    turned = x.reshape(len(x), *order.shape).transpose(0, *(axis + 1 for axis in order.axes))
    return turned.reshape(len(x), spec.height, spec.width, spec.channels)


def from_array(x: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[Any]:
    """(samples, height, width, channels) -> (samples, *onnx_shape), contiguous."""
    order = memory_order(spec)
    in_memory = x.reshape(len(x), *(order.shape[axis] for axis in order.axes))
    back = in_memory.transpose(0, *(int(axis) + 1 for axis in np.argsort(order.axes)))
    return np.ascontiguousarray(back.reshape(len(x), *onnx_shape(spec)))


def channel_factors(spec: TensorSpec) -> npt.NDArray[np.float32]:
    """What every element of a sample is scaled by, in the layout of the ONNX value."""
    spec = values_alone(spec)
    factors = np.exp2(np.asarray(spec.channel_shift, np.float32))
    shaped: npt.NDArray[np.float32] = np.broadcast_to(factors, (1, spec.height, spec.width, spec.channels))
    result: npt.NDArray[np.float32] = from_array(shaped, spec)[0]
    return result


def unfolded(spec: TensorSpec) -> TensorSpec:
    """The tensor with its columns adjacent."""
    fold = spec.folded
    return spec if fold is None else replace(spec, width=fold.width, channels=fold.channels, folded=None)


def folded_columns(spec: TensorSpec) -> npt.NDArray[np.int64]:
    """(width, taps): the image's column that each pixel of a folded row holds; the width for columns outside of it."""
    fold = spec.folded
    assert fold is not None
    pixels, taps = np.arange(spec.width)[:, None], np.arange(fold.taps)[None, :]
    column = pixels * fold.stride - fold.pad + taps * fold.dilation
    return np.where((column >= 0) & (column < fold.width), column, fold.width)


def fold_columns(x: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[Any]:
    """(samples, height, image width, channels) -> (samples, height, width, taps * channels)."""
    outside = np.zeros_like(x[:, :, :1])
    picked: npt.NDArray[Any] = np.concatenate([x, outside], axis=2)[:, :, folded_columns(spec)]
    return picked.reshape(len(x), spec.height, spec.width, spec.channels)


def unfold_columns(x: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[Any]:
    """Inverse of ``fold_columns``; columns that no pixel holds are zero."""
    fold = spec.folded
    assert fold is not None
    taps = x.reshape(*x.shape[:3], fold.taps, fold.channels)
    result: npt.NDArray[Any] = np.zeros((*x.shape[:2], fold.width + 1, fold.channels), x.dtype)
    columns = folded_columns(spec)
    for tap in range(fold.taps):
        result[:, :, columns[:, tap]] = taps[:, :, :, tap]
    return result[:, :, : fold.width]


def encode_tensor(x: FloatArray, spec: TensorSpec, fmt: BlockFormat) -> BlockTensor:
    """The array's tensor of a host value (samples, *onnx_shape); exponent as the tensor's specification says (R25)."""
    if spec.folded is not None:
        image = encode_tensor(x, unfolded(spec), fmt)
        return BlockTensor(fold_columns(image.mantissa, spec), image.exponent)
    if spec.channel_shift:
        x = x * channel_factors(spec)
    mantissa, exponent = encode_samples(x, fmt, spec.input_exponent)
    if spec.parts > 1:
        return BlockTensor(_parts_together(encode_parts(x, exponent, spec.parts, fmt), spec), exponent)
    if not spec.remainder:
        return BlockTensor(to_array(mantissa, spec), exponent)
    values, left = values_alone(spec), encode_remainders(x, mantissa, exponent, fmt, spec.remainder)
    return BlockTensor(np.concatenate([to_array(mantissa, values), to_array(left, values)], axis=3), exponent)


def values_alone(spec: TensorSpec) -> TensorSpec:
    """The tensor with one channel for each value: without remainders, without parts."""
    if spec.remainder:
        return replace(spec, channels=spec.channels // 2, remainder=0)
    return replace(spec, channels=spec.channels // spec.parts, channel_shift=spec.channel_shift[:: spec.parts])


def decode_tensor(tensor: BlockTensor, spec: TensorSpec) -> npt.NDArray[np.float32]:
    """The host value (samples, *onnx_shape) float32 of an array tensor (R20)."""
    if spec.folded is not None:
        image = unfold_columns(np.asarray(tensor.mantissa), spec)
        return decode_tensor(BlockTensor(image, tensor.exponent), unfolded(spec))
    if spec.remainder:
        alone = values_alone(spec)
        halves = np.split(np.asarray(tensor.mantissa), 2, axis=3)
        value = decode_tensor(BlockTensor(halves[0], tensor.exponent), alone)
        return value + decode_tensor(BlockTensor(halves[1], tensor.exponent - spec.remainder), alone)
    if spec.parts > 1:
        return _decode_parts(tensor, spec)
    values: npt.NDArray[np.float32] = from_array(decode(tensor.mantissa, tensor.exponent), spec).astype(
        np.float32, copy=False
    )
    return values / channel_factors(spec) if spec.channel_shift else values


def part_offsets(parts: int) -> FloatArray:
    """By how much of the last place each part of a value is moved before it is rounded; their sum is 0."""
    return (np.arange(parts) + 0.5) / parts - 0.5


def encode_parts(x: FloatArray, exponent: IntArray, parts: int, fmt: BlockFormat) -> list[IntArray]:
    """Mantissas of x's shape for each part of its values, whose last place is 2**exponent (samples,)."""
    places = np.ldexp(x.astype(np.float64), -exponent.reshape(-1, *[1] * (x.ndim - 1)))
    return [encode_samples(places + offset, fmt, 0)[0] for offset in part_offsets(parts)]


def _parts_together(parts: list[IntArray], spec: TensorSpec) -> IntArray:
    """(samples, height, width, channels) of the parts of its values."""
    alone = values_alone(spec)
    found = [to_array(part, alone) for part in parts]
    result: IntArray = np.stack(found, axis=4).reshape(len(found[0]), spec.height, spec.width, spec.channels)
    return result


def _decode_parts(tensor: BlockTensor, spec: TensorSpec) -> npt.NDArray[np.float32]:
    """The mean of the parts of each value."""
    count, alone = spec.parts, values_alone(spec)
    mantissa = np.asarray(tensor.mantissa)
    values = [decode_tensor(BlockTensor(mantissa[..., part::count], tensor.exponent), alone) for part in range(count)]
    mean: npt.NDArray[np.float32] = np.mean(values, axis=0, dtype=np.float32)
    return mean


def together(x: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """(samples, ..., K) -> (groups, ..., count, K); the last group is filled with its last sample."""
    missing = -len(x) % count
    filled = np.concatenate([x, np.repeat(x[-1:], missing, axis=0)]) if missing else x
    result: npt.NDArray[Any] = np.moveaxis(filled.reshape(-1, count, *x.shape[1:]), 1, -2)
    return result


def apart(x: npt.NDArray[Any], samples: int) -> npt.NDArray[Any]:
    """(groups, ..., count, K) -> (samples, ..., K): what fills the last group is dropped."""
    grouped = np.moveaxis(x, -2, 1)
    result: npt.NDArray[Any] = grouped.reshape(-1, *grouped.shape[2:])[:samples]
    return result
