"""Builds of several accelerators on workers that have Vivado, one on each at a time.

A worker builds in a directory of its own machine, or of one that all of them share; the overlay comes back with the
result and is written here too. A build whose worker is lost is begun again by another and goes on where it stopped, if
it sees the same directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.errors import BfpgaError, ToolError
from bfpga.formats.files import replace_file
from bfpga.scale.work import Work, Workers
from bfpga.vendor.bitstream.lock import build_lock
from bfpga.vendor.bitstream.package import PACKAGE, overlay_directory
from bfpga.vendor.bitstream.pipeline import BuildReport, SilentReporter, StageOutcome, as_build_error, run_build
from bfpga.vendor.bitstream.stage import Build, BuildSettings
from bfpga.vendor.bitstream.toolset import discover
from bfpga.vendor.bitstream.versions import Version
from bfpga.vendor.block_design import block_design
from bfpga.vendor.manifest import MANIFEST_NAME

#: What a worker must have for a build, and how much of it a build takes.
NEEDS = {"vivado": 1}


@dataclass(frozen=True)
class BuildOrder:
    """What is built and how; the tools are those that a worker finds.

    hls_flow, version: as for `discover`; no HLS program is looked for where the settings say what else makes the IPs.
    until, redo_from: as for `run_build`.
    """

    accelerator: Accelerator
    settings: BuildSettings
    hls_flow: str = "auto"
    version: Version | None = None
    until: str = PACKAGE.name
    redo_from: str | None = None

    def build(self) -> Build:
        """The build with the tools of this machine."""
        flow = self.hls_flow if self.settings.own_hls is None else None
        return Build(block_design(self.accelerator), self.settings, discover(flow, self.version))


@dataclass
class Built:
    """A build that has ended, with the files of its overlay by name; ``notes``: what was worth knowing."""

    build: Build
    report: BuildReport
    overlay: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class _Notes(SilentReporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def build_one(state: object, order: BuildOrder) -> Built:
    """Build on this machine; whatever stops it is in the report, so that the other builds go on."""
    build, reporter = order.build(), _Notes()
    try:
        report = run_build(build, reporter, order.until, order.redo_from)
    except (BfpgaError, OSError) as error:
        report = BuildReport([StageOutcome("begin", "failed")], as_build_error(error))
    files = {}
    if report.overlay is not None:
        files = {path.name: path.read_bytes() for path in sorted(report.overlay.iterdir()) if path.is_file()}
    return Built(build, report, files, reporter.notes)


BUILD: Work[None, BuildOrder, Built] = Work(lambda: None, build_one)


def build_all(
    workers: Workers, orders: Sequence[BuildOrder], progress: Callable[[int, int], None] | None = None
) -> Iterator[Built]:
    """The builds in the order of their orders, each when it has ended; overlays are here then too.

    ScaleError if no worker has Vivado; OSError if an overlay cannot be written here.
    """
    for built in workers.map(BUILD, orders, progress=progress, needs=NEEDS):
        place_overlay(built)
        yield built


def place_overlay(built: Built) -> None:
    """Write the overlay of a build here unless it is: what it names first, its manifest last."""
    directory = overlay_directory(built.build)
    for name in sorted(built.overlay, key=lambda name: name == MANIFEST_NAME):
        path, content = directory / name, built.overlay[name]
        if not path.is_file() or path.read_bytes() != content:
            directory.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)


def end_leftovers(directories: Sequence[Path]) -> list[str]:
    """End tools of builds whose workers of this machine were ended; says which. A build under way is left alone."""
    said: list[str] = []
    for directory in directories:
        if directory.is_dir():
            with suppress(ToolError), build_lock(directory, said.append):
                pass
    return said
