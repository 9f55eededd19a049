"""A layer in two parts of rows, so that the layer behind it begins while the results of the second part are under way.

An operation that needs the results of the one before waits until they have passed the array and the output stage. The
rows that the first part of a layer reads are there when the second part of the layer before it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from bfpga.compiler.schedule.groups import group_clocks, layer_clocks, told
from bfpga.compiler.schedule.node_operations import NodeOperations, Strip
from bfpga.compiler.schedule.weight_plan import NodeWeights
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, KernelOperation, TensorSpec
from bfpga.engines.array.cycles import operation_cycles
from bfpga.engines.array.streams import working_columns
from bfpga.program.schedule import COMMAND_CLOCKS, RESULT_LATENCY

#: Clocks of a part at least: what it hides, and the command of another part is sent meanwhile.
SHORTEST = max(RESULT_LATENCY, COMMAND_CLOCKS)


@dataclass(frozen=True)
class _Parts:
    """A layer that ``whole`` computes, in two parts; its operations begin at ``place``.

    second: the first word of the second part's results; early: whether the first part does not wait for the second one
    of the layer before.
    """

    node: ArrayNode
    whole: Strip
    row: int
    place: int
    second: int
    early: bool

    @property
    def strips(self) -> list[Strip]:
        """Both parts."""
        return [replace(self.whole, y1=self.row), replace(self.whole, y0=self.row)]


class LayerParts:
    """Layers one behind the other, each in two parts where that hides waiting."""

    def __init__(
        self,
        config: SystolicConfig,
        tensors: Mapping[str, TensorSpec],
        nodes: Sequence[ArrayNode],
        plans: Mapping[str, NodeWeights],
    ) -> None:
        """nodes: all that may come."""
        self.config, self.tensors, self.nodes, self.plans = config, tensors, nodes, plans
        self.last: _Parts | None = None

    def add(self, operations: list[KernelOperation], node: ArrayNode, strips: list[Strip]) -> None:
        """Append the operations of a layer to those of a start."""
        parts = None
        if self.config.kernel == "processes" and len(strips) == 1 and told(node):
            parts = self._cut(operations, node, strips[0])
        if parts is None or not parts.early:
            self.join(operations)
        if parts is not None:
            parts = self.last = replace(parts, place=len(operations))
        operations += self._scheduled(node, strips if parts is None else parts.strips)

    def join(self, operations: list[KernelOperation]) -> None:
        """The parts of the layer before are one if neither it nor a layer behind it gains by them."""
        parts, self.last = self.last, None
        if parts is not None and not parts.early:
            end = parts.place + len(self._scheduled(parts.node, parts.strips))
            operations[parts.place : end] = self._scheduled(parts.node, [parts.whole])

    def _scheduled(self, node: ArrayNode, strips: list[Strip]) -> list[KernelOperation]:
        spec = self.tensors[node.inputs[0]]
        return NodeOperations(self.config, node, spec, self.plans[node.name], strips).scheduled()

    def _cut(self, operations: Sequence[KernelOperation], node: ArrayNode, strip: Strip) -> _Parts | None:
        """A layer in two parts; None if there is no place for a cut."""
        clocks = layer_clocks(self.config, node, self._channels(node))
        if len(self.plans[node.name].tiles) > 1 or clocks >= self._longest(operations):
            return None
        cuts = list(self._cuts(node))
        early = [row for row in cuts if self._ready(node, strip, row)]
        if not cuts:
            return None
        row = max(early or cuts)
        second, _ = strip.output.words_of(self.config, row, strip.y1, read=False)
        return _Parts(node, strip, row, len(operations), second, bool(early))

    def _longest(self, operations: Sequence[KernelOperation]) -> float:
        """Clocks below which layers may be cut.

        The next sample's loads go on beside two operations. Where no single layer hides them, long ones stay whole.
        """
        loads = takewhile(lambda item: item.descriptor.operation == Operation.LOAD, operations)
        loading = sum(operation_cycles(self.config, item.descriptor) for item in loads)
        layers = [node for node in self.nodes if node.on_array]
        longest = max(layer_clocks(self.config, node, self._channels(node)) for node in layers)
        return math.inf if 2 * longest >= 3 * loading else loading / 2

    def _channels(self, node: ArrayNode) -> int:
        return self.tensors[node.inputs[0]].channels

    def _cuts(self, node: ArrayNode) -> Iterator[int]:
        """Rows at which a layer can be cut: no group of pixels is lost, and both parts are long enough."""
        window, columns = node.window, working_columns(node, self.config)
        clocks = group_clocks(self.config, node, self._channels(node))
        whole = -(-window.output_width * window.output_height // columns)
        for row in range(1, window.output_height):
            first = -(-window.output_width * row // columns)
            second = -(-window.output_width * (window.output_height - row) // columns)
            if first + second == whole and min(first, second) * clocks >= SHORTEST:
                yield row

    def _ready(self, node: ArrayNode, strip: Strip, row: int) -> bool:
        """Whether rows before ``row`` need nothing of the second part of the layer before."""
        if self.last is None:
            return False
        rows = node.window.input_rows(self.tensors[node.inputs[0]].height, 0, row)
        used = [region for region in strip.inputs if region is self.last.whole.output]
        return bool(used) and all(
            region.words_of(self.config, *rows, read=True)[1] <= self.last.second for region in used
        )
