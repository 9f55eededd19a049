"""Means, sums and maxima over rows and columns, and convolutions over three axes, as layers over images.

A volume is stored as an image whose channels are those of all its depths; a convolution over it has weights that
are zero where a depth is out of the kernel's reach.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.geometry import window_of
from bfpga.compiler.lower.interleaved import Interleaving
from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, positions
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.read.importer import Operator, constant_of
from bfpga.contract.program import Window

#: Weights of a convolution over a volume, zeros included.
MOST_WEIGHTS = 1 << 22


def _alike_in_pixels(target: IndexArray) -> bool:
    """Whether the same channels count for one result in every pixel."""
    first = target[:, :, :1]
    return bool(((target - first) == (target - first)[:1, :1]).all())


class Reductions(Interleaving):
    """Lowering of these operators; methods raise NotOnArrayError where their pattern does not apply."""

    def _reduce(self, operator: Operator) -> None:
        """A mean, a sum or a maximum over rows, columns or both; channels may be summed too."""
        shape = self.graph.shapes.get(operator.inputs[0])
        if shape is None:
            raise NotOnArrayError("the shape of its input is not known, or does not follow the batch")
        groups = self._groups(shape, self._reduced_axes(operator, len(shape)))
        source, order = self._volume(operator.inputs[0]) if len(shape) == 4 else self._own_layout(operator.inputs[0])
        target = groups.reshape(-1)[order]
        rows, columns = bool((target == target[:1]).all()), bool((target == target[:, :1]).all())
        over_pixels = (rows and source.height > 1) or (columns and source.width > 1)
        if not over_pixels and not (operator.type == "ReduceSum" and _alike_in_pixels(target)):
            raise NotOnArrayError("it reduces channels only")
        window = Window(
            source.height if rows else 1, source.width if columns else 1,
            output_height=1 if rows else source.height, output_width=1 if columns else source.width,
        )  # fmt: skip
        kept = target[: window.output_height, : window.output_width]
        channel = np.unique(kept[0, 0])
        apart = len(channel) == source.channels
        count = order.size // (int(target.max()) + 1)
        layer = Layer(operator.name, "max", (source.name,), operator.outputs[0], len(channel), window,
                      operators=[operator])  # fmt: skip
        if operator.type != "ReduceMax":
            weight = 1.0 if operator.type == "ReduceSum" else 1.0 / count
            kernel = (window.kernel_height, window.kernel_width)
            layer.kind, layer.uniform_weights, layer.groups = "gemm", apart, source.channels if apart else 1
            layer.weights = np.full((len(channel), *kernel, 1), weight)
            if not apart:
                meets = (kept[0, 0][None, :] == channel[:, None]) * weight
                layer.weights = np.tile(meets[:, None, None, :], (1, *kernel, 1))
            layer.macs = layer.pixels * source.channels * kernel[0] * kernel[1]
        elif not apart:
            raise NotOnArrayError("a maximum over channels")
        layout = kept if apart else np.stack([[np.unique(pixel) for pixel in row] for row in kept])
        self._emit(layer, operator.outputs[0], np.ascontiguousarray(layout))

    def _reduced_axes(self, operator: Operator, rank: int) -> list[int]:
        """The axes that are reduced, without the batch."""
        if operator.type.startswith("Global"):
            return list(range(1, rank))
        axes = constant_of(self.graph, operator, 1) if len(operator.inputs) > 1 else operator.attributes.get("axes")
        if axes is None:
            raise NotOnArrayError("its axes are computed, or it reduces all of them")
        found = sorted({int(axis) % (rank + 1) - 1 for axis in np.asarray(axes).reshape(-1)})
        if not found or found[0] < 0:
            raise NotOnArrayError("it reduces the batch")
        return found

    @staticmethod
    def _groups(shape: tuple[int, ...], axes: list[int]) -> IndexArray:
        """For every element the result that it counts for."""
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        return np.ascontiguousarray(np.broadcast_to(positions(kept), shape))

    def _volume(self, value: str) -> tuple[ArrayTensor, IndexArray]:
        """The tensor of a value (channels, depth, height, width) as an image, and the position of each place."""
        shape = self._view(value).index.shape
        wanted = self._volume_order(shape)
        return self.tensors[self._tensor(value, wanted)], wanted

    @staticmethod
    def _volume_order(shape: tuple[int, ...]) -> IndexArray:
        channels, depth, height, width = shape
        order = positions(shape).transpose(2, 3, 1, 0).reshape(height, width, depth * channels)
        return np.ascontiguousarray(order)

    def _volume_convolution(
        self, operator: Operator, weights: npt.NDArray[np.float64], bias: npt.NDArray[np.float64] | None
    ) -> None:
        """weights: (output channels, input channels of a group, depth, height, width)."""
        shape, target = self._view(operator.inputs[0]).index.shape, self.graph.shapes[operator.outputs[0]]
        attributes, groups = operator.attributes, int(operator.attributes.get("group", 1))
        if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            raise NotOnArrayError("a convolution over 3 axes that pads by itself")
        strides, dilations = (list(attributes.get(name) or [1, 1, 1]) for name in ("strides", "dilations"))
        pads = list(attributes.get("pads") or [0] * 6)
        outputs, inner, kernel_depth = weights.shape[:3]
        depth, results, inputs = shape[1], target[1], shape[0]
        size = results * outputs * weights.shape[3] * weights.shape[4] * depth * inputs
        if size > MOST_WEIGHTS:
            raise NotOnArrayError(f"a convolution over 3 axes that would take {size:,} weights over two")
        spread = np.zeros((results, outputs, *weights.shape[3:], depth, inputs))
        for result in range(results):
            for tap in range(kernel_depth):
                place = result * strides[0] - pads[0] + tap * dilations[0]
                if 0 <= place < depth:
                    for group in range(groups):
                        rows = slice(group * outputs // groups, (group + 1) * outputs // groups)
                        columns = slice(group * inner, (group + 1) * inner)
                        spread[result, rows, :, :, place, columns] = weights[rows, :, tap].transpose(0, 2, 3, 1)
        over_two = {"strides": strides[1:], "dilations": dilations[1:], "pads": [*pads[1:3], *pads[4:6]]}
        flat = replace(operator, attributes=over_two)
        source, _ = self._volume(operator.inputs[0])
        layout = self._volume_order(target)
        kernel = (int(weights.shape[3]), int(weights.shape[4]))
        window = window_of(flat, kernel, (shape[2], shape[3]), (target[2], target[3]), 2)
        if window is None:
            raise NotOnArrayError("negative padding")
        self._check_slots(window)
        layer = Layer(operator.name, "gemm", (source.name,), operator.outputs[0], results * outputs, window,
                      weights=spread.reshape(results * outputs, *kernel, depth * inputs),
                      bias=None if bias is None else np.tile(bias, results), operators=[operator])  # fmt: skip
        layer.macs = layer.pixels * results * int(weights.size)
        self._emit(layer, operator.outputs[0], layout)
