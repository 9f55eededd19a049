"""Concatenation: producers write their part of the result, others are copied, and constants become tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, axes_of, positions
from bfpga.compiler.lower.state import LoweringState, NotOnArrayError, ReorderedError, image_order
from bfpga.compiler.read.importer import Operator
from bfpga.contract.program import Joined, Window


class Joins(LoweringState):
    """Concatenation of values in any order of memory."""

    def _concat(self, operator: Operator) -> None:
        """Concatenation: on the array where it can be, else as the host unpacks, at the end of a network."""
        try:
            self._array_concat(operator)
        except NotOnArrayError:
            if self._unpacks_joined(operator):
                return
            for other in self.graph.operators:
                if other.outputs[0] in self.joined and other.outputs[0] in operator.inputs:
                    raise ReorderedError(other.name) from None
            raise

    def _unpacks_joined(self, operator: Operator) -> bool:
        """Let the host put an output together of what it unpacks in any case; whether it does."""
        output, shape = operator.outputs[0], self.graph.shapes.get(operator.outputs[0])
        made = all(name in self.joined or (name in self.views and self.views[name].root in self.producers)
                   for name in operator.inputs)  # fmt: skip
        if shape is None or not made or not self._ends_in_joins(output):
            return False
        axis = int(operator.attributes["axis"]) % (len(shape) + 1) - 1
        if axis >= 0:
            self.joined[output] = Joined(axis, operator.inputs)
        return axis >= 0

    def _ends_in_joins(self, value: str) -> bool:
        """Whether a value is an output that nothing else reads, or a part of one."""
        if value in self.graph.grids:
            return False
        if value in self.graph.outputs:
            return not self.graph.consumers.get(value)
        reader = self.graph.only_consumer(value)
        return (reader is not None and reader.type == "Concat" and reader.name in self.chosen
                and self._ends_in_joins(reader.outputs[0]))  # fmt: skip

    def _array_concat(self, operator: Operator) -> None:
        """Concatenation along the channels: producers write their part of the result, others are copied."""
        shape = self.graph.shapes.get(operator.outputs[0])
        if shape is None or len(set(operator.inputs)) != len(operator.inputs):
            raise NotOnArrayError("an operand appears twice")
        axis = int(operator.attributes["axis"]) % (len(shape) + 1) - 1
        if axis < 0:
            raise NotOnArrayError("it joins along the batch")
        inputs = tuple(self._operand(operator, name) for name in operator.inputs)
        sizes = [self._view(name).index.shape[axis] for name in inputs]
        bounds, places = np.cumsum([0, *sizes]), positions(shape)

        def placed(sources: Sequence[tuple[ArrayTensor, IndexArray]]) -> list[IndexArray]:
            return [
                np.take(places, np.arange(start, end), axis).reshape(-1)[order]
                for (_, order), start, end in zip(sources, bounds[:-1], bounds[1:], strict=True)
            ]

        sources = [self._own_layout(name) for name in inputs]
        parts = placed(sources)
        side = self._joined_side(shape, axis, parts)
        if side is None:
            sources = self._in_image_order(inputs)
            parts = placed(sources)
            side = self._joined_side(shape, axis, parts)
        if side is None and self._join_rows(operator, inputs, axis):
            return
        if side is None:
            raise NotOnArrayError(
                "its operands are in different orders, or its result in one that the host cannot read"
            )
        offsets = np.zeros((len(parts), 3), np.int64)
        offsets[1:, side] = np.cumsum([part.shape[side] for part in parts[:-1]])
        if any(offset % self.config.lanes for offset in offsets[:, 2]):
            raise NotOnArrayError(f"an operand's channels are not a multiple of {self.config.lanes} lanes")
        self._join(operator, inputs, [tensor for tensor, _ in sources], np.concatenate(parts, axis=side), offsets)

    def _join_rows(self, operator: Operator, inputs: Sequence[str], axis: int) -> bool:
        """Tokens in front of or behind the pixels of an image: its rows are copied, one behind the other, into one row.

        Whether they are joined so.
        """
        shape = self.graph.shapes[operator.outputs[0]]
        found = [self._own_layout(name) for name in inputs]
        ordered = all(tensor.channels == shape[-1] and np.array_equal(order.ravel(), np.arange(order.size))
                      for tensor, order in found)  # fmt: skip
        if len(shape) != 2 or axis != 0 or not ordered:
            return False
        layers, first = [], 0
        for number, (tensor, _) in enumerate(found):
            for row in range(tensor.height):
                window = Window(pad_top=-row, output_height=1, output_width=tensor.width, first_x=first)
                layers.append(Layer(f"{operator.name}:{number}.{row}", "max", (tensor.name,), operator.outputs[0],
                                    shape[1], window, operators=[operator]))  # fmt: skip
                first += tensor.width
        self._emit(tuple(layers), operator.outputs[0], positions((1, *shape)))
        return True

    def _operand(self, operator: Operator, name: str) -> str:
        """An operand of a concatenation; a constant becomes a tensor, in the order of the first computed one."""
        number = self.graph.constants.get(name)
        if number is None:
            return name
        if number.ndim < 2 or len(number) != 1 or number.dtype.kind != "f":
            raise NotOnArrayError("an operand is a constant that differs from sample to sample")
        values = np.array(number[0], np.float64)
        order = positions(values.shape)
        if values.ndim in (2, 3):
            computed = [self._own_layout(other)[0] for other in operator.inputs if other not in self.graph.constants]
            shapes = [self._view(other).index.shape for other in operator.inputs if other not in self.graph.constants]
            last = all(tensor.channels == shape[-1] for tensor, shape in zip(computed, shapes, strict=True))
            order = order.reshape(-1, 1, values.shape[-1]) if last else image_order(values.shape)
        else:
            order = order.reshape(1, 1, -1)
        return self._constant_tensor(f"{operator.outputs[0]}/{name}", values, order).name

    def _joined_side(self, shape: tuple[int, ...], axis: int, parts: list[IndexArray]) -> int | None:
        """Along which axis of memory (height, width, channels) operands are concatenated; None: along none."""
        pixel = parts[0][0, 0]
        along = len(pixel) == 1 or int(pixel[1] - pixel[0]) == int(np.prod(shape[axis + 1 :]))
        for side in (2, 0, 1) if along else (0, 1, 2):
            others = {tuple(np.delete(part.shape, side)) for part in parts}
            if len(others) == 1 and axes_of(shape, np.concatenate(parts, axis=side)) is not None:
                return side
        return None

    def _join(
        self, operator: Operator, inputs: Sequence[str], sources: list[ArrayTensor], layout: IndexArray,
        offsets: npt.NDArray[np.int64],
    ) -> None:  # fmt: skip
        """offsets: of every operand in the result (rows, columns, channels)."""
        shape, output = self.graph.shapes[operator.outputs[0]], operator.outputs[0]
        for source, value, offset in zip(sources, inputs, offsets, strict=True):
            layers = self.producers.get(value, ())
            direct = source.name == value and all(layer.kind != "matmul" and layer.output == value for layer in layers)
            if layers and direct and self._same_step(value, output) and self.graph.only_consumer(value) is not None:
                del self.tensors[value], self.views[value], self.producers[value]
            else:
                window = Window(output_height=source.height, output_width=source.width)
                layers = (Layer(f"{operator.name}:{value}", "sum", (source.name,), output, source.channels, window),)
                self.layers += layers
            for layer in layers:
                layer.output = output
                layer.window = replace(
                    layer.window, first_y=layer.window.first_y + int(offset[0]),
                    first_x=layer.window.first_x + int(offset[1]),
                )  # fmt: skip
                layer.channel_offset = int(offset[2])
                layer.operators.append(operator)
        self.tensors[output] = ArrayTensor(output, shape, np.ascontiguousarray(layout))
        self._root(output)

    def _same_step(self, value: str, output: str) -> bool:
        """Whether a value of few kinds is rounded as it must be where it is written as a part of ``output``."""
        grid, whole = self.graph.grids.get(value), self.graph.grids.get(output)
        return grid is None or not grid.rounds or (whole is not None and whole.step == grid.step)
