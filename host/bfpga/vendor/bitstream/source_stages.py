"""Stages that need no vendor tool: render, csim, tcl_check."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bfpga.errors import ToolError
from bfpga.formats.files import write_directory
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build, OwnHls, Product, Stage, files_below
from bfpga.vendor.bitstream.vitis_ips import rendered_kernel
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.render import kernel_sources, write_project
from bfpga.vendor.tcl_check import check_scripts, format_findings


def _render_inputs(build: Build) -> list[str]:
    sources = kernel_sources(rendered_kernel(build.design))
    own = build.settings.own_hls
    made = [] if own is None else own.made_of(build.design.accelerator)
    return [*sources, *sources.values(), f"vectors: {build.settings.vectors is not None}", *made]


def _render(build: Build) -> Product:
    """The HLS project, and the Verilog if it is made here; without a compiler the testbench has no vectors."""
    accelerator = build.design.accelerator
    project = (accelerator.name, accelerator.digest, accelerator.config, build.paths.sources)
    notes = []
    try:
        write_project(*project, build.settings.vectors)
    except ToolError as error:
        write_project(*project)
        notes.append(f"the testbench has no vectors: {error}")
    own = build.settings.own_hls
    intervals = {} if own is None else _write_verilog(build, own)
    return Product([*files_below(build.paths.sources), *files_below(build.paths.own_verilog)],
                   result={"intervals": intervals} if own else {}, notes=notes)  # fmt: skip


def _write_verilog(build: Build, own: OwnHls) -> dict[str, dict[str, int]]:
    """The Verilog of the IPs, a file for each; the intervals of their loops."""
    made = own.make(build.design.accelerator)
    ips = kernel_ips(build.design.accelerator.config)
    write_directory(build.paths.own_verilog, {
        build.paths.ip_verilog(ip).name: made[ip.function].verilog.encode() for ip in ips
    }, "the Verilog")  # fmt: skip
    return {ip.function: dict(made[ip.function].intervals) for ip in ips}


def _csim_directory(build: Build) -> Path:
    return build.directory / "csim"


def _copy_project(build: Build) -> None:
    shutil.copytree(build.paths.sources, _csim_directory(build))


def _csim_commands(build: Build) -> list[Command]:
    # A make around us would hand its own flags and job server down.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    return [Command(("make", "test"), _csim_directory(build), build.log("csim"), environment)]


def _csim_finish(build: Build) -> Product:
    if not (build.paths.sources / "tb" / "vectors").is_dir():
        raise BuildError(
            "missing_tool", "the testbench has no vectors to check: they are made with a C++ compiler (g++)"
        )
    return Product()


def _check_scripts(build: Build) -> Product:
    """BuildError with every finding; without a Tcl shell, which only this check needs, a remark."""
    if shutil.which("tclsh") is None:
        return Product(notes=["the scripts were not checked: tclsh is not installed (Debian, Ubuntu: apt install tcl)"])
    found = check_scripts(build.design, build.scripts, build.paths, build.settings.jobs, build.script_options)
    if found:
        scripts = build.script("")
        raise BuildError("tool", f"the scripts in {scripts} do not pass the Tcl check:\n{format_findings(found)}")
    return Product()


def _check_inputs(build: Build) -> list[str]:
    scripts = [text for _, text in sorted(build.script_identities.items())]
    return [f"tclsh: {shutil.which('tclsh') is not None}", *scripts]


RENDER = Stage(
    "render",
    "HLS project and scripts from the accelerator, and its Verilog with --hls own",
    finish=_render,
    inputs=_render_inputs,
    clears=lambda build: [build.paths.sources, build.paths.own_verilog],
)
CSIM = Stage(
    "csim",
    "C simulation of the kernel against the emulator's vectors",
    finish=_csim_finish,
    clears=lambda build: [_csim_directory(build)],
    prepare=_copy_project,
    commands=_csim_commands,
)
TCL_CHECK = Stage(
    "tcl_check",
    "scripts, run in tclsh, against golden ones",
    finish=_check_scripts,
    inputs=_check_inputs,
)
