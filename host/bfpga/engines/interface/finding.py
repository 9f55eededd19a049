"""A wrong number of a configuration."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """The key it belongs to, and what would be right."""

    key: str
    text: str
