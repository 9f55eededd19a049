"""The built design against the block design it was rendered from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.built import BuiltDesign

#: A kind (cell, parameter, automation, link, wire, segment) and its parts; the first of them starts with a cell's name.
Fact = tuple[Any, ...]


def wanted_facts(design: BlockDesign) -> set[Fact]:
    """The block design as a set of facts: cells, parameters, automation, links, wires, segments."""
    cells = {("cell", cell.name, cell.ip) for cell in design.cells}
    parameters = {
        ("parameter", cell.name, name, value) for cell in design.cells for name, value in cell.parameters.items()
    }
    links = {("link", link.master, link.slave) for link in design.links}
    links |= {("monitor", link.master, link.monitor) for link in design.links if link.monitor}
    wires = {("wire", net.driver, load) for net in design.nets for load in net.loads}
    segments = {("segment", s.master, s.slave, s.block, s.base, s.size) for s in design.segments}
    system = next(cell.name for cell in design.cells if cell.ip == design.system.ip)
    automation = ("automation", system, design.system.automation, design.system.automation_config)
    return {automation, *cells, *parameters, *links, *wires, *segments}


def built_facts(built: BuiltDesign) -> dict[Fact, int]:
    """What a script has built as the same facts, each with its line."""
    facts: dict[Fact, int] = {}
    for cell in built.cells.values():
        facts["cell", cell.name, cell.ip] = cell.line
        if cell.automation:
            options = cell.automation.options
            facts["automation", cell.name, options.get("-rule"), options.get("-config")] = cell.automation.line
        facts |= {("parameter", cell.name, *pair): cell.line for pair in cell.parameters.items()}
    facts |= {("link", link.master, link.slave): link.line for link in built.links}
    facts |= {("monitor", item.watched, item.monitor): item.line for item in built.monitors}
    for net in built.nets:
        for driver in built.drivers(net):
            facts |= {("wire", driver, pin): line for pin, line in net.pins.items() if pin != driver}
    spaces, blocks = built.spaces(), built.blocks()
    for segment in built.segments:
        slave = blocks[segment.block]
        for master in spaces[segment.space]:
            block = segment.block.rpartition("/")[2]
            facts["segment", master, slave, block, segment.base, segment.size] = segment.line
    return facts


def design_findings(design: BlockDesign, built: BuiltDesign) -> Iterator[Finding]:
    """Facts that are missing, at the cell they belong to, and facts that nobody asked for."""
    wanted, found = wanted_facts(design), built_facts(built)
    for fact in sorted(wanted - found.keys(), key=str):
        problem = f"the block design has a {_text(fact)}, the script builds none"
        yield Finding(built.script, _line(built, fact), "design", problem, "render the script again")
    for fact in sorted(found.keys() - wanted, key=str):
        problem = f"the script builds a {_text(fact)}, the block design has none"
        yield Finding(built.script, found[fact], "design", problem, "render the script again")


def _text(fact: Fact) -> str:
    kind, *rest = fact
    return f"{kind} {' '.join(f'{item:#x}' if isinstance(item, int) else str(item) for item in rest)}"


def _line(built: BuiltDesign, fact: Fact) -> int:
    """Line of the first cell that a missing fact names; the end of the script if that is missing too."""
    name = fact[1].split("/")[0]
    return built.cells[name].line if name in built.cells else built.end
