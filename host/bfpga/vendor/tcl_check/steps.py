"""Rules on the steps of a stage: none is missing, and they come in the order in which the tool needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.commands import Parsed, stage_of


@dataclass(frozen=True)
class Step:
    """Commands that match ``pattern`` belong to ``rank``; lower ranks come first."""

    rank: int
    pattern: str

    def matches(self, command: Parsed) -> bool:
        return fnmatchcase(" ".join(command.call.words), self.pattern)


def _vivado_run(run: str, *reports: str, launch: str = "") -> list[Step]:
    """A run of Vivado from a project to its reports."""
    return [
        Step(0, "open_project *"),
        Step(1, f"reset_run {run}"),
        Step(2, f"launch_runs {run} {launch}-jobs *"),
        Step(3, f"wait_on_run *{run}*"),
        Step(4, f"get_property PROGRESS {run}"),
        Step(5, f"open_run {run}"),
        *(Step(6, report) for report in reports),
    ]


#: Stage of a script -> its steps (UG1399 for HLS; UG835 and UG994 for Vivado).
STEPS: Mapping[str, Sequence[Step]] = {
    "hls": [
        Step(0, "cd *"),
        Step(0, "open_project -reset *"),
        Step(1, "set_top *"),
        Step(1, "add_files *"),
        Step(2, "open_solution -reset -flow_target vivado *"),
        Step(3, "set_part *"),
        Step(3, "create_clock *"),
        Step(4, "set_clock_uncertainty *"),
        Step(4, "config_rtl -reset control"),
        Step(6, "csynth_design"),
        Step(7, "export_design -format ip_catalog *"),
        Step(8, "file copy *"),
        Step(9, "exit"),
    ],
    "block_design": [
        Step(0, "get_board_parts *"),
        Step(1, "create_project * -part * -force"),
        Step(2, "set_property board_part *"),
        Step(3, "set_property ip_repo_paths *"),
        Step(4, "update_ip_catalog *"),
        Step(4, "add_files -norecurse *.v"),
        Step(4, "update_compile_order -fileset sources_1"),
        Step(4, "can_resolve_reference *"),
        Step(5, "create_bd_design *"),
        Step(6, "create_bd_cell *"),
        Step(6, "connect_bd_intf_net *"),
        Step(6, "connect_bd_net *"),
        Step(7, "assign_bd_address *"),
        Step(8, "validate_bd_design*"),
        Step(9, "save_bd_design"),
        Step(10, "generate_target all *"),
        Step(11, "make_wrapper -files * -top -import -fileset sources_1"),
        Step(12, "set_property top *"),
        Step(13, "update_compile_order *"),
    ],
    "synthesis": _vivado_run("synth_1", "report_utilization -file *", "report_utilization -return_string"),
    "implementation": [
        *_vivado_run(
            "impl_1",
            "report_timing_summary -file *",
            "report_utilization -file *",
            "report_utilization -return_string",
            launch="-to_step write_bitstream ",
        ),
        Step(7, "get_property STATS.WNS impl_1"),
        Step(7, "get_property STATS.WHS impl_1"),
        Step(8, "write_hw_platform -fixed -include_bit -force -file *.xsa"),
        Step(9, "file copy -force *.bit *.bit"),
        Step(9, "file copy -force *.hwh *.hwh"),
    ],
}


def step_findings(script: str, commands: Sequence[Parsed]) -> Iterator[Finding]:
    """Missing and misplaced steps of a script."""
    latest: tuple[int, Parsed] | None = None
    seen: set[Step] = set()
    for command in commands:
        matching = [step for step in STEPS[stage_of(script)] if step.matches(command)]
        # A command that has two places in a script takes the first that is not behind it.
        ranks = {step.rank for step in matching}
        chosen = min((rank for rank in ranks if not latest or rank >= latest[0]), default=min(ranks, default=0))
        matching = [step for step in matching if step.rank == chosen]
        seen.update(matching)
        for step in matching:
            if latest and step.rank < latest[0]:
                problem = f"`{command.name}` comes after `{latest[1].name}` of line {latest[1].line}"
                yield command.finding("command-order", problem, f"it belongs before `{latest[1].name}`")
            else:
                latest = (step.rank, command)
    end = max((command.line for command in commands), default=1)
    for step in STEPS[stage_of(script)]:
        if step not in seen:
            problem = f"there is no `{step.pattern}`"
            yield Finding(script, end, "missing-command", problem, "the stage is not complete without it")
