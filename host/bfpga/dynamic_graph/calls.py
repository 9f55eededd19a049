"""Operations as layers of the array: geometry, operands and weights of one call, before numbers are integers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import Layer
from bfpga.contract.functions import Function
from bfpga.dynamic_graph.blocks import ArrayBlock
from bfpga.formats.arrays import IntArray

#: Name of the result's tensor; operands are called after their place.
RESULT = "result"


@dataclass(frozen=True)
class Activation:
    """The function that an operation ends with, with its argument if it takes one."""

    function: Function = Function.NONE
    argument: float = 0.0


@dataclass
class ArrayCall:
    """One operation for the array.

    layer: with weights in float, or none. operands: blocks whose mantissas are images (height, width, channels).
    inner: shape of the result as the array gives it, (height, width, channels).
    """

    layer: Layer
    operands: list[ArrayBlock]
    inner: tuple[int, int, int]
    digest: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.digest = content_digest(self.layer.weights, self.layer.bias)

    @property
    def geometry(self) -> tuple[Any, ...]:
        """What the schedule of the operation depends on, without the values of weights."""
        layer = self.layer
        shapes = tuple(block.mantissa.shape for block in self.operands)
        weights = None if layer.weights is None else layer.weights.shape
        return (
            layer.name, layer.kind, shapes, self.inner, tuple(vars(layer.window).values()), layer.groups, weights,
            layer.bias is not None, layer.function, layer.argument, layer.negate_second, layer.uniform_weights,
        )  # fmt: skip

    @property
    def key(self) -> tuple[Any, ...]:
        """What the compiled operation depends on."""
        return (*self.geometry, self.digest)


def content_digest(*arrays: npt.NDArray[Any] | None) -> str:
    """A digest of the values of arrays, shapes aside."""
    content = hashlib.blake2b(digest_size=16)
    for array in arrays:
        content.update(b"none" if array is None else np.ascontiguousarray(array).data)
    return content.hexdigest()


def operand_names(count: int) -> tuple[str, ...]:
    """Names of the operands' tensors."""
    return tuple(f"operand_{index}" for index in range(count))


def image(block: ArrayBlock, shape: tuple[int, int, int]) -> ArrayBlock:
    """A block with its mantissas as (height, width, channels)."""
    mantissa: IntArray = np.ascontiguousarray(block.mantissa).reshape(shape)
    return ArrayBlock(mantissa, block.exponent)


def image_shape(block: ArrayBlock) -> tuple[int, int, int]:
    """Height, width and channels of a block that is an image."""
    height, width, channels = block.mantissa.shape
    return height, width, channels
