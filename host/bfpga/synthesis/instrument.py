"""The flat LLVM IR of a kernel with a loop under observation: its values, variables and streams as a replay sees them.

At the head of each iteration the loop's values and the addresses of its variables are stored where the replay finds
them, then it is called. A volatile access, which is one of a stream, becomes a call that hands its word over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.frontend.ir import Function, integer_width

#: Functions of the replay: a word is read, a word is written (address of the stream, bytes), an iteration begins.
READ, WRITE, BEGIN = (f"bfpga_replay_{name}" for name in ("read", "write", "begin"))
#: Where words are passed, where values are, where the addresses of variables are.
WORD, VALUES, ROOTS = (f"bfpga_replay_{name}" for name in ("word", "values", "roots"))
#: Bytes of the widest word of a stream.
WIDEST = 4096
_LOAD = re.compile(r"^\s*(%\S+|%\"[^\"]+\") = load volatile i(\d+), ptr (.*?)(?:, align.*)?$")
_STORE = re.compile(r"^\s*store volatile i(\d+) (\S+), ptr (.*?)(?:, align.*)?$")
_UNIT = 64


@dataclass(frozen=True)
class Observed:
    """``text``: the module; ``places``: offset and bytes of each value in ``VALUES``; ``roots``: as in ``ROOTS``."""

    text: str
    places: Mapping[str, tuple[int, int]]
    roots: Sequence[str]


def instrumented(flat: str, function: Function, body: LoopBody, roots: Sequence[str]) -> Observed:
    """``roots``: variables whose addresses are wanted."""
    places = _places(body, function)
    observation = list(_observation(body, function, places, roots))
    label = body.header.lstrip("%") + ":"
    lines: list[str] = []
    pending = False
    for number, line in enumerate(flat.split("\n")):
        if pending and not re.match(r"\s+%\S+ = phi ", line):
            lines += observation
            pending = False
        lines += _access(number, line.partition(", !")[0]) or [line]
        pending = pending or line.startswith(label)
    text = "\n".join(lines).replace(" internal global ", " global ")
    size = max((offset + count for offset, count in places.values()), default=0)
    return Observed(text + "\n" + _declarations(size, len(roots)), places, roots)


def _declarations(values: int, roots: int) -> str:
    return (
        f"@{WORD} = global [{WIDEST} x i8] zeroinitializer, align 16\n"
        f"@{VALUES} = global [{max(values, 1)} x i8] zeroinitializer, align 16\n"
        f"@{ROOTS} = global [{max(roots, 1)} x ptr] zeroinitializer, align 16\n"
        f"declare void @{READ}(ptr, i32)\ndeclare void @{WRITE}(ptr, i32)\ndeclare void @{BEGIN}()\n"
    )


def _access(number: int, line: str) -> list[str]:
    """What replaces a volatile access; nothing for another line."""
    if load := _LOAD.match(line):
        result, width, pointer = load.groups()
        return [
            f"  call void @{READ}(ptr {pointer}, i32 {-(-int(width) // 8)})",
            f"  {result} = load i{width}, ptr @{WORD}, align 8",
        ]
    if store := _STORE.match(line):
        width, value, pointer = store.groups()
        return [
            f"  store i{width} {value}, ptr @{WORD}, align 8",
            f"  call void @{WRITE}(ptr {pointer}, i32 {-(-int(width) // 8)})",
        ]
    return []


def _places(body: LoopBody, function: Function) -> dict[str, tuple[int, int]]:
    """Offset and bytes of the loop's values that are integers, by name."""
    kinds = _kinds(function)
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    for name, origin in body.origins.items():
        kind = kinds.get(origin.root, "")
        if origin.offset < 0 and re.fullmatch(r"i\d+", kind):
            size = -(-integer_width(kind) // _UNIT) * _UNIT // 8
            places[name] = (offset, size)
            offset += size
    return places


def _observation(
    body: LoopBody, function: Function, places: Mapping[str, tuple[int, int]], roots: Sequence[str]
) -> Iterator[str]:
    kinds = _kinds(function)
    for number, root in enumerate(roots):
        yield f"  store ptr {root}, ptr getelementptr (ptr, ptr @{ROOTS}, i64 {number})"
    for number, (name, (offset, size)) in enumerate(places.items()):
        operand = body.origins[name].root
        stored, width = operand, integer_width(kinds[operand])
        if width != 8 * size:
            stored = f"%bfpga.value.{number}"
            yield f"  {stored} = zext i{width} {operand} to i{8 * size}"
        yield f"  store i{8 * size} {stored}, ptr getelementptr (i8, ptr @{VALUES}, i64 {offset}), align 8"
    yield f"  call void @{BEGIN}()"


def _kinds(function: Function) -> dict[str, str]:
    """Types of a function's values by name, as far as they are integers."""
    kinds = dict(function.arguments)
    for block in function.blocks.values():
        for instruction in block.instructions:
            if instruction.result:
                kinds[instruction.result] = _kind(instruction.opcode, instruction.text)
    return kinds


def _kind(opcode: str, text: str) -> str:
    if opcode in ("icmp", "fcmp"):
        return "i1"
    if opcode in ("zext", "sext", "trunc", "bitcast", "ptrtoint"):
        return text.rpartition(" to ")[2]
    found = re.search(r"(?:^|\s)(i\d+)\b", text)
    if opcode == "select":
        found = re.search(r", (i\d+) ", text)
    return found.group(1) if found else ""
