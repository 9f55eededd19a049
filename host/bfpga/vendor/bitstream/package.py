"""The last stage: what Vivado has built is checked once more and becomes an overlay."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from bfpga.vendor.bitstream.bitstream import check_bitstream
from bfpga.vendor.bitstream.handoff_check import check_handoff
from bfpga.vendor.bitstream.hls_stages import ip_maker
from bfpga.vendor.bitstream.records import hashes, text_hash
from bfpga.vendor.bitstream.reports import read_utilization
from bfpga.vendor.bitstream.stage import Build, Product, Stage, files_below
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.manifest import MANIFEST_NAME
from bfpga.vendor.overlay_files import OverlayBuild, write_overlay


def overlay_directory(build: Build) -> Path:
    """Where the overlay of a build goes."""
    return build.settings.overlays / build.design.accelerator.name


def check_overlay_directory(build: Build) -> None:
    """OSError if the overlay could not be written in the end: better said before hours are spent."""
    place = overlay_directory(build)
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is no directory; --overlays names where overlays go", str(place))
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "the directory of overlays cannot be written", str(place))


def _package(build: Build) -> Product:
    design, paths = build.design, build.paths
    bitstream, handoff = paths.overlay_file("bit"), paths.overlay_file("hwh")
    check_handoff(design, handoff)
    check_bitstream(bitstream, design.accelerator.board.part)
    usage = read_utilization(paths.reports / "implementation.txt")
    clock_hz = build.results["block_design"]["clock_hz"]
    directory = overlay_directory(build)
    _remove_leftovers(directory, design.accelerator.name)
    manifest = write_overlay(
        design.accelerator,
        directory,
        OverlayBuild(
            bitstream,
            handoff,
            tools={
                "hls": ip_maker(build).record,
                "vivado": {"program": "vivado", "version": str(build.tools.require_vivado().version)},
                "board_files": build.results["block_design"]["board_part"],
                "ips": _ips(build),
            },
            utilization={name: {"used": item.used, "available": item.available} for name, item in usage.items()},
            timing=build.results["timing"],
            reports={
                "utilization_report": paths.reports / "implementation.txt",
                "timing_report": paths.reports / "timing.txt",
            },
            actual_mhz=clock_hz / 1e6,
        ),
    )
    files = [directory / entry.name for entry in manifest.files.values() if entry is not None]
    return Product([*files, directory / MANIFEST_NAME], result={"overlay": str(directory)})


def _ips(build: Build) -> dict[str, Any]:
    """The IPs of the kernel, each with a hash of all that was exported."""
    ips = kernel_ips(build.design.accelerator.config)
    return {ip.vlnv: {"cell": ip.cell, "sha256": _exported(build.paths.unpacked_ip(ip))} for ip in ips}


def _exported(folder: Path) -> str:
    files = hashes(folder, files_below(folder))
    return text_hash(*(text for item in files.items() for text in item))


def _remove_leftovers(directory: Path, name: str) -> None:
    """Temporary files of a build that was killed while it wrote the overlay."""
    for pattern in (f".{name}-*", f".{MANIFEST_NAME}.*"):
        for path in directory.glob(pattern):
            path.unlink()


PACKAGE = Stage(
    "package",
    "bitstream, handoff, reports and manifest as an overlay",
    finish=_package,
    inputs=lambda build: [str(overlay_directory(build).absolute())],
)
