"""The state of lowering: values, their tensors, and the views between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.functions import find_functions, with_functions, with_single
from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, View, order_of, places_of, positions
from bfpga.compiler.lower.moves import moving_layers
from bfpga.compiler.lower.row_groups import find_row_groups
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Joined, Window
from bfpga.formats.arrays import Float64Array

REORDERED = "its results are not adjacent in memory, as what reads them needs them"


class NotOnArrayError(Exception):
    """The array cannot compute an operation, which then runs on the host; the text says why."""


class ReorderedError(Exception):
    """An operator after a rearrangement was fused into a layer, and what reads it needs the elements rearranged.

    The text names the operator that rearranges, which has to be the host's.
    """


class LoweringState:
    """Values and layers so far. Methods raise NotOnArrayError where a value cannot be had as wanted."""

    def __init__(
        self, graph: Graph, config: KernelConfig, blocked: frozenset[str] = frozenset(),
        moving: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """blocked: operators that must stay on the host (they do not fit the array's memory). moving: rearrangements
        whose results the array copies into their order."""
        self.config = config
        self.functions = find_functions(graph, config)
        self.graph = with_functions(graph, self.functions)
        groups = find_row_groups(self.graph) if config.has_rows else {}
        self.graph = with_single(self.graph, [(group.operators, group.operator) for group in groups.values()])
        #: Operators of the host in the place of one of ``graph``, by its name.
        self.parts = {name: match.operators for name, match in self.functions.items()}
        self.parts |= {name: group.operators for name, group in groups.items()}
        self.chosen = place.placement(self.graph, self.functions, config.has_rows, blocked) - blocked
        self.views: dict[str, View] = {}
        self.view_operators: dict[str, Operator] = {}
        self.pads: dict[str, tuple[str, Window]] = {}
        self.tensors: dict[str, ArrayTensor] = {}
        self.producers: dict[str, tuple[Layer, ...]] = {}
        self.layers: list[Layer] = []
        self.host: list[Operator] = []
        self.notes: list[str] = []
        #: Operators of the host by type and reason.
        self.reasons: dict[tuple[str, str], list[str]] = {}
        self.blocked, self.moving = blocked, moving
        #: Outputs that the host puts together as it unpacks.
        self.joined: dict[str, Joined] = {}
        for name in graph.inputs:
            self._root(name)

    def _root(self, name: str) -> None:
        if name in self.graph.shapes:
            self.views[name] = View(name, positions(self.graph.shapes[name]))

    def _to_host(self, operator: Operator) -> None:
        self.host += self.parts.get(operator.name, (operator,))
        for name in operator.outputs:
            self._root(name)

    def _note(self, operator: Operator, reason: str) -> None:
        """Why an operator is the host's; those that lowering has to leave have a note already."""
        if operator.name not in self.blocked:
            self.reasons.setdefault((operator.type, reason), []).append(operator.name)

    def _host_notes(self) -> list[str]:
        """A line for all operators of a type that are the host's for the same reason."""
        result = []
        for (kind, reason), names in self.reasons.items():
            others = f" and {len(names) - 1} more" if len(names) > 1 else ""
            verb = "run" if others else "runs"
            result.append(f"{names[0]}{others} ({kind}) {verb} on the host: {reason}")
        return result

    def _materialize(self, value: str) -> None:
        """Let the host compute a view, so that it becomes a value of its own."""
        operator = self.view_operators.pop(value, None)
        if operator is None:
            found = self._reordered(value)
            if found is not None:
                raise ReorderedError(found.name)
            raise NotOnArrayError("its input is in an order the array cannot read")
        if operator.type not in place.VIEWS:
            self._note(operator, REORDERED)
        self._to_host(operator)

    def _reordered(self, value: str) -> Operator | None:
        """The rearrangement in whose order layers of single elements, one after the other, gave a value."""
        pending, seen = [value], {value}
        while pending:
            made = [done for layer in self.producers.get(pending.pop(), ()) for done in layer.operators]
            for name in [name for done in made for name in done.uses]:
                if self.graph.shapes.get(name, ())[1:] != self.graph.shapes[value][1:] or name in seen:
                    continue
                if name in self.view_operators:
                    return self.view_operators[name]
                seen.add(name)
                pending.append(name)
        return None

    def _view(self, value: str) -> View:
        if value not in self.views:
            raise NotOnArrayError("the shape of its input is not known, or does not follow the batch")
        return self.views[value]

    def _tensor(self, value: str, wanted: IndexArray) -> str:
        """The array tensor whose layout is ``wanted`` (positions in ``value``); made or moved to the host if needed."""
        view = self._view(value)
        layout = wanted if view.root == value else view.index.reshape(-1)[wanted]
        tensor = self.tensors.get(view.root)
        if tensor is None and self._is_packed(value, layout):
            self.tensors[view.root] = ArrayTensor(view.root, self.graph.shapes[view.root], layout)
            return view.root
        if tensor is not None and np.array_equal(tensor.layout, layout):
            return view.root
        if tensor is not None and tensor.constant is not None:
            raise NotOnArrayError("its constant is wanted in two orders")
        if value in self.view_operators and self._moved(value, wanted):
            return value
        self._materialize(value)
        return self._tensor(value, wanted)

    def _moved(self, value: str, wanted: IndexArray) -> bool:
        """Let the array copy a view into an order (positions in it); whether it can."""
        view, operator = self._view(value), self.view_operators[value]
        source, shape = self.tensors.get(view.root), self.graph.shapes.get(value)
        made = source is not None and view.root in self.producers
        if source is None or not made or shape is None or order_of(shape, wanted) is None:
            return False
        places = places_of(source.layout)[view.index.reshape(-1)[wanted]]
        layers = moving_layers(operator, source, places, self.config.banks)
        if layers is None:
            return False
        del self.view_operators[value]
        self._emit(layers, value, wanted)
        return True

    def _is_packed(self, value: str, layout: IndexArray) -> bool:
        """Whether the host packs the root of a value so on its way to the array.

        In any order of its axes; of parts of axes where nothing else reads the root, which may want another order.
        """
        root = self._view(value).root
        found = order_of(self.graph.shapes[root], layout)
        whole = found is not None and found.shape == self.graph.shapes[root]
        return whole or (found is not None and self._only_read_as(value, root))

    def _only_read_as(self, value: str, root: str) -> bool:
        """Whether all that reads a root reads a certain view of it."""
        while value != root:
            operator = self.view_operators.get(value)
            if operator is None or self.graph.only_consumer(operator.inputs[0]) is not operator:
                return False
            value = operator.inputs[0]
        return True

    def _constant_tensor(self, name: str, values: Float64Array, order: IndexArray) -> ArrayTensor:
        """A tensor of constants laid out as given; it crosses the stream with every sample."""
        if not np.isfinite(values).all():
            raise NotOnArrayError("its constants are not finite")
        if order_of(values.shape, order) is None:
            raise NotOnArrayError("its constant is in an order the host cannot write")
        self.tensors[name] = ArrayTensor(name, values.shape, np.ascontiguousarray(order), constant=values)
        self.views[name] = View(name, positions(values.shape))
        return self.tensors[name]

    def _image(self, value: str) -> ArrayTensor:
        """The tensor of a value (channels, height, width) or (channels, length) in image order."""
        shape = self._view(value).index.shape
        if len(shape) == 3:
            wanted = positions(shape).transpose(1, 2, 0)
        elif len(shape) == 2:
            wanted = positions(shape).T.reshape(shape[1], 1, shape[0])
        else:
            raise NotOnArrayError(f"its input has {len(shape)} axes in addition to the batch")
        return self.tensors[self._tensor(value, np.ascontiguousarray(wanted))]

    def _own_layout(self, value: str) -> tuple[ArrayTensor, IndexArray]:
        """The tensor of a value and, for each place in memory, the position in the value."""
        view = self._view(value)
        if view.root not in self.tensors:
            shape = self.graph.shapes[value]
            if len(shape) == 3:
                self._image(value)
            else:
                self._tensor(value, positions(shape).reshape(-1, 1, shape[-1]))
            view = self._view(value)
        tensor = self.tensors[view.root]
        if tensor.layout.size != view.index.size:
            raise NotOnArrayError("its input is a part of a tensor")
        if view.root == value:
            return tensor, tensor.layout
        return tensor, places_of(view.index)[tensor.layout]

    def _of_sample(self, numbers: Float64Array, shape: tuple[int, ...]) -> Float64Array:
        """Constants, with or without an axis for the batch, in a value's shape."""
        if numbers.ndim == len(shape) + 1:
            if numbers.shape[0] != 1:
                raise NotOnArrayError("its constant differs from sample to sample")
            numbers = numbers[0]
        return np.broadcast_to(numbers, shape)

    def _by_channel(
        self, numbers: Float64Array, shape: tuple[int, ...], order: IndexArray
    ) -> Float64Array:
        """Constants of a value's shape as one number for each channel of the layout."""
        spread = self._of_sample(numbers, shape).reshape(-1)[order]
        channel = spread[0, 0]
        if not (spread == channel).all():
            raise NotOnArrayError("its constant differs from pixel to pixel")
        return np.array(channel, np.float64)

    def _in_image_order(self, values: Sequence[str]) -> list[tuple[ArrayTensor, IndexArray]]:
        """The tensors of images as ``_own_layout`` gives them; where one of several is in image order, all are.

        The host rearranges the others: less than to compute what reads them.
        """
        found = [self._own_layout(value) for value in values]
        shapes = [self._view(value).index.shape for value in values]
        alike = [len(shape) in (2, 3) and np.array_equal(order, image_order(shape))
                 for (_, order), shape in zip(found, shapes, strict=True)]  # fmt: skip
        if not any(alike):
            return found
        for value, done in zip(values, alike, strict=True):
            if not done:
                self._image(value)
        return [self._own_layout(value) for value in values]

    def _emit(self, layer: Layer | tuple[Layer, ...], value: str, layout: IndexArray) -> None:
        """Add a layer whose result is the ONNX value ``value``, laid out as given (positions in the value).

        Several layers: each gives a part of the pixels.
        """
        shape = self.graph.shapes.get(value)
        if shape is None or order_of(shape, layout) is None:
            raise NotOnArrayError("its result is in an order the host cannot read")
        layers = layer if isinstance(layer, tuple) else (layer,)
        self.layers += layers
        self.producers[value] = layers
        self.tensors[value] = ArrayTensor(value, shape, np.ascontiguousarray(layout))
        self._root(value)

    def _image_layout(self, value: str) -> IndexArray:
        return image_order(self.graph.shapes[value])


def image_order(shape: tuple[int, ...]) -> IndexArray:
    """Channels (and length, or height and width) as an image has them in memory."""
    order = positions(shape)
    return order.T.reshape(shape[1], 1, shape[0]) if len(shape) == 2 else order.transpose(1, 2, 0)
