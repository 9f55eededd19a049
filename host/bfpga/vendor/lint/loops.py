"""Rules on loops: layout, label, reason, trip count; and divisions in pipelined loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bfpga.vendor.finding import Finding
from bfpga.vendor.lint.constants import is_bounded, is_constant, operator, unrolled_variables
from bfpga.vendor.lint.pragma_table import SHAPING
from bfpga.vendor.lint.unit import Function, Loop, Region, Unit, text_of

_DIVISIONS = {"/", "%", "/=", "%="}


def check_loops(unit: Unit) -> Iterator[Finding]:
    """Every rule on every loop that becomes hardware."""
    for loop in unit.loops:
        if loop.function is None or not loop.function.compile_time:
            yield from _check_layout(loop)
            yield from _check_label(loop)
            yield from _check_reason(loop)
            yield from _check_trip_count(loop)


def _finding(loop: Loop, rule: str, problem: str, remedy: str) -> Finding:
    return Finding(loop.source.path, loop.line, rule, problem, remedy)


def _check_layout(loop: Loop) -> Iterator[Finding]:
    """R18 of the HLS rules: line-based tools move or read pragmas without a parser."""
    first = loop.source.line_code(loop.line)
    if loop.cursor.kind.name != "DO_STMT" and not re.match(r"(?:for|while)\b", first):
        yield _finding(loop, "loop-layout", "the loop does not begin its line", "put label and code on lines before")
    if not loop.pragmas:
        return
    body_line = loop.source.line_of(loop.body)
    if body_line != loop.line or not first.endswith("{"):
        problem = "the header of a loop with pragmas is not one line that ends with `{`"
        yield _finding(loop, "loop-layout", problem, "write `for (...) {` on one line and the body below")
        return
    pragma_lines = {line for pragma in loop.pragmas for line in range(pragma.line, pragma.last_line + 1)}
    for pragma in loop.pragmas:
        if pragma.text.split()[0].upper() not in SHAPING | {"LOOP_TRIPCOUNT"}:
            continue
        between = range(body_line + 1, pragma.line)
        if any(loop.source.line_code(line) for line in between if line not in pragma_lines):
            problem = f"code or a directive stands between the header and `{pragma.text}`"
            remedy = "move the pragma directly below `for (...) {`"
            yield Finding(loop.source.path, pragma.line, "loop-layout", problem, remedy)


def _check_label(loop: Loop) -> Iterator[Finding]:
    if loop.label is None:
        yield _finding(loop, "loop-label", "the loop has no label", "write `Name:` on the line above")


def _check_reason(loop: Loop) -> Iterator[Finding]:
    if not loop.has_pragma(*SHAPING) and not _has_comment(loop):
        problem = f"{loop.title} has neither a pragma that shapes it nor a reason"
        yield _finding(loop, "loop-reason", problem, "add PIPELINE or UNROLL, or say in a comment why it has none")
    if loop.has_pragma("PIPELINE") and not _has_comment(loop):
        problem = f"{loop.title} is pipelined and does not say why its II holds"
        yield _finding(loop, "pipeline-reason", problem, "add a comment, e.g. `// II=1: one word is read a clock`")


def _has_comment(loop: Loop) -> bool:
    """A comment above the loop or its label, on the header, or among the lines before the first statement."""
    first = loop.source.line_of(loop.label.extent.start.offset) if loop.label is not None else loop.line
    last = loop.source.line_of(loop.body)
    lines = {line for pragma in loop.pragmas for line in range(pragma.line, pragma.last_line + 1)}
    end = loop.source.line_of(loop.end)
    while last < end and (last + 1 in lines or not loop.source.line_code(last + 1)):
        last += 1
    above = first - 1 if not loop.source.line_code(first - 1) else first
    return loop.source.has_comment(above, last)


def _check_trip_count(loop: Loop) -> Iterator[Finding]:
    if not loop.has_pragma("LOOP_TRIPCOUNT") and not is_bounded(loop):
        problem = f"the trip count of {loop.title} is no constant"
        yield _finding(loop, "loop-unbounded", problem, "add `#pragma HLS LOOP_TRIPCOUNT min=... max=...`")


def check_divisions(unit: Unit) -> Iterator[Finding]:
    """Divisions by variables in pipelined loops and functions, and in what these call."""
    divisions = _divisions(unit)
    pipelined: dict[Function, str] = {
        function: f"function `{function.name}`" for function in unit.functions if function.has_pragma("PIPELINE")
    }
    for function in unit.functions:
        for call in function.calls:
            loop = _pipelined(call.loop)
            if loop is not None:
                for callee in unit.reached(call):
                    pipelined.setdefault(callee, loop.title)
    _spread(unit, pipelined)
    for region, offset, text in divisions:
        loop = _pipelined(region if isinstance(region, Loop) else None)
        around = region.function if isinstance(region, Loop) else region
        where = loop.title if loop is not None else pipelined.get(around) if isinstance(around, Function) else None
        if where is not None:
            source = region.source
            problem = f"`{text}` divides by a variable in {where}, which is pipelined"
            remedy = "count instead, or take the quotient from the descriptor"
            yield Finding(source.path, source.line_of(offset), "division", problem, remedy)


def _pipelined(loop: Loop | None) -> Loop | None:
    """The pipelined loop around a place, or None."""
    while loop is not None and not loop.has_pragma("PIPELINE"):
        loop = loop.outer
    return loop


def _spread(unit: Unit, pipelined: dict[Function, str]) -> None:
    """Adds what the functions in ``pipelined`` call."""
    waiting = list(pipelined)
    while waiting:
        function = waiting.pop()
        for callee in (callee for call in function.calls for callee in unit.reached(call)):
            if callee not in pipelined:
                pipelined[callee] = pipelined[function]
                waiting.append(callee)


def _divisions(unit: Unit) -> list[tuple[Region, int, str]]:
    """Divisions by variables: the loop or function around, the byte, the text."""
    found = []
    for source, kind, cursor in unit.cursors:
        if kind not in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR", "CALL_EXPR"):
            continue
        divisor = _divisor(source, cursor)
        if divisor is None:
            continue
        offset = cursor.extent.start.offset
        region: Region | None = unit.enclosing_loop(source, offset) or unit.enclosing_function(source, offset)
        loop = region if isinstance(region, Loop) else None
        if region is not None and not is_constant(source, divisor, unrolled_variables(loop)):
            found.append((region, offset, " ".join(text_of(source, cursor).split())))
    return found


def _divisor(source: Any, cursor: Any) -> Any:
    """The right operand of a division or modulo, also of an overloaded operator; None of other nodes."""
    if cursor.kind.name == "CALL_EXPR":
        name = str(cursor.spelling)
        arguments = list(cursor.get_arguments())
        return arguments[-1] if name.removeprefix("operator") in _DIVISIONS and name != "/" and arguments else None
    sign, operands = operator(source, cursor)
    return operands[1] if sign in _DIVISIONS else None
