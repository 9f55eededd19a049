"""Situations in which the scripts are run: everything succeeds, or one step of the tools fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.tcl_check.catalog import CATALOG

Answers = tuple[tuple[str, str], ...]

SUCCESS = "success"
#: Versions that no tool has: a script that names one of its own gives itself away. The second is the newer one.
OLDER, NEWEST = "9.8", "9.10"
#: What the tools report where everything succeeds.
VERSION = "2024.1"
TIMING = {"WNS": "0.123", "TNS": "0.000", "WHS": "0.045"}
UTILIZATION = {"lut": "31234", "ff": "28765", "bram36": "87.5", "uram": "3", "dsp": "198"}


@dataclass(frozen=True)
class Scenario:
    """One script with other answers of the tools. ``stops``: the script must end with an error."""

    name: str
    script: str
    answers: Answers
    what: str
    stops: bool = True


def success_answers(design: BlockDesign) -> Answers:
    """What the tools return where every step succeeds."""
    board_part = design.accelerator.board.board_part.rpartition(":")[0]
    return (
        ("get_board_parts *", f"{board_part}:{OLDER} {board_part}:{NEWEST}"),
        *((f"get_ipdefs *{ip}:\\*", f"{ip}:{OLDER} {ip}:{NEWEST}") for ip in CATALOG),
        *((f"get_ipdefs *{ip.vlnv}", "@last") for ip in kernel_ips(design.accelerator.systolic)),
        ("get_ipdefs *", ""),
        ("get_property PART *", design.accelerator.board.part),
        ("get_property PROGRESS *", "100%"),
        ("get_property STATUS *", "Complete!"),
        ("get_property CONFIG.FREQ_HZ *", f"{design.clock.actual_mhz * 1e6:.0f}"),
        *((f"get_property STATS.{name} *", value) for name, value in TIMING.items()),
        ("get_property *", "@last"),
        ("report_utilization *-return_string*", _report(design.system.name)),
        ("version *", VERSION),
        ("can_resolve_reference *", "1"),
        ("open *", "channel"),
        ("file exists *", "1"),
        ("current_*", "@last"),
        ("glob *", "@words"),
        ("get_*", "@last"),
    )


def _report(family: str) -> str:
    """A utilization report as the tool prints it, without the columns that nobody reads."""
    cells = "Slice" if family == "zynq7" else "CLB"
    rows = {
        f"{cells} LUTs*": UTILIZATION["lut"],
        "  LUT as Logic": "30000",
        f"{cells} Registers": UTILIZATION["ff"],
        "Block RAM Tile": UTILIZATION["bram36"],
        "  RAMB36/FIFO*": "80",
        "URAM": UTILIZATION["uram"],
        "DSPs": UTILIZATION["dsp"],
        "  DSP48 only": "198",
    }
    return "\n".join(f"| {name:<24} | {value:>6} |     0 |" for name, value in rows.items())


def failures(design: BlockDesign) -> Iterator[Scenario]:
    """Every failure after which a script must stop, and those that it must report."""
    block_design, implementation = "block_design.tcl", "implementation.tcl"
    hertz = design.clock.requested_mhz * 1e6
    clock = "get_property CONFIG.FREQ_HZ *"
    yield Scenario("no board files", block_design, (("get_board_parts *", ""),), "the board files are missing")
    for ip in kernel_ips(design.accelerator.systolic):
        absent = ((f"get_ipdefs *{ip.vlnv}", ""),)
        yield Scenario(f"no {ip.part}", block_design, absent, f"{ip.title} is not in the catalog")
    yield Scenario("no axi_dma", block_design, (("get_ipdefs *axi_dma*", ""),), "an IP is not in the catalog")
    yield Scenario(
        "no module", block_design, (("can_resolve_reference *", "0"),), "Vivado cannot read a Verilog module"
    )
    yield Scenario(
        "other part", block_design, (("get_property PART *", "xc7a35tcpg236-1"),), "the board has another part"
    )
    yield Scenario(
        "slow clock", block_design, ((clock, f"{hertz / 2:.0f}"),), "the clock is half of what was asked for"
    )
    yield Scenario("fast clock", block_design, ((clock, f"{hertz * 2:.0f}"),), "the clock is twice what was asked for")
    yield Scenario("no clock", block_design, ((clock, ""),), "the clock is not known")
    for script in ("synthesis.tcl", implementation):
        run = (("get_property PROGRESS *", "45%"),)
        yield Scenario(f"{script} unfinished", script, run, "the run has failed or exceeded its limit")
    for slack in ("WNS", "WHS"):
        unknown = ((f"get_property STATS.{slack} *", ""),)
        yield Scenario(f"no {slack}", implementation, unknown, f"the run has no {slack}")
    yield Scenario("no handoff", implementation, (("glob *", ""),), "the hardware handoff was not written")
    for slack in ("WNS", "WHS"):
        missed = ((f"get_property STATS.{slack} *", "-0.010"),)
        yield Scenario(f"missed {slack}", implementation, missed, f"{slack} is negative", stops=False)
    for script in ("synthesis.tcl", implementation):
        strange = (("report_utilization *-return_string*", "| Something else | 12 |"),)
        yield Scenario(f"{script} strange report", script, strange, "the utilization report is strange", stops=False)
