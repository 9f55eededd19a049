"""BlockDesign -> scripts of the vendor's tools: C synthesis, block design, synthesis, implementation.

Every script holds literals only, checks what it can before the long steps, and writes a result of `key value` lines
under its final name when, and only when, it has come to its end.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jinja2

from bfpga.accelerator.boards import Board
from bfpga.errors import ConfigurationError
from bfpga.vendor.block_design import BlockDesign, Cell, Segment
from bfpga.vendor.ip_packaging import packaging_context
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.vendor.processing_systems import PROCESSING_SYSTEMS
from bfpga.vendor.source_text import braced, own, prose, source_environment

#: Who makes the kernel's IPs of its C++: Vitis HLS, or this toolkit, whose Verilog Vivado packages.
Hls = Literal["vitis", "own"]
#: Stages that a script of its own runs.
STAGES = ("hls", "block_design", "synthesis", "implementation")
#: Names inside the vendor's projects.
HLS_SOLUTION = "solution"
#: Report of C synthesis over all functions; each function has one of its own next to it.
CSYNTH_REPORT = "csynth.xml"
VIVADO_PROJECT = "bfpga"
VIVADO_DESIGN = "system"
#: How far the clock may be from what was asked for before it is a mistake and not a divider.
CLOCK_TOLERANCE = 0.1
#: Address spaces of masters and memory maps of slaves that Vivado does not name after the interface (PG021, PG099,
#: PG201; the segments that `write_bd_tcl` prints).
_ADDRESS_SPACES = {
    "M_AXI_GP0": "Data",
    "M_AXI_HPM0_FPD": "Data",
    "M_AXI_MM2S": "Data_MM2S",
    "M_AXI_S2MM": "Data_S2MM",
}
_MEMORY_MAPS = {"s_axi": "S_AXI"} | {
    port.name: port.memory_map for system in PROCESSING_SYSTEMS.values() for port in system.memory_ports
}


@dataclass(frozen=True)
class ScriptPaths:
    """Where the scripts read and write. ``sources``: the HLS project of `write_project`; ``build``: all the rest."""

    sources: Path
    build: Path

    def hls_project(self, ip: KernelIp) -> Path:
        """Project of the classic flow; in the config-file flow the argument of `--work_dir`."""
        return self.build / ip.stem

    def script(self, name: str) -> Path:
        """A script of this build."""
        return self.build / "scripts" / name

    @property
    def own_verilog(self) -> Path:
        """The Verilog of the kernel's IPs where this toolkit makes it, a file for each."""
        return self.build / "verilog"

    def ip_verilog(self, ip: KernelIp) -> Path:
        """The Verilog of an IP."""
        return self.own_verilog / f"{ip.function}.v"

    def packaging_project(self, ip: KernelIp) -> Path:
        """Project of Vivado in which an IP is packaged."""
        return self.build / ip.packaging

    @property
    def verilog(self) -> Path:
        """The Verilog of the clock counter, which the block design takes as a module reference."""
        return self.sources / "rtl" / "clock_counter.v"

    def config_flow_ip(self, ip: KernelIp) -> Path:
        """Where the config-file flow leaves the unpacked IP; it belongs to ``unpacked_ip`` then."""
        return self.hls_project(ip) / "hls" / "impl" / "ip"

    def config_flow_report(self, ip: KernelIp) -> Path:
        """Folder in which the config-file flow leaves the reports of C synthesis."""
        return self.hls_project(ip) / "hls" / "syn" / "report"

    @property
    def ip_repository(self) -> Path:
        """Where Vivado looks for the kernel: a folder for each unpacked IP."""
        return self.build / "ip"

    def unpacked_ip(self, ip: KernelIp) -> Path:
        """An unpacked IP."""
        return self.ip_repository / ip.part

    @property
    def vivado_project(self) -> Path:
        return self.build / "vivado"

    @property
    def reports(self) -> Path:
        """Reports of the tools: hls_PROCESS.xml, synthesis.txt, implementation.txt, timing.txt."""
        return self.build / "reports"

    def hls_report(self, ip: KernelIp) -> Path:
        """Report of the C synthesis of an IP."""
        return self.reports / f"{ip.stem}.xml"

    @property
    def results(self) -> Path:
        return self.build / "results"

    def result(self, stage: str) -> Path:
        """Lines `key value`; exists only if the stage has come to its end. The last line is `status complete`."""
        return self.results / f"{stage}.txt"

    @property
    def overlay(self) -> Path:
        """Bitstream, hardware handoff and hardware platform of an implementation that meets its timing."""
        return self.build / "overlay"

    def overlay_file(self, suffix: str) -> Path:
        """The implementation's file of that suffix: `bit`, `hwh` or `xsa`."""
        return self.overlay / f"{VIVADO_PROJECT}.{suffix}"


@dataclass(frozen=True)
class ScriptOptions:
    """What a user may choose. Limits are in minutes; ``board_files``: a folder of board files that Vivado lacks.

    ``hls``: who makes the IPs.
    """

    synthesis_minutes: int = 240
    implementation_minutes: int = 480
    board_files: Path | None = None
    hls: Hls = "vitis"


def render_scripts(
    design: BlockDesign, paths: ScriptPaths, jobs: int, options: ScriptOptions | None = None
) -> dict[str, str]:
    """All scripts by file name: of each IP those that make it, then block_design.tcl, synthesis.tcl,
    implementation.tcl.

    An IP is made by hls_PROCESS.tcl or hls_PROCESS_config.cfg; of own Verilog by ip_PROCESS.tcl, with its constraints
    ip_PROCESS_ooc.xdc.

    ``jobs``: processes that Vivado may start. ConfigurationError for a path that the vendor's tools cannot take.
    """
    options = options or ScriptOptions()
    _check_numbers(
        jobs=jobs, synthesis_minutes=options.synthesis_minutes, implementation_minutes=options.implementation_minutes
    )
    context = _context(design, paths, jobs, options)
    scripts: dict[str, str] = {}
    for ip in kernel_ips(design.accelerator.config):
        scripts |= (_packaging_scripts if options.hls == "own" else _hls_scripts)(ip, paths, context)
    return scripts | {f"{stage}.tcl": _rendered(f"{stage}.tcl", context) for stage in STAGES[1:]}


def _hls_scripts(ip: KernelIp, paths: ScriptPaths, context: dict[str, Any]) -> dict[str, str]:
    own = context | _ip_context(ip, paths, context)
    return {hls_script(ip): _rendered("hls.tcl", own), hls_config(ip): _rendered("hls_config.cfg", own)}


def _packaging_scripts(ip: KernelIp, paths: ScriptPaths, context: dict[str, Any]) -> dict[str, str]:
    verilog = paths.ip_verilog(ip).absolute()
    own = context | {
        "ip": packaging_context(ip),
        "kernel": _kernel(ip, paths),
        "script": packaging_script(ip),
        "project": {"name": ip.packaging, "directory": _braced(paths.packaging_project(ip))},
        "verilog": _braced(verilog),
        "constraints": _braced(paths.script(packaging_constraints(ip))),
        "no_module": braced(f"Vivado finds no module {ip.function} with a clock in {verilog}"),
        "unpacked_ip": _braced(paths.unpacked_ip(ip)),
        "result": _braced(paths.result(ip.packaging)),
        "partial_result": _braced(paths.results / f"{ip.packaging}.txt.partial"),
    }
    return {
        packaging_script(ip): _rendered("ip.tcl", own),
        packaging_constraints(ip): _rendered("ip_ooc.xdc", own),
    }


def packaging_script(ip: KernelIp) -> str:
    """The script that packages the Verilog of an IP."""
    return f"{ip.packaging}.tcl"


def packaging_constraints(ip: KernelIp) -> str:
    """The clock of an IP where Vivado synthesises it alone."""
    return f"{ip.packaging}_ooc.xdc"


def hls_script(ip: KernelIp) -> str:
    """The script of the C synthesis of an IP."""
    return f"{ip.stem}.tcl"


def hls_config(ip: KernelIp) -> str:
    """The configuration file of the C synthesis of an IP."""
    return f"{ip.stem}_config.cfg"


def _rendered(name: str, context: dict[str, Any]) -> str:
    return _environment().get_template(f"{name}.j2").render(context)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = source_environment("tcl", trim_blocks=True, lstrip_blocks=True)
    environment.filters["unbraced"] = lambda text: text.removeprefix("{").removesuffix("}")
    return environment


def _check_numbers(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ConfigurationError(f"{name} is {number}; must be 1 or more")


def _word(text: str, what: str) -> str:
    """A name that Tcl takes as it is; ConfigurationError for anything else."""
    if not re.fullmatch(r"[\w.:-]+", text, re.ASCII):
        raise ConfigurationError(f"{what} is {text!r}; must consist of letters, digits and `_ . : -`")
    return text


def _braced(path: Path) -> str:
    """An absolute path as a literal of Tcl.

    Spaces and letters beyond ASCII are refused although Tcl could quote them: compiler flags of the HLS tool and the
    runs of Vivado break on them.
    """
    text = str(path.absolute())
    if not re.fullmatch(r"[\w./+@:~-]+", text, re.ASCII):
        raise ConfigurationError(
            f"the path {text!r} cannot be given to the vendor's tools: use letters of ASCII, digits and `. _ - + @ ~`"
        )
    return braced(text)


def _context(design: BlockDesign, paths: ScriptPaths, jobs: int, options: ScriptOptions) -> dict[str, Any]:
    accelerator = design.accelerator
    part = _word(accelerator.board.part, f"part of the board {accelerator.board.name}")
    return {
        "wires": accelerator.wire_percent,
        "name": accelerator.name,
        "digest": accelerator.digest[:12],
        "part": braced(part),
        "part_text": part,
        "period_ns": f"{design.clock.period_ns:g}",
        "system": design.system.name,
        "jobs": jobs,
        "options": options,
        "paths": {
            name: _braced(getattr(paths, name)) for name in ("build", "ip_repository", "reports", "results", "overlay")
        },
        "results": {stage: _braced(paths.result(stage)) for stage in STAGES[1:]},
        "partial": {stage: _braced(paths.results / f"{stage}.txt.partial") for stage in STAGES[1:]},
        "reports": _reports(paths),
        "overlay": {
            name: _braced(paths.overlay_file(suffix))
            for name, suffix in (("bitstream", "bit"), ("handoff", "hwh"), ("platform", "xsa"))
        },
        "kernels": [_kernel(ip, paths) for ip in kernel_ips(accelerator.config)],
        "project": _project(paths),
        "board": _board(accelerator.board, options.board_files),
        "clock": _clock(design),
        "cells": [_cell(cell, design) for cell in design.cells],
        "modules": _modules(design, paths),
        "links": design.links,
        "nets": design.nets,
        "segments": [_segment(segment) for segment in design.segments],
    }


def _reports(paths: ScriptPaths) -> dict[str, str]:
    files = {"synthesis": "synthesis.txt", "implementation": "implementation.txt"}
    return {name: _braced(paths.reports / file) for name, file in (files | {"timing": "timing.txt"}).items()}


def _kernel(ip: KernelIp, paths: ScriptPaths) -> dict[str, str]:
    vendor, library, name, version = ip.vlnv.split(":")
    missing = braced(f"the IP {ip.vlnv} is not in {paths.ip_repository.absolute()}: the stage hls makes it")
    return {
        "vlnv": ip.vlnv,
        "vendor": vendor,
        "library": library,
        "name": name,
        "version": version,
        "missing": missing,
    }


def _ip_context(ip: KernelIp, paths: ScriptPaths, context: dict[str, Any]) -> dict[str, Any]:
    """What the scripts of the C synthesis of one IP need beyond what all scripts know."""
    return {
        "kernel": _kernel(ip, paths),
        "hls": _hls(ip, paths),
        "uncertainty": f"{context['wires'](ip.part)}%",
        "results": {"hls": _braced(paths.result(ip.stem))},
        "partial": {"hls": _braced(paths.results / f"{ip.stem}.txt.partial")},
        "reports": {"hls": _braced(paths.hls_report(ip))},
        "paths": context["paths"] | {"unpacked_ip": _braced(paths.unpacked_ip(ip))},
    }


def _hls(ip: KernelIp, paths: ScriptPaths) -> dict[str, Any]:
    sources, solution = paths.sources.absolute(), paths.hls_project(ip) / HLS_SOLUTION
    return {
        "script": hls_script(ip),
        "config": hls_config(ip),
        "part": ip.part,
        "project": paths.hls_project(ip).name,
        "solution": HLS_SOLUTION,
        "sources": [_braced(sources / ip.source)],
        "flags": braced(f"-std=c++14 -I{sources / 'include'} -I{sources / 'src'}"),
        "packaged": _braced(solution / "impl" / "ip"),
        "report": _braced(solution / "syn" / "report" / CSYNTH_REPORT),
    }


def _project(paths: ScriptPaths) -> dict[str, str]:
    folder = paths.vivado_project.absolute()
    runs = folder / f"{VIVADO_PROJECT}.runs"
    handoff = Path("sources_1", "bd", VIVADO_DESIGN, "hw_handoff", f"{VIVADO_DESIGN}.hwh")
    handoffs = [folder / f"{VIVADO_PROJECT}.{kind}" / handoff for kind in ("gen", "srcs")]
    return {
        "name": VIVADO_PROJECT,
        "design": VIVADO_DESIGN,
        "wrapper": f"{VIVADO_DESIGN}_wrapper",
        "directory": _braced(folder),
        "file": _braced(folder / f"{VIVADO_PROJECT}.xpr"),
        "synthesis_log": str(runs / "synth_1" / "runme.log"),
        "implementation_log": str(runs / "impl_1" / "runme.log"),
        "bitstream": _braced(runs / "impl_1" / f"{VIVADO_DESIGN}_wrapper.bit"),
        "handoffs": own(" ".join(_braced(path) for path in handoffs)),
    }


def _board(board: Board, repository: Path | None) -> dict[str, str | None]:
    """The board files: any version will do, the newest is taken. A message for when there are none."""
    pattern = f"{_word(board.board_part, f'board_part of the board {board.name}').rpartition(':')[0]}:*"
    title = prose(board.title)
    remedy = (
        "install them in Vivado (Tools, Vivado Store, Boards), or get them from "
        f"{prose(board.board_files_source) or 'the maker of the board'} and put their folder into "
        "data/boards/board_files of Vivado"
    )
    if board.board_files_in_vivado:
        remedy = f"Vivado brings them along when the device {board.part} is installed: add it with the installer"
    return {
        "title": title,
        "pattern": braced(pattern),
        "missing": braced(f"the board files of {title}, {pattern}, are not installed: {remedy}"),
        "repository": None if repository is None else _braced(repository),
    }


def _clock(design: BlockDesign) -> dict[str, str]:
    hertz = design.clock.requested_mhz * 1e6
    return {
        "pin": f"{_processing_system(design).name}/{design.system.clock_pin}",
        "mhz": f"{design.clock.requested_mhz:g}",
        "least_hz": f"{hertz * (1 - CLOCK_TOLERANCE):.0f}",
        "most_hz": f"{hertz * (1 + CLOCK_TOLERANCE):.0f}",
    }


def _processing_system(design: BlockDesign) -> Cell:
    return next(cell for cell in design.cells if cell.ip == design.system.ip)


def _cell(cell: Cell, design: BlockDesign) -> dict[str, Any]:
    """``own``: an IP of the kernel, which has one version; of all else the newest version is taken."""
    vlnv = f"{cell.ip}:{cell.version}"
    own = {ip.vlnv for ip in kernel_ips(design.accelerator.config)}
    automation = None
    if cell is _processing_system(design):
        automation = {"rule": design.system.automation, "config": braced(design.system.automation_config)}
    parameters = [{"name": name, "value": braced(value)} for name, value in cell.parameters.items()]
    return {
        "name": cell.name,
        "ip": cell.ip,
        "vlnv": vlnv,
        "own": vlnv in own,
        "module": cell.module,
        "automation": automation,
        "parameters": parameters,
    }


def _modules(design: BlockDesign, paths: ScriptPaths) -> list[dict[str, str]]:
    """Cells of plain Verilog: the module, its file, and a message for when Vivado cannot read it."""
    names = dict.fromkeys(cell.module for cell in design.cells if cell.module)
    return [
        {
            "name": name,
            "file": _braced(paths.verilog),
            "missing": braced(f"Vivado finds no module {name} in {paths.verilog.absolute()}"),
        }
        for name in names
    ]


def _segment(segment: Segment) -> dict[str, str]:
    master, interface = segment.master.split("/")
    slave, port = segment.slave.split("/")
    return {
        "space": f"{master}/{_ADDRESS_SPACES[interface]}",
        "block": f"{slave}/{_MEMORY_MAPS.get(port, port)}/{segment.block}",
        "offset": f"0x{segment.base:08X}",
        "range": f"0x{segment.size:X}",
    }
