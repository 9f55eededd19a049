"""Engines beside the array that a search tries: those of the ready accelerators, as they are there."""

from __future__ import annotations

from functools import cache
from typing import Any

from bfpga.accelerator.boards import resolve
from bfpga.accelerator.loader import accelerator_names
from bfpga.accelerator.yaml_reader import read_document
from bfpga.contract.engine_numbers import ARRAY

#: The choice of nothing beside the array.
ALONE = "none"


@cache
def ready_beside() -> dict[str, tuple[dict[str, Any], ...]]:
    """Sections of the engines beside the array, by the name of the ready accelerator that has them."""
    found = {name: _beside(name) for name in accelerator_names()}
    return {name: sections for name, sections in found.items() if sections}


def _beside(name: str) -> tuple[dict[str, Any], ...]:
    value = read_document(resolve(name, "accelerators"), "an accelerator").value
    return tuple(section for section in value["engines"] if section["kind"] != ARRAY)


def beside_sections(choice: str) -> tuple[dict[str, Any], ...]:
    """The sections of a choice; none for ``ALONE``."""
    return ready_beside().get(choice, ())
