"""Rules on pragmas: their names, arguments, variables and places."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bfpga.vendor.finding import Finding
from bfpga.vendor.lint.pragma_table import (
    BLOCK_MODES,
    OF_ARRAYS,
    REPLACED,
    SPECIFICATIONS,
    Kind,
    Place,
    Specification,
)
from bfpga.vendor.lint.source import Pragma, SourceText
from bfpga.vendor.lint.unit import Function, Unit

_EXPRESSION = re.compile(r"[\w\s:+\-*/%()<>,.]+")
_PATH = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)[A-Za-z_]\w*|\[\w+\])*")


@dataclass(frozen=True)
class Argument:
    """`option=value` or a bare word (``value`` None)."""

    option: str
    value: str | None


def check_pragmas(unit: Unit) -> Iterator[Finding]:
    """Every rule on every pragma of the unit."""
    for source in unit.sources.values():
        for pragma in source.pragmas:
            yield from _check(unit, source, pragma)


def _check(unit: Unit, source: SourceText, pragma: Pragma) -> Iterator[Finding]:
    words = pragma.text.split(None, 1)
    name = words[0] if words else ""
    specification = SPECIFICATIONS.get(name.upper())
    if specification is None:
        yield Finding(source.path, pragma.line, "pragma-name", *_unknown_name(name))
        return
    arguments, problems = _interpret(name.upper(), specification, split_arguments(words[1] if len(words) > 1 else ""))
    for problem, remedy in problems:
        yield Finding(source.path, pragma.line, "pragma-argument", f"{name.upper()}: {problem}", remedy)
    function = unit.enclosing_function(source, pragma.offset)
    if function is None:
        problem = f"{name.upper()} stands outside of any function"
        yield Finding(source.path, pragma.line, "pragma-place", problem, "put it into the function it belongs to")
        return
    if specification.place is Place.LOOP and unit.enclosing_loop(source, pragma.offset) is None:
        problem = f"{name.upper()} stands in no loop"
        yield Finding(source.path, pragma.line, "pragma-place", problem, "put it directly below the loop's header")
    if name.upper() == "DEPENDENCE" and _waives_iterations(arguments) and not _has_reason(source, pragma):
        problem = "DEPENDENCE lets a tool write as late as it likes, and no comment says why no read comes too early"
        remedy = "state the distance, `type=inter direction=raw distance=N true`, or the reason in a comment above"
        yield Finding(source.path, pragma.line, "waiver-reason", problem, remedy)
    for argument in arguments:
        for problem, remedy in _name_problems(unit, source, pragma, function, specification, argument):
            yield Finding(source.path, pragma.line, "pragma-variable", f"{name.upper()} {problem}", remedy)


def _waives_iterations(arguments: list[Argument]) -> bool:
    """Whether a DEPENDENCE says that iterations need not wait for each other, which is what it speaks of by default."""
    given = {argument.option: (argument.value or "").lower() for argument in arguments}
    return given.get("type") != "intra" and given.get("dependent") == "false"


def _has_reason(source: SourceText, pragma: Pragma) -> bool:
    """A comment on the pragma's line or alone on the line above."""
    first = pragma.line if source.line_code(pragma.line - 1) else pragma.line - 1
    return source.has_comment(first, pragma.last_line)


def _unknown_name(name: str) -> tuple[str, str]:
    if name.upper() in REPLACED:
        return f"{name.upper()} is a pragma of Vivado HLS", f"Vitis HLS has {REPLACED[name.upper()]} instead"
    near = difflib.get_close_matches(name.upper(), SPECIFICATIONS, 1)
    remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(SPECIFICATIONS)}"
    return f"there is no pragma `{name}`", remedy


def split_arguments(text: str) -> list[Argument]:
    """The arguments of a pragma; blanks around `=` and inside brackets do not separate."""
    text = re.sub(r"\s*=\s*", "=", text)
    text = re.sub(r"\s*([-+*/%,])\s*", r"\1", text)
    arguments = []
    for word in re.findall(r"(?:\([^()]*\)|\{[^{}]*\}|[^\s(){}])+", text):
        option, equals, value = word.partition("=")
        arguments.append(Argument(option, value if equals else None))
    return arguments


def _interpret(
    name: str, specification: Specification, given: list[Argument]
) -> tuple[list[Argument], list[tuple[str, str]]]:
    """The arguments with bare words turned into the option they belong to, and what is wrong with them."""
    arguments: list[Argument] = []
    problems: list[tuple[str, str]] = []
    for argument in given:
        known = _option(specification, argument)
        if known is None:
            options = ", ".join(specification.options) or "none"
            problems.append((f"there is no argument `{argument.option}`", f"its arguments are: {options}"))
            continue
        problems += _value_problems(specification, known)
        if known.option in {other.option for other in arguments}:
            problems.append((f"`{known.option}` is given twice", "keep one"))
        arguments.append(known)
    return arguments, problems + _missing(name, specification, arguments)


def _option(specification: Specification, argument: Argument) -> Argument | None:
    """The argument under its option's own spelling, or None if the pragma has no such option."""
    for option, takes in specification.options.items():
        if argument.option.lower() == option.lower():
            if argument.value is None and takes is Kind.BOOLEAN:
                return Argument(option, "true")
            return Argument(option, argument.value)
    if argument.value is not None:
        return None
    for option in specification.bare:
        takes = specification.options[option]
        words = {"true", "false"} if takes is Kind.BOOLEAN else takes if isinstance(takes, frozenset) else set()
        if argument.option.lower() in words:
            return Argument(option, argument.option)
    return None


def _value_problems(specification: Specification, argument: Argument) -> Iterator[tuple[str, str]]:
    takes, value = specification.options[argument.option], argument.value
    shown = f"`{argument.option}{'' if value is None else '=' + value}`"
    if takes is Kind.FLAG:
        if value is not None and value.lower() not in ("true", "false"):
            yield f"{shown} has a value", f"write `{argument.option}` alone"
    elif not value:
        yield f"{shown} has no value", f"write `{argument.option}=...`"
    elif isinstance(takes, frozenset):
        if value.lower() not in takes:
            yield f"{shown} is unknown", f"it is one of {', '.join(sorted(takes))}"
    elif takes is Kind.BOOLEAN:
        if value.lower() not in ("true", "false"):
            yield f"{shown} is neither true nor false", "write true or false"
    elif takes is Kind.NUMBER and not _EXPRESSION.fullmatch(value):
        yield f"{shown} is no number", "write a number or a constant expression"
    elif takes is Kind.NUMBER and value.startswith("-") and argument.option != "distance":
        yield f"{shown} is negative", "write a number from 0 on"


def _missing(name: str, specification: Specification, arguments: list[Argument]) -> list[tuple[str, str]]:
    given = {argument.option: (argument.value or "").lower() for argument in arguments}
    needs = [group for group in specification.needs if not any(option in given for option in group)]
    if name == "INTERFACE" and given.get("mode") in BLOCK_MODES:
        needs = [group for group in needs if group != ("port",)]
    if name in ("ARRAY_PARTITION", "ARRAY_RESHAPE") and given.get("type") in ("cyclic", "block"):
        needs += [] if "factor" in given else [("factor",)]
    return [(f"`{' or '.join(group)}` is missing", f"add `{group[0]}=...`") for group in needs]


def _name_problems(
    unit: Unit, source: SourceText, pragma: Pragma, function: Function, specification: Specification, argument: Argument
) -> Iterator[tuple[str, str]]:
    takes = specification.options[argument.option]
    if takes not in (Kind.VARIABLE, Kind.PORT) or not argument.value:
        return
    for path in argument.value.split(","):
        if takes is Kind.PORT and path == "return":
            continue
        if not _PATH.fullmatch(path):
            yield f"names `{path}`, which is no variable", "write a variable, `a.b` or `this->b`"
            continue
        yield from _path_problems(unit, source, pragma, function, re.split(r"\.|->", re.sub(r"\[\w+\]", "", path)))


def _path_problems(
    unit: Unit, source: SourceText, pragma: Pragma, function: Function, path: list[str]
) -> Iterator[tuple[str, str]]:
    visible = _members_of_this(unit, function)
    if path[0] == "this":
        path = path[1:]
    else:
        visible = {**visible, **unit.global_names, **_locals(unit, source, pragma.offset)}
    found = None
    for index, name in enumerate(path):
        if name not in visible:
            if index == 0 and function.record is not None and unit.records[function.record].has_base:
                return  # a member of a base, which only instantiation tells
            near = difflib.get_close_matches(name, visible, 1)
            remedy = f"did you mean `{near[0]}`?" if near else "name a variable that is visible here"
            yield f"names `{name}`, which is no variable of the scope", remedy
            return
        found = visible[name]
        visible = _members_of_type(found)
        if not visible:
            break  # a scalar, or a type that only instantiation tells
    if pragma.text.split()[0].upper() in OF_ARRAYS and path and _is_no_array(found):
        yield f"names `{'.'.join(path)}`, which is no array", "name the array itself, where it is declared"


def _members_of_this(unit: Unit, function: Function) -> dict[str, Any]:
    return dict(unit.records[function.record].members) if function.record is not None else {}


def _locals(unit: Unit, source: SourceText, offset: int) -> dict[str, Any]:
    return {
        name: variable.cursor
        for name, variables in unit.variables.items()
        for variable in variables
        if variable.path == source.path and variable.begin <= offset < variable.end
    }


def _is_no_array(cursor: Any) -> bool:
    """Whether a variable is surely neither array nor pointer: a number, or a class of the project."""
    declared = cursor.type.get_canonical()
    if declared.kind.name in ("LVALUEREFERENCE", "RVALUEREFERENCE"):
        declared = declared.get_pointee().get_canonical()
    if declared.kind.name == "RECORD":
        return not declared.get_declaration().location.is_in_system_header
    return declared.kind.name in ("BOOL", "ENUM", "INT", "UINT", "SHORT", "USHORT", "SCHAR", "UCHAR", "LONGLONG")


def _members_of_type(cursor: Any) -> dict[str, Any]:
    """The fields of a variable's class, through references, pointers and arrays; none if they are not known here."""
    declared = cursor.type.get_canonical()
    while declared.kind.name in ("LVALUEREFERENCE", "RVALUEREFERENCE", "POINTER", *_ARRAYS):
        inner = declared.get_array_element_type() if declared.kind.name in _ARRAYS else declared.get_pointee()
        declared = inner.get_canonical()
    children = declared.get_declaration().get_children()
    return {str(child.spelling): child for child in children if child.kind.name in ("FIELD_DECL", "VAR_DECL")}


_ARRAYS = ("CONSTANTARRAY", "DEPENDENTSIZEDARRAY", "INCOMPLETEARRAY")
