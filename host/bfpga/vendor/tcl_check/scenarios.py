"""Situations in which the scripts are run: every step of the tools succeeds, or one fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from bfpga.contract.registers import CLOCK_COUNTER
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.tcl_check.recorder import Answers

#: Versions that no tool has: a script that names one of its own gives itself away. The second is the newer one.
OLDER, NEWEST = "9.8", "9.10"
VERSION = "2024.1"
#: What the tools report where everything succeeds.
REPORTED = {"WNS": "0.123", "TNS": "0.000", "WHS": "0.045",
            "lut": "31234", "ff": "28765", "bram36": "87.5", "uram": "3", "dsp": "198"}  # fmt: skip
_UNKNOWN = {name: "unknown" for name in REPORTED if name.islower()}


@dataclass(frozen=True)
class Scenario:
    """One script with other answers of the tools.

    ``stops``: the script must end with an error; else it comes to its end with what is ``reported`` in this case.
    """

    script: str
    what: str
    answers: Answers = ()
    reported: Mapping[str, str] = field(default_factory=lambda: REPORTED)
    stops: bool = True


def scenarios(design: BlockDesign, scripts: Collection[str]) -> Iterator[tuple[Scenario, Answers]]:
    """Every scenario of some scripts with all that the tools return in it.

    A question (get_..., current_...) that is not listed is its own answer, in brackets.
    """
    common = _common(design)
    for scenario in (*(Scenario(script, "", stops=False) for script in scripts), *_failures(design)):
        if scenario.script in scripts:
            yield scenario, (*scenario.answers, *_run(design, scenario), *common)


def _common(design: BlockDesign) -> Answers:
    """What the tools return where every step succeeds."""
    board_part = design.accelerator.board.board_part.rpartition(":")[0]
    ips = {cell.ip for cell in design.cells if ":ip:" in cell.ip}
    return (
        (f"get_board_parts -quiet {board_part}:\\*", f"{board_part}:{NEWEST} {board_part}:{OLDER}"),
        ("get_board_parts *", ""),
        *((f"get_ipdefs *{ip}:\\*", f"{ip}:{NEWEST} {ip}:{OLDER}") for ip in ips),
        *((f"get_ipdefs *{ip.vlnv}", ip.vlnv) for ip in kernel_ips(design.accelerator.config)),
        ("get_ipdefs *", ""),
        *((f"get_property VLNV {ip}:{version}", f"{ip}:{version}") for ip in ips for version in (OLDER, NEWEST)),
        ("get_property PART \\[current_project]", design.accelerator.board.part),
        (f"get_property CONFIG.FREQ_HZ *ps/{design.system.clock_pin}]", f"{design.clock.actual_mhz * 1e6:.0f}"),
        ("ipx::get_memory_maps *", "guessed"),
        ("version *", VERSION),
        (f"can_resolve_reference {CLOCK_COUNTER}", "1"),
        ("can_resolve_reference *", "0"),
        ("open *", "channel"),
        ("glob *.gen/* *", "handoff"),
    )


def _run(design: BlockDesign, scenario: Scenario) -> Answers:
    """What a run of Vivado and its reports say."""
    run = "impl_1" if scenario.script == "implementation.tcl" else "synth_1"
    slacks = {name: value for name, value in scenario.reported.items() if name.isupper()}
    return (
        (f"get_property PROGRESS \\[get_runs {run}]", "100%"),
        *((f"get_property STATS.{name} \\[get_runs {run}]", value) for name, value in slacks.items()),
        ("report_utilization *-return_string*", _report(design.system.name, scenario.reported)),
    )


def _report(family: str, reported: Mapping[str, str]) -> str:
    """A utilization report as the tool prints it, without the columns that nobody reads."""
    cells = "Slice" if family == "zynq7" else "CLB"
    rows = {
        f"{cells} LUTs*": reported["lut"],
        "  LUT as Logic": "30000",
        f"{cells} Registers": reported["ff"],
        "Block RAM Tile": reported["bram36"],
        "  RAMB36/FIFO*": "80",
        "URAM": reported["uram"],
        "DSPs": reported["dsp"],
        "  DSP48 only": "198",
    }
    known = {name: value for name, value in rows.items() if value != "unknown"}
    return "\n".join(f"| {name:<24} | {value:>6} |     0 |" for name, value in known.items())


def _failures(design: BlockDesign) -> Iterator[Scenario]:
    """Every failure after which a script must stop, and those that it must report."""
    block_design, implementation = "block_design.tcl", "implementation.tcl"
    hertz, clock = design.clock.requested_mhz * 1e6, "get_property CONFIG.FREQ_HZ *"
    yield Scenario(block_design, "the board files are missing", (("get_board_parts *", ""),))
    for ip in kernel_ips(design.accelerator.config):
        yield Scenario(block_design, f"{ip.title} is not in the catalog", ((f"get_ipdefs *{ip.vlnv}", ""),))
        yield Scenario(f"{ip.packaging}.tcl", "the Verilog has no such module", (("ipx::get_ports *", ""),))
    yield Scenario(block_design, "an IP is not in the catalog", (("get_ipdefs *axi_dma*", ""),))
    yield Scenario(block_design, "Vivado cannot read a Verilog module", (("can_resolve_reference *", "0"),))
    yield Scenario(block_design, "the board has another part", (("get_property PART *", "xc7a35tcpg236-1"),))
    yield Scenario(block_design, "the clock is half of what was asked for", ((clock, f"{hertz / 2:.0f}"),))
    yield Scenario(block_design, "the clock is twice what was asked for", ((clock, f"{hertz * 2:.0f}"),))
    yield Scenario(block_design, "the clock is not known", ((clock, ""),))
    for script in ("synthesis.tcl", implementation):
        run = (("get_property PROGRESS *", "45%"),)
        yield Scenario(script, "the run has failed or exceeded its limit", run)
        yield Scenario(script, "the utilization report is strange", reported=REPORTED | _UNKNOWN, stops=False)
    for slack in ("WNS", "WHS"):
        yield Scenario(implementation, f"the run has no {slack}", ((f"get_property STATS.{slack} *", ""),))
        missed = REPORTED | {slack: "-0.010"}
        yield Scenario(implementation, f"{slack} is negative", reported=missed, stops=False)
    yield Scenario(implementation, "the hardware handoff was not written", (("glob *", ""),))
