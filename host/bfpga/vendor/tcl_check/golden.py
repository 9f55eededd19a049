"""Golden scripts: what every script calls, in its order, written down a second time to compare with.

Commands that change nothing are left out: what they return shows in the commands that do. A command that returns an
object stands in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bfpga.vendor.block_design import BlockDesign, Cell, Link
from bfpga.vendor.build_scripts import ScriptOptions, ScriptPaths
from bfpga.vendor.kernel_ips import KERNEL_VERSION, KernelIp, kernel_ips
from bfpga.vendor.tcl_check.golden_ip import packaged
from bfpga.vendor.tcl_check.recorder import Words
from bfpga.vendor.tcl_check.scenarios import NEWEST, VERSION
from bfpga.vendor.tcl_check.soundness import design_ends

_HLS = """
file mkdir {build}/results {build}/reports {build}/ip
file delete -force {build}/results/{ip.stem}.txt
cd {build}
open_project -reset {ip.stem}
set_top {ip.function}
add_files {sources}/{ip.source} -cflags "{flags}"
open_solution -reset -flow_target vivado solution
set_part {board.part}
create_clock -period {clock.period_ns:g} -name default
set_clock_uncertainty {uncertainty}%
config_rtl -reset control
csynth_design
export_design -format ip_catalog -rtl verilog -vendor xilinx.com -library hls -version 1.0
file delete -force {build}/ip/{ip.part}
file copy -force {build}/{ip.stem}/solution/impl/ip {build}/ip/{ip.part}
file copy -force {build}/{ip.stem}/solution/syn/report/csynth.xml {build}/reports/{ip.stem}.xml
"""
_HLS_CONFIG = """
part={board.part}
[hls]
flow_target=vivado
clock={clock.period_ns:g}ns
clock_uncertainty={uncertainty}%
syn.file={sources}/{ip.source}
syn.top={ip.function}
syn.rtl.reset=control
syn.cflags={flags}
syn.csimflags={flags}
package.ip.vendor=xilinx.com
package.ip.library=hls
package.ip.name={ip.function}
package.ip.version=1.0
package.output.format=ip_catalog
package.output.syn=false
"""
_PACKAGING = """
file mkdir {build}/results {build}/ip
file delete -force {build}/results/ip_{ip.part}.txt {build}/ip/{ip.part}
create_project ip_{ip.part} {build}/ip_{ip.part} -part {board.part} -force
add_files -norecurse {build}/verilog/{ip.function}.v
add_files -norecurse -fileset constrs_1 {build}/scripts/ip_{ip.part}_ooc.xdc
set_property USED_IN "synthesis implementation out_of_context" [get_files {build}/scripts/ip_{ip.part}_ooc.xdc]
set_property top {ip.function} [current_fileset]
update_compile_order -fileset sources_1
ipx::package_project -root_dir {build}/ip/{ip.part} -vendor xilinx.com -library hls {packager}
set_property name {ip.function} [ipx::current_core]
set_property version 1.0 [ipx::current_core]
set_property core_revision 1 [ipx::current_core]
set_property display_name "bfpga {ip.part}" [ipx::current_core]
set_property description "bfpga {ip.part}" [ipx::current_core]
ipx::remove_all_bus_interface [ipx::current_core]
"""
_PACKAGED = """
ipx::create_xgui_files [ipx::current_core]
ipx::update_checksums [ipx::current_core]
ipx::check_integrity [ipx::current_core]
ipx::save_core [ipx::current_core]
"""
_OOC = """
create_clock -name ap_clk -period {clock.period_ns:g} [get_ports ap_clk]
"""
_PROJECT = """
file mkdir {build}/results {build}/reports
file delete -force {build}/results/block_design.txt
set_param board.repoPaths {options.board_files}
create_project bfpga {build}/vivado -part {board.part} -force
set_property board_part {board_files} [current_project]
set_property ip_repo_paths {build}/ip [current_project]
update_ip_catalog -rebuild
add_files -norecurse {sources}/rtl/clock_counter.v
update_compile_order -fileset sources_1
create_bd_design system
"""
_WRAPPER = """
validate_bd_design
save_bd_design
generate_target all [get_files system.bd]
make_wrapper -files [get_files system.bd] -top -import -fileset sources_1
set_property top system_wrapper [current_fileset]
update_compile_order -fileset sources_1
"""
_SYNTHESIS = """
file delete -force {build}/results/synthesis.txt
open_project {build}/vivado/bfpga.xpr
reset_run synth_1
launch_runs synth_1 -jobs {jobs}
wait_on_run -timeout {options.synthesis_minutes} synth_1
open_run synth_1
report_utilization -file {build}/reports/synthesis.txt
"""
_IMPLEMENTATION = """
file delete -force {build}/results/implementation.txt {build}/overlay/bfpga.bit {build}/overlay/bfpga.hwh
file mkdir {build}/overlay
open_project {build}/vivado/bfpga.xpr
reset_run impl_1
launch_runs impl_1 -to_step write_bitstream -jobs {jobs}
wait_on_run -timeout {options.implementation_minutes} impl_1
open_run impl_1
report_timing_summary -file {build}/reports/timing.txt
report_utilization -file {build}/reports/implementation.txt
"""
_HANDED_ON = """
glob -nocomplain {vivado}.gen/sources_1/bd/system/{handoff} {vivado}.srcs/sources_1/bd/system/{handoff}
write_hw_platform -fixed -include_bit -force -file {build}/overlay/bfpga.xsa
file copy -force {vivado}.runs/impl_1/system_wrapper.bit {build}/overlay/bfpga.bit
file copy -force handoff {build}/overlay/bfpga.hwh
"""


class Golden:
    """The golden scripts of a block design."""

    def __init__(self, design: BlockDesign, paths: ScriptPaths, jobs: int, options: ScriptOptions) -> None:
        self._design = design
        board, build, sources = design.accelerator.board, paths.build.absolute(), paths.sources.absolute()
        self._values: dict[str, Any] = {
            "board": board, "clock": design.clock, "options": options, "jobs": jobs, "build": build, "sources": sources,
            "board_files": f"{board.board_part.rpartition(':')[0]}:{NEWEST}", "vivado": f"{build}/vivado/bfpga",
            "handoff": "hw_handoff/system.hwh", "packager": "-taxonomy /UserIP -import_files -force",
            "flags": f"-std=c++14 -I{sources}/include -I{sources}/src",
        }  # fmt: skip
        ips = kernel_ips(design.accelerator.config)
        self._ips = {ip.stem: ip for ip in ips}
        self._packaged = {f"ip_{ip.part}": ip for ip in ips}

    def configuration(self, name: str, ip: KernelIp) -> list[Words]:
        """The lines of an IP's file of options or constraints, comments apart."""
        return [(line,) for line in self._filled(_OOC if name.endswith(".xdc") else _HLS_CONFIG, ip)]

    def commands(self, stage: str, reported: Mapping[str, str]) -> list[Words]:
        """The commands of a stage (name of its script) where the tools have ``reported`` these numbers."""
        board, clock = self._values["board"], self._design.clock
        head = {"version": VERSION, "part": board.part}
        used = {name: value for name, value in reported.items() if name.islower()}
        if stage in self._ips:
            lines = {"part": board.part, "period_ns": f"{clock.period_ns:g}", "kernel": self._ips[stage].vlnv}
            return [*self._calls(_HLS, self._ips[stage]), *self._result(stage, lines), ("exit",)]
        if stage in self._packaged:
            ip = self._packaged[stage]
            calls = [*self._calls(_PACKAGING, ip), *packaged(ip), *self._calls(_PACKAGED)]
            return [*calls, *self._result(stage, head | {"kernel": ip.vlnv}), ("close_project",)]
        if stage == "block_design":
            names = [cell.name for cell in self._design.cells]
            lines = {
                "board_part": self._values["board_files"],
                "clock_hz": f"{clock.actual_mhz * 1e6:.0f}",
            }
            lines |= {f"ip_{name}": f"[get_property VLNV [get_bd_cells {name}]]" for name in names}
            calls = [*self._calls(_PROJECT), *_built(self._design), *self._calls(_WRAPPER)]
        elif stage == "synthesis":
            lines, calls = used, self._calls(_SYNTHESIS)
        else:
            # A bitstream that misses setup or hold is not handed on.
            met = not reported["WNS"].startswith("-") and not reported["WHS"].startswith("-")
            slacks = {name.lower(): reported[name] for name in ("WNS", "TNS", "WHS")}
            lines = {"timing": "met" if met else "missed"} | slacks | used
            calls = self._calls(_IMPLEMENTATION + (_HANDED_ON if met else ""))
        return [*calls, *self._result(stage, head | lines), ("close_project",)]

    def _filled(self, text: str, ip: KernelIp | None) -> list[str]:
        percent = self._design.accelerator.wire_percent(ip.part) if ip else 0
        return list(filter(None, text.format(**self._values, ip=ip, uncertainty=percent).split("\n")))

    def _calls(self, text: str, ip: KernelIp | None = None) -> list[Words]:
        """Commands of a text, one a line; words that hold spaces are in quotes or in brackets. None: not asked for."""
        lines = [line for line in self._filled(text, ip) if not line.endswith(" None")]
        return [tuple(word.strip('"') for word in re.findall(r'"[^"]*"|\[[^]]*\]|\S+', line)) for line in lines]

    def _result(self, stage: str, lines: Mapping[str, str]) -> list[Words]:
        """A result appears complete or not at all: its name is given as the last step."""
        file = f"{self._values['build']}/results/{stage}.txt"
        written = [("puts", "channel", f"{key} {value}") for key, value in (*lines.items(), ("status", "complete"))]
        rename = ("file", "rename", "-force", f"{file}.partial", file)
        return [("open", f"{file}.partial", "w"), *written, ("close", "channel"), rename]


def _built(design: BlockDesign) -> Iterator[Words]:
    for cell in design.cells:
        yield from _cell(design, cell)
    for link in design.links:
        yield from _link(link)
    for net in design.nets:
        for load in net.loads:
            yield "connect_bd_net", f"[get_bd_pins {net.driver}]", f"[get_bd_pins {load}]"
    ends = design_ends(design)
    for item in design.segments:
        ports = [(path.partition("/")[0], ends.get(path)) for path in (item.master, item.slave)]
        space, block = (f"{cell}/{end.address if end else '?'}" for cell, end in ports)
        where = ("-offset", f"0x{item.base:08X}", "-range", f"0x{item.size:X}", "-target_address_space")
        yield "assign_bd_address", *where, f"[get_bd_addr_spaces {space}]", f"[get_bd_addr_segs {block}]"


def _cell(design: BlockDesign, cell: Cell) -> Iterator[Words]:
    """The newest version of an IP, the only one of the kernel's own; a preset comes before parameters."""
    there = f"[get_bd_cells {cell.name}]"
    version = KERNEL_VERSION if cell.ip.startswith("xilinx.com:hls:") else NEWEST
    kind = ("module", "-reference", cell.module) if cell.module else ("ip", "-vlnv", f"{cell.ip}:{version}")
    yield "create_bd_cell", "-type", *kind, cell.name
    if cell.ip == design.system.ip:
        rule, config = design.system.automation, design.system.automation_config
        yield "apply_bd_automation", "-rule", rule, "-config", config, there
    for name, value in cell.parameters.items():
        yield "set_property", f"CONFIG.{name}", value, there


def _link(link: Link) -> Iterator[Words]:
    """A link that is watched has a name, which its monitor joins."""
    name = link.master.replace("/", "_")
    ends = [f"[get_bd_intf_pins {end}]" for end in (link.master, link.slave, link.monitor)]
    yield "connect_bd_intf_net", *(("-intf_net", name) if link.monitor else ()), ends[0], ends[1]
    if link.monitor:
        yield "connect_bd_intf_net", "-intf_net", f"[get_bd_intf_nets {name}]", ends[0], ends[2]
