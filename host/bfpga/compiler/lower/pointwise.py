"""Functions, sums, and factors and shifts of channels: in the layer before, or layers of their own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.chip_products import ChipProducts
from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, RowMask, RowPart, positions
from bfpga.compiler.lower.masks import Masks
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.read.importer import Operator, constant_of
from bfpga.contract.descriptor import Function
from bfpga.contract.program import Window
from bfpga.contract.rows import RowOperation

#: Operators of two values, element by element.
ARITHMETIC = ("Add", "Sub", "Mul", "Div")


class Pointwise(ChipProducts, Masks):
    """Operators element by element."""

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
