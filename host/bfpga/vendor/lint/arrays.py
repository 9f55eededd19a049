"""Rules on arrays: their length is a constant, and none is larger than the memory of a board."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from bfpga.accelerator.boards import Board, load_boards
from bfpga.vendor.finding import Finding
from bfpga.vendor.lint.constants import is_constant
from bfpga.vendor.lint.source import SourceText
from bfpga.vendor.lint.unit import Unit

#: Bits of a block RAM and of an UltraRAM (UG473, UG573).
BRAM36_BITS, URAM_BITS = 36 * 1024, 288 * 1024
_INTEGER = re.compile(r"ap_u?int<(\d+)>")
_TYPES_ONLY = {"TYPE_REF", "TEMPLATE_REF", "NAMESPACE_REF", "INIT_LIST_EXPR"}


@functools.cache
def _largest_board() -> Board:
    return max(load_boards(), key=memory_bits)


def memory_bits(board: Board) -> int:
    """Bits of a board's block RAM and UltraRAM."""
    return board.bram36 * BRAM36_BITS + board.uram * URAM_BITS


def check_arrays(unit: Unit, board: Board | None = None) -> Iterator[Finding]:
    """Every rule on arrays. ``board``: whose memory counts; the largest known one if it is not given."""
    limit = board or _largest_board()
    seen: set[str] = set()
    for source, kind, cursor in unit.cursors:
        if kind == "VAR_DECL":
            if _has_variable_length(source, cursor):
                problem = f"the length of array `{cursor.spelling}` is known at run time only"
                remedy = "give it the largest length, a constant"
                yield Finding(source.path, cursor.location.line, "variable-length-array", problem, remedy)
            yield from _too_large(unit, cursor, cursor.type, limit, seen)


def _has_variable_length(source: SourceText, variable: Any) -> bool:
    """Whether a length is no constant, also where it depends on a template."""
    declared = variable.type.get_canonical()
    while declared.kind.name in ("CONSTANTARRAY", "VARIABLEARRAY", "DEPENDENTSIZEDARRAY"):
        if declared.kind.name == "VARIABLEARRAY":
            return True
        if declared.kind.name == "DEPENDENTSIZEDARRAY":
            lengths = [child for child in variable.get_children() if child.kind.name not in _TYPES_ONLY]
            return any(not is_constant(source, length) for length in lengths[: _dimensions(declared)])
        declared = declared.get_array_element_type().get_canonical()
    return False


def _dimensions(declared: Any) -> int:
    count = 0
    while declared.kind.name in ("CONSTANTARRAY", "DEPENDENTSIZEDARRAY"):
        declared, count = declared.get_array_element_type().get_canonical(), count + 1
    return count


def _too_large(unit: Unit, declaration: Any, declared: Any, board: Board, seen: set[str]) -> Iterator[Finding]:
    """Arrays beyond the limit: of a variable, or of the members of its class, where these are declared."""
    declared = declared.get_canonical()
    element = declared
    while element.kind.name == "CONSTANTARRAY":
        element = element.get_array_element_type().get_canonical()
    file = declaration.location.file
    bits = _bits(declared) if declared.kind.name == "CONSTANTARRAY" else 0
    room = memory_bits(board)
    if bits > room and file is not None and file.name in unit.sources:
        problem = f"array `{declaration.spelling}` has {bits} bits; the memory blocks of {board.name} hold {room}"
        remedy = "make it smaller, or stream from the board's DDR memory"
        yield Finding(file.name, declaration.location.line, "memory-size", problem, remedy)
    elif element.kind.name == "RECORD" and element.spelling not in seen:
        seen.add(element.spelling)
        for member in element.get_fields():
            yield from _too_large(unit, member, member.type, board, seen)


def _bits(declared: Any) -> int:
    """Bits of a type whose sizes are known; an `ap_int<W>` has W."""
    declared = declared.get_canonical()
    if declared.kind.name == "CONSTANTARRAY":
        return int(declared.get_array_size()) * _bits(declared.get_array_element_type())
    if declared.kind.name == "RECORD":
        integer = _INTEGER.fullmatch(declared.spelling.removeprefix("const "))
        if integer is not None:
            return int(integer[1])
        return sum(_bits(member.type) for member in declared.get_fields())
    return 1 if declared.kind.name == "BOOL" else max(0, 8 * int(declared.get_size()))
