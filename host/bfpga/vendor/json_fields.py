"""JSON text <-> frozen dataclasses, checked by their type hints. A board reads with it.

Numbers that people compare with addresses (`base`, `size`, `offset`) are written as `0x…`.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from bfpga.errors import ConfigurationError

Kind = TypeVar("Kind")

#: Fields that are written in hexadecimal, and fields that hold a SHA-256.
HEXADECIMAL = frozenset({"base", "size", "offset"})
SHA256 = frozenset({"digest", "sha256"})
#: Columns of a text, and of what follows a key on its line.
WIDTH, SHORT = 120, 90
_HEXADECIMAL_TEXT = re.compile(r"0x[0-9a-f]{1,16}")
_SHA256_TEXT = re.compile(r"[0-9a-f]{64}")
_TYPES = {bool: "true or false", int: "an integer", float: "a number", str: "a text", NoneType: "null"}


class FieldError(Exception):
    """What is wrong with a value, and where in the document (keys joined by dots)."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}" if where else what)


def parse(text: str) -> Any:
    """The value of a JSON text; FieldError for anything else, for keys given twice and for NaN."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise FieldError("", f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise FieldError("", "not JSON: nested too deeply") from None
    except ValueError as error:  # An integer of thousands of digits.
        raise FieldError("", f"not JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise FieldError(key, "is given twice")
        result[key] = value
    return result


def _no_constant(name: str) -> Any:
    raise FieldError("", f"not JSON: {name} is no number")


# Reading


def read_object(kind: type[Kind], value: Any, where: str = "") -> Kind:
    """The dataclass ``kind`` of a JSON object.

    Raises FieldError for keys that are missing or unknown and for values of another type.
    """
    if not isinstance(value, dict):
        raise FieldError(where, f"must be an object with the keys of {kind.__name__}, is {_shown(value)}")
    assert is_dataclass(kind)
    keys = [item.name for item in fields(kind)]
    for key in value:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            raise FieldError(_join(where, key), "is unknown" + (f"; did you mean `{near[0]}`?" if near else ""))
    for key in keys:
        if key not in value:
            raise FieldError(_join(where, key), "is missing")
    hints = get_type_hints(kind)
    values = {name: _read_field(name, hints[name], value[name], _join(where, name)) for name in keys}
    try:
        return kind(**values)
    except ConfigurationError as error:  # types say less than ranges
        raise FieldError(where, str(error)) from None


def _read_field(name: str, hint: Any, value: Any, where: str) -> Any:
    if name in HEXADECIMAL and hint is int:
        if not isinstance(value, str) or not _HEXADECIMAL_TEXT.fullmatch(value):
            raise FieldError(where, f'must be a hexadecimal number in a text, as "0x10", is {_shown(value)}')
        return int(value, 16)
    if name in SHA256 and (not isinstance(value, str) or not _SHA256_TEXT.fullmatch(value)):
        raise FieldError(where, f"must be a SHA-256 (64 hexadecimal digits), is {_shown(value)}")
    return read_value(hint, value, where)


def read_value(hint: Any, value: Any, where: str) -> Any:
    """``value`` as the type ``hint`` says; FieldError if it is of another."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        inner = next(item for item in arguments if item is not NoneType)
        return None if value is None else read_value(inner, value, where)
    if origin is Literal:
        # 1 == True: compare the types too.
        if not any(value == item and type(value) is type(item) for item in arguments):
            raise FieldError(where, f"must be one of {', '.join(map(str, arguments))}, is {_shown(value)}")
        return value
    if origin is tuple:
        _require(isinstance(value, list), "a list", value, where)
        return tuple(read_value(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(value))
    if origin in (dict, Mapping):
        _require(isinstance(value, dict), "an object", value, where)
        return {key: read_value(arguments[1], item, _join(where, key)) for key, item in value.items()}
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return read_object(hint, value, where)
    return _number_or_text(hint, value, where)


def _number_or_text(hint: type, value: Any, where: str) -> Any:
    allowed: tuple[type, ...] = (int, float) if hint is float else (hint,)
    _require(type(value) in allowed, _TYPES[hint], value, where)
    if hint is not float:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    _require(math.isfinite(number), "a finite number", value, where)
    return number


def _require(condition: bool, wanted: str, value: Any, where: str) -> None:
    if not condition:
        raise FieldError(where, f"must be {wanted}, is {_shown(value)}")


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# Writing


def plain(value: Any) -> Any:
    """``value`` in JSON's types: dataclasses become objects, tuples become lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain_field(item.name, getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _plain_field(name: str, value: Any) -> Any:
    return f"{value:#x}" if name in HEXADECIMAL and type(value) is int else plain(value)


def json_text(value: Any, margin: str = "") -> str:
    """JSON with sorted keys: an object or a list of plain values is filled up to ``WIDTH`` columns like a paragraph.

    Equal values give equal texts. ValueError for NaN and infinities.
    """
    if not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    inner = f"{margin}  "
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        members = [f"{json.dumps(key, ensure_ascii=False)}: {json_text(value[key], inner)}" for key in sorted(value)]
    else:
        members = [json_text(item, inner) for item in value]
    nested = any(isinstance(item, (dict, list)) for item in (value.values() if isinstance(value, dict) else value))
    lines = [f"{member}," for member in members] if nested else _filled(members, WIDTH - len(inner))
    body = f"\n{inner}".join(lines).rstrip(",")
    if not nested and len(lines) == 1 and len(body) <= SHORT:
        return f"{opening}{body}{closing}"
    return f"{opening}\n{inner}{body}\n{margin}{closing}"


def _filled(members: list[str], width: int) -> list[str]:
    """Members with their commas in lines of at most ``width`` columns."""
    lines = [""]
    for member in members:
        if lines[-1] and len(lines[-1]) + len(member) + 2 > width:
            lines.append("")
        lines[-1] += f" {member}," if lines[-1] else f"{member},"
    return lines
