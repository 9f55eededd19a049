"""Products of two computed matrices that stay on the chip: the second one becomes the weights of the array.

Attention as exporters write it splits queries, keys and values into heads by reshaping, transposing and slicing. None
of that moves anything here: a head is some channels of a tensor's pixels. Scores of the heads are below each other in
one tensor with a pixel for each query, whose channels are the keys, so that one Softmax takes all heads; what the heads
give are channels next to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, View, places_of, positions
from bfpga.compiler.lower.row_layers import RowLayers
from bfpga.compiler.lower.selection import selected_positions
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.read.importer import Operator, activations
from bfpga.contract.program import OperandWeights, Window
from bfpga.engines.kernel.regions import region_words
from bfpga.formats.arrays import Float64Array

#: Operators of two values, element by element.
MEETING = ("Add", "Sub", "Mul")


@dataclass(frozen=True)
class _Rows:
    """A matrix as channels of pixels: row r is pixel r, in the order of memory, from ``channel`` on.

    window: the pixels of it that these are.
    """

    tensor: ArrayTensor
    channel: int
    window: Window

    @property
    def adjacent(self) -> bool:
        """Whether the rows follow each other in memory without a gap."""
        return self.window.output_height == 1 or self.window.output_width == self.tensor.width

    @property
    def first(self) -> int:
        """The pixel that is the first row."""
        return -self.window.pad_top * self.tensor.width - self.window.pad_left


class ChipProducts(RowLayers):
    """Products whose second matrix is computed, and the parts of tensors that they read."""

    def _chip_product(self, operator: Operator) -> None:
        """Raises NotOnArrayError where an operand's rows are not channels of pixels."""
        shapes = [self._matrix_shape(name) for name in operator.inputs]
        if min(map(len, shapes)) < 2 or shapes[0][:-2] != shapes[1][:-2]:
            raise NotOnArrayError("its operands have different leading axes")
        heads = int(np.prod(shapes[0][:-2]))
        (rows, inner), columns = shapes[0][-2:], shapes[1][-1]
        first, second = self._left_operand(operator, heads), self._heads(operator.inputs[1], heads)
        pairs = [(self._rows_of(a), *self._weights_of(b)) for a, b in zip(first, second, strict=True)]
        joined = self._joined_heads(operator, shapes[0][:-2], columns)
        height, width = pairs[0][0].window.output_height, pairs[0][0].window.output_width
        order = positions((heads // joined, joined, rows, columns)).transpose(0, 2, 1, 3)
        order = np.ascontiguousarray(order.reshape(heads // joined * height, width, joined * columns))
        self._check_room(inner, first[0][0], second[0][0], order)
        layers = []
        for head, (source, weights, by_pixels) in enumerate(pairs):
            part, place = divmod(head, joined)
            name = operator.name if heads == 1 else f"{operator.name}:{head}"
            inputs = source.tensor.name, weights.tensor.name
            layer = Layer(name, "product", inputs, operator.outputs[0], columns,
                          replace(source.window, first_y=part * height), channel_offset=place * columns,
                          operators=[operator], operand=OperandWeights(
                              by_pixels, inner, source.channel, weights.channel, weights.first))  # fmt: skip
            layer.macs = rows * inner * columns
            layers.append(layer)
        left = first[0][0]
        if left.constant is not None:
            self._constant_tensor(left.name, left.constant, left.layout)
        self._emit(tuple(layers), operator.outputs[0], order)

    def _matrix_shape(self, name: str) -> tuple[int, ...]:
        number = self.graph.constants.get(name)
        return self._view(name).index.shape if number is None else number.shape

    def _left_operand(self, operator: Operator, heads: int) -> list[tuple[ArrayTensor, IndexArray]]:
        """The first operand; a constant matrix is a tensor with a pixel for each row, none of the network's yet."""
        number = self.graph.constants.get(operator.inputs[0])
        if number is None:
            return self._heads(operator.inputs[0], heads)
        name, places = f"{operator.outputs[0]}/first", positions(number.shape)
        height, width = self._met_size(operator.outputs[0], len(number))
        layout = places.reshape(height, width, -1)
        return [(ArrayTensor(name, number.shape, layout, constant=number.astype(np.float64)), places)]

    def _met_size(self, value: str, rows: int) -> tuple[int, int]:
        """Height and width of rows as the tensor has them that they are added to or multiplied with; else a column."""
        while (reader := self.graph.only_consumer(value)) is not None and reader.type in MEETING:
            for name in reader.inputs:
                tensor = self.tensors.get(self.views[name].root) if name in self.views else None
                if tensor is not None and tensor.height * tensor.width == rows:
                    return tensor.height, tensor.width
            value = reader.outputs[0]
        return rows, 1

    def _check_room(
        self, inner: int, first: ArrayTensor, second: ArrayTensor, result: IndexArray
    ) -> None:
        """NotOnArrayError for a second tensor beside which no row of the others fits, and for too many terms."""
        config = self.config
        words = region_words(config, second.height, second.width, second.width, second.channels)
        for width, channels in (first.layout.shape[1:], result.shape[1:]):
            words += region_words(config, 1, width + config.banks - 1, width, channels)
        if words > config.activation_words:
            raise NotOnArrayError(f"its second operand and a row of the others need {words} words of activation "
                                  f"memory, there are {config.activation_words}")  # fmt: skip
        if inner > config.terms_limit(biased=False):
            raise NotOnArrayError(f"sums of {inner} products do not fit accumulators of {config.accumulator_bits} bits")

    def _heads(self, value: str, heads: int) -> list[tuple[ArrayTensor, IndexArray]]:
        """For each leading index of a value the tensor and the places (rows, columns) of its matrix in memory."""
        view = self._view(value)
        if view.root not in self.tensors:
            shape = self._view(view.root).index.shape
            self._tensor(view.root, positions(shape).reshape(-1, 1, shape[-1]))
        tensor = self.tensors[view.root]
        places = places_of(tensor.layout)
        return [(tensor, places[matrix]) for matrix in view.index.reshape(heads, *view.index.shape[-2:])]

    def _rows_of(self, operand: tuple[ArrayTensor, IndexArray]) -> _Rows:
        """A matrix whose rows are pixels."""
        tensor, matrix = operand
        y, x, c = np.unravel_index(matrix, tensor.layout.shape)
        channel, (top, left) = int(c[0, 0]), (int(y[0, 0]), int(x[0, 0]))
        width = int(np.count_nonzero(y[:, 0] == top))
        number = np.arange(len(y))[:, None]
        same = (c == channel + np.arange(c.shape[1])) & (y == top + number // width) & (x == left + number % width)
        if not same.all() or channel % self.config.lanes:
            raise NotOnArrayError("the rows of an operand are not channels of pixels next to each other")
        return _Rows(tensor, channel, Window(pad_top=-top, pad_left=-left, output_height=-(-len(y) // width),
                                             output_width=width))  # fmt: skip

    def _weights_of(self, operand: tuple[ArrayTensor, IndexArray]) -> tuple[_Rows, bool]:
        """The second matrix, and whether its columns are the pixels."""
        tensor, matrix = operand
        for turned in (True, False):
            try:
                found = self._rows_of((tensor, matrix.T if turned else matrix))
            except NotOnArrayError:
                continue
            if found.adjacent:
                return found, turned
        raise NotOnArrayError("its second operand is not some channels of pixels that follow each other")

    def _joined_heads(self, operator: Operator, leading: tuple[int, ...], columns: int) -> int:
        """How many heads, of the last of their axes, what follows reads as channels next to each other; 1: none."""
        value = operator.outputs[0]
        while True:
            reader = self.graph.only_consumer(value)
            if reader is None or reader.type not in place.VIEWS or reader.name not in self.chosen:
                break
            value = reader.outputs[0]
        joined = self.graph.shapes.get(value, (0,))[-1] // columns
        heads = {int(np.prod(leading[axis:])) for axis in range(len(leading))}
        return joined if joined in heads and columns % self.config.lanes == 0 else 1

    # Parts that only products read

    def _partial_view(self, operator: Operator) -> bool:
        """Whether a part of a tensor is read where it is: only products of two matrices need it."""
        if not self.config.operand_weights or not all(map(self._read_by_products, filter(None, operator.outputs))):
            return False
        view = self._view(operator.inputs[0])
        for number, name in enumerate(operator.outputs):
            if name:
                index = selected_positions(self.graph, operator, number)
                self.views[name] = View(view.root, np.ascontiguousarray(view.index.reshape(-1)[index]))
                self.view_operators[name] = operator
        return True

    def _read_by_products(self, value: str) -> bool:
        """Whether all that read a value, rearrangements aside, are products of two computed matrices."""
        readers = self.graph.consumers.get(value, [])
        if value in self.graph.outputs or not readers:
            return False
        for reader in readers:
            if reader.name not in self.chosen:
                return False
            if reader.type == "MatMul" and (len(activations(self.graph, reader)) == 2 or value == reader.inputs[1]):
                continue
            if reader.type not in place.VIEWS or not self._read_by_products(reader.outputs[0]):
                return False
        return True

    # Factors

    def _scaled_operand(self, layers: tuple[Layer, ...], factors: Float64Array) -> bool:
        """Let the layer that gives the first operand of products multiply by the factor that follows them.

        Whether it could: a layer with weights of which nothing else reads these channels.
        """
        if not (factors == factors.reshape(-1)[0]).all():
            return False
        first = {layer.inputs[0] for layer in layers}
        makers = [layer for name in first for layer in self.producers.get(name, ())]
        linear = all(maker.kind == "gemm" and maker.weights is not None and not maker.uniform_weights
                     and maker.function.row.homogeneous for maker in makers)  # fmt: skip
        if len(first) != 1 or not makers or not linear or not self._alone(layers):
            return False
        for layer in layers:
            assert layer.operand is not None
            channels = range(layer.operand.first_input, layer.operand.first_input + layer.operand.terms)
            for maker in makers:
                own = [c - maker.channel_offset for c in channels if 0 <= c - maker.channel_offset < maker.channels]
                assert maker.weights is not None
                maker.weights = np.array(maker.weights, np.float64)
                maker.weights[own] *= factors.reshape(-1)[0]
                if maker.bias is not None:
                    maker.bias = np.array(maker.bias, np.float64)
                    maker.bias[own] *= factors.reshape(-1)[0]
        return True

    def _alone(self, layers: tuple[Layer, ...]) -> bool:
        """Whether nothing but these products may ever read the channels that they multiply."""
        operator = layers[0].operators[0]
        value, root = operator.inputs[0], self._view(operator.inputs[0]).root
        taken = set(self._view(value).index.reshape(-1).tolist())
        for name, view in self.views.items():
            readers = [item for item in self.graph.consumers.get(name, []) if item is not operator]
            final = [item for item in readers if item.name not in self.chosen or not self._rearranges(item)]
            read = view.root == root and (final or name in self.graph.outputs)
            if read and taken & set(view.index.reshape(-1).tolist()):
                return False
        return root not in self.graph.outputs

    def _rearranges(self, operator: Operator) -> bool:
        """Whether an operator was found to move nothing."""
        return all(not name or self.view_operators.get(name) is operator for name in operator.outputs)
