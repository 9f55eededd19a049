"""Stages that make and check the kernel's IP: hls, hls_check, ip_check."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from bfpga.errors import ConfigurationError, DataError
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.hls_gates import (
    IpReport,
    OwnReport,
    estimate,
    hls_gate,
    intervals,
    known_gates,
    own_gate,
)
from bfpga.vendor.bitstream.ip_check import check_ip
from bfpga.vendor.bitstream.ip_maker import IpMaker, component
from bfpga.vendor.bitstream.own_ips import OwnIps
from bfpga.vendor.bitstream.source_stages import RENDER
from bfpga.vendor.bitstream.stage import Build, Part, Product, Stage
from bfpga.vendor.bitstream.vitis_ips import VitisIps, rendered_kernel
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import CSYNTH_REPORT
from bfpga.vendor.csynth_report import CsynthReport, read_csynth_report
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.vendor.render import sources_of
from bfpga.vendor.stated_loops import StatedLoop, stated_loops


def ip_maker(build: Build) -> IpMaker:
    """Who makes the IPs of a build."""
    return VitisIps(build) if build.settings.own_hls is None else OwnIps(build)


def _ips(build: Build) -> tuple[KernelIp, ...]:
    return kernel_ips(build.design.accelerator.config)


def _finish(build: Build) -> Product:
    """The files that the parts have left."""
    maker = ip_maker(build)
    return Product([path for ip in _ips(build) for path in maker.kept(ip)])


def _hls_parts(build: Build) -> list[Part]:
    """The IPs of the kernel."""
    maker = ip_maker(build)
    return [
        Part(
            ip.part,
            maker.inputs(ip),
            maker.clears(ip),
            maker.commands(ip),
            maker.expected(ip),
            [maker.project(ip)],
            partial(maker.finish, ip),
        )
        for ip in _ips(build)
    ]


def ip_loops(design: BlockDesign, ip: KernelIp) -> list[StatedLoop]:
    """The loops of an IP of a design's kernel that state an interval."""
    return stated_loops(sources_of(ip.source, rendered_kernel(design)))


def kernel_loops(design: BlockDesign) -> list[StatedLoop]:
    """The loops of a design's kernel that state an interval, each once."""
    rendered, ips = rendered_kernel(design), kernel_ips(design.accelerator.config)
    return list(dict.fromkeys(loop for ip in ips for loop in stated_loops(sources_of(ip.source, rendered))))


def checked_gates(design: BlockDesign, names: Iterable[str]) -> tuple[str, ...]:
    """The names of gates that a user accepts, each once; ConfigurationError for one that there is not."""
    known = known_gates(kernel_loops(design))
    for name in names:
        if name not in known:
            raise ConfigurationError(f"--accept {name}: there is no such gate; there are {', '.join(known)}")
    return tuple(sorted(set(names)))


def _check_reports(build: Build) -> Product:
    """The reports of C synthesis against what the kernel states; a remark on an IP of which the tool has left none."""
    if build.settings.own_hls is not None:
        return _check_intervals(build)
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


def _check_intervals(build: Build) -> Product:
    """The intervals of own Verilog against what the kernel states."""
    made: dict[str, dict[str, int]] = build.results[RENDER.name]["intervals"]
    design, paths = build.design, build.paths
    found = [OwnReport(ip, ip_loops(design, ip), made[ip.function], paths.ip_verilog(ip)) for ip in _ips(build)]
    notes = own_gate(found, build.settings.accepted)
    longest: dict[str, int] = {}
    for loops in made.values():
        for label, interval in loops.items():
            longest[label] = max(interval, longest.get(label, 0))
    return Product(result={"intervals": longest}, notes=notes)


def _read_report(path: Path) -> CsynthReport:
    try:
        return read_csynth_report(path)
    except DataError as error:
        raise BuildError("artefact", str(error), path) from error


def _check_ip(build: Build) -> Product:
    for ip in _ips(build):
        check_ip(ip, component(build, ip))
    return Product()


HLS = Stage(
    "hls",
    "C synthesis of the kernel to IP, or packaging of its Verilog",
    finish=_finish,
    inputs=lambda build: [text for ip in _ips(build) for text in ip_maker(build).inputs(ip)],
    tool=lambda build: ip_maker(build).tool,
    commands=lambda build: [command for ip in _ips(build) for command in ip_maker(build).commands(ip)],
    expected=lambda build: [path for ip in _ips(build) for path in ip_maker(build).expected(ip)],
    logs=lambda build: [ip_maker(build).project(ip) for ip in _ips(build)],
    parts=_hls_parts,
)
HLS_CHECK = Stage(
    "hls_check",
    "gate: intervals of the loops, clock and size as C synthesis reports them",
    finish=_check_reports,
    inputs=lambda build: sorted(build.settings.accepted),
)
IP_CHECK = Stage("ip_check", "ports, widths, pins and register offsets of the IP", finish=_check_ip)
