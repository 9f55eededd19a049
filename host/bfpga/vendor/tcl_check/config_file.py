"""Rules on the configuration file of the HLS tool (UG1702, HLS configuration file)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bfpga.accelerator.clocks import wire_percent
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.finding import Finding
from bfpga.vendor.kernel_ips import KernelIp
from bfpga.vendor.tcl_check.commands import nearest
from bfpga.vendor.tcl_check.files import compiler_flags

#: Keys that may be given more than once.
_REPEATED = _PATHS = {"syn.file"}
#: Key of compiler flags -> key of the file that they are for.
_FLAGS = {"syn.cflags": "syn.file", "syn.csimflags": "syn.file"}


def _wanted(design: BlockDesign, ip: KernelIp) -> dict[str, str | None]:
    """Keys that must be there and their values; None where any path or flag will do."""
    vendor, library, name, version = ip.vlnv.split(":")
    return {
        "part": design.accelerator.board.part,
        "flow_target": "vivado",
        "clock": f"{design.clock.period_ns:g}ns",
        "clock_uncertainty": f"{wire_percent(design.system.name, ip.part)}%",
        "syn.file": None,
        "syn.top": name,
        "syn.rtl.reset": "control",
        "syn.cflags": None,
        "syn.csimflags": None,
        "package.ip.vendor": vendor,
        "package.ip.library": library,
        "package.ip.name": name,
        "package.ip.version": version,
        "package.output.format": "ip_catalog",
        "package.output.syn": "false",
    }


def config_findings(design: BlockDesign, ip: KernelIp, script: str, text: str) -> Iterator[Finding]:
    """Everything that is wrong with the configuration file of an IP."""
    wanted = _wanted(design, ip)
    seen: dict[str, int] = {}
    section, count = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        count = number
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        if content.startswith("["):
            section = content
            if section != "[hls]":
                yield Finding(script, number, "config-key", f"{section} is not a section", "there is [hls]")
            continue
        yield from _entry(script, number, content, section, wanted, seen)
    yield from _flags(script, text, seen)
    for key in wanted.keys() - seen.keys():
        remedy = "the tool's default is not what the stages after it need"
        yield Finding(script, count or 1, "config-key", f"`{key}` is missing", remedy)


def _entry(
    script: str, number: int, content: str, section: str, wanted: dict[str, str | None], seen: dict[str, int]
) -> Iterator[Finding]:
    key, equals, value = content.partition("=")
    if not equals or key not in wanted:
        yield Finding(script, number, "config-key", f"`{key}` is not a key", nearest(key, wanted))
        return
    if key in seen and key not in _REPEATED:
        problem = f"`{key}` was given in line {seen[key]} already"
        yield Finding(script, number, "config-key", problem, "give it once")
    seen[key] = number
    if (section == "[hls]") == (key == "part"):
        place = "before [hls]" if key == "part" else "after [hls]"
        yield Finding(script, number, "config-key", f"`{key}` stands in the wrong section", f"it belongs {place}")
    yield from _value(script, number, key, value, wanted[key])


def _flags(script: str, text: str, seen: dict[str, int]) -> Iterator[Finding]:
    """Compiler flags name the folders of the project that the file belongs to."""
    lines = text.splitlines()
    for key, file in _FLAGS.items():
        if key in seen and file in seen:
            got, source = (lines[seen[name] - 1].strip().partition("=")[2] for name in (key, file))
            wanted = compiler_flags(source)
            if got != wanted:
                yield Finding(script, seen[key], "config-value", f"`{key}` is `{got}`", f"it is `{wanted}`")


def _value(script: str, number: int, key: str, value: str, wanted: str | None) -> Iterator[Finding]:
    if re.search(r"\$|\{|\}", value):
        yield Finding(script, number, "unsubstituted", f"`{value}` was not replaced", "write it out")
    elif wanted is not None and value != wanted:
        yield Finding(script, number, "config-value", f"`{key}` is `{value}`", f"it is `{wanted}`")
    elif key in _PATHS and not value.startswith("/"):
        problem = f"`{key}` is the relative path `{value}`"
        yield Finding(script, number, "config-value", problem, "give an absolute path")
