"""The hardware handoff (`.hwh`) of a block design: what PYNQ and the virtual board read where Vivado has not run.

A build brings Vivado's own file. This one has what PYNQ's parsers take from it, in the same form: cells, parameters,
registers, wires, interfaces and address ranges; parsed by pynqmetadata 0.1.2 to 0.2.0 (PYNQ 3.0.1 to 4.0.0).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jinja2

from bfpga.accelerator.clocks import ClockSetting
from bfpga.vendor.block_design import BlockDesign, Cell, Link, Net, Segment
from bfpga.vendor.ip_registers import (
    WIDTH,
    IpRegister,
    counter_registers,
    dma_registers,
    interrupt_controller_registers,
    kernel_registers,
)

_COMMENT = "Rendered by bfpga from the block design, for the virtual board; a build brings the file of Vivado."
#: XML attributes in the order they are written.
Attributes = list[tuple[str, str]]

#: Class of a module where it is not a plain peripheral.
_CLASSES = {"axi_intc": "INTERRUPT_CNTLR", "smartconnect": "BUS"}
#: Architecture as `SYSTEMINFO` calls it.
_ARCHITECTURES = {"zynq7": "zynq", "zynqmp": "zynquplus"}
#: xc7z020clg400-1: device, package, speed; the newer parts have hyphens between them.
_PART = {
    "zynq7": re.compile(r"xc(?P<device>7z\d+s?)(?P<package>[a-z]+\d+)(?P<speed>-.+)"),
    "zynqmp": re.compile(r"(?P<device>\w+)-(?P<package>[a-z]+\d+)(?P<speed>-.+)"),
}
#: Clocks of the logic that a processing system has; PYNQ asks for every one.
_CLOCKS = 4
#: What Vivado says of a clock that is switched off.
_OFF = ClockSetting(10.0, 10.0, 1, 1)
#: Data width of the control port on Zynq UltraScale+ unless it is set (PG201).
_CONTROL_PORT_BITS = "128"


def render_handoff(design: BlockDesign) -> str:
    """The text of the `.hwh` of ``design``; the same design gives the same text."""
    template = _environment().get_template("handoff.hwh.j2")
    return template.render(
        comment=_COMMENT,
        system=_system(design),
        modules=[_module(design, cell) for cell in design.cells],
        register_bits=WIDTH,
    )


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("vitis_hls_templates", "hwh"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=True,
    )


def _system(design: BlockDesign) -> Attributes:
    board, family = design.accelerator.board, design.system.name
    part = _PART[family].fullmatch(board.part)
    return [
        ("ARCH", _ARCHITECTURES[family]),
        ("BOARD", board.board_part),
        # A part of another form is given whole: PYNQ does not read it.
        ("DEVICE", part["device"] if part else board.part),
        ("NAME", design.accelerator.name),
        ("PACKAGE", part["package"] if part else ""),
        ("SPEEDGRADE", part["speed"] if part else ""),
    ]


def _module(design: BlockDesign, cell: Cell) -> dict[str, Any]:
    kind = cell.ip.split(":")[-1]
    attributes = [
        ("FULLNAME", f"/{cell.name}"),
        ("HWVERSION", cell.version),
        ("INSTANCE", cell.name),
        ("IPTYPE", "PERIPHERAL"),
        ("IS_ENABLE", "1"),
        # Up to pynqmetadata 0.1.9 only this attribute distinguishes the processing system from the logic.
        ("IS_PL", "FALSE") if cell.ip == design.system.ip else ("MODCLASS", _CLASSES.get(kind, "PERIPHERAL")),
        ("MODTYPE", kind),
        ("VLNV", f"{cell.ip}:{cell.version}"),
    ]
    return {
        "attributes": attributes,
        "blocks": list(_blocks(design, cell)),
        "parameters": [*cell.parameters.items(), *derived_parameters(design, cell).items()],
        "ports": list(_ports(design, cell)),
        "interfaces": list(_interfaces(design, cell)),
        "ranges": [_range(segment) for segment in design.segments if _split(segment.master)[0] == cell.name],
    }


def _split(end: str) -> tuple[str, str]:
    """Cell and pin or interface of `cell/name`."""
    cell, _, name = end.partition("/")
    return cell, name


# Registers


def _blocks(design: BlockDesign, cell: Cell) -> Iterator[dict[str, Any]]:
    for segment in design.segments:
        owner, interface = _split(segment.slave)
        if owner == cell.name and segment.usage == "register":
            yield {
                "interface": interface,
                "name": segment.block,
                "size": segment.size,
                "registers": _registers(design, cell),
            }


def _registers(design: BlockDesign, cell: Cell) -> tuple[IpRegister, ...]:
    kind = cell.ip.split(":")[-1]
    if kind == "axi_dma":
        return dma_registers(cell.parameters)
    if kind == "axi_intc":
        return interrupt_controller_registers(_inputs(design, cell))
    return counter_registers() if cell.module else kernel_registers()


def _inputs(design: BlockDesign, cell: Cell) -> int:
    """Lines of an interrupt controller."""
    return next(net.bits for net in design.nets if f"{cell.name}/intr" in net.loads)


# Parameters that Vivado derives from those that a design sets


def derived_parameters(design: BlockDesign, cell: Cell) -> dict[str, str]:
    """Parameters of a cell that no script sets and that a handoff has: dividers and actual clocks, widths, inputs."""
    if cell.ip == design.system.ip:
        clocks = [design.clock] + [_OFF] * (_CLOCKS - 1)
        if design.system.name == "zynq7":
            return _zynq7_clocks(clocks)
        return _zynqmp_clocks(clocks) | _zynqmp_widths(cell.parameters)
    if cell.ip.endswith(":axi_intc"):
        return {"C_NUM_INTR_INPUTS": str(_inputs(design, cell))}
    return {}


def _zynq7_clocks(clocks: list[ClockSetting]) -> dict[str, str]:
    result: dict[str, str] = {}
    for number, clock in enumerate(clocks):
        result |= {
            f"PCW_FPGA_FCLK{number}_ENABLE": _enabled(clock),
            f"PCW_FCLK{number}_PERIPHERAL_CLKSRC": "IO PLL",
            f"PCW_FCLK{number}_PERIPHERAL_DIVISOR0": str(clock.divisor0),
            f"PCW_FCLK{number}_PERIPHERAL_DIVISOR1": str(clock.divisor1),
            f"PCW_ACT_FPGA{number}_PERIPHERAL_FREQMHZ": f"{clock.actual_mhz:.6f}",
        }
    return result


def _zynqmp_clocks(clocks: list[ClockSetting]) -> dict[str, str]:
    result: dict[str, str] = {}
    for number, clock in enumerate(clocks):
        prefix = f"PSU__CRL_APB__PL{number}_REF_CTRL__"
        # The first clock is switched on by the design itself.
        enable = {f"PSU__FPGA_PL{number}_ENABLE": _enabled(clock)} if number else {}
        result |= enable | {
            f"{prefix}SRCSEL": "IOPLL",
            f"{prefix}DIVISOR0": str(clock.divisor0),
            f"{prefix}DIVISOR1": str(clock.divisor1),
            f"{prefix}ACT_FREQMHZ": f"{clock.actual_mhz:.6f}",
        }
    return result


def _enabled(clock: ClockSetting) -> str:
    return "0" if clock is _OFF else "1"


def _zynqmp_widths(parameters: Mapping[str, str]) -> dict[str, str]:
    """Port widths under the names from which PYNQ programs the width registers of the ports when it loads."""
    width = re.compile(r"PSU__(?P<port>[SM]AXIGP\d)__DATA_WIDTH")
    matches = {name: width.fullmatch(name) for name in parameters}
    widths = {f"C_{match['port']}_DATA_WIDTH": parameters[name] for name, match in matches.items() if match}
    return {"C_MAXIGP0_DATA_WIDTH": _CONTROL_PORT_BITS} | widths


# Wires and interfaces


def _ports(design: BlockDesign, cell: Cell) -> Iterator[dict[str, Any]]:
    for net in design.nets:
        for end in (net.driver, *net.loads):
            owner, pin = _split(end)
            if owner != cell.name:
                continue
            drives = end == net.driver
            others = net.loads if drives else (net.driver,)
            yield {
                "attributes": _port_attributes(design, net, pin, "O" if drives else "I"),
                "connections": [_split(other) for other in others],
            }


def _port_attributes(design: BlockDesign, net: Net, pin: str, direction: str) -> Attributes:
    attributes = [("DIR", direction), ("NAME", pin), ("SIGIS", _signal(net)), ("SIGNAME", net.driver.replace("/", "_"))]
    if _signal(net) == "clk":
        attributes.append(("CLKFREQUENCY", str(round(design.clock.actual_mhz * 1e6))))
    if net.bits > 1:
        attributes += [("LEFT", str(net.bits - 1)), ("RIGHT", "0")]
    return sorted(attributes)


def _signal(net: Net) -> str:
    """What a wire carries, in the words of the handoff."""
    if net.name == "clock":
        return "clk"
    return "rst" if net.name.endswith("reset") else "INTERRUPT"


def _interfaces(design: BlockDesign, cell: Cell) -> Iterator[dict[str, Any]]:
    for link in design.links:
        stream = link.protocol == "axis"
        ends = (
            (link.master, "INITIATOR" if stream else "MASTER"),
            (link.slave, "TARGET" if stream else "SLAVE"),
            (link.monitor, "MONITOR"),
        )
        for end, role in ends:
            if end is not None and _split(end)[0] == cell.name:
                yield _interface(link, _split(end)[1], role)


def _interface(link: Link, name: str, role: str) -> dict[str, Any]:
    """All ends of a link carry the same BUSNAME, the master's, and no other interface does."""
    stream = link.protocol == "axis"
    attributes = [
        ("BUSNAME", link.name),
        ("NAME", name),
        ("TYPE", role),
        ("VLNV", f"xilinx.com:interface:{link.protocol}:1.0"),
    ]
    if link.bits and not stream:
        attributes.insert(1, ("DATAWIDTH", str(link.bits)))
    last = str(int(link.packets))
    parameters = [("TDATA_NUM_BYTES", str(link.bits // 8)), ("HAS_TLAST", last)] if link.bits and stream else []
    return {"attributes": attributes, "parameters": parameters}


# Addresses


def _range(segment: Segment) -> Attributes:
    instance, slave = _split(segment.slave)
    return [
        ("ADDRESSBLOCK", segment.block),
        ("BASENAME", "C_BASEADDR"),
        ("BASEVALUE", f"0x{segment.base:08X}"),
        ("HIGHNAME", "C_HIGHADDR"),
        ("HIGHVALUE", f"0x{segment.base + segment.size - 1:08X}"),
        ("INSTANCE", instance),
        ("IS_DATA", "TRUE"),
        ("IS_INSTRUCTION", "TRUE"),
        ("MASTERBUSINTERFACE", _split(segment.master)[1]),
        ("MEMTYPE", segment.usage.upper()),
        ("SLAVEBUSINTERFACE", slave),
    ]
