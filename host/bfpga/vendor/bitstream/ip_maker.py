"""What the stage `hls` asks of whoever makes the kernel's IPs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build, files_below, read_result
from bfpga.vendor.bitstream.tools import Tool
from bfpga.vendor.kernel_ips import KernelIp


class IpMaker(Protocol):
    """Makes IPs for one build; each ends as an unpacked IP in the build's repository."""

    @property
    def tool(self) -> Tool:
        """The vendor's program; BuildError if it is missing."""

    @property
    def record(self) -> dict[str, Any]:
        """What a manifest says of it."""

    def commands(self, ip: KernelIp) -> list[Command]:
        """Its calls for an IP."""

    def inputs(self, ip: KernelIp) -> list[str]:
        """Texts that decide the result."""

    def project(self, ip: KernelIp) -> Path:
        """Folder in which it works, with logs of its own."""

    def clears(self, ip: KernelIp) -> list[Path]:
        """What is removed before it begins."""

    def expected(self, ip: KernelIp) -> list[Path]:
        """Files that the calls must have written."""

    def finish(self, ip: KernelIp) -> list[Path]:
        """Check what the calls left; the files that are kept."""

    def kept(self, ip: KernelIp) -> list[Path]:
        """The files of a finished IP."""


def component(build: Build, ip: KernelIp) -> Path:
    """The description of an unpacked IP (IP-XACT)."""
    return build.paths.unpacked_ip(ip) / "component.xml"


def unpacked(build: Build, ip: KernelIp) -> list[Path]:
    """The files of an unpacked IP."""
    return files_below(build.paths.unpacked_ip(ip))


def check_result(build: Build, ip: KernelIp, path: Path, what: str) -> None:
    """BuildError if the result of a script is incomplete or of another part or IP; what: the script does, in words."""
    result, part = read_result(path), build.design.accelerator.board.part
    if result.get("status") != "complete":
        raise BuildError("artefact", f"{path} is not complete: {what} did not come to its end", path)
    if result.get("part") != part:
        raise BuildError("part", f"{what} was for {result.get('part')}, the board has {part}", path)
    if result.get("kernel") != ip.vlnv:
        raise BuildError("interface", f"{what} made {result.get('kernel')}, not {ip.vlnv}", path)
