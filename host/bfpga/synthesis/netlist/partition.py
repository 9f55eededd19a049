"""Parts of a loop body of a size that a synthesizer takes at once, each from one function of the source.

The tree of inlined calls is cut from the outermost function inwards until a call fits. Before it is cut, what a call
does in several places that have nothing to do with each other (lanes, columns) is taken apart: such a piece stays whole
with all that it calls, and equal ones are synthesized once. What still is too large is cut along the order of the
program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bfpga.synthesis.body import Opcode, Place
from bfpga.synthesis.graph import amount_bits
from bfpga.synthesis.grouping import live_operations
from bfpga.synthesis.netlist.interpret import EXTERNAL, WRITES
from bfpga.synthesis.netlist.pipeline import FIXED, WIRING, Pipeline

#: Look-up tables, by `cost`, of the largest part and of the smallest that is one by itself.
LARGEST, SMALLEST = 2500, 60

Frame = tuple[str, int]


@dataclass(slots=True)
class Group:
    """Operations of a part in program order, with the loop-carried registers that it holds. ``name``: its function."""

    name: str
    operations: list[int] = field(default_factory=list)
    registers: list[int] = field(default_factory=list)


def partition(pipeline: Pipeline, largest: int = LARGEST, smallest: int = SMALLEST) -> list[Group]:
    """Groups of all operations with logic or registers of their own; wiring, fixed values and unused ones belong
    to none.

    Values from outside and registers whose next value is not computed are in groups of no logic.
    """
    operations = pipeline.body.operations
    weights = [cost(pipeline, index) for index in range(len(operations))]
    live = live_operations(pipeline.body, registers=True)
    logic = [index for index, operation in enumerate(operations) if live[index] and has_logic(operation.opcode)]
    tree = _Call(_short_name(pipeline.body.place.function))
    for index in logic:
        tree.add(_frames(operations[index].place), index, weights[index])
    groups: list[Group] = []
    for name, members in tree.cut(pipeline, weights, largest, smallest):
        groups += _split(pipeline, name, members, weights, largest, smallest)
    _keep_together(pipeline, groups)
    for group in groups:
        group.name = _common_function(operations[index].place for index in group.operations) or group.name
    _place_registers(pipeline, groups)
    return [group for group in groups if group.operations or group.registers]


def _keep_together(pipeline: Pipeline, groups: list[Group]) -> None:
    """Put all of a DSP block into the part that has its addition."""
    owner = {index: group for group in groups for index in group.operations}
    for total, accumulator in pipeline.accumulators.items():
        for index in accumulator.members():
            if owner[index] is not owner[total]:
                owner[index].operations.remove(index)
                owner[total].operations.append(index)
                owner[index] = owner[total]
    for group in groups:
        group.operations.sort()


def has_logic(opcode: Opcode) -> bool:
    """Whether an operation is computed in the body."""
    return not (opcode in FIXED or opcode in WIRING or opcode in EXTERNAL or opcode in WRITES or opcode is Opcode.STATE)


def cost(pipeline: Pipeline, index: int) -> float:
    """Look-up tables of an operation, roughly: enough to cut a body into parts of like sizes."""
    operation = pipeline.body.operations[index]
    width = pipeline.bits[index].count
    if not has_logic(operation.opcode):
        return 0.0
    operands = [pipeline.bits[operand].count for operand in operation.operands]
    match operation.opcode:
        case Opcode.ADD | Opcode.SUB:
            return float(width)
        case Opcode.MUL:
            return float(operands[0] * operands[1]) if operation.binding == "fabric" else 6.0
        case Opcode.UDIV | Opcode.SDIV | Opcode.UREM | Opcode.SREM:
            return float(operation.width * operation.width)
        case Opcode.SHL | Opcode.LSHR | Opcode.ASHR:
            fixed = pipeline.body.operations[operation.operands[1]].opcode is Opcode.CONSTANT
            return 0.0 if fixed else width * amount_bits(operation.width) / 2
        case Opcode.SELECT:
            return width * 0.6
        case Opcode.POPCOUNT | Opcode.CLZ | Opcode.CTZ:
            return float(operands[0])
        case _:
            return max(operands, default=1) * 0.35


class _Call:
    """A node of the tree of inlined calls: a function at one call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.own: list[int] = []
        self.weight = 0.0
        self.calls: dict[Frame, _Call] = {}

    def add(self, frames: Sequence[Frame], index: int, weight: float) -> None:
        node = self
        node.weight += weight
        for frame in frames[1:]:
            node = node.calls.setdefault(frame, _Call(frame[0]))
            node.weight += weight
        node.own.append(index)

    def members(self) -> list[int]:
        """Operations of the call with all that it calls, in program order."""
        return sorted([*self.own, *(index for call in self.calls.values() for index in call.members())])

    def cut(
        self, pipeline: Pipeline, weights: Sequence[float], largest: float, smallest: float
    ) -> Iterable[tuple[str, list[int]]]:
        """Names and operations of the pieces: a call that fits; else what is independent of the rest in it, and of the
        rest its own operations without its calls' pieces."""
        if self.weight <= largest:
            yield self.name, self.members()
            return
        apart: set[int] = set()
        for piece in _components(pipeline, self.members()):
            if smallest <= sum(weights[index] for index in piece) <= largest:
                apart.update(piece)
                yield self.name, piece
        own = [index for index in self.own if index not in apart]
        for call in self.calls.values():
            rest = call.without(apart, weights)
            if rest.weight < smallest:
                own += rest.members()
            else:
                yield from rest.cut(pipeline, weights, largest, smallest)
        yield self.name, sorted(own)

    def without(self, apart: set[int], weights: Sequence[float]) -> _Call:
        """The call without some of its operations."""
        rest = _Call(self.name)
        rest.own = [index for index in self.own if index not in apart]
        rest.calls = {frame: call.without(apart, weights) for frame, call in self.calls.items()}
        rest.weight = sum(weights[index] for index in rest.own) + sum(call.weight for call in rest.calls.values())
        return rest


def _frames(place: Place | None) -> list[Frame]:
    """Functions from the outermost to the one of a place, each with the line that calls it."""
    frames: list[Frame] = []
    while place is not None:
        frames.append((_short_name(place.function), place.caller.line if place.caller else 0))
        place = place.caller
    return frames[::-1]


def _common_function(places: Iterable[Place | None]) -> str:
    """The innermost function that holds all places; empty without one."""
    common: list[Frame] | None = None
    for frames in map(_frames, dict.fromkeys(places)):
        if common is None:
            common = frames
        else:
            same = [one == other for one, other in zip(common, frames, strict=False)]
            common = common[: same.index(False) if False in same else len(same)]
    return common[-1][0] if common else ""


def _short_name(function: str) -> str:
    return function.split("(")[0]


def _split(
    pipeline: Pipeline, name: str, members: Sequence[int], weights: Sequence[float], largest: float, smallest: float
) -> list[Group]:
    """Pieces of a call that have nothing to do with each other; small ones together, large ones cut."""
    rest: list[int] = []
    groups: list[Group] = []
    for piece in _components(pipeline, members):
        weight = sum(weights[index] for index in piece)
        if weight < smallest:
            rest += piece
        elif weight <= largest:
            groups.append(Group(name, piece))
        else:
            groups += _large(pipeline, name, piece, weights, largest)
    return groups + _runs(name, sorted(rest), weights, largest)


def _large(
    pipeline: Pipeline, name: str, members: Sequence[int], weights: Sequence[float], largest: float
) -> list[Group]:
    """Pieces of a large component: what hangs together within a stage, and that in runs of the program's order."""
    groups: list[Group] = []
    rest: list[int] = []
    for piece in _components(pipeline, members, same_stage=True):
        weight = sum(weights[index] for index in piece)
        if weight < largest / 4:
            rest += piece
        else:
            groups += _runs(name, piece, weights, largest)
    return groups + _runs(name, sorted(rest), weights, largest)


def _runs(name: str, members: Sequence[int], weights: Sequence[float], largest: float) -> list[Group]:
    """Members in program order, cut in runs of equal weight."""
    total = sum(weights[index] for index in members)
    runs = max(1, -(-int(total) // int(largest)))
    groups = [Group(name) for _ in range(runs)]
    before = 0.0
    for index in members:
        groups[min(runs - 1, int(before * runs / total) if total else 0)].operations.append(index)
        before += weights[index]
    return [group for group in groups if group.operations]


def _components(pipeline: Pipeline, members: Sequence[int], same_stage: bool = False) -> list[list[int]]:
    """Members that use each other's values, directly or through others; ``same_stage``: without a register between."""
    inside = set(members)
    parent = {index: index for index in members}

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for index in members:
        for operand in pipeline.body.operations[index].operands:
            for root in pipeline.roots(operand):
                if root in inside and not (same_stage and pipeline.age(root, pipeline.stage(index))):
                    parent[find(index)] = find(root)
    pieces: dict[int, list[int]] = {}
    for index in members:
        pieces.setdefault(find(index), []).append(index)
    return list(pieces.values())


def _place_registers(pipeline: Pipeline, groups: list[Group]) -> None:
    """Give each register to the group that computes its next value, and outside values to a group without logic."""
    body = pipeline.body
    owner = {index: group for group in groups for index in group.operations}
    rest = Group("registers")
    for number, register in enumerate(body.registers):
        owners = [owner[root] for root in pipeline.roots(register.next) if root in owner]
        (owners[0] if owners else rest).registers.append(number)
    rest.operations += [index for index, operation in enumerate(body.operations) if operation.opcode in EXTERNAL]
    groups.append(rest)
