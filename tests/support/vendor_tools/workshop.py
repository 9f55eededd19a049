"""A place with stand-ins for the vendor's tools, and builds in it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process_designs import TINY
from vendor_tools.artefacts import write_artefacts

from bfpga.accelerator.loader import load_accelerator
from bfpga.vendor.bitstream.pipeline import BuildReport, SilentReporter, run_build
from bfpga.vendor.bitstream.stage import Build, BuildSettings, OwnHls
from bfpga.vendor.bitstream.tools import Search
from bfpga.vendor.bitstream.toolset import discover
from bfpga.vendor.bitstream.versions import Version
from bfpga.vendor.block_design import BlockDesign, block_design

HERE = Path(__file__).parent
#: What each program says of its version.
BANNERS = {
    "vivado": "Vivado v{0} (64-bit)\nSW Build 3526262 on Mon Apr 18 15:47:01 MDT 2022",
    "vitis_hls": "****** Vitis HLS - High-Level Synthesis from C, C++ and OpenCL v{0} (64-bit)",
    "vitis-run": "****** vitis-run v{0} (64-bit)\n  **** SW Build 5076996",
    "v++": "****** v++ v{0} (64-bit)\n  **** SW Build 5076996",
}
PROGRAMS = tuple(BANNERS)
#: The call for the IP that is synthesised first.
FIRST_IP = "hls_sequencer"


@dataclass
class Reporter(SilentReporter):
    """Keeps what it hears."""

    notes: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, stage: object, seconds: float, line: str) -> None:
        self.lines.append(line)


class Workshop:
    """Stand-ins in `tools`, their files in `artefacts`, builds in `build`, overlays in `overlays`."""

    def __init__(
        self, directory: Path, accelerator: str = TINY, programs: tuple[str, ...] = ("vivado", "vitis_hls"),
        version: str = "2022.1",
    ) -> None:  # fmt: skip
        self.directory = directory
        self.design: BlockDesign = block_design(load_accelerator(accelerator))
        self.config: dict[str, Any] = {
            **write_artefacts(self.design, directory / "artefacts"),
            "version": version,
            "versions": {},
            "failures": {},
            "wns": 0.512,
            "whs": 0.021,
            "clock_hz": f"{self.design.clock.actual_mhz * 1e6:.0f}",
            "calls": str(directory / "calls.txt"),
        }
        self.bin = directory / "tools"
        self.install(self.bin, programs)
        self.reporter = Reporter()

    def install(self, target: Path, programs: tuple[str, ...]) -> None:
        """Put stand-ins into a directory."""
        target.mkdir(parents=True, exist_ok=True)
        for name in ("stand_in.py", "commands.tcl", *programs):
            shutil.copy(HERE / name, target / name)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.directory),
            "BFPGA_STAND_IN": str(self.directory / "stand_in.json"),
            "BFPGA_PYTHON": sys.executable,
        }

    def configure(self, **settings: Any) -> None:
        """Change what the stand-ins do, and write it down for them: what they say of their version as a text."""
        self.config.update(settings)
        (self.directory / "stand_in.json").write_text(json.dumps(self.config))
        for name, banner in BANNERS.items():
            version = self.config["versions"].get(name, self.config["version"])
            (self.directory / f"stand_in.json.{name}").write_text(banner.format(version) + "\n")

    def fail(self, call: str, mode: str) -> None:
        """From now on one call fails: a stage's, or of the stage `hls` that for its first IP."""
        self.configure(failures={FIRST_IP if call == "hls" else call: mode})

    def artefact(self, key: str, content: str | bytes) -> None:
        """Replace what a stand-in hands out."""
        path = Path(self.config[key])
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def new_build(
        self, flow: str = "auto", limit_seconds: float = 60.0, version: Version | None = None, jobs: int = 2,
        accepted: tuple[str, ...] = (), own_hls: OwnHls | None = None,
    ) -> Build:  # fmt: skip
        """A build as the script would set it up."""
        self.configure()
        accelerator = self.design.accelerator
        settings = BuildSettings(
            self.directory / "build" / f"{accelerator.name}-{accelerator.digest[:8]}",
            self.directory / "overlays",
            jobs=jobs,
            limit_seconds=limit_seconds,
            vectors=lambda config: {"starts.txt": b""},
            accepted=accepted,
            own_hls=own_hls,
        )
        found = None if own_hls else flow
        return Build(self.design, settings, discover(found, version, Search(self.environment, ())))

    def run(self, until: str = "package", redo_from: str | None = None, **settings: Any) -> BuildReport:
        """Build, and hear what became of it."""
        return run_build(self.new_build(**settings), self.reporter, until, redo_from)

    def calls(self) -> list[str]:
        """The scripts with which stand-ins were called so far."""
        path = Path(self.config["calls"])
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def stages(self) -> list[str]:
        """The stages of these calls; those for the IPs of the kernel are one stage."""
        names = ("hls" if call.startswith(("hls_", "ip_")) else call for call in self.calls())
        return [name for name, _ in itertools.groupby(names)]

    @property
    def overlay(self) -> Path:
        return self.directory / "overlays" / self.design.accelerator.name

    def overlay_content(self) -> dict[str, bytes]:
        """Every file of the overlay."""
        return {path.name: path.read_bytes() for path in sorted(self.overlay.iterdir())}
