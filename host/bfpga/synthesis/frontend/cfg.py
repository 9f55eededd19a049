"""Control flow of a function: dominators and natural loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bfpga.synthesis.frontend.ir import Function

Graph = Mapping[str, Iterable[str]]


@dataclass(slots=True)
class Loop:
    """A natural loop: ``latches`` jump back to ``header``; ``blocks`` holds both."""

    header: str
    latches: list[str]
    blocks: set[str] = field(default_factory=set)

    def exits(self, function: Function) -> list[str]:
        """Where the loop is left to, in the order of the function."""
        targets = (t for name, block in function.blocks.items() if name in self.blocks for t in block.successors())
        return [target for target in dict.fromkeys(targets) if target not in self.blocks]


def successors_of(function: Function) -> dict[str, list[str]]:
    """Successors of every block, duplicates (a switch's) once."""
    return {name: list(dict.fromkeys(block.successors())) for name, block in function.blocks.items()}


def predecessors_of(successors: Graph) -> dict[str, list[str]]:
    """Predecessors of every block."""
    before: dict[str, list[str]] = {name: [] for name in successors}
    for name, targets in successors.items():
        for target in targets:
            before[target].append(name)
    return before


def reverse_postorder(entry: str, successors: Graph) -> list[str]:
    """Blocks that ``entry`` reaches, each before what it dominates."""
    order: list[str] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        name, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors[target])))
                break
        else:
            order.append(name)
            stack.pop()
    return order[::-1]


def immediate_dominators(entry: str, successors: Graph) -> dict[str, str]:
    """Immediate dominator of every block that ``entry`` reaches (the entry's is itself): Cooper, Harvey, Kennedy."""
    order = reverse_postorder(entry, successors)
    position = {name: k for k, name in enumerate(order)}
    before = predecessors_of({name: [t for t in successors[name] if t in position] for name in order})
    above = {entry: entry}
    changed = True
    while changed:
        changed = False
        for name in order[1:]:
            known = [p for p in before[name] if p in above]
            best = known[0]
            for other in known[1:]:
                best = _common(best, other, above, position)
            if above.get(name) != best:
                above[name] = best
                changed = True
    return above


def _common(one: str, other: str, above: Mapping[str, str], position: Mapping[str, int]) -> str:
    while one != other:
        while position[one] > position[other]:
            one = above[one]
        while position[other] > position[one]:
            other = above[other]
    return one


def natural_loops(function: Function) -> list[Loop]:
    """Loops of a function by their headers, outer ones first."""
    successors = successors_of(function)
    entry = next(iter(function.blocks))
    order = reverse_postorder(entry, successors)
    above = immediate_dominators(entry, successors)
    before = predecessors_of({name: successors[name] for name in order})
    loops: dict[str, Loop] = {}
    for name in order:
        for target in successors[name]:
            if _dominates(target, name, above):
                loop = loops.setdefault(target, Loop(target, [], {target}))
                loop.latches.append(name)
                _collect(loop, name, before)
    position = {name: k for k, name in enumerate(order)}
    return sorted(loops.values(), key=lambda loop: (position[loop.header], -len(loop.blocks)))


def _dominates(one: str, other: str, above: Mapping[str, str]) -> bool:
    while other != one:
        parent = above[other]
        if parent == other:
            return False
        other = parent
    return True


def _collect(loop: Loop, latch: str, before: Mapping[str, list[str]]) -> None:
    waiting = [latch]
    while waiting:
        name = waiting.pop()
        if name not in loop.blocks:
            loop.blocks.add(name)
            waiting.extend(before[name])
