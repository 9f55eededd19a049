"""Kernels with other numbers than a given one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bfpga.contract.configuration import KernelConfig

#: What the names of an array's own numbers begin with.
OF_ARRAY = "array_"


def changed(config: KernelConfig, **numbers: Any) -> KernelConfig:
    """A kernel with other numbers, of its own or, as `array_words`, of its array."""
    own = {name: value for name, value in numbers.items() if not name.startswith(OF_ARRAY)}
    array = {name.removeprefix(OF_ARRAY): value for name, value in numbers.items() if name.startswith(OF_ARRAY)}
    if array:
        own["array"] = replace(own.get("array", config.array), **array)
    return replace(config, **own)
