"""Stages that make and check the kernel's IP: hls, hls_check, ip_check."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from bfpga.errors import ConfigurationError, DataError
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.hls_gates import hls_gate, known_gates
from bfpga.vendor.bitstream.ip_check import check_ip
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build, Product, Stage, files_below, read_result
from bfpga.vendor.bitstream.tools import HlsFlow
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.kernel_ips import kernel_vlnv
from bfpga.vendor.build_scripts import CSYNTH_REPORT
from bfpga.vendor.csynth_report import read_csynth_report
from bfpga.vendor.render import kernel_sources, render_kernel
from bfpga.vendor.stated_loops import StatedLoop, stated_loops


def _flow(build: Build) -> HlsFlow:
    return build.tools.require_hls().flow


def hls_commands(build: Build) -> list[Command]:
    """The calls of the chosen flow: one for a Tcl script, two (synthesis, packaging) for a config file."""
    hls = build.tools.require_hls()
    program = str(hls.tool.path)
    calls: list[tuple[str, ...]]
    if hls.flow == "vitis_hls":
        calls = [(program, "-f", str(build.script("hls.tcl")))]
    elif hls.flow == "vitis-run":
        calls = [(program, "--mode", "hls", "--tcl", str(build.script("hls.tcl")))]
    else:
        assert hls.packager is not None  # require_hls
        options = ("--config", str(build.script("hls_config.cfg")), "--work_dir", str(build.paths.hls_project))
        calls = [
            (program, "-c", "--mode", "hls", *options),
            *([(str(hls.packager.path), "--mode", "hls", "--cosim", *options)] if build.settings.cosim else []),
            (str(hls.packager.path), "--mode", "hls", "--package", *options),
        ]
    names = ["hls", "hls_cosim", "hls_package"] if build.settings.cosim else ["hls", "hls_package"]
    return [
        Command(call, build.directory / "logs", build.log(name), build.tools.environment)
        for name, call in zip(names, calls, strict=False)
    ]


def _component(build: Build) -> Path:
    return build.paths.ip_repository / "component.xml"


def _expected(build: Build) -> list[Path]:
    if _flow(build) == "v++":
        return [build.paths.config_flow_ip / "component.xml"]
    return [_component(build), build.paths.result("hls")]


def _finish(build: Build) -> Product:
    if _flow(build) == "v++":
        _collect_config_flow(build)
    else:
        _check_result(build, read_result(build.paths.result("hls")))
    report = build.paths.reports / "hls.xml"
    kept = [report] if report.is_file() else []
    return Product([*files_below(build.paths.ip_repository), *kept])


def _collect_config_flow(build: Build) -> None:
    """Put IP and report where the Tcl script of the classic flow puts them."""
    partial = build.directory / ".ip.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(build.paths.config_flow_ip, partial)
    os.replace(partial, build.paths.ip_repository)
    report = build.paths.config_flow_report / CSYNTH_REPORT
    if report.is_file():
        build.paths.reports.mkdir(exist_ok=True)
        shutil.copyfile(report, build.paths.reports / "hls.xml")


def _check_result(build: Build, result: dict[str, str]) -> None:
    path, part = build.paths.result("hls"), build.design.accelerator.board.part
    if result.get("status") != "complete":
        raise BuildError("artefact", f"{path} is not complete: C synthesis did not come to its end", path)
    if result.get("part") != part:
        raise BuildError("part", f"C synthesis was for {result.get('part')}, the board has {part}", path)
    if result.get("kernel") != kernel_vlnv():
        raise BuildError("interface", f"C synthesis made {result.get('kernel')}, not {kernel_vlnv()}", path)


def kernel_loops(design: BlockDesign) -> list[StatedLoop]:
    """The loops of a design's kernel that state an interval."""
    accelerator = design.accelerator
    return stated_loops(kernel_sources(render_kernel(accelerator.name, accelerator.digest, accelerator.systolic)))


def checked_gates(design: BlockDesign, names: Iterable[str]) -> tuple[str, ...]:
    """The names of gates that a user accepts, each once; ConfigurationError for one that there is not."""
    known = known_gates(kernel_loops(design))
    for name in names:
        if name not in known:
            raise ConfigurationError(f"--accept {name}: there is no such gate; there are {', '.join(known)}")
    return tuple(sorted(set(names)))


def _check_report(build: Build) -> Product:
    """The report of C synthesis against what the kernel states; a remark if the tool has left none."""
    path = build.paths.reports / "hls.xml"
    if not path.is_file():
        return Product(notes=[f"C synthesis has left no {CSYNTH_REPORT}: intervals, clock and size were not checked"])
    try:
        report = read_csynth_report(path)
    except DataError as error:
        raise BuildError("artefact", str(error), path) from error
    loops = kernel_loops(build.design)
    notes = hls_gate(build.design, loops, report, path, build.settings.accepted)
    intervals = {
        loop.label: max((found.interval or 0 for found in report.loops_of(loop.label)), default=None) for loop in loops
    }
    estimate = {"clock_ns": report.clock.estimated_ns, **report.used}
    return Product(result={"estimate": estimate, "intervals": intervals}, notes=notes)


def _check_ip(build: Build) -> Product:
    check_ip(build.design, _component(build))
    return Product()


def _hls_inputs(build: Build) -> list[str]:
    script = "hls_config.cfg" if _flow(build) == "v++" else "hls.tcl"
    return [_flow(build), f"co-simulation: {build.settings.cosim}", build.script_identities[script]]


HLS = Stage(
    "hls",
    "C synthesis of the kernel to IP",
    finish=_finish,
    inputs=_hls_inputs,
    tool=lambda build: build.tools.require_hls().tool,
    clears=lambda build: [
        build.paths.hls_project,
        build.paths.ip_repository,
        build.paths.result("hls"),
        build.paths.reports / "hls.xml",
    ],
    commands=hls_commands,
    expected=_expected,
    logs=lambda build: [build.paths.hls_project],
)
HLS_CHECK = Stage(
    "hls_check",
    "gate: intervals of the loops, clock and size as C synthesis reports them",
    finish=_check_report,
    inputs=lambda build: sorted(build.settings.accepted),
)
IP_CHECK = Stage("ip_check", "ports, widths, pins and register offsets of the IP", finish=_check_ip)
