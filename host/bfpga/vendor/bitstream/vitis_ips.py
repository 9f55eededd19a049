"""IPs by Vitis HLS: C synthesis and export, in the flow of the program that is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bfpga.contract.configuration import KernelConfig
from bfpga.vendor.bitstream.ip_maker import check_result, component, unpacked
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build
from bfpga.vendor.bitstream.tools import HlsFlow, Tool
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import CSYNTH_REPORT, hls_config, hls_script
from bfpga.vendor.kernel_ips import KernelIp
from bfpga.vendor.render import render_kernel, sources_of


def rendered_kernel(design: BlockDesign) -> Mapping[str, str]:
    """The rendered files of a design's kernel."""
    accelerator = design.accelerator
    return _rendered(accelerator.name, accelerator.digest, accelerator.config)


@lru_cache(maxsize=2)
def _rendered(name: str, digest: str, config: KernelConfig) -> Mapping[str, str]:
    """A build asks for the same files in every stage and for every IP."""
    return MappingProxyType(render_kernel(name, digest, config))


class VitisIps:
    """See `IpMaker`."""

    def __init__(self, build: Build) -> None:
        self._build = build

    @property
    def tool(self) -> Tool:
        return self._build.tools.require_hls().tool

    @property
    def record(self) -> dict[str, Any]:
        return {"program": self.tool.name, "version": str(self.tool.version)}

    @property
    def _flow(self) -> HlsFlow:
        return self._build.tools.require_hls().flow

    def commands(self, ip: KernelIp) -> list[Command]:
        """One call for a Tcl script, two (synthesis, packaging) for a config file."""
        build, hls = self._build, self._build.tools.require_hls()
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

    def inputs(self, ip: KernelIp) -> list[str]:
        script = hls_config(ip) if self._flow == "v++" else hls_script(ip)
        sources = (text for item in sources_of(ip.source, rendered_kernel(self._build.design)).items() for text in item)
        return [self._flow, self._build.script_identities[script], *sources]

    def project(self, ip: KernelIp) -> Path:
        return self._build.paths.hls_project(ip)

    def clears(self, ip: KernelIp) -> list[Path]:
        paths = self._build.paths
        return [paths.hls_project(ip), paths.unpacked_ip(ip), paths.result(ip.stem), paths.hls_report(ip)]

    def expected(self, ip: KernelIp) -> list[Path]:
        if self._flow == "v++":
            return [self._build.paths.config_flow_ip(ip) / "component.xml"]
        return [component(self._build, ip), self._build.paths.result(ip.stem)]

    def finish(self, ip: KernelIp) -> list[Path]:
        if self._flow == "v++":
            self._collect(ip)
        else:
            check_result(self._build, ip, self._build.paths.result(ip.stem), "C synthesis")
        return self.kept(ip)

    def kept(self, ip: KernelIp) -> list[Path]:
        report = self._build.paths.hls_report(ip)
        return [*unpacked(self._build, ip), *([report] if report.is_file() else [])]

    def _collect(self, ip: KernelIp) -> None:
        """Put IP and report of the config-file flow where the Tcl script of the classic flow puts them."""
        paths, copy = self._build.paths, self._build.directory / f".{ip.stem}.partial"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(paths.config_flow_ip(ip), copy)
        paths.unpacked_ip(ip).parent.mkdir(exist_ok=True)
        os.replace(copy, paths.unpacked_ip(ip))
        report = paths.config_flow_report(ip) / CSYNTH_REPORT
        if report.is_file():
            paths.reports.mkdir(exist_ok=True)
            shutil.copyfile(report, paths.hls_report(ip))
