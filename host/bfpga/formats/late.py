"""What a class of a lower floor shows of itself is computed on a higher one: found by name when a user asks for it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast


def late(module: str, name: str) -> Callable[..., Any]:
    """The function of a module that is imported now: data stays free of what presents it, and of what that imports."""
    return cast("Callable[..., Any]", getattr(import_module(module), name))
