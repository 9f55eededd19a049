"""A function as bodies that follow one another: its pipelined loops, and the segments of code between them.

A segment is code without circles, executed once from its first block to the edge by which it is left: its body is one
iteration. Control goes from body to body along ``Edge``s. What a body uses of others has a name: a value of the flat
code that another body exports, the phi of the body's first block, which every edge to it gives a word, or bytes of a
variable, which all bodies that touch them share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from bfpga.synthesis.body import LoopBody, Opcode, Place
from bfpga.synthesis.frontend.build import UNDEFINED, BodyBuilder, loop_body
from bfpga.synthesis.frontend.cells import Cells
from bfpga.synthesis.frontend.cfg import Loop, natural_loops
from bfpga.synthesis.frontend.flatten import LoopNote, is_pipelined
from bfpga.synthesis.frontend.ir import Function, phi_pairs, split_type
from bfpga.synthesis.frontend.places import Places
from bfpga.synthesis.frontend.region import Region
from bfpga.synthesis.narrow import narrowed
from bfpga.synthesis.variables import without_unread

#: Where an edge leads that returns from the function.
RETURN = -1
_NAME = re.compile(r'%"[^"]+"|%[\w.$-]+')


@dataclass(frozen=True, slots=True)
class Edge:
    """From body ``source`` to body ``target`` (`RETURN`: the function ends), taken where ``condition``, a name among
    the source's exports, is 1. ``words``: name of each phi of the target -> name of its word among those exports."""

    source: int
    target: int
    condition: str
    words: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bodies of a function; it begins with the first one. ``is_loop``: of each, whether it is a pipelined loop."""

    bodies: tuple[LoopBody, ...]
    is_loop: tuple[bool, ...]
    edges: tuple[Edge, ...]

    def leaving(self, body: int) -> list[Edge]:
        """The edges by which a body is left."""
        return [edge for edge in self.edges if edge.source == body]


def bodies_of(
    function: Function, notes: dict[str, list[LoopNote]], places: Places, cells: Cells, visible: set[str]
) -> Bodies:
    """All bodies of a function whose inner loops are unrolled.

    ``notes``: header of a loop -> its pragmas; ``visible``: variables that others read.

    Raises:
        UntranslatedError: an instruction has no translation.
    """
    loops = natural_loops(function)
    pipelined = {loop.header: loop for loop in loops if is_pipelined(notes.get(loop.header, []))}
    segments = _segments(function, loops, pipelined)
    headers = [*segments, *pipelined]
    numbers = {header: number for number, header in enumerate(headers)}
    bodies, edges = [], []
    everything = set(function.blocks)
    for number, header in enumerate(headers):
        if header in pipelined:
            body = loop_body(notes[header], places, function, pipelined[header])
            region = Region.of_loop(function, pipelined[header])
        else:
            body = LoopBody(f"segment_{number}", Place("", 0, function.name), 0)
            region = Region(function, segments[header], header)
        builder = BodyBuilder(function, region, body, places, cells, everything)
        body = builder.build()
        body.outputs = []
        edges += _edges(function, region, builder, header in pipelined, numbers)
        if header not in pipelined:
            body.leaves = builder.always()
        _export_values(function, region, builder)
        bodies.append(body)
    is_loop = tuple(header in pipelined for header in headers)
    found = Bodies(tuple(bodies), is_loop, tuple(edges))
    return _without_unused(found, visible)


def _segments(function: Function, loops: list[Loop], pipelined: dict[str, Loop]) -> dict[str, set[str]]:
    """First block -> blocks of each segment, the one that the function begins with first."""
    inside = {name for loop in pipelined.values() for name in loop.blocks}
    entry = next(iter(function.blocks))
    heads = dict.fromkeys([entry])
    heads.update(dict.fromkeys(loop.header for loop in loops if loop.header not in inside))
    for loop in pipelined.values():
        heads.update(dict.fromkeys(target for target in loop.exits(function) if target not in inside))
    while True:
        owner: dict[str, str] = {}
        shared = ""
        for head in heads:
            stack = [head]
            while stack and not shared:
                name = stack.pop()
                if owner.setdefault(name, head) != head:
                    shared = name
                    break
                for target in function.blocks[name].successors():
                    if target not in heads and target not in inside and owner.get(target) != head:
                        stack.append(target)
        if not shared:
            break
        heads[shared] = None
    return {head: {name for name, own in owner.items() if own == head} for head in heads}


def _edges(
    function: Function, region: Region, builder: BodyBuilder, is_loop: bool, numbers: dict[str, int]
) -> list[Edge]:
    edges, number = [], numbers[region.header]
    for name in region.order:
        if name not in function.blocks:
            continue
        block = function.blocks[name]
        for target in dict.fromkeys(block.successors()):
            if target in region.blocks and (is_loop or target != region.header):
                continue
            condition, words = f"edge {name} {target}", {}
            builder.export(condition, builder.leaving(name, target))
            for instruction in function.blocks[target].instructions:
                if instruction.opcode != "phi" or instruction.text.startswith("ptr "):
                    continue
                kind, rest = split_type(instruction.text)
                text = next((value for value, before in phi_pairs(rest) if before == name), "")
                value = builder.value_of(kind, text) if text else UNDEFINED
                if value != UNDEFINED:
                    words[instruction.result] = f"word {name} {target} {instruction.result}"
                    builder.export(words[instruction.result], value)
            edges.append(Edge(number, numbers[target], condition, words))
        if block.instructions[-1].opcode == "ret":
            condition = f"return {name}"
            builder.export(condition, builder.leaving(name, ""))
            edges.append(Edge(number, RETURN, condition))
    return edges


def _export_values(function: Function, region: Region, builder: BodyBuilder) -> None:
    """Values that code elsewhere uses, also as an index of a pointer that is made here."""
    used: dict[str, None] = {}
    pointers: dict[str, str] = {}
    for name, block in function.blocks.items():
        for instruction in block.instructions:
            if name not in region.blocks:
                used.update(dict.fromkeys(_NAME.findall(instruction.text)))
            elif instruction.opcode == "phi":
                # What another body gives a phi of this one.
                pairs = phi_pairs(instruction.text)
                used.update({value: None for value, before in pairs if before not in region.blocks})
            elif instruction.opcode == "getelementptr" or "ptr " in instruction.text:
                pointers[instruction.result] = instruction.text
    stack = list(used)
    while stack:
        for name in _NAME.findall(pointers.get(stack.pop(), "")):
            if name not in used:
                used[name] = None
                stack.append(name)
    for name in used:
        value = builder.defined_value(name)
        if value != UNDEFINED:
            builder.export(name, value)


def _without_unused(found: Bodies, visible: set[str]) -> Bodies:
    """Exports that no body and no edge uses go, and with them what only they need."""
    bodies = [narrowed(body) for body in found.bodies]
    while True:
        bodies = without_unread(bodies, visible)
        used = {o.name for body in bodies for o in body.operations if o.opcode is Opcode.INVARIANT}
        kept = []
        for number, body in enumerate(bodies):
            phis = [_phis_of(bodies[edge.target]) if edge.target != RETURN else set() for edge in found.leaving(number)]
            names = {edge.condition for edge in found.leaving(number)} | used
            for edge, known in zip(found.leaving(number), phis, strict=True):
                names |= {word for phi, word in edge.words.items() if phi in known}
            exports = {name: value for name, value in body.exports.items() if name in names}
            kept.append(replace(body, exports=exports, outputs=sorted(set(exports.values()))))
        if all(len(new.exports) == len(old.exports) for new, old in zip(kept, bodies, strict=True)):
            return replace(found, bodies=tuple(bodies), edges=_known_words(found, bodies))
        bodies = [narrowed(body) for body in kept]


def _known_words(found: Bodies, bodies: list[LoopBody]) -> tuple[Edge, ...]:
    return tuple(
        replace(edge, words={phi: word for phi, word in edge.words.items() if word in bodies[edge.source].exports})
        for edge in found.edges
    )


def _phis_of(body: LoopBody) -> set[str]:
    """The phis of a body's first block that it uses."""
    return {origin.root for name, origin in body.origins.items() if origin.offset < 0 and _is_register(body, name)}


def _is_register(body: LoopBody, name: str) -> bool:
    return any(register.name.split("@")[0] == name for register in body.registers)
