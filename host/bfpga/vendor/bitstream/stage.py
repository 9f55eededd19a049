"""What a stage is, and what all stages of one build share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from bfpga.accelerator.loader import Accelerator
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.tools import Tool
from bfpga.vendor.bitstream.toolset import Toolset
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import Hls, ScriptOptions, ScriptPaths, render_scripts
from bfpga.vendor.render import VectorWriter

#: Minutes by which a script's own limit exceeds ours, so that ours is the one that ends a stage and explains it.
SCRIPT_SLACK_MINUTES = 10


@dataclass(frozen=True)
class OwnIp:
    """An IP that this toolkit has made. ``intervals``: of its pipelined loops, by their labels."""

    verilog: str
    intervals: Mapping[str, int]


class OwnHls(Protocol):
    """Makes the IPs of a kernel without the vendor's C synthesis."""

    def made_of(self, accelerator: Accelerator) -> Sequence[str]:
        """All that the IPs follow from."""

    def make(self, accelerator: Accelerator) -> Mapping[str, OwnIp]:
        """The IPs by the name of their top module; ToolError if it cannot."""


@dataclass(frozen=True)
class BuildSettings:
    """What a user may choose. ``directory``: of this build; ``overlays``: where the overlay's directory goes.

    ``own_hls``: what makes the kernel's IPs, None for Vitis HLS.

    ``accepted``: loops, resources or `clock` with which the build goes on although their gate fails.
    """

    directory: Path
    overlays: Path
    jobs: int = 1
    limit_seconds: float = 12 * 3600.0
    board_files: Path | None = None
    vectors: VectorWriter | None = None
    accepted: tuple[str, ...] = ()
    own_hls: OwnHls | None = None

    @property
    def hls(self) -> Hls:
        """Who makes the kernel's IPs."""
        return "own" if self.own_hls else "vitis"


@dataclass(frozen=True)
class Build:
    """A design, the settings and tools of its build, and the results of the stages done so far (by stage)."""

    design: BlockDesign
    settings: BuildSettings
    tools: Toolset
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.settings.directory

    @cached_property
    def paths(self) -> ScriptPaths:
        return ScriptPaths(sources=self.directory / "kernel", build=self.directory)

    @cached_property
    def script_options(self) -> ScriptOptions:
        """Limits beyond those of the stages, and the user's board files."""
        minutes = int(self.settings.limit_seconds // 60) + SCRIPT_SLACK_MINUTES
        return ScriptOptions(minutes, minutes, self.settings.board_files, self.settings.hls)

    @cached_property
    def scripts(self) -> dict[str, str]:
        """The scripts as they are run; ConfigurationError for a path the tools cannot take."""
        return render_scripts(self.design, self.paths, self.settings.jobs, self.script_options)

    @cached_property
    def script_identities(self) -> dict[str, str]:
        """The scripts without what changes no result: jobs, limits, the place of the board files."""
        return render_scripts(self.design, self.paths, 1, ScriptOptions(hls=self.settings.hls))

    def script(self, name: str) -> Path:
        return self.paths.script(name)

    def log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"


@dataclass(frozen=True)
class Product:
    """What a finished stage leaves: files that stay as they are, things that later stages may change, and a result."""

    artefacts: Sequence[Path] = ()
    present: Sequence[Path] = ()
    result: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Part:
    """A piece of a stage that is made and kept for itself; the parts of a stage run at the same time.

    inputs, clears, commands, expected, logs: as of a stage. finish: checks, and gives the files that are kept.
    """

    name: str
    inputs: Sequence[str]
    clears: Sequence[Path]
    commands: Sequence[Command]
    expected: Sequence[Path]
    logs: Sequence[Path]
    finish: Callable[[], Sequence[Path]]


def _nothing(build: Build) -> list[Any]:
    return []


@dataclass(frozen=True)
class Stage:
    """One step of a build.

    inputs: texts that decide the result, in addition to the stages before. clears: what is removed before it begins.
    commands: calls of tools, in order. expected: files they must have written. logs: folders in which what they
    start writes logs of its own. parts: what the stage consists of in place of commands of its own, if it is not one
    piece. finish: checks, and what is kept; raises BuildError.
    """

    name: str
    purpose: str
    finish: Callable[[Build], Product]
    inputs: Callable[[Build], Sequence[str]] = _nothing
    tool: Callable[[Build], Tool | None] = lambda build: None
    clears: Callable[[Build], Sequence[Path]] = _nothing
    prepare: Callable[[Build], object] = _nothing
    commands: Callable[[Build], Sequence[Command]] = _nothing
    expected: Callable[[Build], Sequence[Path]] = _nothing
    logs: Callable[[Build], Sequence[Path]] = _nothing
    parts: Callable[[Build], Sequence[Part]] = _nothing


def read_result(path: Path) -> dict[str, str]:
    """The `key value` lines that a script has written."""
    pairs = (line.partition(" ") for line in path.read_text(errors="replace").splitlines() if line.strip())
    return {key: value.strip() for key, _, value in pairs}


def files_below(directory: Path) -> list[Path]:
    """Every file below a directory."""
    return [path for path in sorted(directory.rglob("*")) if path.is_file()]
