"""Which expressions a synthesis can evaluate, also where only the instantiation of a template gives the value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bfpga.vendor.lint.source import SourceText
from bfpga.vendor.lint.unit import Key, Loop, key_of, text_of

_LITERALS = {"INTEGER_LITERAL", "FLOATING_LITERAL", "CHARACTER_LITERAL", "CXX_BOOL_LITERAL_EXPR", "CXX_UNARY_EXPR"}
_REFERENCES = {"DECL_REF_EXPR", "MEMBER_REF_EXPR"}
_CONSTANTS = {"ENUM_CONSTANT_DECL", "TEMPLATE_NON_TYPE_PARAMETER"}
_NAMES_ONLY = {"TYPE_REF", "TEMPLATE_REF", "NAMESPACE_REF", "OVERLOADED_DECL_REF"}
_COMPARISON = re.compile(r"^\s*(<=?|>=?|!=)\s*$")


def is_constant(source: SourceText, cursor: Any, known: frozenset[Key] = frozenset()) -> bool:
    """Whether an expression is a compile-time constant; ``known``: variables that count as constants."""
    kind = cursor.kind.name
    if kind in _LITERALS:
        return True
    if kind in _REFERENCES:
        return _is_constant_reference(source, cursor, known)
    children = [child for child in cursor.get_children() if child.kind.name not in _NAMES_ONLY]
    if not children:
        # `int(Config::lanes)` and other dependent forms without a child are constants if they are qualified names.
        return "::" in text_of(source, cursor)
    return all(is_constant(source, child, known) for child in children)


def _is_constant_reference(source: SourceText, cursor: Any, known: frozenset[Key]) -> bool:
    target = cursor.referenced
    if target is None:
        return "::" in text_of(source, cursor)
    kind = target.kind.name
    if kind in _CONSTANTS or kind == "OVERLOADED_DECL_REF":
        return True
    if kind in ("FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD"):
        return _declares_constexpr(target)
    return kind == "VAR_DECL" and (key_of(target) in known or _is_constant_variable(source, target, known))


def _is_constant_variable(source: SourceText, variable: Any, known: frozenset[Key]) -> bool:
    if _declares_constexpr(variable):
        return True
    value = initial_value(variable)
    return variable.type.is_const_qualified() and value is not None and is_constant(source, value, known)


def _declares_constexpr(cursor: Any) -> bool:
    tokens = (cursor.get_definition() or cursor).get_tokens()
    return any(token.spelling == "constexpr" for _, token in zip(range(12), tokens, strict=False))


def initial_value(variable: Any) -> Any:
    """The expression a variable starts with, or None."""
    values = [child for child in variable.get_children() if child.kind.name not in _NAMES_ONLY]
    return values[-1] if values else None


def operator(source: SourceText, cursor: Any) -> tuple[str, list[Any]]:
    """The operator between the two operands of a node, and the operands."""
    operands = [child for child in cursor.get_children() if child.kind.name not in _NAMES_ONLY]
    if len(operands) != 2:
        return "", operands
    left, right = (operand.extent for operand in operands)
    return source.code[left.end.offset : right.start.offset].decode(errors="replace").strip("() \t\r\n"), operands


def unrolled_variables(loop: Loop | None) -> frozenset[Key]:
    """The counters of the unrolled loops around a place: constants in every copy of the body."""
    return frozenset(key for at in _outward(loop) if at.has_pragma("UNROLL") for key in counters(at))


def counters(loop: Loop) -> list[Key]:
    """The variables a `for` header declares."""
    if loop.cursor.kind.name != "FOR_STMT":
        return []
    heads = [child for child in loop.cursor.get_children() if child.kind.name == "DECL_STMT"]
    inside = [head for head in heads if head.extent.end.offset <= loop.body]
    return [key_of(variable) for head in inside[:1] for variable in head.get_children()]


def is_bounded(loop: Loop) -> bool:
    """Whether a loop counts from a constant to a constant (or to the counter of a bounded loop around it)."""
    if loop.cursor.kind.name == "CXX_FOR_RANGE_STMT":
        return True
    if loop.cursor.kind.name != "FOR_STMT":
        return False
    known = frozenset(key for at in _outward(loop.outer) if is_bounded(at) for key in counters(at))
    parts = _header(loop)
    counted = {
        key_of(variable)
        for variable in (parts[0].get_children() if parts[0] is not None else [])
        if variable.kind.name == "VAR_DECL" and _starts_constant(loop.source, variable, known)
    }
    return bool(counted) and parts[2] is not None and _limits(loop.source, parts[1], frozenset(counted), known)


def _outward(loop: Loop | None) -> Iterator[Loop]:
    while loop is not None:
        yield loop
        loop = loop.outer


def _starts_constant(source: SourceText, variable: Any, known: frozenset[Key]) -> bool:
    value = initial_value(variable)
    return value is not None and is_constant(source, value, known)


def _header(loop: Loop) -> list[Any]:
    """The three parts of a `for` header; None where one is empty (libclang leaves it out)."""
    separators = _semicolons(loop)
    parts: list[Any] = [None, None, None]
    for child in loop.cursor.get_children():
        begin = child.extent.start.offset
        if begin < loop.body:
            parts[sum(begin > at for at in separators)] = child
    return parts


def _semicolons(loop: Loop) -> list[int]:
    """The two semicolons of a `for` header, as bytes."""
    head = loop.source.code[loop.begin : loop.body]
    return [loop.begin + at for at, byte in enumerate(head) if byte == ord(";")][:2]


def _limits(source: SourceText, condition: Any, counted: frozenset[Key], known: frozenset[Key]) -> bool:
    """Whether a condition compares a counter with a constant; of `a && b` one of both is enough."""
    if condition is None:
        return False
    if condition.kind.name in ("PAREN_EXPR", "UNEXPOSED_EXPR"):
        inner = list(condition.get_children())
        return len(inner) == 1 and _limits(source, inner[0], counted, known)
    sign, operands = operator(source, condition)
    if sign == "&&":
        return any(_limits(source, operand, counted, known) for operand in operands)
    if not _COMPARISON.match(sign):
        return False
    left, right = operands
    return any(
        _mentions(a, counted) and is_constant(source, a, counted | known) and is_constant(source, b, known)
        for a, b in ((left, right), (right, left))
    )


def _mentions(cursor: Any, keys: frozenset[Key]) -> bool:
    target = cursor.referenced if cursor.kind.name in _REFERENCES else None
    if target is not None and target.kind.name == "VAR_DECL" and key_of(target) in keys:
        return True
    return any(_mentions(child, keys) for child in cursor.get_children())
