"""Operators -> array layers, by patterns; everything that has no pattern stays an operator of the host.

Layouts are followed exactly: every array tensor records the place of each element of its ONNX value, so Flatten before
a fully connected layer, transpositions and reshapes cost nothing whenever the weights can be rearranged instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.blocks import Blocks, blocks_of
from bfpga.compiler.lower.chip_products import ChipProducts
from bfpga.compiler.lower.geometry import inside, window_of
from bfpga.compiler.lower.joins import Joins
from bfpga.compiler.lower.layers import (
    ArrayTensor,
    IndexArray,
    Layer,
    Lowered,
    RowMask,
    RowPart,
    View,
    order_of,
    positions,
    spatial,
)
from bfpga.compiler.lower.masks import Masks
from bfpga.compiler.lower.selection import selected_positions
from bfpga.compiler.lower.state import REORDERED, NotOnArrayError, ReorderedError
from bfpga.compiler.lower.views import view_index
from bfpga.compiler.read.grids import Grid
from bfpga.compiler.read.importer import Graph, Operator, activations, constant_of
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function
from bfpga.contract.program import Window, unpacked
from bfpga.contract.rows import RowOperation

#: Operators of two values, element by element.
ARITHMETIC = ("Add", "Sub", "Mul", "Div")


class Lowering(ChipProducts, Masks, Joins):
    """One pass over the graph; the methods of operators raise NotOnArrayError where their pattern does not apply."""

    def run(self) -> Lowered:
        """Lower every operator in order."""
        for operator in self.graph.operators:
            if operator.name not in self.chosen:
                self._note(operator, place.reason(self.graph, operator, self.functions, self.config.has_rows))
            elif self._try(operator):
                continue
            self._to_host(operator)
        self._outputs()
        exact = frozenset(name for name, grid in self.graph.grids.items() if self._exact(grid))
        notes = [*self.notes, *self._host_notes()]
        return Lowered(self.layers, self.host, self.tensors, self.view_operators, notes, exact, self.joined)

    def _exact(self, grid: Grid) -> bool:
        """Whether mantissas have to hold a quantizer's values as they are: its steps, or limits that they resolve."""
        resolved = self.config.format.mantissa_max * grid.step > grid.largest + grid.step
        return grid.power is not None or (grid.saturates and resolved)

    def _try(self, operator: Operator) -> bool:
        method = _METHODS.get(operator.type)
        if method is None:
            if operator.type in place.VIEWS:
                method = Lowering._rearrange
            elif operator.name in self.functions:
                method = Lowering._function
            else:
                method = Lowering._arithmetic
        try:
            method(self, operator)
        except NotOnArrayError as reason:
            self._note(operator, str(reason))
            return False
        return True

    # Views

    def _rearrange(self, operator: Operator) -> None:
        view = self._view(operator.inputs[0])
        output = operator.outputs[0]
        index = view_index(operator, view.index, self.graph.shapes.get(output))
        if index is None or any(self.graph.consumers.get(name) for name in operator.outputs[1:]):
            raise NotOnArrayError("not a rearrangement of its input")
        self.views[output] = View(view.root, index)
        self.view_operators[output] = operator

    def _moved_blocks(self, operator: Operator) -> None:
        """DepthToSpace, and SpaceToDepth of an input: who reads it, or the host that unpacks it, knows the places."""
        view = self._view(operator.inputs[0])
        index = selected_positions(self.graph, operator, 0)
        output = operator.outputs[0]
        self.views[output] = View(view.root, np.ascontiguousarray(view.index.reshape(-1)[index]))
        self.view_operators[output] = operator

    def _blocks_to_channels(self, operator: Operator) -> None:
        """SpaceToDepth: nothing where the host packs the input for it alone, else a convolution."""
        value = operator.inputs[0]
        root = self._view(value).root
        alone = self.graph.only_consumer(value) is operator and self._only_read_as(value, root)
        if root in self.graph.inputs and root not in self.tensors and alone:
            self._moved_blocks(operator)
        else:
            self._space_to_depth(operator)

    def _pad(self, operator: Operator) -> None:
        """Zero padding of an image in front of convolutions becomes their padding."""
        consumers = self.graph.consumers.get(operator.outputs[0], [])
        if not consumers or any(op.type != "Conv" or op.name not in self.chosen for op in consumers):
            raise NotOnArrayError("padding is absorbed by convolutions only")
        pads = constant_of(self.graph, operator, 1) if len(operator.inputs) > 1 else operator.attributes.get("pads")
        value = constant_of(self.graph, operator, 2) if len(operator.inputs) > 2 and operator.inputs[2] else 0
        mode = operator.attributes.get("mode", b"constant")
        shape = self.graph.shapes.get(operator.inputs[0], ())
        if pads is None or value is None or mode not in (b"constant", "constant") or len(operator.inputs) > 3:
            raise NotOnArrayError("only constant padding")
        numbers = [int(number) for number in np.asarray(pads).reshape(-1)]
        rank = len(shape) + 1
        if len(numbers) != 2 * rank or rank != 4 or float(np.asarray(value).reshape(-1)[0]) != 0 or min(numbers) < 0:
            raise NotOnArrayError("only padding with zeros")
        if any(numbers[axis] or numbers[axis + rank] for axis in (0, 1)) or operator.outputs[0] in self.graph.outputs:
            raise NotOnArrayError("only padding of height and width")
        self.pads[operator.outputs[0]] = (operator.inputs[0], Window(pad_top=numbers[2], pad_left=numbers[3]))
        self.view_operators[operator.outputs[0]] = operator

    # Matrix products

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

    def _check_stride(self, window: Window) -> None:
        if self._meets_one_bank(window):
            raise NotOnArrayError(
                f"with a stride of {window.stride_x} all columns read one of the {self.config.banks} banks"
            )

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

    def _part_of_tensor(self, operator: Operator) -> None:
        """Slice, Split: read where it is, or copied."""
        if not self._partial_view(operator):
            self._part(operator)

    def _repeated(self, operator: Operator) -> None:
        """Expand: heads that several others read are read where they are."""
        if not self._partial_view(operator):
            raise NotOnArrayError("only products of two computed tensors read elements several times")

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

    # Pooling

    def _pool_window(self, operator: Operator, source: ArrayTensor, layout: IndexArray) -> Window:
        if operator.type.startswith("Global"):
            return Window(source.height, source.width)
        axes = len(operator.attributes["kernel_shape"])
        kernel = spatial(operator.attributes["kernel_shape"], 1, axes)
        size, target = (source.height, source.width), (layout.shape[0], layout.shape[1])
        window = window_of(operator, kernel, size, (int(target[0]), int(target[1])), axes)
        if window is None:
            raise NotOnArrayError("negative padding")
        self._check_stride(window)
        return window

    def _max_pool(self, operator: Operator) -> None:
        if any(operator.outputs[1:]):
            raise NotOnArrayError("it also gives the positions of the maxima")
        source = self._image(operator.inputs[0])
        layout = self._image_layout(operator.outputs[0])
        window = self._pool_window(operator, source, layout)
        layer = Layer(operator.name, "max", (source.name,), operator.outputs[0], source.channels, window,
                      operators=[operator])
        self._emit(layer, operator.outputs[0], layout)

    def _average_pool(self, operator: Operator) -> None:
        source = self._image(operator.inputs[0])
        layout = self._image_layout(operator.outputs[0])
        window = self._pool_window(operator, source, layout)
        if not inside(window, source.height, source.width):
            whole = operator.attributes.get("count_include_pad", 0) and not operator.attributes.get("ceil_mode", 0)
            if not whole:
                self._border_averages(operator, (window.stride_y, window.stride_x))
                return
        self._average(operator, source, window, layout)

    def _average(self, operator: Operator, source: ArrayTensor, window: Window, layout: IndexArray) -> None:
        count = window.kernel_height * window.kernel_width
        weights = np.full((source.channels, window.kernel_height, window.kernel_width, 1), 1.0 / count)
        layer = Layer(operator.name, "gemm", (source.name,), operator.outputs[0], source.channels, window,
                      groups=source.channels, weights=weights, uniform_weights=True, operators=[operator])
        layer.macs = layer.pixels * int(weights.size)
        self._emit(layer, operator.outputs[0], layout)

    # Element by element

    def _fusible(self, value: str) -> tuple[Layer, ...]:
        """The layers that give ``value``, if nothing else needs the value and their function units are still free.

        Layers that round a value of few kinds are done with that.
        """
        layers = () if self.graph.ends_a_layer(value) else self.producers.get(value, ())
        free = all(
            layer.kind != "matmul" and layer.function == Function.NONE and layer.output == value for layer in layers
        )
        return layers if free and self.graph.only_consumer(value) is not None else ()

    def _rename(self, layers: tuple[Layer, ...], operator: Operator) -> None:
        """The layers now give the operator's output: same layout, later name."""
        old, new = layers[0].output, operator.outputs[0]
        tensor = self.tensors.pop(old)
        self.producers[new] = self.producers.pop(old)
        del self.views[old]
        for layer in layers:
            layer.output = new
            layer.operators.append(operator)
        self.tensors[new] = ArrayTensor(new, tensor.onnx_shape, tensor.layout)
        self._root(new)

    def _function(self, operator: Operator) -> None:
        found = self.functions[operator.name]
        layers = self._fusible(found.source)
        if not layers:
            source, layout = self._own_layout(found.source)
            window = Window(output_height=source.height, output_width=source.width)
            layer = Layer(operator.name, "sum", (source.name,), operator.outputs[0], source.channels, window,
                          operators=[operator])
            self._emit(layer, operator.outputs[0], layout)
            layers = (layer,)
        else:
            self._rename(layers, operator)
        for layer in layers:
            layer.function, layer.argument = found.function, found.argument

    def _arithmetic(self, operator: Operator) -> None:
        """Add and Sub of two tensors; Add, Sub, Mul and Div with a constant that depends on the channel only."""
        if operator.type not in ARITHMETIC:
            raise NotOnArrayError("no pattern")
        constants = [constant_of(self.graph, operator, index) for index in (0, 1)]
        if constants[0] is None and constants[1] is None:
            if operator.type == "Mul" and self._multiplies_rows(operator):
                self._row_product(operator)
            elif operator.type == "Mul":
                self._scale(operator)
            else:
                self._sum(operator)
            return
        position = 0 if constants[0] is not None else 1
        number = constants[position]
        if number is None or (position == 0 and operator.type == "Div"):
            raise NotOnArrayError("a constant divided by a tensor")
        number = number.astype(np.float64)
        scale, shift = np.ones(1), np.zeros(1)
        if operator.type in ("Mul", "Div"):
            scale = number if operator.type == "Mul" else 1.0 / number
        else:
            shift = -number if operator.type == "Sub" and position == 1 else number
            scale = -scale if operator.type == "Sub" and position == 0 else scale
        value = operator.inputs[1 - position]
        # A mask that is the same for all pixels would be a shift of channels, but for its range.
        mask = self._mask(operator, value, number) if operator.type == "Add" else None
        if mask is not None:
            self._with_mask(operator, value, *mask)
            return
        try:
            self._affine(operator, value, scale, shift)
        except NotOnArrayError:
            self._with_constant(operator, value, number if operator.type in ("Add", "Sub") else scale, position)

    def _with_mask(
        self, operator: Operator, value: str, added: npt.NDArray[np.float64], mask: RowMask
    ) -> None:
        """A sum of scores and a mask: a tensor of its own, whose masked elements get their number later.

        The second sum with the same mask reads the same one.
        """
        source, order = self._own_layout(value)
        other = self.tensors[self.producers[source.name][0].inputs[1]] if source.mask is not None else None
        if other is None or other.constant is None or not np.array_equal(other.constant, added):
            other = self._constant_tensor(f"{operator.outputs[0]}/mask", added, order)
        self._emit_sum(operator, (source, other), order, negate=False)
        other.mask = self.tensors[operator.outputs[0]].mask = mask

    def _with_constant(
        self, operator: Operator, value: str, number: npt.NDArray[np.float64], position: int
    ) -> None:
        """A sum or a product with a constant that differs from pixel to pixel: a tensor of its own."""
        shape = self.graph.shapes.get(value, ())
        sums = operator.type in ("Add", "Sub")
        if not (sums or self.config.has_rows):
            raise NotOnArrayError("its constant differs from pixel to pixel")
        if self.graph.shapes.get(operator.outputs[0]) != shape or number.ndim > len(shape) + 1:
            raise NotOnArrayError("its constant changes the shape")
        values = self._of_sample(number, shape)
        source, order = self._own_layout(value)
        other = self._constant_tensor(f"{operator.outputs[0]}/constant", np.array(values, np.float64), order)
        operands = (other, source) if position == 0 else (source, other)
        if sums:
            self._emit_sum(operator, operands, order, operator.type == "Sub")
        else:
            self._emit_rows(operator, (source, other), order, RowPart(RowOperation.PRODUCT))

    def _normalization(self, operator: Operator) -> None:
        values = [constant_of(self.graph, operator, index) for index in range(1, 5)]
        if any(value is None for value in values) or any(operator.outputs[1:]):
            raise NotOnArrayError("its statistics are computed")
        gain, offset, mean, variance = (np.asarray(value, np.float64) for value in values)
        scale = gain / np.sqrt(variance + float(operator.attributes.get("epsilon", 1e-5)))
        shape = (-1, *([1] * (len(self.graph.shapes.get(operator.inputs[0], ())) - 1)))
        self._affine(operator, operator.inputs[0], scale.reshape(shape), (offset - mean * scale).reshape(shape))

    def _affine(
        self, operator: Operator, value: str, scale: npt.NDArray[np.float64], shift: npt.NDArray[np.float64]
    ) -> None:
        """value * scale + shift with numbers for each channel: into the weights before, or a 1x1 depthwise layer."""
        if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
            raise NotOnArrayError("its constants are not finite")
        shape = self.graph.shapes.get(value, ())
        if self.graph.shapes.get(operator.outputs[0]) != shape or max(scale.ndim, shift.ndim) > len(shape) + 1:
            raise NotOnArrayError("its constant changes the shape")
        source, order = self._own_layout(value)
        factors, offsets = (self._by_channel(numbers, shape, order) for numbers in (scale, shift))
        layers = self._fusible(value)
        if layers and all(layer.rows is not None and layer.rows.scale is not None for layer in layers):
            for layer in layers:
                self._scaled_rows(layer, factors, offsets)
            self._rename(layers, operator)
            return
        if layers and layers[0].operand is not None and not offsets.any() and self._scaled_operand(layers, factors):
            self._rename(layers, operator)
            return
        if not layers or any(layer.kind != "gemm" or layer.uniform_weights for layer in layers):
            window = Window(output_height=source.height, output_width=source.width)
            weights = factors.reshape(-1, 1, 1, 1)
            layer = Layer(operator.name, "gemm", (source.name,), operator.outputs[0], source.channels, window,
                          groups=source.channels, weights=weights, bias=offsets, operators=[operator])
            layer.macs = layer.pixels * source.channels
            self._emit(layer, operator.outputs[0], order)
            return
        for layer in layers:
            assert layer.weights is not None
            layer.weights = layer.weights * factors[:, None, None, None]
            if layer.bias is not None or offsets.any():
                layer.bias = (layer.bias if layer.bias is not None else 0.0) * factors + offsets
        self._rename(layers, operator)

    def _scale(self, operator: Operator) -> None:
        """A product with a computed factor for each channel: a depthwise layer whose weights leave the array before.

        Of two values that may be the factors, it is the one that is known after fewer kernel starts.
        """
        if "linear" not in self.config.weight_formats:
            raise NotOnArrayError("shift units multiply with weights that are powers of two only")
        starts = self._starts()
        pairs = [operator.inputs[::-1], operator.inputs]
        pairs.sort(key=lambda pair: starts.get(self._view(pair[1]).root, 0))
        for value, factors in pairs:
            found = self._channel_factors(value, factors)
            if found is not None:
                self._emit_scale(operator, value, found)
                return
        raise NotOnArrayError("a product of two computed values that is none with a factor for each channel")

    def _starts(self) -> dict[str, int]:
        """For every value of the array how many kernel starts have gone before it because weights were computed."""
        result: dict[str, int] = {}
        for layer in self.layers:
            count = max(result.get(name, 0) for name in layer.inputs)
            count = max([count, *(result.get(name, 0) + 1 for name in layer.become_weights)])
            result[layer.output] = max(count, result.get(layer.output, 0))
        return result

    def _channel_factors(self, value: str, factors: str) -> str | None:
        """The root of ``factors`` if its elements are the factors of the channels of ``value``, in their order."""
        shape, view = self.graph.shapes.get(value, ()), self._view(factors)
        if len(view.index.shape) > len(shape):
            return None
        _, order = self._own_layout(value)
        try:
            met = np.broadcast_to(view.index, shape).reshape(-1)[order]
        except ValueError:
            return None
        whole = view.index.size == self._view(view.root).index.size == order.shape[2]
        return view.root if whole and (met == np.arange(order.shape[2])).all() else None

    def _emit_scale(self, operator: Operator, value: str, factors: str) -> None:
        if factors not in self.tensors:
            self._tensor(factors, positions((1, 1, self._view(factors).index.size)))
        if (np.diff(self.tensors[factors].layout.ravel()) != 1).any():
            raise NotOnArrayError("its factors are in another order than the channels")
        source, order = self._own_layout(value)
        window = Window(output_height=source.height, output_width=source.width)
        layer = Layer(operator.name, "scale", (source.name, factors), operator.outputs[0], source.channels, window,
                      groups=source.channels, operators=[operator])
        layer.macs = layer.pixels * source.channels
        self._emit(layer, operator.outputs[0], order)

    def _sum(self, operator: Operator) -> None:
        if operator.type not in ("Add", "Sub"):
            raise NotOnArrayError("a product of two tensors")
        shapes = [self.graph.shapes.get(name) for name in operator.inputs]
        if shapes[0] is None or shapes[0] != shapes[1]:
            raise NotOnArrayError("its operands have different shapes")
        (first, second), order = self._alike(operator.inputs)
        self._emit_sum(operator, (first, second), order, operator.type == "Sub")

    def _emit_sum(
        self, operator: Operator, operands: tuple[ArrayTensor, ArrayTensor], order: IndexArray, negate: bool
    ) -> None:
        """negate: whether the second operand is subtracted."""
        first, second = operands
        window = Window(kernel_width=2, output_height=first.height, output_width=first.width)
        layer = Layer(operator.name, "sum", (first.name, second.name), operator.outputs[0], first.channels, window,
                      negate_second=negate, operators=[operator])
        self._emit(layer, operator.outputs[0], order)

    # Edges

    def _outputs(self) -> None:
        """A network output that is a view of a layer's result takes the layer's place if the host can read it so."""
        self.graph = replace(self.graph, outputs=tuple(unpacked(self.graph.outputs, self.joined)), consumers={})
        for name in self.graph.outputs:
            view = self.views.get(name)
            if view is None or view.root == name or name not in self.view_operators:
                continue
            if not self._adopt(name, view):
                self._materialize(name)

    def _adopt(self, name: str, view: View) -> bool:
        layers = self.producers.get(view.root, ())
        if not layers or layers[0].output != view.root or view.root in self.graph.outputs:
            return False
        if any(view.root in other.inputs for other in self.layers) or self._read_by_host(view.root):
            return False
        tensor, order = self._own_layout(name)
        shape = self.graph.shapes[name]
        if order_of(shape, order) is None:
            return False
        for layer in layers:
            layer.output = name
        self.tensors[name] = ArrayTensor(name, shape, order)
        del self.tensors[tensor.name]
        return True

    def _read_by_host(self, root: str) -> bool:
        names = {name for name, view in self.views.items() if view.root == root}
        return any(names & set(operator.uses) for operator in self.host)


#: Operators with a pattern of their own.
_METHODS: dict[str, Callable[[Lowering, Operator], None]] = {
    "Conv": Lowering._convolution,
    "ConvTranspose": Lowering._transposed_convolution,
    "Gemm": Lowering._gemm,
    "MatMul": Lowering._matmul,
    "MaxPool": Lowering._max_pool,
    "GlobalMaxPool": Lowering._max_pool,
    "AveragePool": Lowering._average_pool,
    "GlobalAveragePool": Lowering._average_pool,
    "ReduceMean": Lowering._reduce,
    "ReduceSum": Lowering._reduce,
    "ReduceMax": Lowering._reduce,
    "BatchNormalization": Lowering._normalization,
    "Softmax": Lowering._softmax,
    "LayerNormalization": Lowering._normalized_rows,
    "RMSNormalization": Lowering._normalized_rows,
    "Concat": Lowering._concat,
    "Pad": Lowering._pad,
    "Resize": Lowering._resize,
    "Slice": Lowering._part_of_tensor,
    "Split": Lowering._part_of_tensor,
    "Expand": Lowering._repeated,
    "DepthToSpace": Lowering._moved_blocks,
    "SpaceToDepth": Lowering._blocks_to_channels,
    **dict.fromkeys(ARITHMETIC, Lowering._arithmetic),
}


def pattern_operators() -> set[str]:
    """Operators that may become layers by a pattern."""
    return set(_METHODS)


def lower(graph: Graph, config: KernelConfig, blocked: frozenset[str] = frozenset()) -> Lowered:
    """Array layers, host operators and tensors of a network for one array."""
    reordered: list[str] = []
    while True:
        try:
            lowered = Lowering(graph, config, blocked | set(reordered)).run()
        except ReorderedError as error:
            reordered.append(str(error))
        else:
            lowered.notes += [f"{name} runs on the host: {REORDERED}" for name in reordered]
            return lowered
