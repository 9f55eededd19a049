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
    REGISTERS,
    Register,
)
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.xml_reader import read_xml, text
from bfpga.vendor.kernel_ips import KernelIp

#: Pins that every IP has, the one of the control port, and the one of a block protocol that nothing here serves.
PINS, INTERRUPT_PIN, START_PIN = ("ap_clk", "ap_rst_n"), "interrupt", "ap_start"
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


def check_ip(ip: KernelIp, component: Path) -> None:
    """BuildError that lists every difference between an exported IP and the design."""
    root = read_xml(component, "interface")
    interfaces = read_interfaces(root)
    problems = [*_identity_problems(ip, root), *_stream_problems(ip, interfaces), *_pin_problems(ip, root, interfaces)]
    if ip.control:
        problems += _register_problems(root, component)
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise BuildError(
            "interface", f"the exported IP is not {ip.title} of the design:\n{listed}\n{component}", component
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


def _identity_problems(ip: KernelIp, root: ElementTree.Element) -> list[str]:
    found = ":".join(text(root, part) for part in ("vendor", "library", "name", "version"))
    return [] if found == ip.vlnv else [f"is {found}, must be {ip.vlnv}"]


def _stream_problems(ip: KernelIp, interfaces: dict[str, Interface]) -> list[str]:
    problems = []
    for port in ip.streams:
        found, mode = interfaces.get(port.name), "master" if port.master else "slave"
        if found is None or found.kind != "axis":
            streams = ", ".join(sorted(key for key, item in interfaces.items() if item.kind == "axis"))
            problems.append(f"has no stream port {port.name}; its streams: {streams or 'none'}")
            continue
        if found.mode != mode:
            problems.append(f"stream port {port.name} is a {found.mode}, must be a {mode}")
        if found.bits != port.bits:
            problems.append(f"stream port {port.name} has {found.bits} bits, must have {port.bits}")
        if port.packets and "TLAST" not in found.signals:
            problems.append(f"stream port {port.name} has no TLAST; a DMA would wait for ever")
    return problems


def _pin_problems(ip: KernelIp, root: ElementTree.Element, interfaces: dict[str, Interface]) -> list[str]:
    ports = {text(port, "name") for port in root.findall("./model/ports/port")}
    wanted = (*PINS, INTERRUPT_PIN) if ip.control else PINS
    problems = [f"has no pin {name}" for name in wanted if name not in ports]
    control = interfaces.get(CONTROL_PORT)
    if ip.control and (control is None or (control.kind, control.mode) != ("aximm", "slave")):
        problems.append(f"has no AXI-Lite slave {CONTROL_PORT}")
    if not ip.control and (control is not None or START_PIN in ports):
        port = CONTROL_PORT if control is not None else START_PIN
        problems.append(f"has {port} and would wait for a start that never comes; it must be ap_ctrl_none")
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
