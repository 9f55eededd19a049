"""Layers of the process of rows: Softmax, normalizations, products of two tensors element by element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, RowPart, positions
from bfpga.compiler.lower.reductions import Reductions
from bfpga.compiler.lower.state import NotOnArrayError, ReorderedError
from bfpga.compiler.read.importer import Operator, constant_of
from bfpga.contract.program import Window
from bfpga.contract.rows import LARGEST_ROW, RowOperation
from bfpga.formats.arrays import Float64Array

#: What is as low as this in a computation that leads to a Softmax is a mask.
MASK = -9999.0


class RowLayers(Reductions):
    """Operators whose rows are the channels of a pixel."""

    def _softmax(self, operator: Operator) -> None:
        if self._may_be_masked(operator.inputs[0]):
            raise NotOnArrayError("the host adds a mask of infinite or huge numbers to its input")
        try:
            axes = self._axes(operator, whole=False)
            self._stack_rows(operator, axes)
            source, order = self._rows(operator.inputs[0], axes)
            self._emit_rows(operator, (source,), order, RowPart(RowOperation.SOFTMAX))
        except NotOnArrayError:
            root = self._view(operator.inputs[0]).root
            if root in self.tensors and self.tensors[root].mask is not None:  # no other operator may read that
                raise ReorderedError(self.producers[root][0].operators[-1].name) from None
            raise

    def _stack_rows(self, operator: Operator, axes: tuple[int, ...]) -> None:
        """Let the layer that gives rows that are some of the channels of a pixel write them below each other.

        Distributions of a detector over distances, several for each pixel. Nothing changes where something else reads
        the layer's result, or where this has no channels for each row.
        """
        value = operator.inputs[0]
        view = self._view(value)
        tensor, layer = self.tensors.get(view.root), self._stackable(operator, view.root)
        if tensor is None or layer is None:
            return
        _, order = self._own_layout(value)
        places = _stacked_places(view.index.shape, axes, order)
        if places is None:
            return
        stacked, count = tensor.layout.reshape(-1)[places], len(places) // tensor.height
        self.tensors[view.root] = ArrayTensor(view.root, tensor.onnx_shape, np.ascontiguousarray(stacked))
        parts = tuple(
            _some_channels(layer, f"{layer.name}:{number}", places[number * tensor.height, 0] % tensor.channels,
                           number * tensor.height)
            for number in range(count)
        )  # fmt: skip
        self.producers[view.root] = parts
        place = next(index for index, other in enumerate(self.layers) if other is layer)
        self.layers[place : place + 1] = parts

    def _stackable(self, operator: Operator, root: str) -> Layer | None:
        """The layer with weights that alone gives a root, if only an operator reads that; tensors of several layers
        need one exponent, which samples give, as heads of attention do."""
        layers, value = self.producers.get(root, ()), operator.inputs[0]
        alone = self.graph.only_consumer(value) is operator and self._only_read_as(value, root)
        if not (alone and self.config.operand_weights and self.config.has_rows and len(layers) == 1):
            return None
        (layer,) = layers
        plain = layer.kind == "gemm" and layer.groups == 1 and layer.weights is not None and not layer.uniform_weights
        return layer if plain and layer.output == root and not layer.window.spread else None

    def _normalized_rows(self, operator: Operator) -> None:
        if any(operator.outputs[1:]):
            raise NotOnArrayError("its mean or deviation is read too")
        mean = operator.type == "LayerNormalization"
        scale, shift = constant_of(self.graph, operator, 1), constant_of(self.graph, operator, 2) if mean else None
        if (scale is None and any(operator.inputs[1:])) or (shift is None and any(operator.inputs[2:])):
            raise NotOnArrayError("its scale is computed")
        source, order = self._rows(operator.inputs[0], self._axes(operator, whole=True))
        shape = self._view(operator.inputs[0]).index.shape
        numbers = [
            np.array([usual]) if found is None else found.astype(np.float64)
            for found, usual in ((scale, 1.0), (shift, 0.0))
        ]
        if not all(np.isfinite(found).all() for found in numbers):
            raise NotOnArrayError("its constants are not finite")
        gains, offsets = (self._by_channel(found, shape, order) for found in numbers)
        work = RowPart(
            RowOperation.LAYER_NORM if mean else RowOperation.RMS_NORM,
            float(operator.attributes.get("epsilon", 1e-5)), gains,
        )  # fmt: skip
        self._emit_rows(operator, (source,), order, work, offsets if offsets.any() else None)

    def _row_product(self, operator: Operator) -> None:
        """A product of two computed tensors of one shape."""
        (first, second), order = self._alike(operator.inputs)
        self._emit_rows(operator, (first, second), order, RowPart(RowOperation.PRODUCT))

    def _multiplies_rows(self, operator: Operator) -> bool:
        shapes = [self.graph.shapes.get(name) for name in operator.inputs]
        return self.config.has_rows and shapes[0] is not None and shapes[0] == shapes[1]

    def _may_be_masked(self, value: str) -> bool:
        """Whether the host computes a value from constants some of which are infinite, or as low as masks are."""
        pending, seen = [value], {value}
        made = {name: operator for operator in self.host for name in operator.outputs}
        while pending:
            name = pending.pop()
            number = self.graph.constants.get(name)
            if number is not None and number.dtype.kind == "f" and (number <= MASK).any():
                return True
            operator = made.get(name) or self.view_operators.get(name)
            further = set(operator.uses if operator is not None else ()) - seen
            pending += further
            seen |= further
        return False

    def _scaled_rows(self, layer: Layer, factors: Float64Array, offsets: Float64Array) -> None:
        """The scale and the shift behind a normalization become its own."""
        rows = layer.rows
        assert rows is not None
        assert rows.scale is not None
        layer.rows = replace(rows, scale=rows.scale * factors)
        if layer.bias is not None or offsets.any():
            layer.bias = (layer.bias if layer.bias is not None else 0.0) * factors + offsets

    def _alike(self, values: tuple[str, ...]) -> tuple[tuple[ArrayTensor, ...], IndexArray]:
        """Tensors of one shape with their elements in the same places."""
        found = [self._own_layout(value) for value in values]
        if not np.array_equal(found[0][1], found[1][1]):
            found = self._in_image_order(values)
        if not np.array_equal(found[0][1], found[1][1]):
            raise NotOnArrayError("its operands are in different orders")
        return tuple(tensor for tensor, _ in found), found[0][1]

    def _axes(self, operator: Operator, whole: bool) -> tuple[int, ...]:
        """The axes of a row, samples left out: one, or with ``whole`` all from there on."""
        return self._row_axes(operator, len(self._view(operator.inputs[0]).index.shape), whole)

    def _row_axes(self, operator: Operator, rank: int, whole: bool) -> tuple[int, ...]:
        """The same of an operator whose input has ``rank`` axes, samples left out."""
        first = int(operator.attributes.get("axis", -1)) % (rank + 1) - 1
        if first < 0:
            raise NotOnArrayError("its rows go through all samples")
        return tuple(range(first, rank)) if whole else (first,)

    def _rows(self, value: str, axes: tuple[int, ...]) -> tuple[ArrayTensor, IndexArray]:
        """The tensor of a value each pixel of which holds a row along ``axes``, and the positions in the value."""
        view = self._view(value)
        shape = view.index.shape
        if view.root in self.tensors:
            tensor, order = self._own_layout(value)
            if _holds_rows(shape, axes, order):
                return tensor, order
            raise NotOnArrayError("its rows are not the channels of a pixel where the layer before has them")
        outer = [size for axis, size in enumerate(shape) if axis not in axes]
        wanted = np.moveaxis(positions(shape), axes, range(-len(axes), 0))
        height, width = (outer[0], outer[1]) if len(outer) == 2 else (int(np.prod(outer)), 1)
        wanted = np.ascontiguousarray(wanted.reshape(height, width, -1))
        return self.tensors[self._tensor(value, wanted)], wanted

    def _emit_rows(
        self, operator: Operator, sources: tuple[ArrayTensor, ...], order: IndexArray, work: RowPart,
        bias: Float64Array | None = None,
    ) -> None:  # fmt: skip
        first, most = sources[0], min(LARGEST_ROW, self.config.parameter_rows)
        if not self.config.has_rows:
            raise NotOnArrayError("the accelerator has no process of rows (row_columns)")
        if first.channels > most:
            raise NotOnArrayError(f"its rows have {first.channels} elements; the process of rows takes {most}")
        window = Window(output_height=first.height, output_width=first.width)
        layer = Layer(operator.name, "rows", tuple(tensor.name for tensor in sources), operator.outputs[0],
                      first.channels, window, bias=bias, rows=work, operators=[operator])
        self._emit(layer, operator.outputs[0], order)


def _stacked_places(shape: tuple[int, ...], axes: tuple[int, ...], order: IndexArray) -> IndexArray | None:
    """Places in memory of a tensor with a pixel for each row, rows of the same channels below each other.

    None: pixels have one row, or not the same channels for each of several.
    """
    height, width, channels = order.shape
    length = int(np.prod([shape[axis] for axis in axes]))
    if channels == length or channels % length:
        return None
    first = np.argsort(_row_numbers(shape, axes)[order[0, 0]], kind="stable")
    places = positions(order.shape)[:, :, first].reshape(height, width, -1, length).transpose(2, 0, 1, 3)
    places = np.ascontiguousarray(places.reshape(-1, width, length))
    return places if _holds_rows(shape, axes, order.reshape(-1)[places]) else None


def _some_channels(layer: Layer, name: str, channels: IndexArray, first_y: int) -> Layer:
    """The part of a layer with weights that gives some of its channels, from a row of its tensor on."""
    assert layer.weights is not None
    macs = layer.macs * len(channels) // layer.channels
    return replace(
        layer, name=name, channels=len(channels), window=replace(layer.window, first_y=first_y), macs=macs,
        weights=layer.weights[channels], bias=None if layer.bias is None else layer.bias[channels],
        operators=list(layer.operators),
    )  # fmt: skip


def _row_numbers(shape: tuple[int, ...], axes: tuple[int, ...]) -> IndexArray:
    """For each element of a value, flat, its row along ``axes``."""
    outer = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return np.broadcast_to(positions(outer), shape).reshape(-1)


def _holds_rows(shape: tuple[int, ...], axes: tuple[int, ...], order: IndexArray) -> bool:
    """Whether the channels of every pixel are a whole row along ``axes``."""
    row = _row_numbers(shape, axes)[order]
    length = int(np.prod([shape[axis] for axis in axes]))
    return order.shape[2] == length and bool((row == row[:, :, :1]).all())
