"""The .hwh that Vivado wrote against the block design it was asked to build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.xml_reader import read_xml
from bfpga.vendor.block_design import BlockDesign, Cell, Segment

#: Differences that a message lists.
LISTED = 12


def check_handoff(design: BlockDesign, path: Path) -> None:
    """BuildError that lists cells, IP, parameters, addresses or a device that are not those of the design."""
    root = read_xml(path, "handoff")
    modules = {module.get("INSTANCE", ""): module for module in root.iter("MODULE")}
    problems = [
        *_device_problems(design, root),
        *(problem for cell in design.cells for problem in _cell_problems(design, cell, modules.get(cell.name))),
        *(problem for segment in design.segments for problem in _segment_problems(segment, modules)),
    ]
    if problems:
        more = [f"and {len(problems) - LISTED} more"] if len(problems) > LISTED else []
        listed = "\n".join(f"  {problem}" for problem in [*problems[:LISTED], *more])
        raise BuildError("handoff", f"the handoff file is not that of the design:\n{listed}\n{path}", path)


def _device_problems(design: BlockDesign, root: ElementTree.Element) -> Iterator[str]:
    """`DEVICE` is `7z020` or `xczu7ev`; the file of another version may lack it."""
    info = root.find("SYSTEMINFO")
    part = design.accelerator.board.part
    if info is not None and (device := info.get("DEVICE", "").lower().removeprefix("xc")):
        package = info.get("PACKAGE", "").lower()
        if not part.removeprefix("xc").startswith(device) or package not in part:
            yield f"is for {info.get('DEVICE')} in {info.get('PACKAGE')}, the board has {part}"


def _cell_problems(design: BlockDesign, cell: Cell, module: ElementTree.Element | None) -> Iterator[str]:
    if module is None:
        yield f"has no cell {cell.name}"
        return
    # Drivers bind to IP with registers by its version; of the rest any version will do.
    driven = any(item.usage == "register" and item.slave.split("/")[0] == cell.name for item in design.segments)
    vlnv = module.get("VLNV", "")
    compared, wanted = (vlnv, f"{cell.ip}:{cell.version}") if driven else (vlnv.rpartition(":")[0], cell.ip)
    if compared != wanted:
        yield f"cell {cell.name} is {vlnv}, must be {wanted}"
    found = {item.get("NAME", ""): item.get("VALUE", "") for item in module.iter("PARAMETER")}
    for name, value in cell.parameters.items():
        if name in found and not _same(found[name], value):
            yield f"cell {cell.name}: {name} is {found[name]}, must be {value}"


def _same(found: str, wanted: str) -> bool:
    """Equal as text or as numbers (`142` and `142.000`)."""
    try:
        return float(found) == float(wanted)
    except ValueError:
        return found == wanted


def _segment_problems(segment: Segment, modules: dict[str, ElementTree.Element]) -> Iterator[str]:
    """Every master must see its slave where the driver will look for it."""
    master, port = segment.master.split("/")
    slave, slave_port = segment.slave.split("/")
    module = modules.get(master)
    if module is None:
        return  # named above
    ranges = [
        item
        for item in module.iter("MEMRANGE")
        if (item.get("INSTANCE"), item.get("SLAVEBUSINTERFACE"), item.get("MASTERBUSINTERFACE"))
        == (slave, slave_port, port)
    ]
    if not ranges:
        yield f"{segment.master} does not reach {segment.slave}"
    elif all(int(item.get("BASEVALUE", "0"), 0) != segment.base for item in ranges):
        found = ", ".join(item.get("BASEVALUE", "") for item in ranges)
        yield f"{segment.slave} is at {found} for {segment.master}, must be at 0x{segment.base:08X}"
