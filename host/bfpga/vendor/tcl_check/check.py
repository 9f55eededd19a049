"""All rules on all scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import hls_config, hls_script
from bfpga.vendor.finding import Finding
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.tcl_check.addresses import address_findings
from bfpga.vendor.tcl_check.built import BuiltDesign
from bfpga.vendor.tcl_check.commands import COMMANDS, Parsed, parse, stage_of
from bfpga.vendor.tcl_check.comparison import design_findings
from bfpga.vendor.tcl_check.config_file import config_findings
from bfpga.vendor.tcl_check.files import file_findings, final_rename, written_lines
from bfpga.vendor.tcl_check.identity import clock_findings, identity_findings
from bfpga.vendor.tcl_check.kernel_streams import kernel_stream_findings
from bfpga.vendor.tcl_check.recorder import Recording, Run, record
from bfpga.vendor.tcl_check.scenarios import (
    SUCCESS,
    TIMING,
    UTILIZATION,
    Scenario,
    failures,
    success_answers,
)
from bfpga.vendor.tcl_check.steps import step_findings
from bfpga.vendor.tcl_check.wiring import wiring_findings

BLOCK_DESIGN = "block_design.tcl"


def check_scripts(design: BlockDesign, scripts: Mapping[str, str]) -> list[Finding]:
    """What is wrong with the scripts of ``render_scripts``, sorted; an empty list if nothing is.

    Every Tcl script runs in `tclsh` once for each scenario. ToolError if there is no `tclsh`.
    """
    findings = set()
    for ip in kernel_ips(design.accelerator.systolic):
        if (name := hls_config(ip)) in scripts:
            findings |= set(config_findings(design, ip, name, scripts[name]))
    recordings, scenarios = _run(design, scripts)
    succeeded = [recording for recording in recordings if recording.scenario == SUCCESS]
    commands: dict[str, Sequence[Parsed]] = {}
    for recording in succeeded:
        parsed = [parse(call) for call in recording.calls]
        commands[recording.script] = [command for command, _ in parsed]
        findings |= {finding for _, problems in parsed for finding in problems}
        findings |= set(_ended(recording))
    findings |= set(_command_findings(design, commands, scripts))
    for recording in recordings:
        if recording.scenario in scenarios:
            findings |= set(_scenario_findings(scenarios[recording.scenario], recording))
    return sorted(findings)


def built_design(design: BlockDesign, scripts: Mapping[str, str]) -> BuiltDesign:
    """What the block design's script builds where every step succeeds."""
    run = Run(SUCCESS, BLOCK_DESIGN, scripts[BLOCK_DESIGN], success_answers(design))
    commands = [parse(call)[0] for call in record([run])[0].calls]
    return BuiltDesign(design, BLOCK_DESIGN, scripts[BLOCK_DESIGN]).replay(commands)


def _run(design: BlockDesign, scripts: Mapping[str, str]) -> tuple[list[Recording], dict[str, Scenario]]:
    answers = success_answers(design)
    ordered = [
        script for stage in COMMANDS for script in scripts if script.endswith(".tcl") and stage_of(script) == stage
    ]
    runs = [Run(SUCCESS, script, scripts[script], answers) for script in ordered]
    scenarios = {scenario.name: scenario for scenario in failures(design) if scenario.script in scripts}
    runs += [
        Run(scenario.name, scenario.script, scripts[scenario.script], (*scenario.answers, *answers))
        for scenario in scenarios.values()
    ]
    return record(runs), scenarios


def _ended(recording: Recording) -> Iterator[Finding]:
    if recording.error:
        line, message = recording.error
        yield Finding(recording.script, line, "tcl-error", message.splitlines()[0], "the script must come to its end")


def _command_findings(
    design: BlockDesign, commands: Mapping[str, Sequence[Parsed]], scripts: Mapping[str, str]
) -> Iterator[Finding]:
    for script, calls in commands.items():
        yield from step_findings(script, calls)
    yield from _missing_scripts(design, scripts)
    yield from file_findings(design, commands)
    yield from identity_findings(design, commands)
    if BLOCK_DESIGN in commands:
        built = BuiltDesign(design, BLOCK_DESIGN, scripts[BLOCK_DESIGN]).replay(commands[BLOCK_DESIGN])
        yield from built.findings
        yield from wiring_findings(design, built)
        yield from kernel_stream_findings(design.accelerator.systolic, built)
        yield from address_findings(design, built)
        yield from clock_findings(design, built)
        yield from design_findings(design, built)


def _missing_scripts(design: BlockDesign, scripts: Mapping[str, str]) -> Iterator[Finding]:
    """C synthesis may be left to others, but not that of some IPs of a kernel."""
    wanted = [hls_script(ip) for ip in kernel_ips(design.accelerator.systolic)]
    missing = [script for script in wanted if script not in scripts]
    for script in missing if len(missing) < len(wanted) else ():
        yield Finding(script, 1, "missing-command", "there is no such script", "render the scripts again")


def _scenario_findings(scenario: Scenario, recording: Recording) -> Iterator[Finding]:
    calls = [parse(call)[0] for call in recording.calls]
    end = max((call.line for call in calls), default=1)
    if scenario.stops:
        if recording.error is None or final_rename(calls):
            problem = f"the script goes on although {scenario.what}"
            yield Finding(recording.script, end, "guard", problem, "check it and stop with `error`")
        return
    yield from _reported(scenario, calls, end)


def _reported(scenario: Scenario, calls: Sequence[Parsed], end: int) -> Iterator[Finding]:
    """Scenarios that do not stop a script: what it reports and what it hands on."""
    lines = {key: value for key, (value, _) in written_lines(calls).items()}
    if "strange" in scenario.name:
        for key in UTILIZATION:
            if lines.get(key) != "unknown":
                problem = f"{scenario.what}, but the result says `{key} {lines.get(key, '')}`"
                yield Finding(scenario.script, end, "result-file", problem, f"write `{key} unknown`")
        return
    if lines.get("timing") != "missed":
        problem = f"{scenario.what}, but the result does not say `timing missed`"
        yield Finding(scenario.script, end, "timing-gate", problem, f"compare {' and '.join(list(TIMING)[::2])} with 0")
    for call in calls:
        if call.name == "write_hw_platform" or (call.name == "file" and call.words[:1] == ("copy",)):
            problem = f"{scenario.what}, but `{call.name}` hands the bitstream on"
            yield call.finding("timing-gate", problem, "hand it on only if both slacks are 0 or more")
