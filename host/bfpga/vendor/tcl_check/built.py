"""The block design that a script builds, replayed from the commands it called."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.finding import Finding
from bfpga.vendor.kernel_ips import KERNEL_VERSION
from bfpga.vendor.tcl_check.catalog import CATALOG, COUNTER_REFERENCE, clock_counter, kernel
from bfpga.vendor.tcl_check.commands import Parsed, nearest
from bfpga.vendor.tcl_check.components import Component, Interface, Ip, Pin
from bfpga.vendor.tcl_check.scenarios import NEWEST


@dataclass
class BuiltCell:
    """A cell as created: its IP, what was set, and where."""

    name: str
    ip: str
    version: str
    line: int
    kind: Ip
    parameters: dict[str, str] = field(default_factory=dict)
    automation: Parsed | None = None

    @property
    def component(self) -> Component:
        return self.kind.component(self.parameters)

    def value(self, parameter: str) -> str:
        return self.kind.value(self.parameters, parameter)


@dataclass(frozen=True)
class BuiltLink:
    master: str
    slave: str
    line: int


@dataclass(frozen=True)
class BuiltMonitor:
    """An interface that watches the connection of another."""

    watched: str
    monitor: str
    line: int


@dataclass
class BuiltNet:
    """Pins that hang together; the driver is the one that is an output."""

    pins: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BuiltSegment:
    """``space`` and ``block`` as Vivado names them: `cell/space`, `cell/map/block`."""

    space: str
    block: str
    base: int
    size: int
    line: int


class BuiltDesign:
    """Cells, links, nets and segments, growing with every command; what does not exist is a finding."""

    def __init__(self, design: BlockDesign, script: str, text: str) -> None:
        self.script = script
        self._lines = text.splitlines()
        self.cells: dict[str, BuiltCell] = {}
        self.links: list[BuiltLink] = []
        self.monitors: list[BuiltMonitor] = []
        self.nets: list[BuiltNet] = []
        self.segments: list[BuiltSegment] = []
        self.findings: list[Finding] = []
        self.end = 1
        #: Verilog files of the project, and names given to connections with what they connect.
        self._sources: list[str] = []
        self._named: dict[str, tuple[str, str]] = {}
        config = design.accelerator.systolic
        own = kernel(config)
        self._modules: Mapping[str, Ip] = {COUNTER_REFERENCE: clock_counter(config)}
        self._catalog: Mapping[str, Ip] = {**CATALOG, **own}
        self._versions = dict.fromkeys(CATALOG, NEWEST) | dict.fromkeys(own, KERNEL_VERSION)

    def replay(self, commands: Sequence[Parsed]) -> BuiltDesign:
        """Apply the commands in their order."""
        handlers: dict[str, Callable[[Parsed], None]] = {
            "add_files": lambda command: self._sources.append(command.words[0]),
            "create_bd_cell": self._create_cell,
            "apply_bd_automation": self._automate,
            "set_property": self._set_property,
            "get_bd_intf_nets": lambda command: self._need(command, self._named, "named connection"),
            "get_bd_cells": lambda command: self._need(command, self.cells, "cell"),
            "get_bd_pins": lambda command: self._need_part(command, self.pin, lambda c: c.pins, "pin"),
            "get_bd_intf_pins": lambda command: self._need_part(
                command, self.interface, lambda c: c.interfaces, "interface"
            ),
            "get_bd_addr_spaces": lambda command: self._need(command, self.spaces(), "address space"),
            "get_bd_addr_segs": lambda command: self._need(command, self.blocks(), "address block"),
            "connect_bd_intf_net": self._connect_interfaces,
            "connect_bd_net": self._connect_pins,
            "assign_bd_address": self._assign,
        }
        for command in commands:
            self.end = max(self.end, command.line)
            handler = handlers.get(command.name)
            if handler:
                handler(command)
        return self

    # What exists

    def pin(self, path: str) -> Pin | None:
        """The pin `cell/pin`, if the cell has it with the parameters set so far."""
        cell, _, name = path.partition("/")
        return self.cells[cell].component.pins.get(name) if cell in self.cells else None

    def interface(self, path: str) -> Interface | None:
        """The interface `cell/interface`, if the cell has it with the parameters set so far."""
        cell, _, name = path.partition("/")
        return self.cells[cell].component.interfaces.get(name) if cell in self.cells else None

    def interfaces(self) -> dict[str, Interface]:
        """All interfaces by their paths."""
        return {
            f"{cell.name}/{name}": interface
            for cell in self.cells.values()
            for name, interface in cell.component.interfaces.items()
        }

    def spaces(self) -> dict[str, list[str]]:
        """Address spaces, each with the master interfaces that use it."""
        spaces: dict[str, list[str]] = {}
        for path, interface in self.interfaces().items():
            if interface.space:
                spaces.setdefault(f"{path.split('/')[0]}/{interface.space}", []).append(path)
        return spaces

    def blocks(self) -> dict[str, str]:
        """Address blocks, each with the slave interface it belongs to."""
        return {
            f"{path.split('/')[0]}/{block}": path
            for path, interface in self.interfaces().items()
            for block in interface.segments
        }

    def net_of(self, pin: str) -> BuiltNet | None:
        """The net on which a pin hangs."""
        return next((net for net in self.nets if pin in net.pins), None)

    def drivers(self, net: BuiltNet) -> list[str]:
        """Outputs on a net."""
        return [path for path in net.pins if (pin := self.pin(path)) is not None and pin.output]

    def driver_of(self, pin: str) -> str | None:
        """The output that drives a pin."""
        net = self.net_of(pin)
        return next(iter(self.drivers(net)), None) if net else None

    # What the commands do

    def _create_cell(self, command: Parsed) -> None:
        name = command.words[0] if command.words else ""
        ip, _, version = command.options.get("-vlnv", "").rpartition(":")
        if name in self.cells:
            self._find(command, "cell-twice", f"the cell `{name}` is created again", "give each cell its own name")
            return
        if "-reference" in command.options:
            self._create_module(command, name, command.options["-reference"])
            return
        if ip not in self._catalog:
            known = nearest(ip, self._catalog)
            self._find(command, "unknown-ip", f"`{ip}` is not an IP that the check knows", known)
            return
        if version != self._versions[ip]:
            remedy = "look up the newest version with get_ipdefs" if ip in CATALOG else f"it is {self._versions[ip]}"
            rule = "ip-version" if ip in CATALOG else "kernel-name"
            self._find(command, rule, f"`{name}` is pinned to version {version} of {ip}", remedy)
        self.cells[name] = BuiltCell(name, ip, version, command.line, self._catalog[ip])

    def _create_module(self, command: Parsed, name: str, module: str) -> None:
        """A cell of plain Verilog; its file belongs to the project before."""
        known = {reference.rpartition(":")[2]: reference for reference in self._modules}
        if command.options.get("-type") != "module" or module not in known:
            problem = f"`{module}` is not a module that the check knows"
            self._find(command, "unknown-ip", problem, nearest(module, known))
            return
        if not any(PurePosixPath(source).suffix == ".v" for source in self._sources):
            self._find(command, "missing-source", f"no Verilog file holds `{module}`", "add_files before the cell")
        ip = known[module]
        self.cells[name] = BuiltCell(name, ip, "1.0", command.line, self._modules[ip])

    def _automate(self, command: Parsed) -> None:
        for name in command.words:
            if name in self.cells:
                self.cells[name].automation = command

    def _set_property(self, command: Parsed) -> None:
        if not command.words or command.words[-1] not in self.cells:
            return
        cell = self.cells[command.words[-1]]
        pairs = _pairs(command.options["-dict"]) if "-dict" in command.options else [command.words[:2]]
        for name, value in pairs:
            known = cell.kind.parameters
            short = name.removeprefix("CONFIG.")
            if short not in known or short == name:
                problem = f"`{name}` is not a parameter of {cell.ip}"
                self._find(command, "parameter-name", problem, nearest(short, known), name)
            elif not known[short].takes(value):
                problem = f"{short} of `{cell.name}` is {value or 'empty'}"
                self._find(command, "parameter-value", problem, f"it takes {known[short].expected}", name)
            else:
                cell.parameters[short] = value

    def _need(self, command: Parsed, known: Mapping[str, object], what: str) -> None:
        for path in command.words:
            if path not in known:
                self._find(command, "unknown-object", f"there is no {what} `{path}`", nearest(path, known))

    def _need_part(
        self,
        command: Parsed,
        find: Callable[[str], object],
        parts: Callable[[Component], Mapping[str, object]],
        what: str,
    ) -> None:
        for path in command.words:
            if find(path) is None:
                cell, _, name = path.partition("/")
                known = parts(self.cells[cell].component) if cell in self.cells else self.cells
                hint = nearest(name if cell in self.cells else cell, known)
                self._find(command, "unknown-object", f"there is no {what} `{path}`", hint)

    def _connect_interfaces(self, command: Parsed) -> None:
        ends = [(path, self.interface(path)) for path in command.words]
        if len(ends) != 2:
            return
        (first, one), (second, other) = ends
        if one is None or other is None:
            return
        if one.monitor or other.monitor:
            self._watch(command, *((second, first) if one.monitor else (first, second)))
            return
        if "-intf_net" in command.options:
            self._named[command.options["-intf_net"]] = first, second
        for path in (first, second):
            earlier = next((link for link in self.links if path in (link.master, link.slave)), None)
            if earlier:
                problem = f"`{path}` is connected already, in line {earlier.line}"
                self._find(command, "interface-twice", problem, "connect each interface once")
        if one.master == other.master or one.protocol != other.protocol:
            described = " and ".join(f"{path} is {_kind(end)}" for path, end in ((first, one), (second, other)))
            self._find(command, "interface-kind", described, "join a master with a slave of the same protocol")
            return
        master, slave = (first, second) if one.master else (second, first)
        self.links.append(BuiltLink(master, slave, command.line))

    def _watch(self, command: Parsed, watched: str, monitor: str) -> None:
        """A monitor joins a named connection, of its own protocol and width."""
        net = command.options.get("-intf_net", "")
        if watched not in self._named.get(net, ()):
            problem = f"`{monitor}` is to watch `{watched}`, which is no end of the connection `{net or 'unnamed'}`"
            self._find(command, "monitor", problem, "name the connection with -intf_net, and one of its ends")
            return
        one, other = self.interface(watched), self.interface(monitor)
        assert one is not None
        assert other is not None
        if one.protocol != other.protocol or (None not in (one.bits, other.bits) and one.bits != other.bits):
            problem = f"`{monitor}` watches {other.protocol} of {other.bits} bits, `{watched}` is {one.protocol}"
            self._find(command, "monitor", f"{problem} of {one.bits or 'any'} bits", "watch an interface of its kind")
            return
        earlier = next((item for item in self.monitors if item.monitor == monitor), None)
        if earlier:
            problem = f"`{monitor}` is connected already, in line {earlier.line}"
            self._find(command, "interface-twice", problem, "connect each interface once")
            return
        link = next((link for link in self.links if watched in (link.master, link.slave)), None)
        if link is not None:
            self.monitors.append(BuiltMonitor(link.master, monitor, command.line))

    def _connect_pins(self, command: Parsed) -> None:
        pins = [path for path in command.words if self.pin(path) is not None]
        if not pins:
            return
        touched = [net for net in self.nets if any(pin in net.pins for pin in pins)]
        before = [set(self.drivers(net)) for net in touched]
        joined = BuiltNet()
        for net in touched:
            joined.pins |= net.pins
            self.nets.remove(net)
        joined.pins |= {pin: command.line for pin in pins if pin not in joined.pins}
        self.nets.append(joined)
        drivers = self.drivers(joined)
        if len(drivers) > 1 and set(drivers) not in before:
            problem = f"{' and '.join(sorted(drivers))} drive the same wire"
            self._find(command, "pin-driven-twice", problem, "give every pin one driver")

    def _assign(self, command: Parsed) -> None:
        space, block = command.options.get("-target_address_space"), command.words[0] if command.words else ""
        base, size = (_integer(command.options.get(name, "")) for name in ("-offset", "-range"))
        if space is None or base is None or size is None:
            problem = "assign_bd_address leaves the address, the size or the address space to the tool"
            self._find(command, "address-missing", problem, "give -offset, -range and -target_address_space in numbers")
        elif space in self.spaces() and block in self.blocks():
            self.segments.append(BuiltSegment(space, block, base, size, command.line))

    def _find(self, command: Parsed, rule: str, problem: str, remedy: str, word: str = "") -> None:
        """Add a finding at the command, or at the line of a longer command that holds ``word``."""
        rest = enumerate(self._lines[command.line - 1 :], command.line)
        line = next((number for number, text in rest if word in text), command.line)
        self.findings.append(Finding(self.script, line, rule, problem, remedy))


def _kind(interface: Interface) -> str:
    return f"a {'master' if interface.master else 'slave'} of {interface.protocol}"


def _integer(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _pairs(text: str) -> list[tuple[str, str]]:
    """Names and values of a flat Tcl list as `list` prints it; values with spaces are in braces."""
    words = [braced or plain for braced, plain in re.findall(r"\{([^{}]*)\}|(\S+)", text)]
    return list(zip(words[::2], words[1::2], strict=False))
