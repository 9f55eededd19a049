"""The commands of the tools that a script may use, with their options (UG1399 for HLS, UG835 for Vivado)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.recorder import Call


@dataclass(frozen=True)
class Command:
    """``flags``: options without a value; ``valued``: with one. ``least``, ``most``: number of other words."""

    least: int = 0
    most: int = 0
    flags: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()


#: Files and channels, which both tools take from Tcl itself. Two words are a command with its first word.
_TCL = {
    "cd": Command(1, 1),
    "close": Command(1, 1),
    "exit": Command(0, 1),
    "file": Command(2, 9),
    "file copy": Command(3, 3, ("-force",)),
    "file delete": Command(2, 9, ("-force",)),
    "file mkdir": Command(2, 9),
    "file rename": Command(3, 3, ("-force",)),
    "glob": Command(1, 9, ("-nocomplain",)),
    "open": Command(1, 2),
    "puts": Command(1, 2, ("-nonewline",)),
    "version": Command(0, 0, ("-short",)),
}
HLS = _TCL | {
    "open_project": Command(1, 1, ("-reset",)),
    "set_top": Command(1, 1),
    "add_files": Command(1, 1, (), ("-cflags", "-csimflags")),
    "open_solution": Command(1, 1, ("-reset",), ("-flow_target",)),
    "set_part": Command(1, 1),
    "create_clock": Command(0, 0, (), ("-period", "-name")),
    "set_clock_uncertainty": Command(1, 2),
    "config_rtl": Command(0, 0, (), ("-reset",)),
    "csynth_design": Command(),
    "export_design": Command(
        0,
        0,
        (),
        ("-format", "-rtl", "-vendor", "-library", "-version", "-display_name", "-description", "-output"),
    ),
}
VIVADO = _TCL | {
    "add_files": Command(1, 1, ("-norecurse",), ("-fileset",)),
    "apply_bd_automation": Command(1, 1, (), ("-rule", "-config")),
    "assign_bd_address": Command(1, 1, (), ("-offset", "-range", "-target_address_space")),
    "can_resolve_reference": Command(1, 1),
    "close_project": Command(),
    "connect_bd_intf_net": Command(2, 2, (), ("-intf_net",)),
    "connect_bd_net": Command(2, 99, (), ("-net",)),
    "create_bd_cell": Command(1, 1, (), ("-type", "-vlnv", "-reference")),
    "create_bd_design": Command(1, 1),
    "create_project": Command(2, 2, ("-force",), ("-part",)),
    "current_fileset": Command(),
    "current_project": Command(),
    "generate_target": Command(2, 2, ("-force",)),
    "get_bd_addr_segs": Command(1, 1, ("-quiet",)),
    "get_bd_addr_spaces": Command(1, 1, ("-quiet",)),
    "get_bd_cells": Command(1, 1, ("-quiet",)),
    "get_bd_intf_nets": Command(1, 1, ("-quiet",)),
    "get_bd_intf_pins": Command(1, 1, ("-quiet",)),
    "get_bd_pins": Command(1, 1, ("-quiet",)),
    "get_board_parts": Command(1, 1, ("-quiet", "-latest_file_version")),
    "get_files": Command(1, 1, ("-quiet",)),
    "get_ipdefs": Command(1, 1, ("-quiet", "-all")),
    "get_property": Command(2, 2, ("-quiet",)),
    "get_runs": Command(1, 1, ("-quiet",)),
    "launch_runs": Command(1, 9, (), ("-jobs", "-to_step")),
    "make_wrapper": Command(0, 0, ("-top", "-import", "-force"), ("-files", "-fileset")),
    "open_project": Command(1, 1, ("-quiet",)),
    "open_run": Command(1, 1, (), ("-name",)),
    "report_timing_summary": Command(0, 0, ("-return_string",), ("-file", "-delay_type", "-max_paths")),
    "report_utilization": Command(0, 0, ("-hierarchical", "-return_string"), ("-file", "-format")),
    "reset_run": Command(1, 1),
    "save_bd_design": Command(),
    "set_param": Command(2, 2),
    "set_property": Command(3, 3),
    "set_property -dict": Command(1, 1, (), ("-dict",)),
    "update_compile_order": Command(0, 0, (), ("-fileset",)),
    "update_ip_catalog": Command(0, 0, ("-rebuild",)),
    "validate_bd_design": Command(0, 0, ("-force",)),
    "wait_on_run": Command(1, 1, (), ("-timeout",)),
    "write_hw_platform": Command(0, 1, ("-fixed", "-include_bit", "-force"), ("-file",)),
}
#: Stage of a script -> what it may call.
COMMANDS: Mapping[str, Mapping[str, Command]] = {
    "hls": HLS,
    "block_design": VIVADO,
    "synthesis": VIVADO,
    "implementation": VIVADO,
}
#: What Tcl should have replaced before a command saw it.
_UNSUBSTITUTED = re.compile(r"\$\{?[A-Za-z_]|\{\{|\}\}|\[(get_|current_|list |expr )|^[^\[]*\]$")


def stage_of(script: str) -> str:
    """The stage of a script by its file name; each IP of a kernel has a script `hls_PROCESS.tcl` of its own."""
    stem = PurePosixPath(script).stem
    return "hls" if stem.startswith("hls_") else stem


@dataclass(frozen=True)
class Parsed:
    """A command taken apart: options with their values ("" for flags) and the other words."""

    call: Call
    options: Mapping[str, str]
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def line(self) -> int:
        return self.call.line

    @property
    def script(self) -> str:
        return self.call.script

    def finding(self, rule: str, problem: str, remedy: str) -> Finding:
        return Finding(self.script, self.line, rule, problem, remedy)


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean X`, or the names there are when none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1, 0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"there are {', '.join(names)}" if 0 < len(names) <= 16 else "there is nothing of that name"


def parse(call: Call) -> tuple[Parsed, list[Finding]]:
    """Options and words of a command, and what is wrong with them; missing words are empty ones."""
    findings = [
        Finding(call.script, call.line, "unsubstituted", f"`{word}` in {call.name} was not replaced", "write it out")
        for word in call.words
        if _UNSUBSTITUTED.search(word)
    ]
    commands = COMMANDS[stage_of(call.script)]
    command = commands.get(" ".join(call.words[:2]), commands.get(call.name))
    if command is None:
        hint = nearest(call.name, commands)
        return Parsed(call, {}, call.words[1:]), [
            *findings,
            Finding(call.script, call.line, "unknown-command", f"`{call.name}` is not a command of this stage", hint),
        ]
    parsed, problems = _take_apart(call, command)
    return parsed, findings + problems


def _take_apart(call: Call, command: Command) -> tuple[Parsed, list[Finding]]:
    options: dict[str, str] = {}
    words: list[str] = []
    findings: list[Finding] = []
    rest = list(call.words[1:])

    def complain(problem: str, remedy: str) -> None:
        findings.append(Finding(call.script, call.line, "command-option", f"{call.name}: {problem}", remedy))

    while rest:
        word = rest.pop(0)
        if word in command.flags:
            options[word] = ""
        elif word in command.valued:
            if not rest:
                complain(f"`{word}` has no value", "give one")
            options[word] = rest.pop(0) if rest else ""
        elif re.match(r"-[A-Za-z]", word) and call.name != "puts":
            complain(f"`{word}` is not an option", nearest(word, (*command.flags, *command.valued)))
        else:
            words.append(word)
    if not command.least <= len(words) <= command.most:
        wanted = str(command.least) if command.least == command.most else f"{command.least}..{command.most}"
        complain(f"has {len(words)} words beside its options", f"it takes {wanted}")
    words += [""] * (command.least - len(words))
    return Parsed(call, options, tuple(words)), findings
