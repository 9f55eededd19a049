"""All pipelined loops of a rendered kernel as ``LoopBody``s."""

from __future__ import annotations

import re

from bfpga.synthesis.body import LoopBody, Place
from bfpga.synthesis.frontend.build import BodyBuilder, loop_body
from bfpga.synthesis.frontend.cells import Cells
from bfpga.synthesis.frontend.cfg import Loop, natural_loops
from bfpga.synthesis.frontend.flatten import Note, is_pipelined, loop_notes
from bfpga.synthesis.frontend.ir import Function, Layouts, Module, split_list, split_type
from bfpga.synthesis.frontend.places import Places, VariableNames
from bfpga.synthesis.frontend.pointers import Pointers
from bfpga.synthesis.frontend.region import Region
from bfpga.synthesis.frontend.storage import Storage

_BIND = re.compile(r"#\s*pragma\s+HLS\s+BIND_OP\s+(.*)$", re.IGNORECASE | re.MULTILINE)
_ARRAY = re.compile(r"\[(\d+) x (.+)\]")
#: Name of what a kernel does between its loops: no pipeline, one cycle after the other.
OUTSIDE = "outside the loops"
#: Lines around a BIND_OP in which its variable is assigned.
_BIND_REACH = 60


def variable_types(module: Module, function: Function) -> dict[str, str]:
    """Type of every global variable and every local one that is in memory."""
    types = {}
    for name, text in module.globals.items():
        if found := re.search(r"\b(?:global|constant) (.*)$", text):
            types[name] = _joined(split_type(found.group(1))[0].rstrip(","))
    for block in function.blocks.values():
        for instruction in block.instructions:
            if instruction.opcode == "alloca":
                types[instruction.result] = split_list(instruction.text)[0]
    return types


def _joined(kind: str) -> str:
    """A table as its source declares it: clang parts one that ends in zeros, `<{ i8, i8, [62 x i8] }>`."""
    if not kind.startswith("<{"):
        return kind
    parts = [_ARRAY.fullmatch(part.strip()) or part.strip() for part in split_list(kind[2:-2])]
    elements = {part if isinstance(part, str) else part.group(2) for part in parts}
    if isinstance(parts[-1], str) or len(elements) != 1:
        return kind
    return f"[{sum(1 if isinstance(part, str) else int(part.group(1)) for part in parts)} x {elements.pop()}]"


def visible_roots(module: Module) -> set[str]:
    """Variables that others than the functions of a module read: arguments, and globals that are not its own."""
    arguments = {name for function in module.functions.values() for name in function.arguments}
    return arguments | {name for name, text in module.globals.items() if not re.search(r"\b(internal|private)\b", text)}


def bindings(sources: dict[str, str]) -> dict[tuple[str, int], str]:
    """(file, line) of products whose BIND_OP says where they are: "dsp" or "fabric".

    Of several for variables of one name the nearest counts, of two as near the one after the product.
    """
    found: dict[tuple[str, int], str] = {}
    for name, text in sources.items():
        lines = text.split("\n")
        distances: dict[int, int] = {}
        for number, line in enumerate(lines):
            if (pragma := _BIND.search(line)) is None or "impl" not in pragma.group(1):
                continue
            words = dict(re.findall(r"(\w+)\s*=\s*(\w+)", pragma.group(1)))
            assigned = re.compile(rf"\b{words.get('variable', '?')}\b(\[[^\]]*\])*\s*(=[^=]|\+=)")
            for near in range(max(0, number - _BIND_REACH), min(len(lines), number + _BIND_REACH)):
                distance = abs(near - number)
                if distance <= distances.get(near, _BIND_REACH) and assigned.search(lines[near]):
                    distances[near] = distance
                    found[name, near + 1] = words["impl"]
    return found


def loop_bodies(module: Module, notes: list[Note], original: Module, sources: dict[str, str]) -> list[LoopBody]:
    """The pipelined loops of the flat module, in program order, and last what is outside of them (``OUTSIDE``).

    ``original``: the module as clang wrote it (names of variables); ``sources``: name -> text of the sources.
    """
    bodies = []
    names = VariableNames(original.metadata)
    for function in module.functions.values():
        loops = natural_loops(function)
        of_loop = loop_notes(module, function, loops)
        places = Places(module.metadata)
        cells = cells_of(module, function, notes, names, sources)
        for loop in loops:
            found = of_loop.get(loop.header, [])
            if is_pipelined(found):
                body = loop_body(found, places, function, loop)
                bodies.append(BodyBuilder(function, Region.of_loop(function, loop), body, places, cells).build())
        pipelined = [loop for loop in loops if is_pipelined(of_loop.get(loop.header, []))]
        body = LoopBody(OUTSIDE, Place("", 0, function.name), 0)
        bodies.append(BodyBuilder(function, _outside(function, pipelined), body, places, cells).build())
    return bodies


def cells_of(
    module: Module, function: Function, notes: list[Note], names: VariableNames, sources: dict[str, str]
) -> Cells:
    """The memories, registers and streams of a function."""
    pointers = Pointers(module, function)
    types = variable_types(module, function)
    storage = Storage(Layouts(module.structures), types, {})
    for note in notes:
        storage.note(note, pointers)
    streams = dict(zip(function.arguments, names.parameters(function.name), strict=False))
    cells = Cells(module, pointers, storage, types, names, streams, bindings(sources))
    cells.settle(function)
    return cells


def _outside(function: Function, pipelined: list[Loop]) -> Region:
    """A function's blocks without those of its pipelined loops."""
    left_out = {name for loop in pipelined for name in loop.blocks}
    skipped: dict[str, list[str]] = {}
    for loop in pipelined:
        for name, block in function.blocks.items():
            if name not in left_out and loop.header in block.successors():
                skipped[name] = loop.exits(function)
    blocks = {name for name in function.blocks if name not in left_out}
    return Region(function, blocks, next(iter(function.blocks)), skipped)
