"""Rules on the addresses of a built design."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.built import BuiltDesign, BuiltSegment
from bfpga.vendor.tcl_check.catalog import WINDOWS

_SMARTCONNECT = "xilinx.com:ip:smartconnect"


def reached(built: BuiltDesign, master: str) -> list[str]:
    """Slave interfaces that a master interface reaches, through interconnects."""
    slaves, waiting, seen = [], [master], set()
    while waiting:
        end = waiting.pop()
        if end in seen:
            continue
        seen.add(end)
        for link in built.links:
            if link.master != end:
                continue
            cell = link.slave.split("/")[0]
            if built.cells[cell].ip == _SMARTCONNECT:
                waiting += [f"{cell}/{name}" for name, i in built.cells[cell].component.interfaces.items() if i.master]
            else:
                slaves.append(link.slave)
    return slaves


def address_findings(design: BlockDesign, built: BuiltDesign) -> Iterator[Finding]:
    """Everything that is wrong with the addresses."""
    blocks = built.blocks()
    for space, masters in built.spaces().items():
        segments = [segment for segment in built.segments if segment.space == space]
        known = {blocks[segment.block] for segment in segments}
        slaves = {slave: master for master in masters for slave in reached(built, master)}
        for slave in sorted(slaves.keys() - known):
            line = built.cells[slave.split("/")[0]].line
            problem = f"`{slave}` has no address in `{space}`"
            yield Finding(built.script, line, "address-missing", problem, "assign one with assign_bd_address")
        for segment in segments:
            slave = blocks[segment.block]
            if slave in slaves:
                yield from _one(design, built, segment, slaves[slave])
            else:
                problem = f"`{segment.block}` cannot be reached from `{space}`"
                yield _finding(built, segment, "address-unreachable", problem, "connect it, or assign no address")
        yield from _overlaps(built, segments)


def _one(design: BlockDesign, built: BuiltDesign, segment: BuiltSegment, master: str) -> Iterator[Finding]:
    base, size, end = segment.base, segment.size, segment.base + segment.size
    if size <= 0 or size & (size - 1) or base % size:
        problem = f"`{segment.block}` has {size:#x} bytes at {base:#x}"
        yield _finding(built, segment, "address-alignment", problem, "a power of two, at a multiple of it")
    cell, name = master.split("/")
    low, high = WINDOWS.get(name, (0, 1 << _address_bits(built, cell)))
    if base < low or end > high:
        problem = f"`{segment.block}` lies at {base:#x}..{end - 1:#x}, outside of what `{master}` reaches"
        yield _finding(built, segment, "address-window", problem, f"{low:#x}..{high - 1:#x}")
    if built.cells[segment.block.split("/")[0]].ip == design.system.ip:
        memory = min(design.accelerator.board.ddr_mib << 20, design.system.low_memory)
        if end > memory:
            problem = f"`{segment.block}` ends at {end:#x}"
            remedy = f"{design.accelerator.board.title} has {memory:#x} bytes there"
            yield _finding(built, segment, "address-memory", problem, remedy)


def _address_bits(built: BuiltDesign, cell: str) -> int:
    text = built.cells[cell].parameters.get("c_addr_width", "32")
    return int(text)


def _overlaps(built: BuiltDesign, segments: list[BuiltSegment]) -> Iterator[Finding]:
    ordered = sorted(segments, key=lambda segment: segment.line)
    for n, segment in enumerate(ordered):
        for earlier in ordered[:n]:
            if segment.base < earlier.base + earlier.size and earlier.base < segment.base + segment.size:
                problem = f"`{segment.block}` overlaps `{earlier.block}` of line {earlier.line}"
                yield _finding(
                    built, segment, "address-overlap", problem, f"it needs {segment.size:#x} bytes elsewhere"
                )


def _finding(built: BuiltDesign, segment: BuiltSegment, rule: str, problem: str, remedy: str) -> Finding:
    return Finding(built.script, segment.line, rule, problem, remedy)
