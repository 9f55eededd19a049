"""Numbers of an engine by their names in C++."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bfpga.contract.engine_numbers import EngineNumbers


def header_numbers(prefix: str, build: EngineNumbers, *derived: str) -> dict[str, int]:
    """Every number of a build and the derived ones, which it has as properties; its multiplier is a type in C++."""
    values: Any = build
    numbers = {name: value for name, value in asdict(values).items() if name != "multiplier"}
    numbers |= {name: getattr(build, name) for name in derived}
    return {f"{prefix}_{name}": value for name, value in numbers.items()}
