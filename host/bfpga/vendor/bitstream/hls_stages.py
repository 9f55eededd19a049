"""Stages that make and check the kernel's IP: hls, hls_check, ip_check."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from bfpga.errors import ConfigurationError, DataError
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.hls_gates import IpReport, estimate, hls_gate, intervals, known_gates
from bfpga.vendor.bitstream.ip_check import check_ip
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build, Part, Product, Stage, files_below, read_result
from bfpga.vendor.bitstream.tools import HlsFlow
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import CSYNTH_REPORT, hls_config, hls_script
from bfpga.vendor.csynth_report import CsynthReport, read_csynth_report
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.vendor.render import render_kernel, sources_of
from bfpga.vendor.stated_loops import StatedLoop, stated_loops


def _flow(build: Build) -> HlsFlow:
    return build.tools.require_hls().flow


def hls_commands(build: Build) -> list[Command]:
    """The calls of the chosen flow for every IP of the kernel."""
    return [command for ip in _ips(build) for command in _ip_commands(build, ip)]


def _ips(build: Build) -> tuple[KernelIp, ...]:
    return kernel_ips(build.design.accelerator.config)


def _ip_commands(build: Build, ip: KernelIp) -> list[Command]:
    """One call for a Tcl script, two (synthesis, packaging) for a config file."""
    hls = build.tools.require_hls()
    program, script = str(hls.tool.path), str(build.script(hls_script(ip)))
    calls: list[tuple[str, ...]]
    if hls.flow == "vitis_hls":
        calls = [(program, "-f", script)]
    elif hls.flow == "vitis-run":
        calls = [(program, "--mode", "hls", "--tcl", script)]
    else:
        assert hls.packager is not None  # require_hls
        options = ("--config", str(build.script(hls_config(ip))), "--work_dir", str(build.paths.hls_project(ip)))
        calls = [
            (program, "-c", "--mode", "hls", *options),
            (str(hls.packager.path), "--mode", "hls", "--package", *options),
        ]
    names = [ip.stem, f"{ip.stem}_package"]
    return [
        Command(call, build.directory / "logs", build.log(name), build.tools.environment, ip.part)
        for name, call in zip(names, calls, strict=False)
    ]


def _component(build: Build, ip: KernelIp) -> Path:
    return build.paths.unpacked_ip(ip) / "component.xml"


def _expected(build: Build, ip: KernelIp) -> list[Path]:
    if _flow(build) == "v++":
        return [build.paths.config_flow_ip(ip) / "component.xml"]
    return [_component(build, ip), build.paths.result(ip.stem)]


def _finish(build: Build) -> Product:
    """The files that the parts have left."""
    return Product([path for ip in _ips(build) for path in _kept(build, ip)])


def _finish_ip(build: Build, ip: KernelIp) -> list[Path]:
    if _flow(build) == "v++":
        _collect_config_flow(build, ip)
    else:
        _check_result(build, ip, read_result(build.paths.result(ip.stem)))
    return _kept(build, ip)


def _kept(build: Build, ip: KernelIp) -> list[Path]:
    report = build.paths.hls_report(ip)
    return [*files_below(build.paths.unpacked_ip(ip)), *([report] if report.is_file() else [])]


def _collect_config_flow(build: Build, ip: KernelIp) -> None:
    """Put IP and report where the Tcl script of the classic flow puts them."""
    copy = build.directory / f".{ip.stem}.partial"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(build.paths.config_flow_ip(ip), copy)
    build.paths.unpacked_ip(ip).parent.mkdir(exist_ok=True)
    os.replace(copy, build.paths.unpacked_ip(ip))
    report = build.paths.config_flow_report(ip) / CSYNTH_REPORT
    if report.is_file():
        build.paths.reports.mkdir(exist_ok=True)
        shutil.copyfile(report, build.paths.hls_report(ip))


def _check_result(build: Build, ip: KernelIp, result: dict[str, str]) -> None:
    path, part = build.paths.result(ip.stem), build.design.accelerator.board.part
    if result.get("status") != "complete":
        raise BuildError("artefact", f"{path} is not complete: C synthesis did not come to its end", path)
    if result.get("part") != part:
        raise BuildError("part", f"C synthesis was for {result.get('part')}, the board has {part}", path)
    if result.get("kernel") != ip.vlnv:
        raise BuildError("interface", f"C synthesis made {result.get('kernel')}, not {ip.vlnv}", path)


def _clears(build: Build, ip: KernelIp) -> list[Path]:
    paths = build.paths
    return [paths.hls_project(ip), paths.unpacked_ip(ip), paths.result(ip.stem), paths.hls_report(ip)]


def _hls_parts(build: Build) -> list[Part]:
    """The IPs of the kernel."""
    rendered = rendered_kernel(build.design)
    return [
        Part(
            ip.part,
            [*_ip_inputs(build, ip), *(text for item in sources_of(ip.source, rendered).items() for text in item)],
            _clears(build, ip),
            _ip_commands(build, ip),
            _expected(build, ip),
            [build.paths.hls_project(ip)],
            partial(_finish_ip, build, ip),
        )
        for ip in _ips(build)
    ]


def rendered_kernel(design: BlockDesign) -> dict[str, str]:
    """The rendered files of a design's kernel."""
    accelerator = design.accelerator
    return render_kernel(accelerator.name, accelerator.digest, accelerator.config)


def ip_loops(design: BlockDesign, ip: KernelIp) -> list[StatedLoop]:
    """The loops of an IP of a design's kernel that state an interval."""
    rendered = rendered_kernel(design)
    return stated_loops(sources_of(ip.source, rendered))


def kernel_loops(design: BlockDesign) -> list[StatedLoop]:
    """The loops of a design's kernel that state an interval, each once."""
    loops = [loop for ip in kernel_ips(design.accelerator.config) for loop in ip_loops(design, ip)]
    return list(dict.fromkeys(loops))


def checked_gates(design: BlockDesign, names: Iterable[str]) -> tuple[str, ...]:
    """The names of gates that a user accepts, each once; ConfigurationError for one that there is not."""
    known = known_gates(kernel_loops(design))
    for name in names:
        if name not in known:
            raise ConfigurationError(f"--accept {name}: there is no such gate; there are {', '.join(known)}")
    return tuple(sorted(set(names)))


def _check_reports(build: Build) -> Product:
    """The reports of C synthesis against what the kernel states; a remark on an IP of which the tool has left none."""
    notes, found = [], []
    for ip in _ips(build):
        path = build.paths.hls_report(ip)
        if path.is_file():
            found.append(IpReport(ip, ip_loops(build.design, ip), _read_report(path), path))
        else:
            what = f"{CSYNTH_REPORT} of {ip.function}"
            notes.append(f"C synthesis has left no {what}: intervals, clock and size were not checked")
    if not found:
        return Product(notes=notes)
    notes += hls_gate(build.design, found, build.settings.accepted)
    result: dict[str, Any] = {"estimate": estimate(found), "intervals": intervals(found)}
    result["ips"] = {item.ip.function: estimate([item]) for item in found}
    return Product(result=result, notes=notes)


def _read_report(path: Path) -> CsynthReport:
    try:
        return read_csynth_report(path)
    except DataError as error:
        raise BuildError("artefact", str(error), path) from error


def _check_ip(build: Build) -> Product:
    for ip in _ips(build):
        check_ip(ip, _component(build, ip))
    return Product()


def _ip_inputs(build: Build, ip: KernelIp) -> list[str]:
    script = hls_config(ip) if _flow(build) == "v++" else hls_script(ip)
    return [_flow(build), build.script_identities[script]]


def _hls_inputs(build: Build) -> list[str]:
    return [text for ip in _ips(build) for text in _ip_inputs(build, ip)]


HLS = Stage(
    "hls",
    "C synthesis of the kernel to IP",
    finish=_finish,
    inputs=_hls_inputs,
    tool=lambda build: build.tools.require_hls().tool,
    commands=hls_commands,
    expected=lambda build: [path for ip in _ips(build) for path in _expected(build, ip)],
    logs=lambda build: [build.paths.hls_project(ip) for ip in _ips(build)],
    parts=_hls_parts,
)
HLS_CHECK = Stage(
    "hls_check",
    "gate: intervals of the loops, clock and size as C synthesis reports them",
    finish=_check_reports,
    inputs=lambda build: sorted(build.settings.accepted),
)
IP_CHECK = Stage("ip_check", "ports, widths, pins and register offsets of the IP", finish=_check_ip)
