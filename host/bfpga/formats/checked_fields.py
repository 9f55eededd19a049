"""Fields of dataclasses, checked when an instance is made: no file brings another type, or a number out of range.

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from bfpga.errors import ConfigurationError

#: Characters of a wrong value that a message shows.
_SHOWN = 40


@dataclass(frozen=True)
class Between:
    """A whole number from ``low`` to ``high``."""

    low: int
    high: int

    def holds(self, value: object) -> bool:
        """Whether ``value`` is one."""
        return type(value) is int and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"a whole number {self.low}..{self.high}"


@dataclass(frozen=True)
class Among:
    """One of ``choices``."""

    choices: tuple[int | str, ...]

    def holds(self, value: object) -> bool:
        """Whether ``value`` is one; true is not 1."""
        return any(type(value) is type(choice) and value == choice for choice in self.choices)

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.choices))}"


@dataclass(frozen=True)
class _Rule:
    """What a field holds, and how a message says it."""

    holds: Callable[[object], bool]
    text: str


def check_fields(value: Any, what: str) -> None:
    """Check every field of a dataclass by its annotation, int with ``Between`` or ``Among``; ``what``: named in errors.

    ConfigurationError for the first field that holds something else.
    """
    kind: type = type(value)
    for name, rule in _rules(kind):
        held = getattr(value, name)
        if not rule.holds(held):
            raise ConfigurationError(f"{what}: {name} is {shown(held)}; must be {rule.text}")


def shown(value: object) -> str:
    """A value as one line of a message, shortened."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


@functools.cache
def _rules(kind: type) -> tuple[tuple[str, _Rule], ...]:
    """The rule of each field of a dataclass; TypeError for a field whose annotation gives none."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((item.name, _rule(hints[item.name])) for item in fields(kind))


def _rule(hint: Any) -> _Rule:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        (rule,) = (item for item in arguments[1:] if isinstance(item, (Between, Among)))
        return _Rule(rule.holds, str(rule))
    if origin is Literal:
        return _rule(Annotated[Any, Among(arguments)])
    if hint is bool:
        return _Rule(lambda value: type(value) is bool, "true or false")
    if origin is tuple:
        inner = _rule(arguments[0])
        return _Rule(
            lambda value: isinstance(value, tuple) and all(inner.holds(item) for item in value),
            f"a list of which each is {inner.text}",
        )
    if origin in (Union, UnionType):
        (inner,) = (_rule(item) for item in arguments if item is not NoneType)
        return _Rule(lambda value: value is None or inner.holds(value), f"{inner.text}, or null")
    if isinstance(hint, type) and tuple(_field_names(hint)):
        return _Rule(lambda value: isinstance(value, hint), f"the fields of {hint.__name__}")
    raise TypeError(f"no rule says what a field of {hint} may hold: annotate it with Between or Among")


def _field_names(kind: type) -> Iterator[str]:
    yield from getattr(kind, "__dataclass_fields__", ())
