"""Operators whose results several layers give together, each some of the pixels, and parts of tensors.

A transposed convolution is one convolution for each phase of its stride: output pixels ``phase + stride * q`` read
neighbouring input pixels through every stride-th tap of the kernel. Interpolation by a ratio of integers is the same
with weights that follow from the operator. The layers write their rows between each other's, so nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, places_of, positions, spatial
from bfpga.compiler.lower.moves import copying_layer
from bfpga.compiler.lower.selection import apply_operator, selected_positions
from bfpga.compiler.lower.state import LoweringState, NotOnArrayError
from bfpga.compiler.read.importer import Operator, constant_of
from bfpga.contract.program import Window

Floats = npt.NDArray[np.float64]
#: Layers that one interpolation may become: bilinear doubling with its borders takes sixteen.
MOST_LAYERS = 64
#: Coefficients of an interpolation that differ by less are the same, and those below are none.
SAME = 1e-6


@dataclass(frozen=True)
class Piece:
    """Every ``spread``-th line of one axis of the result from ``first`` on, ``count`` of them.

    Line q reads lines ``start + stride * q + dilation * j`` of the input times ``coefficients[j]``.
    """

    first: int
    spread: int
    count: int
    start: int
    stride: int
    coefficients: tuple[float, ...] = (1.0,)
    dilation: int = 1


def window_of_pieces(y: Piece, x: Piece) -> Window:
    """The window of the layer that gives the pixels of two pieces; NotOnArrayError where they are apart in a row."""
    if x.spread > 1:
        raise NotOnArrayError("its results are not adjacent, and a kernel writes whole runs of pixels")
    return Window(
        len(y.coefficients), len(x.coefficients), y.stride, x.stride, -y.start, -x.start, y.dilation, x.dilation,
        y.count, x.count, y.spread, y.first, x.first,
    )  # fmt: skip


def pieces_of(matrix: Floats, steps: tuple[int, int] | None = None) -> list[Piece]:
    """The pieces of an axis that is interpolated with a matrix (lines of the result, lines of the input).

    steps: lines of the result and of the input from one line of a phase to the next; by default their ratio. Lines of
    one phase that read through the same coefficients, one step further each, are one piece.
    """
    targets, sources = matrix.shape
    ratio = gcd(targets, sources)
    spread, stride = steps or (targets // ratio, sources // ratio)
    found = []
    for phase in range(spread):
        run: Piece | None = None
        for line in range(phase, targets, spread):
            start, coefficients = _taps(matrix[line])
            if run is not None and start == run.start + stride * run.count and _close(coefficients, run.coefficients):
                run = replace(run, count=run.count + 1)
                continue
            if run is not None:
                found.append(run)
            run = Piece(line, spread, 1, start, stride, coefficients)
        if run is not None:
            found.append(run)
    return found


def _taps(row: Floats) -> tuple[int, tuple[float, ...]]:
    """The first line that a line of the result reads, and its coefficients from there on."""
    used = np.flatnonzero(np.abs(row) > SAME)
    if not len(used):
        return 0, (0.0,)
    return int(used[0]), tuple(float(value) for value in row[used[0] : used[-1] + 1])


def _close(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return len(first) == len(second) and bool(np.allclose(first, second, rtol=0, atol=SAME))


def phases(kernel: int, stride: int, dilation: int, pad: int, size: int) -> Iterator[tuple[Piece, list[int]]]:
    """The pieces of one axis of a transposed convolution, with the taps of the kernel that each reads through.

    size: lines of the result. A phase without a tap has one piece without coefficients.
    """
    for phase in range(min(stride, size)):
        taps = [tap for tap in range(kernel - 1, -1, -1) if (phase + pad - tap * dilation) % stride == 0]
        start = (phase + pad - taps[0] * dilation) // stride if taps else 0
        count = -(-(size - phase) // stride)
        reach = dilation // gcd(dilation, stride)
        yield Piece(phase, stride, count, start, 1, (1.0,) * max(1, len(taps)), reach), taps


def transposed_pads(
    attributes: Mapping[str, Any], axes: int, source: Sequence[int], target: Sequence[int], kernel: tuple[int, int]
) -> tuple[int, int]:
    """Padding of a transposed convolution above and to the left.

    source, target: height and width of input and output, of which it follows where the operator states the output's.
    """
    automatic = attributes.get("auto_pad", b"NOTSET")
    mode = automatic.decode() if isinstance(automatic, bytes) else str(automatic)
    if mode == "VALID" or (mode == "NOTSET" and not attributes.get("output_shape")):
        pads = [] if mode == "VALID" else [int(value) for value in attributes.get("pads", [])]
        return spatial(pads[:axes], 0, axes) if axes == 2 and pads else (pads[0] if pads else 0, 0)
    stride = spatial(attributes.get("strides"), 1, axes)
    dilation = spatial(attributes.get("dilations"), 1, axes)
    extra = spatial(attributes.get("output_padding"), 0, axes) if axes == 2 else (
        int((attributes.get("output_padding") or [0])[0]), 0)  # fmt: skip
    result = []
    for axis, size in enumerate(source):
        total = stride[axis] * (size - 1) + extra[axis] + (kernel[axis] - 1) * dilation[axis] + 1 - target[axis]
        total = max(0, total)
        result.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
    return result[0], result[1]


class Interleaving(LoweringState):
    """Lowering of these operators; methods raise NotOnArrayError where their pattern does not apply."""

    def _transposed_convolution(self, operator: Operator) -> None:
        weights, bias = constant_of(self.graph, operator, 1), constant_of(self.graph, operator, 2)
        if weights is None or (bias is None and len(operator.inputs) > 2 and operator.inputs[2]):
            raise NotOnArrayError("its weights are computed")
        axes, groups = weights.ndim - 2, int(operator.attributes.get("group", 1))
        if axes not in (1, 2):
            raise NotOnArrayError(f"a transposed convolution over {axes} axes")
        source = self._image(operator.inputs[0])
        layout = self._image_layout(operator.outputs[0])
        kernel = (int(weights.shape[2]), int(weights.shape[3]) if axes == 2 else 1)
        stride = spatial(operator.attributes.get("strides"), 1, axes)
        dilation = spatial(operator.attributes.get("dilations"), 1, axes)
        pads = transposed_pads(operator.attributes, axes, source.layout.shape[:2], layout.shape[:2], kernel)
        # (output channels, kernel_height, kernel_width, input channels of a group)
        inner, outputs = weights.shape[0] // groups, int(weights.shape[1]) * groups
        shaped = weights.reshape(groups, inner, -1, *kernel).transpose(0, 2, 3, 4, 1).reshape(outputs, *kernel, inner)
        rows, columns = (
            list(phases(kernel[axis], stride[axis], dilation[axis], pads[axis], layout.shape[axis])) for axis in (0, 1)
        )
        layers = []
        for row, taps_y in rows:
            for column, taps_x in columns:
                if taps_y and taps_x:
                    part = np.ascontiguousarray(shaped[:, taps_y][:, :, taps_x], np.float64)
                    layers.append((window_of_pieces(row, column), part))
                else:  # the bias alone
                    alone = [replace(piece, coefficients=(0.0,)) for piece in (row, column)]
                    layers.append((window_of_pieces(*alone), np.zeros((outputs, 1, 1, inner))))
        numbers = None if bias is None else bias.astype(np.float64)
        self._interleave(operator, source, layout, [
            Layer(operator.name, "gemm", (source.name,), operator.outputs[0], outputs, window,
                  groups=groups, weights=part, bias=None if numbers is None else numbers.copy(), operators=[operator])
            for window, part in layers
        ])  # fmt: skip

    def _interleave(self, operator: Operator, source: ArrayTensor, layout: IndexArray, layers: list[Layer]) -> None:
        """Emit the layers of one operator, which give all pixels of its result together."""
        for number, layer in enumerate(layers):
            self._check_slots(layer.window)
            if len(layers) > 1:
                layer.name = f"{operator.name}:{number}"
            if layer.weights is not None:
                layer.macs = layer.pixels * int(np.count_nonzero(layer.weights.any(axis=(0, 3))) and layer.weights.size)
        self._emit(tuple(layers), operator.outputs[0], layout)

    def _check_slots(self, window: Window) -> None:
        """Whether the columns of the array read different banks."""
        if self._meets_one_bank(window):
            raise NotOnArrayError(
                f"with a step of {window.stride_x} all columns read one of the {self.config.banks} banks"
            )

    def _meets_one_bank(self, window: Window) -> bool:
        """Whether all columns of the array read the same bank."""
        config = self.config
        return config.columns > 1 and window.output_width > 1 and window.stride_x % config.banks == 0

    def _check_stride(self, window: Window) -> None:
        if self._meets_one_bank(window):
            raise NotOnArrayError(
                f"with a stride of {window.stride_x} all columns read one of the {self.config.banks} banks"
            )

    def _resize(self, operator: Operator) -> None:
        """Interpolation by a ratio of integers, whatever its rules: the operator gives its coefficients."""
        shapes = [self.graph.shapes.get(name) for name in (operator.inputs[0], operator.outputs[0])]
        source_shape, target_shape = shapes
        if source_shape is None or target_shape is None or len(source_shape) not in (2, 3):
            raise NotOnArrayError("it interpolates other axes than height and width")
        if source_shape[0] != target_shape[0]:
            raise NotOnArrayError("it interpolates channels")
        if any(name and name not in self.graph.constants for name in operator.inputs[1:]):
            raise NotOnArrayError("its sizes are computed")
        matrices = self._interpolation(operator, source_shape, target_shape)
        self._separable(operator, [pieces_of(matrix) for matrix in matrices])

    def _border_averages(self, operator: Operator, strides: tuple[int, int]) -> None:
        """An average that leaves padding out: its windows at the border have larger weights than those inside."""
        shape, target = (self.graph.shapes[name] for name in (operator.inputs[0], operator.outputs[0]))
        matrices = self._interpolation(operator, shape, target)
        self._separable(operator, [pieces_of(matrix, (1, strides[axis])) for axis, matrix in enumerate(matrices)])

    def _separable(self, operator: Operator, axes: list[list[Piece]]) -> None:
        """Layers that sum the input's pixels, with the product of two coefficients as their weight."""
        rows, columns = axes if len(axes) == 2 else (axes[0], [Piece(0, 1, 1, 0, 1)])
        if len(rows) * len(columns) > MOST_LAYERS:
            raise NotOnArrayError(f"its pixels are {len(rows) * len(columns)} different sums of the input's")
        source = self._image(operator.inputs[0])
        layers = []
        for row in rows:
            for column in columns:
                copies = row.coefficients == column.coefficients == (1.0,)
                layer = Layer(operator.name, "max" if copies else "gemm", (source.name,), operator.outputs[0],
                              source.channels, window_of_pieces(row, column), operators=[operator])  # fmt: skip
                if not copies:
                    kernel = np.outer(row.coefficients, column.coefficients)
                    layer.groups = source.channels
                    layer.weights = np.repeat(kernel[None, :, :, None], source.channels, axis=0)
                layers.append(layer)
        self._interleave(operator, source, self._image_layout(operator.outputs[0]), layers)

    def _interpolation(
        self, operator: Operator, source: tuple[int, ...], target: tuple[int, ...]
    ) -> list[Floats]:
        """For each axis after the channels the matrix (result, input) that the operator multiplies it with."""
        matrices = []
        for axis in range(1, len(source)):
            lines = np.eye(source[axis], dtype=np.float32)
            found = []
            for start in range(0, source[axis], source[0]):
                part = lines[start : start + source[0]]
                image = np.zeros((1, *source), np.float32)
                # Each channel has one line of ones; along the other axis all values are alike.
                rows = part.reshape(len(part), -1, *[1] * (len(source) - 2))
                image[0, : len(part)] = part[:, None, :] if axis == 2 else rows
                result = apply_operator(self.graph, operator, image)[0, : len(part)]
                found.append(result[:, 0, :] if axis == 2 else result.reshape(len(part), target[1], -1)[:, :, 0])
            matrices.append(np.concatenate(found).T.astype(np.float64))
        probe = np.random.default_rng(0).normal(size=(1, *source)).astype(np.float32)
        expected = probe[0].astype(np.float64)
        for axis, matrix in enumerate(matrices, 1):
            expected = np.moveaxis(np.tensordot(matrix, expected, (1, axis)), 0, axis)
        if not np.allclose(apply_operator(self.graph, operator, probe)[0], expected, rtol=1e-4, atol=1e-4):
            raise NotOnArrayError("it is no interpolation of each axis on its own")
        return matrices

    # Parts of tensors

    def _part(self, operator: Operator) -> None:
        """Slice, and every result of Split: rows and columns are left out by the window, channels by weights."""
        wanted = [(name, selected_positions(self.graph, operator, i)) for i, name in enumerate(operator.outputs)]
        source, order = self._own_layout(operator.inputs[0])
        place = places_of(order)
        parts = [(name, *self._selected(source, place[kept.reshape(-1)])) for name, kept in wanted if name]
        for number, (name, window, channels, layout) in enumerate(parts):
            if name not in self.graph.consumers and name not in self.graph.outputs:
                self._root(name)
                continue
            named = operator.name if len(parts) == 1 else f"{operator.name}:{number}"
            self._emit(copying_layer(named, operator, source, window, channels, name), name, layout)

    def _selected(
        self, source: ArrayTensor, places: IndexArray
    ) -> tuple[Window, IndexArray, IndexArray]:
        """The window, the channels and the layout of elements at places in memory."""
        shape = source.layout.shape
        axes = [np.unique(axis) for axis in np.unravel_index(places, shape)]
        layout = np.full(shape, -1, np.int64)
        layout.reshape(-1)[places] = np.arange(len(places))
        layout = layout[np.ix_(*axes)]
        steps = [set(np.diff(axis).tolist()) or {1} for axis in axes[:2]]
        if layout.size != len(places) or layout.min() < 0 or any(len(step) > 1 for step in steps):
            raise NotOnArrayError("it selects elements at uneven distances")
        (step_y,), (step_x,) = steps
        window = Window(1, 1, step_y, step_x, -int(axes[0][0]), -int(axes[1][0]), 1, 1, len(axes[0]), len(axes[1]))
        self._check_slots(window)
        order = np.argsort(layout[0, 0])
        return window, axes[2][order], np.ascontiguousarray(layout[:, :, order])

    def _space_to_depth(self, operator: Operator) -> None:
        """Blocks of pixels become channels: a convolution that selects."""
        source, layout = self._image(operator.inputs[0]), self._image_layout(operator.outputs[0])
        block = int(operator.attributes["blocksize"])
        origin = apply_operator(self.graph, operator, positions(source.onnx_shape)[None].astype(np.float32))
        channel, y, x = np.unravel_index(origin[0, :, 0, 0].astype(np.int64), source.onnx_shape)
        weights = np.zeros((len(channel), block, block, source.channels))
        weights[np.arange(len(channel)), y, x, channel] = 1.0
        window = Window(block, block, block, block, output_height=layout.shape[0], output_width=layout.shape[1])
        self._check_slots(window)
        layer = Layer(operator.name, "gemm", (source.name,), operator.outputs[0], len(channel), window,
                      weights=weights, operators=[operator])  # fmt: skip
        self._emit(layer, operator.outputs[0], layout)
