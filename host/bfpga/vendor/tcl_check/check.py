"""The check of the scripts: each runs in every scenario, and what it calls is compared with the golden script."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import ScriptOptions, ScriptPaths, hls_config, packaging_constraints
from bfpga.vendor.finding import Finding
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.tcl_check.commands import command_findings
from bfpga.vendor.tcl_check.golden import Golden
from bfpga.vendor.tcl_check.recorder import Recording, Words, record
from bfpga.vendor.tcl_check.scenarios import Scenario, scenarios
from bfpga.vendor.tcl_check.soundness import Fault, faults

#: Rule -> what it demands.
RULES = {
    "tcl-error": "a script runs to its end where every step of the tools succeeds",
    "command": "a command is one that the tool has, with options that it knows and as many words as it takes",
    "script": "a script calls what the golden script of its stage calls, in the same order and with the same words",
    "configuration": "a configuration file holds the lines that the IP needs",
    "guard": "a script stops with an error, and writes no result, where a step has failed or something is missing",
    "cell": "the IPs of the block design are known, and each cell has its own name",
    "parameter": "parameters of an IP are those that it has, with values that work in our designs",
    "connection": "every pin and interface has one connection, to an end of its kind, direction and width",
    "address": "every slave that a master reaches has one address, aligned, within reach, free of overlaps",
}
BLOCK_DESIGN = "block_design.tcl"
#: Commands that change nothing: what they return shows in the commands that do.
_QUESTION = re.compile(r"(ipx::)?(get|current)_|version |can_resolve_reference |report_utilization -return_string$")
Calls = list[tuple[int, Words]]


def check_scripts(
    design: BlockDesign,
    scripts: Mapping[str, str],
    paths: ScriptPaths,
    jobs: int,
    options: ScriptOptions | None = None,
) -> list[Finding]:
    """What is wrong with the scripts of ``render_scripts`` for the same arguments, sorted; empty if nothing is.

    Every Tcl script runs in `tclsh` once for each scenario. ToolError if there is no `tclsh`.
    """
    golden = Golden(design, paths, jobs, options or ScriptOptions())
    in_design = {_located(fault, scripts) for fault in faults(design)}
    findings = set(in_design)
    for ip in kernel_ips(design.accelerator.config):
        for name in scripts.keys() & {hls_config(ip), packaging_constraints(ip)}:
            lines: Calls = [
                (n, (line,)) for n, line in enumerate(scripts[name].split("\n"), 1) if line and line[0] != "#"
            ]
            findings |= set(_differences(name, "configuration", lines, golden.configuration(name, ip)))
    situations = list(scenarios(design, [name for name in scripts if name.endswith(".tcl")]))
    recordings = record([(scripts[scenario.script], answers) for scenario, answers in situations])
    for (scenario, _), recording in zip(situations, recordings, strict=True):
        if scenario.stops:
            findings |= set(_guard(scenario, recording))
        elif scenario.script not in {finding.file for finding in findings - in_design}:
            wanted = golden.commands(scenario.script.removesuffix(".tcl"), scenario.reported)
            findings |= set(_compared(scenario, recording, scripts[scenario.script], wanted))
    return sorted(findings)


def format_findings(findings: Sequence[Finding]) -> str:
    """The findings, one a line in the order of the scripts."""
    return "\n".join(map(str, sorted(findings)))


def _located(fault: Fault, scripts: Mapping[str, str]) -> Finding:
    """A fault of the design, at the line of the script that first names what it is about, else its cell."""
    rule, path, problem, remedy = fault
    text = scripts.get(BLOCK_DESIGN, "")
    places = [re.search(rf"[ \[]{re.escape(name)}\b", text) for name in (path, path.split("/")[0])]
    line = next((text.count("\n", 0, place.start()) + 1 for place in places if place), 1)
    return Finding(BLOCK_DESIGN, line, rule, problem, remedy)


def _guard(scenario: Scenario, recording: Recording) -> Iterator[Finding]:
    if recording.error is None or any(words[:2] == ("file", "rename") for _, words in recording.calls):
        line = max((line for line, _ in recording.calls), default=1)
        problem = f"the script goes on although {scenario.what}"
        yield Finding(scenario.script, line, "guard", problem, "check it and stop with `error`")


def _compared(scenario: Scenario, recording: Recording, text: str, wanted: list[Words]) -> Iterator[Finding]:
    script = scenario.script
    for line, words in recording.calls:
        yield from command_findings(script, line, words)
    calls = [call for line, words in recording.calls for call in _single(line, words, text)]
    done = [(line, words) for line, words in calls if not _QUESTION.match(" ".join(words))]
    if recording.error:
        line, message = recording.error
        yield Finding(script, line, "tcl-error", message.split("\n")[0], "the script must come to its end")
        wanted = wanted[: len(done)]
    suffix = f" where {scenario.what}" if scenario.what else ""
    yield from _differences(script, "script", done, wanted, suffix)


def _single(line: int, words: Words, text: str) -> Iterator[tuple[int, Words]]:
    """A command; one that sets several properties as one for each, with the line of the property."""
    if words[:2] != ("set_property", "-dict") or len(words) != 4:
        yield line, words
        return
    lines = text.split("\n")
    pairs = words[2].split()
    for name, value in zip_longest(pairs[::2], pairs[1::2], fillvalue=""):
        here = next((n for n in range(line, len(lines) + 1) if name in lines[n - 1]), line)
        yield here, ("set_property", name, value, words[3])


def _differences(script: str, rule: str, got: Calls, wanted: list[Words], suffix: str = "") -> Iterator[Finding]:
    """What the golden script does otherwise; a missing command stands where the next one is."""
    commands = [words for _, words in got]
    if commands == wanted:
        return
    for _, first, last, start, stop in difflib.SequenceMatcher(None, commands, wanted, False).get_opcodes():
        if commands[first:last] == wanted[start:stop]:
            continue
        here = got[min(first, len(got) - 1)][0] if got else 1
        for call, golden in zip_longest(got[first:last], wanted[start:stop]):
            if call and golden:
                line, words = call
                yield Finding(script, line, rule, f"`{_text(words)}`{suffix}", f"it must be `{_text(golden)}`")
            elif call:
                yield Finding(script, call[0], rule, f"`{_text(call[1])}` does not belong here{suffix}", "remove it")
            else:
                before = f"before `{_text(wanted[stop])}`" if stop < len(wanted) else "at the end"
                yield Finding(script, here, rule, f"`{_text(golden)}` is missing{suffix}", f"put it {before}")


def _text(words: Words) -> str:
    """A command as a script writes it, or a line."""
    if len(words) == 1:
        return words[0]
    return " ".join(word if re.fullmatch(r"\[.*\]|[^\s{}]+", word) else f"{{{word}}}" for word in words)
