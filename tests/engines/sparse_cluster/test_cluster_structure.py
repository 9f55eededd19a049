"""Memories of the sparse cluster: what the text of its headers says, and which unit is joined to which queue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from changed_kernels import changed
from cluster_configs import CLUSTER

from bfpga.contract.arrays.sparse_cluster import BROADCAST, DISTRIBUTOR, cluster_array, map_array
from bfpga.contract.processes import process_streams
from bfpga.vendor.render import library_directory

ROOM = library_directory() / "bfpga" / "processes" / "sparse_cluster"
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


@pytest.mark.parametrize(("variant", "products"), [("E", 4), ("A", 4), ("B", 4), ("C", 6), ("D", 6)])
def test_every_unit_has_a_memory_of_its_own(variant: str, products: int) -> None:
    """SC R39, R40, R45, R46: queue i holds piece i, values with their places, and is joined to unit i alone."""
    config = changed(CLUSTER, array_variant=variant, array_lanes=products)
    streams = process_streams(config)
    for number in range(map_array(config.array).units):
        own = [stream for stream in streams if stream.name == f"pieces_{number}"]
        assert [(stream.source, stream.depth) for stream in own] == [(DISTRIBUTOR, cluster_array(config.array).queue)]
        unit = f"unit_{number}"
        readers = {stream.target for stream in own} | {s.target for s in streams if s.source == f"gather_{number}"}
        assert readers - {f"gather_{number}"} == {unit}
        before = {stream.source for stream in streams if stream.target in (unit, f"gather_{number}")}
        assert before <= {DISTRIBUTOR, BROADCAST, f"gather_{number}"}, "no other unit, and no memory of another one"


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.relative_to(ROOM).as_posix())
def test_a_dependence_is_denied_for_a_reason(header: Path) -> None:
    """SC R116, section 7.2: a distance that the schedule keeps, or a comment above that says why there is none"""
    lines = header.read_text().splitlines()
    for number, line in enumerate(lines):
        found = DEPENDENCE.search(line)
        if found and "distance=" not in found[1]:
            above = [text.strip() for text in lines[max(0, number - 8) : number]]
            assert any(text.startswith("//") for text in above), f"{header.name}:{number + 1}"
