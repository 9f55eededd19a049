"""Stages that make and check the kernel's IP: hls, ip_check."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bfpga.contract.registers import TOP_FUNCTION
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.ip_check import check_ip
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build, Product, Stage, files_below, read_result
from bfpga.vendor.bitstream.tools import HlsFlow
from bfpga.vendor.block_design import kernel_vlnv


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
            (str(hls.packager.path), "--mode", "hls", "--package", *options),
        ]
    names = ["hls", "hls_package"]
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
    return Product([*files_below(build.paths.ip_repository), *kept], result=hls_estimate(report))


def _collect_config_flow(build: Build) -> None:
    """Put IP and report where the Tcl script of the classic flow puts them."""
    partial = build.directory / ".ip.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(build.paths.config_flow_ip, partial)
    os.replace(partial, build.paths.ip_repository)
    report = build.paths.config_flow_report / f"{TOP_FUNCTION}_csynth.xml"
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


def hls_estimate(report: Path) -> dict[str, Any]:
    """Clock and resources as C synthesis estimates them; empty if the report cannot be read. No gate: a guess."""
    try:
        root = ElementTree.fromstring(report.read_text())
    except (OSError, ElementTree.ParseError):
        return {}
    fields = {
        "clock_ns": "./PerformanceEstimates/SummaryOfTimingAnalysis/EstimatedClockPeriod",
        "bram18": "./AreaEstimates/Resources/BRAM_18K",
        "dsp": "./AreaEstimates/Resources/DSP",
        "ff": "./AreaEstimates/Resources/FF",
        "lut": "./AreaEstimates/Resources/LUT",
    }
    found = {name: root.findtext(path) for name, path in fields.items()}
    return {"estimate": {name: value.strip() for name, value in found.items() if value}}


def _check_ip(build: Build) -> Product:
    check_ip(build.design, _component(build))
    return Product()


def _hls_inputs(build: Build) -> list[str]:
    script = "hls_config.cfg" if _flow(build) == "v++" else "hls.tcl"
    return [_flow(build), build.script_identities[script]]


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
IP_CHECK = Stage("ip_check", "ports, widths, pins and register offsets of the IP", finish=_check_ip)
