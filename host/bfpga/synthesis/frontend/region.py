"""A loop's blocks without its back edges: order, dominators, and under which condition each block is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bfpga.synthesis.body import Opcode
from bfpga.synthesis.frontend.cfg import Loop, immediate_dominators, predecessors_of, reverse_postorder
from bfpga.synthesis.frontend.ir import Function
from bfpga.synthesis.graph import Graph

#: Where the iteration ends: target of the back edges and of the loop's exits.
END = "end of the iteration"

#: Condition of the edge from one block to the next, as an operation of 1 bit.
EdgeCondition = Callable[[str, str], int]


class Region:
    """Control flow without circles: one iteration of a loop, or what is left of a function outside of its loops.

    ``skipped``: block -> where control goes on after a loop that the block enters and that is left out here.
    """

    def __init__(
        self, function: Function, blocks: set[str], header: str, skipped: Mapping[str, list[str]] | None = None
    ) -> None:
        self.header = header
        self.blocks = blocks
        self.skipped = skipped or {}
        heads = _targets_of_back_edges(function, blocks, header, self.skipped)
        inside: dict[str, list[str]] = {END: []}
        self.exits: list[tuple[str, str]] = []
        for name in (each for each in function.blocks if each in blocks):
            targets = []
            for target in dict.fromkeys(self.skipped.get(name) or function.blocks[name].successors()):
                ends = target not in blocks or (name, target) in heads or target == header
                targets.append(END if ends else target)
                if target not in blocks:
                    self.exits.append((name, target))
            inside[name] = list(dict.fromkeys(targets)) or [END]
        self.order = reverse_postorder(header, inside)
        self.successors = {name: inside[name] for name in self.order}
        self.before = predecessors_of(self.successors)
        self.above = immediate_dominators(header, self.successors)
        self._below = immediate_dominators(END, self.before)

    @classmethod
    def of_loop(cls, function: Function, loop: Loop) -> Region:
        """One iteration of a loop."""
        return cls(function, loop.blocks, loop.header)

    def target(self, before: str, block: str) -> str:
        """Where an edge leads within the region."""
        return block if block in self.successors.get(before, ()) else END

    def always_follows(self, block: str, other: str) -> bool:
        """Whether every path from ``other`` passes ``block``."""
        while other != END:
            other = self._below[other]
            if other == block:
                return True
        return False


def _targets_of_back_edges(
    function: Function, blocks: set[str], header: str, skipped: Mapping[str, list[str]]
) -> set[tuple[str, str]]:
    """Edges that close a circle, by a walk from the header."""
    back: set[tuple[str, str]] = set()
    path: set[str] = {header}
    seen = {header}
    stack = [(header, iter(skipped.get(header) or function.blocks[header].successors()))]
    while stack:
        name, targets = stack[-1]
        for target in targets:
            if target in path:
                back.add((name, target))
            elif target in blocks and target not in seen:
                seen.add(target)
                path.add(target)
                stack.append((target, iter(skipped.get(target) or function.blocks[target].successors())))
                break
        else:
            path.discard(name)
            stack.pop()
    return back


class Conditions:
    """Under which condition blocks and edges are taken, relative to a block that dominates them."""

    def __init__(self, graph: Graph, region: Region, edge: EdgeCondition) -> None:
        self._graph, self._region, self._edge = graph, region, edge
        self._local: dict[str, int] = {}
        self._absolute: dict[str, int] = {}
        self._reached: dict[tuple[str, str], int] = {}

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
        if (origin, block) not in self._reached:
            value, at = self._graph.constant(1, 1), block
            while at != origin:
                value = self._graph.logic(Opcode.AND, self._from_dominator(at), value)
                at = self._region.above[at]
            self._reached[origin, block] = value
        return self._reached[origin, block]

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
