"""Operators -> array layers, by patterns; everything that has no pattern stays an operator of the host.

Layouts are followed exactly: every array tensor records the place of each element of its ONNX value, so Flatten before
a fully connected layer, transpositions and reshapes cost nothing whenever the weights can be rearranged instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.host import with_readers
from bfpga.compiler.lower.joins import Joins
from bfpga.compiler.lower.layers import ArrayTensor, Lowered, View, order_of, positions
from bfpga.compiler.lower.matrix_products import MatrixProducts
from bfpga.compiler.lower.pointwise import ARITHMETIC, Pointwise
from bfpga.compiler.lower.pooling import Pooling
from bfpga.compiler.lower.selection import selected_positions
from bfpga.compiler.lower.state import REORDERED, NotOnArrayError, ReorderedError, image_order
from bfpga.compiler.lower.views import view_index
from bfpga.compiler.read.grids import Grid
from bfpga.compiler.read.importer import Graph, Operator, constant_of
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Window, unpacked


class Lowering(MatrixProducts, Pointwise, Pooling, Joins):
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
        if operator.name in self.moving:
            rows = positions(index.shape).reshape(-1, 1, index.shape[-1])
            if not self._moved(output, image_order(index.shape) if index.ndim == 3 else rows):
                del self.views[output], self.view_operators[output]
                raise NotOnArrayError(REORDERED)

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
    def _part_of_tensor(self, operator: Operator) -> None:
        """Slice, Split: read where it is, or copied."""
        if not self._partial_view(operator):
            self._part(operator)

    def _repeated(self, operator: Operator) -> None:
        """Expand: heads that several others read are read where they are."""
        if not self._partial_view(operator):
            raise NotOnArrayError("only products of two computed tensors read elements several times")

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
    kinds = {operator.name: operator.type for operator in graph.operators}
    reordered: list[str] = []
    moving: set[str] = set()
    while True:
        try:
            lowered = Lowering(graph, config, blocked | set(reordered), frozenset(moving)).run()
        except ReorderedError as error:
            name = str(error)
            if kinds.get(name) in place.VIEWS and name not in moving:
                moving.add(name)
            else:
                reordered.append(name)
        else:
            lowered.notes += [f"{name} runs on the host: {REORDERED}" for name in reordered]
            lowered.host = with_readers(graph, lowered)
            return lowered
