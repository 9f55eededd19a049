"""Rules on a block design: what Vivado or PYNQ would refuse, and what would not work on the board."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bfpga.vendor.block_design import BlockDesign, Segment
from bfpga.vendor.tcl_check.ips import End, known_ips

#: Rule, the cell or end that it is about, what is wrong, what would be right.
Fault = tuple[str, str, str, str]
#: Where the masters of the processing systems can address the logic (UG585 table 4-1, UG1085 table 10-1).
_WINDOWS = {"M_AXI_GP0": (0x4000_0000, 0x8000_0000), "M_AXI_HPM0_FPD": (0xA000_0000, 0xB000_0000)}
#: Memory side of a channel of a DMA -> its stream.
_CHANNELS = {"M_AXI_MM2S": "M_AXIS_MM2S", "M_AXI_S2MM": "S_AXIS_S2MM"}


def design_ends(design: BlockDesign) -> dict[str, End]:
    """Every pin and interface of the cells by its path `cell/name`; none of an IP that is not known."""
    ips = known_ips(design.accelerator.config)
    cells = [cell for cell in design.cells if cell.ip in ips]
    return {f"{cell.name}/{name}": end for cell in cells for name, end in ips[cell.ip].shown(cell.parameters)}


def faults(design: BlockDesign) -> Iterator[Fault]:
    """Everything that is wrong with a block design."""
    ends = design_ends(design)
    yield from _cells(design)
    yield from _widths(design, ends)
    yield from _connections(design, ends)
    yield from _addresses(design, ends)


def _cells(design: BlockDesign) -> Iterator[Fault]:
    """IPs that are not known, and parameters that they do not have or that do not work here."""
    ips = known_ips(design.accelerator.config)
    names = [cell.name for cell in design.cells]
    for cell in design.cells:
        if names.count(cell.name) > 1:
            yield "cell", cell.name, f"there are two cells `{cell.name}`", "give every cell its own name"
        if cell.ip not in ips:
            yield "cell", cell.name, f"`{cell.ip}` is not an IP that the check knows", f"there are {', '.join(ips)}"
            continue
        known = ips[cell.ip].parameters
        for name in cell.parameters.keys() - known.keys():
            yield "parameter", cell.name, f"{cell.ip} has no parameter {name}", f"there are {', '.join(known)}"
        for name, (default, allowed) in known.items():
            value = cell.parameters.get(name, default)
            if not re.fullmatch(allowed, value, re.ASCII):
                stated = "is" if name in cell.parameters else "is not set, so it is"
                yield "parameter", cell.name, f"{name} of `{cell.name}` {stated} {value}", f"must match {allowed}"


def _widths(design: BlockDesign, ends: dict[str, End]) -> Iterator[Fault]:
    """Memory sides of DMAs hold their streams; memory ports are as wide as the board says."""
    board, memory_ports = design.accelerator.board, _memory_ports(design)
    for path, end in ends.items():
        cell, _, name = path.partition("/")
        stream = ends.get(f"{cell}/{_CHANNELS.get(name, '')}", end)
        if end.bits < stream.bits:
            problem = f"`{path}` has {end.bits} bits, its stream {stream.bits}"
            yield "parameter", cell, problem, "make the memory side as wide as the stream or wider"
        if name in memory_ports and end.bits != board.port_bits:
            yield "parameter", cell, f"`{path}` has {end.bits} bits", f"{board.title} has ports of {board.port_bits}"


def _memory_ports(design: BlockDesign) -> set[str]:
    return {port.name for port in design.system.memory_ports}


def _connections(design: BlockDesign, ends: dict[str, End]) -> Iterator[Fault]:
    """Every end has one connection, to an end of its kind and width in the other direction."""
    links = [(link.master, link.slave) for link in design.links]
    wires = [(net.driver, load) for net in design.nets for load in net.loads]
    watched = [(link.master, link.monitor) for link in design.links if link.monitor]
    for driver, load in links + wires + watched:
        missing = [path for path in (driver, load) if path not in ends]
        if missing:
            yield "connection", missing[0], f"there is no pin or interface `{missing[0]}`", "see the ends of the IP"
        elif problem := _misfit(ends[driver], ends[load], "monitored_" * ((driver, load) in watched)):
            remedy = "join an output or master with an input or slave of the same kind and width"
            yield "connection", load, f"`{driver}` is joined to `{load}`: {problem}", remedy
    used = [end for link in links for end in link] + [load for _, load in wires + watched]
    used += [net.driver for net in design.nets]
    for path, end in ends.items():
        if used.count(path) != 1:
            problem = f"`{path}` ({end.kind}) has {used.count(path) or 'no'} connections"
            yield "connection", path, problem, "connect it once"


def _misfit(driver: End, load: End, prefix: str) -> str:
    """Why two ends cannot be joined; empty if they can."""
    if not driver.output or load.output:
        return "two of the same direction"
    if load.kind != prefix + driver.kind:
        return f"{driver.kind} and {load.kind}"
    return f"{driver.bits} and {load.bits} bits" if driver.bits and load.bits and driver.bits != load.bits else ""


def _reached(design: BlockDesign, master: str) -> Iterator[str]:
    """Slave interfaces that a master reaches, through interconnects."""
    interconnects = {cell.name for cell in design.cells if cell.ip.endswith(":smartconnect")}
    for link in design.links:
        cell = link.slave.split("/")[0]
        if link.master == master and cell in interconnects:
            for end in (other.master for other in design.links if other.master.startswith(f"{cell}/")):
                yield from _reached(design, end)
        elif link.master == master:
            yield link.slave


def _addresses(design: BlockDesign, ends: dict[str, End]) -> Iterator[Fault]:
    """What a master reaches has one address in its space, and nothing else has."""
    for master in (path for path, end in ends.items() if end.output and end.address):
        reached = set(_reached(design, master))
        own = [segment for segment in design.segments if segment.master == master]
        for slave in reached ^ {segment.slave for segment in own}:
            what = "needs an address for" if slave in reached else "has an address but cannot be reached from"
            yield "address", slave, f"`{slave}` {what} `{master}`", "give one to every slave that it reaches, no other"
        for n, segment in enumerate(own):
            yield from _segment(design, segment, ends)
            for other in own[:n]:
                if segment.base < other.base + other.size and other.base < segment.base + segment.size:
                    problem = f"`{segment.slave}` overlaps `{other.slave}` at {segment.base:#x}"
                    yield "address", segment.slave, problem, f"it needs {segment.size:#x} bytes elsewhere"


def _segment(design: BlockDesign, segment: Segment, ends: dict[str, End]) -> Iterator[Fault]:
    base, size, slave = segment.base, segment.size, segment.slave
    low, high = _WINDOWS.get(segment.master.split("/")[1], (0, 1 << design.system.address_bits))
    if slave.split("/")[1] in _memory_ports(design):
        low, high = 0, min(design.accelerator.board.ddr_mib << 20, design.system.low_memory)
    if size <= 0 or size & (size - 1) or base % size:
        yield "address", slave, f"`{slave}` has {size:#x} bytes at {base:#x}", "a power of two, at a multiple of it"
    if base < low or base + size > high:
        problem = f"`{slave}` lies at {base:#x}..{base + size - 1:#x}, outside of what `{segment.master}` reaches"
        yield "address", slave, problem, f"{low:#x}..{high - 1:#x}"
    if slave in ends and ends[slave].address.rpartition("/")[2] != segment.block:
        yield "address", slave, f"`{slave}` has no block {segment.block}", f"it is {ends[slave].address}"
