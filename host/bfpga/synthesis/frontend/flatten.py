"""The passes between clang's IR and the reading of loops: everything in one function, inner loops unrolled.

Only passes that a high-level synthesis tool runs as well: no vectors, no unswitching, no code motion out of loops. What
the pragmas say is in calls of two functions (``annotate``): those of variables are collected and removed, because a
variable whose address is taken stays in memory; those of loops stay to mark the loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bfpga.errors import ToolError
from bfpga.synthesis.frontend.cfg import Loop, natural_loops
from bfpga.synthesis.frontend.ir import Function, Instruction, Module, pointer_operand, read_module, split_list
from bfpga.synthesis.frontend.llvm import llvm_library
from bfpga.synthesis.frontend.places import Places

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef

VARIABLE_NOTE, LOOP_NOTE = "bfpga_hls_variable", "bfpga_hls_loop"
_DEFINE = re.compile(r'^define .*?@("[^"]+"|[\w.$-]+)\(')
_OPTIONS = (
    "-pragma-unroll-threshold=1000000000",
    "-unroll-full-max-count=1000000",
    "-dom-tree-reachability-max-bbs-to-explore=100000",
)
_DEFINED = re.compile(r"^attributes #(\d+) = \{ .*\buwtable\b.*\}$", re.MULTILINE)
_NOTE_DECLARATION = re.compile(rf"^declare void @({VARIABLE_NOTE}|{LOOP_NOTE})\((.*)\).*$", re.MULTILINE)
_NOTE_EFFECT = "memory(inaccessiblemem: readwrite) nounwind willreturn nocallback"
_DEBUG_RECORD = re.compile(r"^\s+#dbg_.*\n", re.MULTILINE)
_LIFETIME = re.compile(r"^\s+(?:tail )?call void @llvm\.(?:lifetime|experimental\.noalias)\..*\n", re.MULTILINE)
_LOOP_NOTE = re.compile(rf"^\s+(?:tail )?call void @{LOOP_NOTE}\(ptr (?:\w+ )*(@[\w.]+),.*\n", re.MULTILINE)
_UNROLL_STRING = re.compile(r'^(@[\w.]+) = .* c"UNROLL', re.MULTILINE)
_UNROLL_METADATA = '!{!"llvm.loop.unroll.full"}', '!{!"llvm.loop.unroll.disable"}'


@dataclass(frozen=True, slots=True)
class Note:
    """A pragma of a variable: the pointer as IR text, and what ``annotate`` wrote."""

    pointer: str
    text: str
    file: str
    line: int
    size: int
    extents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoopNote:
    """A pragma of a loop."""

    text: str
    file: str
    line: int
    label: str


class UnboundedLoopError(ToolError):
    """A loop within a pipelined one that cannot be unrolled."""


class LostLoopError(ToolError):
    """A loop whose PIPELINE has no loop any more."""


def _run_passes(module: ModuleRef, names: tuple[str, ...]) -> None:
    llvm = llvm_library()
    target = llvm.Target.from_triple(module.triple).create_target_machine()
    tuning = llvm.create_pipeline_tuning_options(2)
    builder = llvm.create_pass_builder(target, tuning)
    manager = llvm.create_new_module_pass_manager()
    for name in names:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


def _parse(text: str) -> ModuleRef:
    llvm = llvm_library()
    llvm.initialize_native_target()
    for option in _OPTIONS:
        llvm.set_option("bfpga", option)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        version = ".".join(map(str, llvm.llvm_version_info))
        reason = str(error).strip().splitlines()[0]
        raise ToolError(
            f"llvmlite, which has LLVM {version}, cannot read what clang wrote: {reason}; it must not be older than "
            "clang: pip install --upgrade 'bfpga[synthesis]'"
        ) from None
    return module


def flatten(text: str) -> tuple[Module, list[Note], str]:
    """The module with its top function flat: read, with the notes of its variables and as text.

    Raises:
        UnboundedLoopError: a loop within a pipelined loop has no constant number of iterations.
        LostLoopError: a pipelined loop is no loop of its own in the flat function.
    """
    text = _DEFINED.sub(r"attributes #\1 = { alwaysinline nounwind }", text)
    text = _DEBUG_RECORD.sub("", text)
    text = _NOTE_DECLARATION.sub(rf"declare void @\1(\2) {_NOTE_EFFECT}", text)
    module = _parse(text)
    _run_passes(module, ("always_inliner", "global_dead_code_eliminate", "sroa", "instruction_combine", "simplify_cfg"))
    # Names instead of numbers: the notes' variables keep them through the passes that follow.
    _run_passes(module, ("instruction_namer",))
    noted = str(module)
    inlined = read_module(noted)
    notes = variable_notes(inlined)
    text = _LIFETIME.sub("", re.sub(rf"^\s+(?:tail )?call void @{VARIABLE_NOTE}\(.*\n", "", noted, flags=re.MULTILINE))
    for _ in range(8):
        module = _parse(text)
        _run_passes(module, ("sroa", "instruction_combine", "simplify_cfg", "loop_simplify", "lcssa"))
        text = str(module)
        text, left = _marked_for_unrolling(text)
        if not left:
            break
        text = _without_unroll_notes(text)
        module = _parse(text)
        _run_passes(module, ("loop_unroll", "sroa", "instruction_combine", "simplify_cfg"))
        text = str(module)
    module = _parse(text)
    _run_passes(
        module,
        (
            "sroa",
            "new_gvn",
            "instruction_combine",
            "dead_store_elimination",
            "simplify_cfg",
            "aggressive_dce",
            "loop_simplify",
        ),
    )
    text = str(module)
    flat = read_module(text)
    _check_unrolled(flat)
    _check_kept(inlined, flat)
    return flat, notes, text


def _check_unrolled(module: Module) -> None:
    for function in module.functions.values():
        loops = natural_loops(function)
        notes = loop_notes(module, function, loops)
        for outer in loops:
            if is_pipelined(notes.get(outer.header, [])):
                for loop in loops:
                    if loop.header != outer.header and loop.header in outer.blocks:
                        raise UnboundedLoopError(_unbounded(module, function, loop, notes[outer.header]))


def _check_kept(inlined: Module, flat: Module) -> None:
    """Every pipelined loop that the module calls for has a body of its own: without one it would have no figures."""
    kept: set[LoopNote] = set()
    lost: list[LoopNote] = []
    for function in flat.functions.values():
        for notes in loop_notes(flat, function, natural_loops(function)).values():
            pipelines = [note for note in notes if is_pipelined([note])]
            kept.update(pipelines[:1])
            lost += [note for note in pipelines if note != pipelines[0]]
    for function in inlined.functions.values():
        lost += [note for _, note in _placed_notes(inlined, function) if is_pipelined([note]) and note not in kept]
    if lost:
        raise LostLoopError("; ".join(map(_lost, dict.fromkeys(lost))))


def _lost(note: LoopNote) -> str:
    return (
        f"{note.file}:{note.line}: the pipelined loop {note.label or 'without a label'} is no loop of its own: it is "
        "within another pipelined or unrolled loop, or never comes to a second iteration; remove its PIPELINE"
    )


def _unbounded(module: Module, function: Function, loop: Loop, notes: list[LoopNote]) -> str:
    places = Places(module.metadata)
    found = (places.of(i.debug) for name in loop.blocks for i in function.blocks[name].instructions)
    place = min((p for p in found if p is not None and p.line), key=lambda p: (p.file, p.line), default=None)
    outer = notes[0]
    return (
        f"{place or outer.file}: a loop within the pipelined loop {outer.label} ({outer.file}:{outer.line}) has no "
        "constant number of iterations, so it cannot be unrolled"
    )


def _without_unroll_notes(text: str) -> str:
    """Without the notes of UNROLL: the loops carry metadata, and unrolled ones would mark the loop around them."""
    strings = set(_UNROLL_STRING.findall(text))
    return _LOOP_NOTE.sub(lambda found: "" if found.group(1) in strings else found.group(0), text)


def _string(module: Module, operand: str) -> str:
    found = re.search(r'c"((?:[^"\\]|\\.)*)"', module.globals["@" + operand.partition("@")[2]])
    if found is None:
        return ""
    return re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code.group(1), 16)), found.group(1)).rstrip("\0")


def _arguments(instruction: Instruction) -> list[str]:
    text = instruction.text
    return split_list(text[text.index("(") + 1 : text.rindex(")")])


def variable_notes(module: Module) -> list[Note]:
    """The notes of variables in a module, in its order."""
    notes = []
    for function in module.functions.values():
        for block in function.blocks.values():
            for instruction in block.instructions:
                if instruction.opcode == "call" and f"@{VARIABLE_NOTE}(" in instruction.text:
                    notes.append(_note(module, instruction))
    return notes


def _note(module: Module, instruction: Instruction) -> Note:
    pointer, text, file, *numbers = _arguments(instruction)
    line, size, *extents = (int(number.split()[-1]) for number in numbers)
    return Note(
        pointer_operand(pointer),
        _string(module, text),
        _string(module, file),
        line,
        size,
        tuple(extent for extent in extents if extent),
    )


def loop_notes(module: Module, function: Function, loops: list[Loop]) -> dict[str, list[LoopNote]]:
    """Header of a loop -> its pragmas: a note belongs to the innermost loop around it."""
    inner: dict[str, Loop] = {}
    for loop in loops:
        for name in loop.blocks:
            if name not in inner or len(loop.blocks) < len(inner[name].blocks):
                inner[name] = loop
    notes: dict[str, list[LoopNote]] = {}
    for name, note in _placed_notes(module, function):
        if name in inner:
            notes.setdefault(inner[name].header, []).append(note)
    return notes


def _placed_notes(module: Module, function: Function) -> Iterator[tuple[str, LoopNote]]:
    """Pragmas of a function's loops with the blocks that they are in."""
    for name, block in function.blocks.items():
        for instruction in block.instructions:
            if instruction.opcode == "call" and f"@{LOOP_NOTE}(" in instruction.text:
                text, file, line, label = _arguments(instruction)
                yield name, LoopNote(
                    _string(module, text), _string(module, file), int(line.split()[-1]), _string(module, label)
                )


def is_pipelined(notes: list[LoopNote]) -> bool:
    """Whether one of a loop's pragmas is PIPELINE."""
    return any(note.text.startswith("PIPELINE") for note in notes)


def _marked_for_unrolling(text: str) -> tuple[str, int]:
    """Loops within pipelined ones are marked to be unrolled, the others to stay; and how many there are to unroll."""
    module = read_module(text)
    number = max(module.metadata) + 1
    full, disable = number, number + 1
    added = [f"!{full} = {_UNROLL_METADATA[0]}", f"!{disable} = {_UNROLL_METADATA[1]}"]
    number += 2
    left = 0
    of_latch: dict[tuple[str, str], int] = {}
    for function in module.functions.values():
        loops = natural_loops(function)
        notes = loop_notes(module, function, loops)
        pipelined = [loop for loop in loops if is_pipelined(notes.get(loop.header, []))]
        for loop in loops:
            inside = any(loop.header != outer.header and loop.header in outer.blocks for outer in pipelined)
            inside = inside or (
                loop not in pipelined and _to_unroll(module, function, loop, notes.get(loop.header, []))
            )
            left += inside
            added.append(f"!{number} = distinct !{{!{number}, !{full if inside else disable}}}")
            for latch in loop.latches:
                of_latch[function.name, latch] = number
            number += 1
    lines = _with_loop_metadata(text.split("\n"), of_latch)
    return "\n".join([*lines, *added, ""]), left


def _to_unroll(module: Module, function: Function, loop: Loop, notes: list[LoopNote]) -> bool:
    if any(note.text.startswith("UNROLL") for note in notes):
        return True
    number = max(function.blocks[latch].instructions[-1].loop for latch in loop.latches)
    parts = re.findall(r"!(\d+)", module.metadata.get(number, ""))
    return any("llvm.loop.unroll.full" in module.metadata.get(int(part), "") for part in parts)


def _with_loop_metadata(lines: list[str], of_latch: dict[tuple[str, str], int]) -> list[str]:
    """``of_latch``: by function and block, since blocks of two functions may be called alike."""
    result = []
    function = block = ""
    for line in lines:
        if found := _DEFINE.match(line):
            function, block = found.group(1), ""
        elif function and (label := re.match(r'^("[^"]+"|[\w.$-]+):', line)):
            block = "%" + label.group(1)
        elif line == "}":
            function = ""
        elif (function, block) in of_latch and re.match(r"\s+br ", line):
            line = re.sub(r", !llvm\.loop !\d+", "", line) + f", !llvm.loop !{of_latch[function, block]}"
        result.append(line)
    return result
