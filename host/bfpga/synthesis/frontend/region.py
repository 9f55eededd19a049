"""A loop's blocks without its back edges: order, dominators, and under which condition each block is reached."""

from __future__ import annotations

from collections.abc import Callable

from bfpga.synthesis.body import Opcode
from bfpga.synthesis.frontend.cfg import Loop, immediate_dominators, predecessors_of, reverse_postorder
from bfpga.synthesis.frontend.ir import Function
from bfpga.synthesis.graph import Graph

#: Where the iteration ends: target of the back edges and of the loop's exits.
END = "end of the iteration"

#: Condition of the edge from one block to the next, as an operation of 1 bit.
EdgeCondition = Callable[[str, str], int]


class Region:
    """One iteration's control flow."""

    def __init__(self, function: Function, loop: Loop) -> None:
        inside: dict[str, list[str]] = {END: []}
        self.exits: list[tuple[str, str]] = []
        for name in loop.blocks:
            targets = []
            for target in dict.fromkeys(function.blocks[name].successors()):
                stays = target in loop.blocks and target != loop.header
                targets.append(target if stays else END)
                if target not in loop.blocks:
                    self.exits.append((name, target))
            inside[name] = list(dict.fromkeys(targets))
        self.order = reverse_postorder(loop.header, inside)
        self.successors = {name: inside[name] for name in self.order}
        self.before = predecessors_of(self.successors)
        self.above = immediate_dominators(loop.header, self.successors)
        self._below = immediate_dominators(END, self.before)
        self.header = loop.header

    def always_follows(self, block: str, other: str) -> bool:
        """Whether every path from ``other`` passes ``block``."""
        while other != END:
            other = self._below[other]
            if other == block:
                return True
        return False


class Conditions:
    """Under which condition blocks and edges are taken, relative to a block that dominates them."""

    def __init__(self, graph: Graph, region: Region, edge: EdgeCondition) -> None:
        self._graph, self._region, self._edge = graph, region, edge
        self._local: dict[str, int] = {}
        self._absolute: dict[str, int] = {}

    def _from_dominator(self, block: str) -> int:
        """Condition of a block where its immediate dominator is executed."""
        if block not in self._local:
            region = self._region
            above = region.above[block]
            if region.always_follows(block, above):
                value = self._graph.constant(1, 1)
            else:
                value = self._graph.constant(0, 1)
                for before in region.before[block]:
                    value = self._graph.logic(Opcode.OR, value, self.edge(above, before, block))
            self._local[block] = value
        return self._local[block]

    def reached(self, origin: str, block: str) -> int:
        """Condition of a block where ``origin``, which dominates it, is executed."""
        value = self._graph.constant(1, 1)
        while block != origin:
            value = self._graph.logic(Opcode.AND, self._from_dominator(block), value)
            block = self._region.above[block]
        return value

    def edge(self, origin: str, before: str, block: str) -> int:
        """Condition of an edge where ``origin`` is executed."""
        return self._graph.logic(Opcode.AND, self.reached(origin, before), self._edge(before, block))

    def executed(self, block: str) -> int:
        """Condition of a block in the iteration."""
        if block not in self._absolute:
            above = self._region.above[block]
            value = self._graph.constant(1, 1)
            if block != above:
                value = self._graph.logic(Opcode.AND, self.executed(above), self._from_dominator(block))
            self._absolute[block] = value
        return self._absolute[block]
