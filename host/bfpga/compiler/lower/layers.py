"""The network between ONNX and the array: layers in float, tensors with their layout in the array's memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bfpga.compiler.read.importer import Operator
from bfpga.contract.descriptor import Function
from bfpga.contract.program import Joined, OperandWeights, Window
from bfpga.contract.rows import RowOperation
from bfpga.formats.arrays import FloatArray
from bfpga.program.layout import MemoryOrder

IndexArray = npt.NDArray[np.int64]
Kind = Literal["gemm", "max", "sum", "matmul", "scale", "rows", "product"]
#: Layers whose second input becomes weights at run time.
PRODUCTS = ("matmul", "scale")
#: Layers that factors of channels or of tensors do not pass: what they take and give stays as the network has it.
UNSCALED = (*PRODUCTS, "rows", "product")


def positions(shape: tuple[int, ...]) -> IndexArray:
    """The flat position of every element of an array of ``shape``."""
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)


def places_of(order: IndexArray) -> IndexArray:
    """For each position of a value, flat, its place among those that ``order`` gives in the order of memory."""
    result = np.empty(order.size, np.int64)
    result[order.reshape(-1)] = np.arange(order.size)
    return result


@dataclass(frozen=True)
class RowMask:
    """Elements of rows that a Softmax must not see, whatever they are.

    masked: in the shape of the ONNX value. rows: (rows, length) flat positions in it. distance: of masked elements from
    the largest number that the mask adds to what is seen of their row, at least; infinite for minus infinity.
    """

    masked: npt.NDArray[np.bool_]
    rows: IndexArray
    distance: float

    @property
    def single(self) -> npt.NDArray[np.bool_]:
        """(rows,): of which a single element is seen."""
        return np.asarray((~self.masked).reshape(-1)[self.rows].sum(axis=1) == 1)


@dataclass
class ArrayTensor:
    """An ONNX value in the array's memory.

    layout: (height, width, channels) flat positions in the ONNX value (batch axis left out).
    remainder: not 0 where the second half of the channels holds remainders times 2**remainder (numbers/remainders.py);
    their positions follow the last one of the ONNX value.
    parts: adjacent channels that hold one value together (numbers/parts.py).
    constant: the values that every sample has, of a tensor that nothing computes.
    mask: of scores that a constant mask is added to, and of that constant.
    """

    name: str
    onnx_shape: tuple[int, ...]
    layout: IndexArray
    remainder: int = 0
    parts: int = 1
    constant: FloatArray | None = None
    mask: RowMask | None = None

    @property
    def height(self) -> int:
        return int(self.layout.shape[0])

    @property
    def width(self) -> int:
        return int(self.layout.shape[1])

    @property
    def channels(self) -> int:
        return int(self.layout.shape[2])

    def order(self) -> MemoryOrder | None:
        """The order that leads from the ONNX value to the layout; None if there is none."""
        values = self.layout[:, :, : self.channels // 2] if self.remainder else self.layout
        values = values[:, :, :: self.parts]
        return order_of(self.onnx_shape, values)


def axes_of(shape: tuple[int, ...], layout: IndexArray) -> tuple[int, ...] | None:
    """The transposition of an array of ``shape`` that gives the order of ``layout``, if there is one."""
    flat, source = layout.ravel(), positions(shape)
    if flat.size != source.size:
        return None
    for axes in permutations(range(len(shape))):
        turned = source.transpose(axes)
        # A few elements distinguish most of them.
        spots = [np.unravel_index(place, turned.shape) for place in (flat.size // 2, flat.size - 2) if place > 0]
        ordered = flat.reshape(turned.shape)
        if all(turned[spot] == ordered[spot] for spot in spots) and np.array_equal(turned, ordered):
            return axes
    return None


def order_of(shape: tuple[int, ...], layout: IndexArray) -> MemoryOrder | None:
    """The order of a value's axes that a layout is, where no other helps of axes in several; None: none is."""
    axes = axes_of(shape, layout)
    return MemoryOrder(shape, axes) if axes is not None else _split_order(layout.ravel())


def _split_order(flat: IndexArray) -> MemoryOrder | None:
    """The same for positions in memory: runs at one distance, runs of these runs, and so on, are axes."""
    counts, distances, size = [], [], 1
    while size < flat.size:
        starts = flat[::size]
        steps = np.diff(starts)
        others = np.flatnonzero(steps != steps[0])
        counts.append(int(others[0]) + 1 if others.size else len(starts))
        distances.append(int(steps[0]))
        size *= counts[-1]
    outward = [int(place) for place in np.argsort(distances)[::-1]]
    shape = tuple(counts[place] for place in outward)
    axes = tuple(outward.index(place) for place in reversed(range(len(counts))))
    if size != flat.size or not np.array_equal(positions(shape).transpose(axes).ravel(), flat):
        return None
    return MemoryOrder(shape, axes)


@dataclass
class View:
    """A value that is a rearrangement of another: element i is element ``index[i]`` of the value ``root``."""

    root: str
    index: IndexArray


@dataclass(frozen=True)
class RowPart:
    """What a layer does with the rows of a tensor, in float; scale: (channels,) of a normalization."""

    operation: RowOperation
    epsilon: float = 0.0
    scale: FloatArray | None = None


@dataclass
class Layer:
    """One layer on the array before its numbers are integers.

    weights: (output channels, kernel_height, kernel_width, input channels / groups); bias: (output channels,).
    argument: of the function, where it takes one (contract/functions.py). operators: the ONNX operators it computes.
    kind: as of ``ArrayNode``; `matmul`: of two computed matrices by way of the host, `product`: on the chip; `scale`:
    of a tensor and a factor for each channel.
    """

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    output: str
    channels: int
    window: Window = field(default_factory=Window)
    groups: int = 1
    weights: FloatArray | None = None
    bias: FloatArray | None = None
    function: Function = Function.NONE
    argument: float = 0.0
    negate_second: bool = False
    uniform_weights: bool = False
    channel_offset: int = 0
    macs: int = 0
    operators: list[Operator] = field(default_factory=list)
    #: Parts of each input value, adjacent among the weights' last axis (numbers/parts.py).
    input_parts: int = 1
    #: Axis of the weights along which a tap is repeated, so that two weights multiply each value; 0: none is.
    repeated: int = 0
    #: matmul: (batch, rows, inner, columns)
    product: tuple[int, int, int, int] = (1, 1, 1, 1)
    rows: RowPart | None = None
    #: Of a product of two computed matrices on the chip: how the second input becomes the weights.
    operand: OperandWeights | None = None

    @property
    def on_array(self) -> tuple[str, ...]:
        """Inputs in the array's memory."""
        return self.inputs[:1] if self.kind == "scale" else self.inputs

    @property
    def become_weights(self) -> tuple[str, ...]:
        """Inputs that the host has to have before the layer's kernel start, because they become weights."""
        return {"matmul": self.inputs, "scale": self.inputs[1:]}.get(self.kind, ())

    @property
    def pixels(self) -> int:
        return self.window.output_height * self.window.output_width


@dataclass
class Lowered:
    """What lowering gives: array layers and host operators, both in topological order, and the array's tensors."""

    layers: list[Layer]
    host: list[Operator]
    tensors: dict[str, ArrayTensor]
    #: Operators that are only views, by output: a host group that reads one computes it itself.
    views: dict[str, Operator]
    notes: list[str]
    #: Tensors that hold a quantizer's steps or limits as they are: nothing is scaled by another factor.
    exact: frozenset[str] = frozenset()
    #: Outputs that the host puts together as it unpacks.
    joined: dict[str, Joined] = field(default_factory=dict)


def spatial(values: Any, default: int, axes: int) -> tuple[int, int]:
    """A pair (vertical, horizontal) from an ONNX attribute of one or two numbers."""
    numbers = [int(value) for value in values] if values is not None else [default] * axes
    return (numbers[0], numbers[1] if axes == 2 else 1)
