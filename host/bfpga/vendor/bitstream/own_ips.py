"""IPs of Verilog that this toolkit has made of the kernel's C++: Vivado only packages them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bfpga.formats.version import VERSION
from bfpga.vendor.bitstream.ip_maker import check_result, component, unpacked
from bfpga.vendor.bitstream.records import hashes, text_hash
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build, files_below
from bfpga.vendor.bitstream.tools import Tool
from bfpga.vendor.bitstream.vivado_stages import vivado_command
from bfpga.vendor.build_scripts import packaging_constraints, packaging_script
from bfpga.vendor.kernel_ips import KernelIp

#: What a manifest calls this toolkit's own HLS.
PROGRAM = "bfpga"


class OwnIps:
    """See `IpMaker`. The Verilog is there since the stage `render`."""

    def __init__(self, build: Build) -> None:
        self._build = build

    @property
    def tool(self) -> Tool:
        return self._build.tools.require_vivado()

    @property
    def record(self) -> dict[str, Any]:
        """``verilog``: digest of the files that were packaged."""
        folder = self._build.paths.own_verilog
        files = hashes(folder, files_below(folder))
        digest = text_hash(*(text for item in files.items() for text in item))
        return {"program": PROGRAM, "version": VERSION, "verilog": digest}

    def commands(self, ip: KernelIp) -> list[Command]:
        return [vivado_command(self._build, packaging_script(ip), ip.packaging, ip.part)]

    def inputs(self, ip: KernelIp) -> list[str]:
        scripts = self._build.script_identities
        verilog = self._build.paths.ip_verilog(ip).read_text()
        return ["own", scripts[packaging_script(ip)], scripts[packaging_constraints(ip)], verilog]

    def project(self, ip: KernelIp) -> Path:
        return self._build.paths.packaging_project(ip)

    def clears(self, ip: KernelIp) -> list[Path]:
        return [self.project(ip), self._build.paths.unpacked_ip(ip), self._build.paths.result(ip.packaging)]

    def expected(self, ip: KernelIp) -> list[Path]:
        return [component(self._build, ip), self._build.paths.result(ip.packaging)]

    def finish(self, ip: KernelIp) -> list[Path]:
        check_result(self._build, ip, self._build.paths.result(ip.packaging), "packaging")
        return self.kept(ip)

    def kept(self, ip: KernelIp) -> list[Path]:
        return unpacked(self._build, ip)
