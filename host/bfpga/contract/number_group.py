"""Numbers that the C++ of a kernel reads, in groups of its rendered header. Only the standard library is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

#: A number in C++; a text is a member of an enumeration, as `Rounding::HalfUp`.
Number: TypeAlias = "int | bool | str"


@dataclass(frozen=True)
class NumberGroup:
    """Numbers that belong together, by their names in C++."""

    comment: str
    numbers: Mapping[str, Number]


def number_group(comment: str, **numbers: Number) -> NumberGroup:
    """A group from its comment and its numbers."""
    return NumberGroup(comment, numbers)
