"""The text of an LLVM module as typed data: functions, blocks, instructions, globals and structure types.

LLVM's own passes have verified the module; this reader takes the text they print (LLVM 22) and keeps what the front end
needs. Types stay text ("i24", "[4 x i16]"); operands stay text until an instruction is translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_DEFINE = re.compile(r'^define .*?@("[^"]+"|[\w.$-]+)\((.*)\)[^()]*\{$')
_LABEL = re.compile(r'^("[^"]+"|[\w.$-]+):')
_ASSIGN = re.compile(r'^(%"[^"]+"|%[\w.$-]+) = (.*)$')
_DEBUG = re.compile(r", !dbg !(\d+)")
_LOOP = re.compile(r", !llvm\.loop !(\d+)")
_METADATA = re.compile(r"^!(\d+) = (.*)$")
_STRUCTURE = re.compile(r'^(%"[^"]+"|%[\w.$-]+) = type (.*)$')
_GLOBAL = re.compile(r'^(@"[^"]+"|@[\w.$-]+) = (.*)$')
_ARRAY = re.compile(r"\[(\d+) x (.*)\]$")
_INTEGER = re.compile(r"i(\d+)$")
_PHI_PAIR = re.compile(r'\[ (.*?), (%"[^"]+"|%[\w.$-]+) \]')
_POINTER_ATTRIBUTES = re.compile(
    r"^(?:(?:noundef|nonnull|align \d+|dereferenceable\(\d+\)|writeonly|readonly|captures\([^)]*\)) )*"
)
_OPENING, _CLOSING = "[{(<", "]})>"


@dataclass(slots=True)
class Instruction:
    """``result``: "%name" or "". ``text``: from the opcode on, without metadata. ``debug``: number of its location."""

    result: str
    opcode: str
    text: str
    debug: int = -1
    loop: int = -1


@dataclass(slots=True)
class Block:
    """A basic block; ``name`` as operands spell it ("%12")."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def successors(self) -> list[str]:
        """Targets of the last instruction, in its order."""
        last = self.instructions[-1]
        return re.findall(r'label (%"[^"]+"|%[\w.$-]+)', last.text) if last.opcode in ("br", "switch") else []


@dataclass(slots=True)
class Function:
    """``arguments``: names of its parameters in order, with their types."""

    name: str
    arguments: dict[str, str]
    blocks: dict[str, Block]


@dataclass(slots=True)
class Module:
    """``structures``: name -> body; ``globals``: name -> what follows "="; ``metadata``: number -> text."""

    functions: dict[str, Function]
    structures: dict[str, str]
    globals: dict[str, str]
    metadata: dict[int, str]


def _outside_brackets(text: str) -> Iterator[tuple[int, str]]:
    """Positions and characters that are in no brackets and no quotes."""
    depth, quoted = 0, False
    for position, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif depth == 0:
            yield position, character


def split_list(text: str) -> list[str]:
    """The parts of a comma-separated list, brackets respected."""
    parts: list[str] = []
    start = 0
    for position, character in _outside_brackets(text):
        if character == ",":
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def split_type(text: str) -> tuple[str, str]:
    """The type at the beginning of ``text`` and what follows it."""
    text = text.lstrip()
    for position, character in _outside_brackets(text):
        if character == " ":
            return text[:position], text[position + 1 :].lstrip()
    return text, ""


def phi_pairs(text: str) -> list[tuple[str, str]]:
    """(value, block that it comes from) of a phi."""
    return _PHI_PAIR.findall(text)


def pointer_operand(argument: str) -> str:
    """The pointer of a call's argument, without type and attributes."""
    return _POINTER_ATTRIBUTES.sub("", split_type(argument)[1])


def read_module(text: str) -> Module:
    """The module that ``text`` prints."""
    module = Module({}, {}, {}, {})
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("define "):
            number = _read_function(lines, number, module)
        elif line.startswith("!"):
            if found := _METADATA.match(line):
                module.metadata[int(found.group(1))] = found.group(2)
        elif line.startswith("%"):
            if found := _STRUCTURE.match(line):
                module.structures[found.group(1)] = found.group(2)
        elif line.startswith("@") and (found := _GLOBAL.match(line)):
            module.globals[found.group(1)] = found.group(2)
        number += 1
    return module


def _read_function(lines: list[str], number: int, module: Module) -> int:
    found = _DEFINE.match(_without_metadata(lines[number]))
    if found is None:
        raise ValueError(f"a function is not read: {lines[number][:200]}")
    arguments: dict[str, str] = {}
    for parameter in split_list(found.group(2)):
        kind, rest = split_type(parameter)
        arguments[rest.split()[-1] if rest else f"%{len(arguments)}"] = kind
    block = Block(f"%{len(arguments)}")
    blocks = {block.name: block}
    number += 1
    while lines[number] != "}":
        line = lines[number]
        if line.startswith("  "):
            number, line = _joined(lines, number)
            if not line.startswith("#dbg_"):
                block.instructions.append(_instruction(line))
        elif label := _LABEL.match(line):
            if block.instructions:
                block = Block("%" + label.group(1))
            else:
                del blocks[block.name]
                block.name = "%" + label.group(1)
            blocks[block.name] = block
        number += 1
    name = found.group(1)
    module.functions[name] = Function(name, arguments, blocks)
    return number


def _joined(lines: list[str], number: int) -> tuple[int, str]:
    """An instruction's text; a switch spans lines."""
    line = lines[number].strip()
    if line.startswith("switch ") and "]" not in line.rpartition("[")[2]:
        while True:
            number += 1
            line += " " + lines[number].strip()
            if lines[number].strip().startswith("]"):
                break
    return number, line


def _without_metadata(line: str) -> str:
    return re.sub(r" !dbg !\d+", "", line)


def _instruction(line: str) -> Instruction:
    debug, loop = _DEBUG.search(line), _LOOP.search(line)
    cut = line.find(", !")
    text = line if cut < 0 else line[:cut]
    assigned = _ASSIGN.match(text)
    result, text = (assigned.group(1), assigned.group(2)) if assigned else ("", text)
    opcode, _, rest = text.partition(" ")
    if opcode in ("tail", "musttail", "notail"):
        opcode, _, rest = rest.partition(" ")
    return Instruction(
        result,
        opcode,
        rest,
        int(debug.group(1)) if debug else -1,
        int(loop.group(1)) if loop else -1,
    )


def integer_width(kind: str) -> int:
    """Bits of an integer type.

    Raises:
        ValueError: the type is no integer.
    """
    found = _INTEGER.match(kind)
    if found is None:
        raise ValueError(f"type {kind} is no integer")
    return int(found.group(1))


@dataclass(frozen=True, slots=True)
class Layout:
    """Size and alignment of a type in bytes."""

    size: int
    alignment: int


class Layouts:
    """Offsets of the parts of a type, as x86-64's ABI places them."""

    def __init__(self, structures: dict[str, str]) -> None:
        self._structures = structures
        self._known: dict[str, Layout] = {}

    def of(self, kind: str) -> Layout:
        """Layout of a type."""
        if kind not in self._known:
            self._known[kind] = self._compute(kind)
        return self._known[kind]

    def resolve(self, kind: str) -> str:
        """The body of a named structure; another type as it is."""
        return self._structures.get(kind, kind)

    def array(self, kind: str) -> tuple[int, str] | None:
        """Count and element of an array type."""
        found = _ARRAY.match(self.resolve(kind))
        return (int(found.group(1)), found.group(2)) if found else None

    def fields(self, kind: str) -> list[tuple[int, str]]:
        """Offset and type of every field of a structure."""
        body = self.resolve(kind)
        packed = body.startswith("<{")
        inner = body.strip("<>").strip()[1:-1]
        offset, placed = 0, []
        for part in split_list(inner):
            layout = self.of(part)
            alignment = 1 if packed else layout.alignment
            offset = -(-offset // alignment) * alignment
            placed.append((offset, part))
            offset += layout.size
        return placed

    def is_structure(self, kind: str) -> bool:
        """Whether a type is a structure."""
        return self.resolve(kind).startswith(("{", "<{"))

    def _compute(self, kind: str) -> Layout:
        body = self.resolve(kind)
        if body == "ptr" or body == "double":
            return Layout(8, 8)
        if body == "float":
            return Layout(4, 4)
        if found := _INTEGER.match(body):
            return _integer_layout(int(found.group(1)))
        if array := self.array(body):
            element = self.of(array[1])
            return Layout(array[0] * element.size, element.alignment)
        if self.is_structure(body):
            placed = self.fields(body)
            packed = body.startswith("<{")
            alignment = 1 if packed else max((self.of(part).alignment for _, part in placed), default=1)
            end = placed[-1][0] + self.of(placed[-1][1]).size if placed else 0
            return Layout(-(-end // alignment) * alignment, alignment)
        raise ValueError(f"type {kind} has no layout here")


def _integer_layout(bits: int) -> Layout:
    if bits > 128:
        return Layout(-(-bits // 128) * 16, 16)
    size = 1 << max(0, (bits - 1).bit_length() - 3)
    return Layout(size, size)
