"""The exported IP against what the block design and the driver expect of the kernel.

Reads `component.xml` (IP-XACT) and, where the tool has written it, the driver's header `x..._hw.h`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bfpga.contract.registers import (
    ARGUMENT_REGISTERS,
    BLOCK_REGISTERS,
    CONTROL_PORT,
    INPUT_STREAM,
    OUTPUT_STREAM,
    REGISTERS,
    WEIGHT_STREAM,
    Register,
)
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.xml_reader import read_xml, text
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.kernel_ips import kernel_vlnv

#: Pins that every kernel with a control port has.
PINS = ("ap_clk", "ap_rst_n", "interrupt")
#: Names of the block registers in the driver's header, in the order of BLOCK_REGISTERS.
HEADER_BLOCK_NAMES = ("AP_CTRL", "GIE", "IER", "ISR")
_DEFINE = re.compile(r"^#define\s+X\w+?_CONTROL_ADDR_(\w+)\s+(0x[0-9a-fA-F]+)", re.MULTILINE)


@dataclass(frozen=True)
class Interface:
    """A bus interface of an IP. ``kind``: axis, aximm, clock, ...; ``mode``: slave or master; ``bits``: data width."""

    kind: str
    mode: str
    bits: int | None
    signals: frozenset[str]


def check_ip(design: BlockDesign, component: Path) -> None:
    """BuildError that lists every difference between the exported IP and the design."""
    root = read_xml(component, "interface")
    problems = [
        *_identity_problems(root),
        *_stream_problems(design, read_interfaces(root)),
        *_pin_problems(root, read_interfaces(root)),
        *_register_problems(root, component),
    ]
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise BuildError(
            "interface", f"the exported IP is not the kernel of the design:\n{listed}\n{component}", component
        )


def read_interfaces(root: ElementTree.Element) -> dict[str, Interface]:
    """Bus interfaces of a component by name."""
    widths = {text(port, "name"): _port_bits(port) for port in root.findall("./model/ports/port")}
    return {text(bus, "name"): _interface(bus, widths) for bus in root.findall("./busInterfaces/busInterface")}


def _interface(bus: ElementTree.Element, widths: dict[str, int]) -> Interface:
    bus_type = bus.find("busType")
    kind = "" if bus_type is None else bus_type.get("name", "")
    signals = {
        text(item, "logicalPort/name"): text(item, "physicalPort/name") for item in bus.findall("./portMaps/portMap")
    }
    mode = next((mode for mode in ("slave", "master") if bus.find(mode) is not None), "")
    return Interface(kind, mode, widths.get(signals.get("TDATA", "")), frozenset(signals))


def _port_bits(port: ElementTree.Element) -> int:
    left, right = text(port, "wire/vector/left"), text(port, "wire/vector/right")
    return abs(int(left) - int(right)) + 1 if left.isdigit() and right.isdigit() else 1


def _identity_problems(root: ElementTree.Element) -> list[str]:
    found = ":".join(text(root, part) for part in ("vendor", "library", "name", "version"))
    return [] if found == kernel_vlnv() else [f"is {found}, must be {kernel_vlnv()}"]


def _stream_problems(design: BlockDesign, interfaces: dict[str, Interface]) -> list[str]:
    config = design.accelerator.systolic
    expected = (
        (INPUT_STREAM, "slave", config.stream_bits),
        (WEIGHT_STREAM, "slave", config.weight_stream_bits),
        (OUTPUT_STREAM, "master", config.stream_bits),
    )
    problems = []
    for name, mode, bits in expected:
        found = interfaces.get(name)
        if found is None or found.kind != "axis":
            streams = ", ".join(sorted(key for key, item in interfaces.items() if item.kind == "axis"))
            problems.append(f"has no stream port {name}; its streams: {streams or 'none'}")
            continue
        if found.mode != mode:
            problems.append(f"stream port {name} is a {found.mode}, must be a {mode}")
        if found.bits != bits:
            problems.append(f"stream port {name} has {found.bits} bits, must have {bits}")
        if "TLAST" not in found.signals:
            problems.append(f"stream port {name} has no TLAST; a DMA would wait for ever")
    return problems


def _pin_problems(root: ElementTree.Element, interfaces: dict[str, Interface]) -> list[str]:
    ports = {text(port, "name") for port in root.findall("./model/ports/port")}
    problems = [f"has no pin {name}" for name in PINS if name not in ports]
    control = interfaces.get(CONTROL_PORT)
    if control is None or (control.kind, control.mode) != ("aximm", "slave"):
        problems.append(f"has no AXI-Lite slave {CONTROL_PORT}")
    return problems


def _register_problems(root: ElementTree.Element, component: Path) -> list[str]:
    """Offsets in the component and in the driver's header; one of them must name the registers."""
    component_offsets = {
        text(item, "name"): _offset(text(item, "addressOffset"))
        for item in root.findall("./memoryMaps/memoryMap/addressBlock/register")
    }
    sources = [(component.name, component_offsets, {item.name: item for item in REGISTERS})]
    for header in sorted(component.parent.glob("drivers/*/src/*_hw.h")):
        offsets = {name: _offset(value) for name, value in _DEFINE.findall(header.read_text(errors="replace"))}
        sources.append((header.name, offsets, _header_names()))
    sources = [source for source in sources if source[1]]
    if not sources:
        return [f"names no registers of {CONTROL_PORT}"]
    return [problem for source in sources for problem in _offset_problems(*source)]


def _header_names() -> dict[str, Register]:
    names = dict(zip(HEADER_BLOCK_NAMES, BLOCK_REGISTERS, strict=True))
    return names | {f"{item.name.upper()}_DATA": item for item in ARGUMENT_REGISTERS}


def _offset(value: str) -> int | None:
    try:
        return int(value, 0)
    except ValueError:
        return None


def _offset_problems(source: str, offsets: dict[str, int | None], names: dict[str, Register]) -> list[str]:
    problems = []
    for name, register in names.items():
        found = offsets.get(name)
        if found is None:
            problems.append(f"{source} has no register {register.name}")
        elif found != register.offset:
            problems.append(
                f"register {register.name} is at 0x{found:02x} in {source}, must be at 0x{register.offset:02x}"
            )
    return problems
