"""Copies C++ sources with their HLS pragmas turned into calls that survive to the IR.

A pragma of a variable becomes a call with the variable's address, one of a loop a call in its body. Lines stay where
they are, so that debug locations name the files that the user has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bfpga.synthesis.meaning import source_name

_PRAGMA = re.compile(r"^\s*#\s*pragma\s+HLS\s+(\w+)\s*(.*?)\s*$", re.IGNORECASE)
_VARIABLE = re.compile(r"\bvariable\s*=\s*(\S+)")
_LABEL = re.compile(r"^\s*(\w+)\s*:\s*(?://.*)?$|^\s*(\w+)\s*:\s*(?:for|while|do)\b")
_LOOP = re.compile(r"\b(for|while|do)\b")
_OF_LOOPS = ("PIPELINE", "UNROLL")
_OF_VARIABLES = ("ARRAY_PARTITION", "ARRAY_RESHAPE", "BIND_STORAGE", "DEPENDENCE", "AGGREGATE", "RESOURCE")

#: Force-included before a source: the calls, and the shape of an array.
PRELUDE = """\
#pragma once
extern "C" {
void bfpga_hls_variable(const volatile void* variable, const char* text, const char* file, int line, int size,
                        int first, int second, int third, int fourth);
void bfpga_hls_loop(const char* text, const char* file, int line, const char* label);
}
namespace bfpga_notes {
template <class T> struct shape { static constexpr int extent = 0; using element = T; };
template <class T, int N> struct shape<T[N]> { static constexpr int extent = N; using element = T; };
template <class T>
inline void variable(T& object, const char* text, const char* file, int line) {
    using first = shape<T>;
    using second = shape<typename first::element>;
    using third = shape<typename second::element>;
    using fourth = shape<typename third::element>;
    bfpga_hls_variable(&object, text, file, line, sizeof(T), first::extent, second::extent, third::extent,
                       fourth::extent);
}
}  // namespace bfpga_notes
"""


def annotate_files(files: Mapping[str, str], target: Path) -> None:
    """Writes sources (path -> text) below ``target``, annotated; messages name them as the include path does."""
    for path, text in files.items():
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(annotate(text, source_name(path)), encoding="utf-8")


def annotate(text: str, name: str) -> str:
    """A source with its pragmas as calls. ``name``: what the file is called in messages."""
    lines = text.split("\n")
    return "\n".join(_annotated(lines, number, name) for number in range(len(lines)))


def _annotated(lines: list[str], number: int, name: str) -> str:
    found = _PRAGMA.match(lines[number])
    if found is None:
        return lines[number]
    kind, rest = found.group(1).upper(), found.group(2)
    text = f"{kind} {rest}".strip().replace('"', "'")
    if kind in _OF_LOOPS:
        return f'bfpga_hls_loop("{text}", "{name}", {number + 1}, "{_label_above(lines, number)}");'
    variable = _VARIABLE.search(rest)
    if kind in _OF_VARIABLES and variable:
        return f'bfpga_notes::variable({variable.group(1)}, "{text}", "{name}", {number + 1});'
    return ""


def _label_above(lines: list[str], number: int) -> str:
    """The label of the loop that contains line ``number``; empty where it has none."""
    for above in range(number - 1, max(-1, number - 40), -1):
        if _LOOP.search(lines[above].partition("//")[0]):
            here = _LABEL.match(lines[above])
            before = _LABEL.match(lines[above - 1]) if above else None
            found = here or before
            return (found.group(1) or found.group(2)) if found else ""
    return ""
