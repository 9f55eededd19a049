"""Plain scalars of YAML 1.2: which text is nothing, true or false, a number, or text.

Source: YAML 1.2.2, 10.3.2 (core schema). So `yes`, `on`, `1_000`, `0b1`, `12:30` and dates are text, `0o17` and `0x1F`
are whole numbers, `017` is seventeen, and `1e3` is a number.
"""

from __future__ import annotations

import math
import re

#: Nobody writes a longer number; int() and float() take time that grows faster than the text.
LONGEST_NUMBER = 100

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN")


def plain_value(text: str) -> bool | int | float | str | None:
    """Value of an unquoted scalar; ValueError says what is wrong with a number that is too long or not finite."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    number = _number(text)
    return text if number is None else number


def _number(text: str) -> int | float | None:
    """The number that ``text`` is, None if it is none."""
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    for pattern, base in ((_DECIMAL, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            return int(_short(text), base)
    if not _FLOAT.fullmatch(text):
        return None
    number = float(_short(text))
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number


def _short(text: str) -> str:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"{text[:40]}... is a number of {len(text)} characters; at most {LONGEST_NUMBER} are read")
    return text
