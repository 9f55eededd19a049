"""What the text of the sparse cluster's headers says about its memories: requirements that are met by reading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bfpga.vendor.render import library_directory

ROOM = library_directory() / "bfpga" / "sparse_cluster"
HEADERS = sorted(ROOM.rglob("*.hpp"))
STORAGE = re.compile(r"#pragma HLS BIND_STORAGE (.*)")
DEPENDENCE = re.compile(r"#pragma HLS DEPENDENCE (.*)")


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.relative_to(ROOM).as_posix())
def test_memories_are_ram_or_registers(header: Path) -> None:
    """SC R54: no cache; RAM with a write and a read port, everything else is completely partitioned or a scalar"""
    for arguments in STORAGE.findall(header.read_text()):
        fields = dict(field.split("=") for field in arguments.split())
        assert fields["type"] == "ram_s2p"
        assert fields["impl"] in ("bram", "lutram")


def test_every_unit_has_a_memory_of_its_own() -> None:
    """SC R39, R40, R45: unit and memory are one class: memory i serves unit i only, and a unit has no other source"""
    text = (ROOM / "unit.hpp").read_text()
    unit = text[text.index("class SparseUnit") :]
    assert unit.count("SegmentMemory<Config> memory_;") == 1
    everywhere = "".join(path.read_text() for path in HEADERS if path != ROOM / "memory.hpp")
    assert everywhere.count("SegmentMemory<") == 1, "no memory but those of units, and no other reader"


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.relative_to(ROOM).as_posix())
def test_a_dependence_is_denied_for_a_reason(header: Path) -> None:
    """SC R116, section 7.2: a distance that the schedule keeps, or a comment above that says why there is none"""
    lines = header.read_text().splitlines()
    for number, line in enumerate(lines):
        found = DEPENDENCE.search(line)
        if found and "distance=" not in found[1]:
            above = [text.strip() for text in lines[max(0, number - 8) : number]]
            assert any(text.startswith("//") for text in above), f"{header.name}:{number + 1}"
