"""Rules on what must be the same everywhere: part, board files, name of the kernel, clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bfpga.accelerator.clocks import wire_percent
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import hls_script
from bfpga.vendor.finding import Finding
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.vendor.tcl_check.built import BuiltDesign
from bfpga.vendor.tcl_check.commands import Parsed
from bfpga.vendor.tcl_check.scenarios import NEWEST

#: Parameter of the processing system that sets the clock of the logic.
CLOCK_PARAMETER = {"zynq7": "PCW_FPGA0_PERIPHERAL_FREQMHZ", "zynqmp": "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"}


def identity_findings(design: BlockDesign, commands: Mapping[str, Sequence[Parsed]]) -> Iterator[Finding]:
    """Every place that names another part, board, kernel or clock."""
    calls = [call for script in commands.values() for call in script]
    yield from _parts(design, calls)
    for ip in kernel_ips(design.accelerator.systolic):
        yield from _kernel(ip, commands.get(hls_script(ip), ()))
        yield from _uncertainty(design, ip, commands.get(hls_script(ip), ()))
    for call in calls:
        if call.name == "create_clock":
            yield from _period(design, call)


def _parts(design: BlockDesign, calls: Sequence[Parsed]) -> Iterator[Finding]:
    board = design.accelerator.board
    family = board.board_part.rpartition(":")[0]
    for call in calls:
        part = {"set_part": call.words[0] if call.words else "", "create_project": call.options.get("-part", "")}
        if call.name in part and part[call.name] != board.part:
            problem = f"`{call.name}` names the part {part[call.name] or '(none)'}"
            yield call.finding("part", problem, f"{board.title} has {board.part}")
        if call.name == "get_board_parts" and call.words[0] != f"{family}:*":
            yield call.finding("board-part", f"{call.words[0]} is asked for", f"{board.title} is {family}:*")
        given = call.words[1:2] if call.name == "set_property" and call.words[:1] == ("board_part",) else ()
        if given and given[0] != f"{family}:{NEWEST}":
            problem = f"the project gets the board {given[0] or '(none)'}"
            yield call.finding("board-part", problem, "take the newest that get_board_parts returns")


def _kernel(ip: KernelIp, calls: Sequence[Parsed]) -> Iterator[Finding]:
    vendor, library, name, version = ip.vlnv.split(":")
    wanted = {"-vendor": vendor, "-library": library, "-version": version}
    for call in calls:
        if call.name == "set_top" and call.words != (name,):
            yield call.finding("kernel-name", f"the top function is {' '.join(call.words)}", f"it is {name}")
        if call.name == "export_design":
            for option, value in wanted.items():
                if call.options.get(option) != value:
                    problem = f"{option} is {call.options.get(option, '(not given)')}"
                    yield call.finding("kernel-name", problem, f"the block design looks for {ip.vlnv}")


def _period(design: BlockDesign, call: Parsed) -> Iterator[Finding]:
    period = call.options.get("-period", "")
    if not _equal(period, design.clock.period_ns):
        yield call.finding("clock", f"the period is {period or '(none)'} ns", f"it is {design.clock.period_ns:g} ns")


def _uncertainty(design: BlockDesign, ip: KernelIp, calls: Sequence[Parsed]) -> Iterator[Finding]:
    wanted = f"{wire_percent(design.system.name, ip.part)}%"
    for call in calls:
        if call.name == "set_clock_uncertainty" and call.words[0] != wanted:
            yield call.finding("clock", f"{call.words[0]} of the period are left for wires", f"it is {wanted}")


def _equal(text: str, number: float) -> bool:
    try:
        return abs(float(text) - number) < 1e-6
    except ValueError:
        return False


def clock_findings(design: BlockDesign, built: BuiltDesign) -> Iterator[Finding]:
    """The clock of the processing system against the accelerator's, and that against the board."""
    board, wanted = design.accelerator.board, design.clock.requested_mhz
    name = CLOCK_PARAMETER[design.system.name]
    for cell in built.cells.values():
        if cell.ip == design.system.ip:
            got = cell.parameters.get(name, "")
            if not _equal(got, wanted):
                problem = f"{name} is {got or 'not set'}"
                yield Finding(built.script, cell.line, "clock", problem, f"the accelerator asks for {wanted:g} MHz")
            elif not board.clock_min <= float(got) <= board.clock_max:
                remedy = f"{board.title} takes {board.clock_min:g}..{board.clock_max:g} MHz"
                yield Finding(built.script, cell.line, "clock", f"{name} is {got}", remedy)
