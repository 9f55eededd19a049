"""Convolutions and products of matrices: layers with weights, which the order of the values in memory rearranges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.blocks import Blocks, blocks_of
from bfpga.compiler.lower.chip_products import ChipProducts
from bfpga.compiler.lower.geometry import window_of
from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, positions
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.read.importer import Operator, activations, constant_of
from bfpga.contract.program import Window


class MatrixProducts(ChipProducts):
    """Operators that multiply with constants, and with each other through the host."""

    def _convolution(self, operator: Operator) -> None:
        weights = constant_of(self.graph, operator, 1)
        bias = constant_of(self.graph, operator, 2)
        if weights is None or (bias is None and len(operator.inputs) > 2 and operator.inputs[2]):
            raise NotOnArrayError("its weights are computed")
        axes = weights.ndim - 2
        if axes == 3:
            numbers = None if bias is None else bias.astype(np.float64)
            self._volume_convolution(operator, weights.astype(np.float64), numbers)
            return
        if axes not in (1, 2):
            raise NotOnArrayError(f"a convolution over {axes} axes")
        kernel = (int(weights.shape[2]), int(weights.shape[3]) if axes == 2 else 1)
        source, window, layout = self._single_pixels(operator, kernel) or self._windows(operator, kernel)
        shaped = weights.reshape(*weights.shape[:2], *kernel).transpose(0, 2, 3, 1).astype(np.float64)
        layer = Layer(operator.name, "gemm", (source.name,), operator.outputs[0], len(weights), window,
                      groups=int(operator.attributes.get("group", 1)), weights=shaped,
                      bias=None if bias is None else bias.astype(np.float64), operators=[operator])
        layer.macs = layer.pixels * int(np.prod(shaped.shape))
        self._emit(layer, operator.outputs[0], layout)

    def _windows(self, operator: Operator, kernel: tuple[int, int]) -> tuple[ArrayTensor, Window, IndexArray]:
        """Source, window and layout of the result of a convolution over an image, the padding before it included."""
        value, extra = self.pads.get(operator.inputs[0], (operator.inputs[0], Window()))
        source, layout = self._image(value), self._image_layout(operator.outputs[0])
        padded = self.graph.shapes[operator.inputs[0]]
        size = (padded[1], padded[2] if len(padded) == 3 else 1)
        window = window_of(operator, kernel, size, (layout.shape[0], layout.shape[1]), len(padded) - 1)
        if window is None:
            raise NotOnArrayError("negative padding")
        window = replace(window, pad_top=window.pad_top + extra.pad_top, pad_left=window.pad_left + extra.pad_left)
        self._check_stride(window)
        return source, window, layout

    def _single_pixels(
        self, operator: Operator, kernel: tuple[int, int]
    ) -> tuple[ArrayTensor, Window, IndexArray] | None:
        """The same of one that keeps every pixel for itself, so that their order in memory is any."""
        value, attributes = operator.inputs[0], operator.attributes
        view = self.views.get(value)
        tensor = self.tensors.get(view.root) if view is not None else None
        moves = any(attributes.get("pads") or ()) or any(step > 1 for step in attributes.get("strides") or ())
        if view is None or tensor is None or kernel != (1, 1) or moves or tensor.channels != view.index.shape[0]:
            return None
        if tensor.layout.size != view.index.size:
            return None
        plane = view.index.size // tensor.channels
        channel, pixel = np.divmod(self._own_layout(value)[1], plane)
        if (channel != np.arange(tensor.channels)).any() or (pixel != pixel[:, :, :1]).any():
            return None
        outputs = self.graph.shapes[operator.outputs[0]][0]
        window = Window(output_height=tensor.height, output_width=tensor.width)
        return tensor, window, pixel[:, :, :1] + plane * np.arange(outputs)

    def _gemm(self, operator: Operator) -> None:
        matrix = constant_of(self.graph, operator, 1)
        bias = constant_of(self.graph, operator, 2)
        attributes = operator.attributes
        if matrix is None or attributes.get("transA", 0) or (bias is None and len(operator.inputs) > 2):
            raise NotOnArrayError("its weights are computed, or its input is transposed")
        matrix = (matrix.T if attributes.get("transB", 0) else matrix) * float(attributes.get("alpha", 1.0))
        if bias is not None:
            bias = bias * float(attributes.get("beta", 1.0))
            if bias.size not in (1, matrix.shape[1]):
                raise NotOnArrayError("its bias differs from sample to sample")
            bias = np.broadcast_to(bias.reshape(-1), (matrix.shape[1],)).astype(np.float64)
        self._product(operator, operator.inputs[0], matrix, bias)

    def _matmul(self, operator: Operator) -> None:
        matrix = constant_of(self.graph, operator, 1)
        if matrix is None:
            self._computed_product(operator)
        elif matrix.ndim != 2:
            raise NotOnArrayError("its constant operand is not a matrix")
        else:
            self._product(operator, operator.inputs[0], matrix, None)

    def _product(
        self,
        operator: Operator,
        value: str,
        matrix: npt.NDArray[np.floating[Any]],
        bias: npt.NDArray[np.float64] | None,
    ) -> None:
        """(..., K) x (K, M): pixels are the leading axes; one vector may also fill a whole image (Flatten before)."""
        shape = self._view(value).index.shape
        outputs = int(matrix.shape[1])
        if len(shape) == 1:
            source, order = self._vector(value)
            height, width = source.height, source.width
            weights = matrix[order.reshape(-1)].reshape(height, width, source.channels, outputs).transpose(3, 0, 1, 2)
            window = Window(height, width)
            layout = positions((1, 1, outputs))
        elif (blocks := self._blocks(value)) is not None:
            source, window = blocks.source, blocks.window
            weights = matrix[blocks.elements].transpose(3, 0, 1, 2)
            layout = blocks.vectors[:, :, None] * outputs + np.arange(outputs)
        else:
            source, order = self._pixel_rows(value)
            weights = matrix.T.reshape(outputs, 1, 1, -1)
            height, width = source.height, source.width
            window = Window(output_height=height, output_width=width)
            layout = positions((height, width, outputs))
        layer = Layer(operator.name, "gemm", (source.name,), operator.outputs[0], outputs, window,
                      weights=np.ascontiguousarray(weights, np.float64), bias=bias, operators=[operator])
        layer.macs = layer.pixels * int(weights.size)
        self._emit(layer, operator.outputs[0], layout)

    def _blocks(self, value: str) -> Blocks | None:
        """The blocks of pixels of an image that are the vectors of a value; None where single pixels are, or none."""
        view = self._view(value)
        tensor = self.tensors.get(view.root)
        if tensor is None or tensor.layout.size != view.index.size or tensor.channels == view.index.shape[-1]:
            return None
        found = blocks_of(tensor, self._own_layout(value)[1], int(view.index.shape[-1]))
        return None if found is None or self._meets_one_bank(found.window) else found

    def _vector(self, value: str) -> tuple[ArrayTensor, IndexArray]:
        view = self._view(value)
        if view.root not in self.tensors or self.tensors[view.root].layout.size != view.index.size:
            name = self._tensor(value, positions((1, 1, view.index.size)))
            return self.tensors[name], positions((1, 1, view.index.size))
        return self._own_layout(value)

    def _pixel_rows(self, value: str) -> tuple[ArrayTensor, IndexArray]:
        """The tensor of a value (..., K) whose pixels are the leading axes in order."""
        view = self._view(value)
        tensor = self.tensors.get(view.root)
        shape = (view.index.size // view.index.shape[-1], 1, int(view.index.shape[-1]))
        if view.index.ndim == 3:  # pixels of an image with its channels last, which other layers read as an image
            shape = (int(view.index.shape[0]), int(view.index.shape[1]), shape[2])
        if tensor is not None and tensor.channels == shape[2]:
            shape = (tensor.height, tensor.width, tensor.channels)
        if tensor is not None and int(np.prod(shape)) != view.index.size:
            shape = (view.index.size // shape[2], 1, shape[2])
        wanted = positions(shape)
        return self.tensors[self._tensor(value, wanted)], wanted

    def _computed_product(self, operator: Operator) -> None:
        """A product of two computed matrices, on the chip where it can be."""
        if self.config.operand_weights:
            try:
                self._chip_product(operator)
                return
            except NotOnArrayError as reason:
                if operator.inputs[0] in self.graph.constants:
                    raise
                self.notes.append(f"{operator.name} ({operator.type}) passes the host on its way: {reason}")
        self._activation_product(operator)

    def _activation_product(self, operator: Operator) -> None:
        """A product of two computed matrices: its operands cross as host values, matrix by matrix."""
        if "linear" not in self.config.weight_formats:
            raise NotOnArrayError("shift units multiply with weights that are powers of two only")
        if len(activations(self.graph, operator)) != 2 or operator.inputs[0] == operator.inputs[1]:
            raise NotOnArrayError("its first operand is a constant")
        first, second = (self.graph.shapes.get(name, ()) for name in operator.inputs)
        if len(first) < 2 or first[:-2] != second[:-2] or operator.outputs[0] not in self.graph.shapes:
            raise NotOnArrayError("its operands have different leading axes")
        for name in operator.inputs:
            if self._view(name).root != name:
                self._materialize(name)
        batch, (rows, inner), columns = int(np.prod(first[:-2])), first[-2:], second[-1]
        for name, shape in zip(operator.inputs, (first, second), strict=True):
            if name not in self.tensors:
                self.tensors[name] = ArrayTensor(name, shape, positions((int(np.prod(shape[:-1])), 1, shape[-1])))
        layer = Layer(operator.name, "matmul", operator.inputs, operator.outputs[0], columns, operators=[operator])
        layer.product = (batch, rows, inner, columns)
        layer.macs = batch * rows * inner * columns
        self._emit(layer, operator.outputs[0], positions((batch * rows, 1, columns)))
