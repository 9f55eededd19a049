"""Runs the stages: those that are done are kept, from the first one that is not, all are done again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from bfpga.errors import BfpgaError, ConfigurationError
from bfpga.formats.files import replace_file
from bfpga.vendor.bitstream.diagnosis import diagnose, missing_artefacts
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.hls_stages import HLS, HLS_CHECK, IP_CHECK
from bfpga.vendor.bitstream.lock import build_lock
from bfpga.vendor.bitstream.package import PACKAGE, check_overlay_directory
from bfpga.vendor.bitstream.parts import PartRunner, log_files, part_record
from bfpga.vendor.bitstream.records import Records, StageRecord, hashes, text_hash
from bfpga.vendor.bitstream.runner import Command, run_command
from bfpga.vendor.bitstream.source_stages import CSIM, RENDER, TCL_CHECK
from bfpga.vendor.bitstream.stage import Build, Part, Product, Stage
from bfpga.vendor.bitstream.vivado_stages import BLOCK_DESIGN, IMPLEMENTATION, SYNTHESIS, TIMING, UTILIZATION

STAGES: tuple[Stage, ...] = (
    RENDER,
    CSIM,
    TCL_CHECK,
    HLS,
    HLS_CHECK,
    IP_CHECK,
    BLOCK_DESIGN,
    SYNTHESIS,
    UTILIZATION,
    IMPLEMENTATION,
    TIMING,
    PACKAGE,
)
Status = Literal["kept", "done", "failed", "open"]


class Reporter(Protocol):
    """Receives the progress of a build; a script prints it."""

    def started(self, stage: Stage) -> None: ...
    def progress(self, stage: Stage, seconds: float, line: str) -> None: ...
    def finished(self, stage: Stage, status: Status, seconds: float) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass(frozen=True)
class StageOutcome:
    """What became of a stage. ``seconds``: what it took when it was done; ``tool``: name and version."""

    stage: str
    status: Status
    seconds: float = 0.0
    tool: str | None = None


@dataclass
class BuildReport:
    """What became of a build. ``error``: of the stage that failed; ``overlay``: where it is, once packaged."""

    outcomes: list[StageOutcome] = field(default_factory=list)
    error: BuildError | None = None
    overlay: Path | None = None

    @property
    def failed_stage(self) -> str | None:
        return next((item.stage for item in self.outcomes if item.status == "failed"), None)


def stage_names() -> list[str]:
    return [stage.name for stage in STAGES]


def find_stage(name: str) -> Stage:
    """The stage of that name; ConfigurationError lists them if there is none."""
    for stage in STAGES:
        if stage.name == name:
            return stage
    raise ConfigurationError(f"there is no stage {name!r}; stages: {', '.join(stage_names())}")


def check_stages(until: str, redo_from: str | None) -> tuple[Stage, Stage | None]:
    """The last stage and the one to begin again with; ConfigurationError unless there are such, in this order."""
    last, redo = find_stage(until), find_stage(redo_from) if redo_from else None
    if redo is not None and STAGES.index(redo) > STAGES.index(last):
        raise ConfigurationError(f"stage {redo.name} comes after {last.name}; there is nothing to do again")
    return last, redo


def run_build(build: Build, reporter: Reporter, until: str = PACKAGE.name, redo_from: str | None = None) -> BuildReport:
    """Run the stages up to ``until``; from ``redo_from`` on they are done again although nothing has changed.

    ToolError if another build is running in the directory, ConfigurationError for a path the tools cannot take,
    OSError for a directory that cannot be written.
    A stage that fails ends the build; the report says why.
    """
    last, redo = check_stages(until, redo_from)
    scripts = build.scripts  # refuses a path before anything is written
    check_overlay_directory(build)
    build.directory.mkdir(parents=True, exist_ok=True)
    with build_lock(build.directory, reporter.note):
        _remove_temporaries(build.directory)
        _write_scripts(build, scripts)
        return _Pipeline(build, reporter).run(last, redo)


def _remove_temporaries(directory: Path) -> None:
    """What a build that was killed left under temporary names."""
    folders = directory, directory / "stages", directory / "scripts"
    for path in [path for folder in folders for path in folder.glob(".*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _write_scripts(build: Build, scripts: dict[str, str]) -> None:
    for name, text in scripts.items():
        build.script(name).parent.mkdir(exist_ok=True)
        replace_file(build.script(name), text.encode())
    (build.directory / "logs").mkdir(exist_ok=True)


class _Pipeline:
    def __init__(self, build: Build, reporter: Reporter) -> None:
        self._build = build
        self._reporter = reporter
        self._records = Records(build.directory)
        self._began = 0.0

    def run(self, last: Stage, redo: Stage | None) -> BuildReport:
        report = BuildReport()
        before, valid = "", True
        for stage in STAGES[: STAGES.index(last) + 1]:
            valid = valid and stage is not redo
            try:
                if redo is not None and STAGES.index(stage) >= STAGES.index(redo):
                    self._forget_parts(stage)
                key = self._key(stage, before)
                record = self._kept(stage, key) if valid else None
                status: Status = "done" if record is None else "kept"
                if record is None:
                    valid = False
                    record = self._do(stage, key)
            except (BfpgaError, OSError) as error:
                report.error = as_build_error(error)
                report.outcomes.append(StageOutcome(stage.name, "failed"))
                self._reporter.finished(stage, "failed", 0.0)
                break
            self._build.results[stage.name] = record.result
            before = record.identity()
            report.outcomes.append(StageOutcome(stage.name, status, record.seconds, record.tool))
            self._reporter.finished(stage, status, record.seconds)
            for note in record.notes:
                self._reporter.note(note)
        done = {item.stage for item in report.outcomes}
        report.outcomes += [StageOutcome(stage.name, "open") for stage in STAGES if stage.name not in done]
        overlay = self._build.results.get(PACKAGE.name, {}).get("overlay")
        return replace(report, overlay=Path(overlay) if overlay else None)

    def _key(self, stage: Stage, before: str) -> str:
        """Hash of everything that decides what a stage makes; ``before``: all stages before it."""
        tool = stage.tool(self._build)
        version = "" if tool is None else f"{tool.name} {tool.version}"
        accelerator = self._build.design.accelerator
        return text_hash(stage.name, accelerator.name, accelerator.digest, before, version, *stage.inputs(self._build))

    def _kept(self, stage: Stage, key: str) -> StageRecord | None:
        record = self._records.read(stage.name)
        return record if record is not None and record.key == key and record.intact(self._build.directory) else None

    def _do(self, stage: Stage, key: str) -> StageRecord:
        started, self._began = time.monotonic(), time.time()
        self._reporter.started(stage)
        for later in STAGES[STAGES.index(stage) :]:
            self._records.forget(later.name)
        for path in stage.clears(self._build):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        stage.prepare(self._build)
        parts = stage.parts(self._build)
        if parts:
            self._run_parts(stage, parts)
        else:
            self._run_commands(stage)
        product = stage.finish(self._build)
        self._require(stage, product.artefacts)
        record = self._record(stage, key, product, time.monotonic() - started)
        self._records.write(record)
        return record

    def _record(self, stage: Stage, key: str, product: Product, seconds: float) -> StageRecord:
        directory, tool = self._build.directory, stage.tool(self._build)
        return StageRecord(
            stage.name,
            key,
            round(seconds, 3),
            None if tool is None else f"{tool.name} {tool.version}",
            hashes(directory, product.artefacts),
            dict(product.result),
            list(product.notes),
            [str(path.relative_to(directory)) for path in product.present],
        )

    def _run_parts(self, stage: Stage, parts: Sequence[Part]) -> None:
        def report(seconds: float, line: str) -> None:
            self._reporter.progress(stage, seconds, line)

        kept = PartRunner(self._build, stage, self._records, report).run(parts)
        if kept:
            self._reporter.note(f"{stage.name}: {', '.join(kept)} unchanged")

    def _forget_parts(self, stage: Stage) -> None:
        for part in stage.parts(self._build):
            self._records.forget(part_record(stage, part))

    def _run_commands(self, stage: Stage) -> None:
        build, limit = self._build, self._build.settings.limit_seconds
        deadline = time.monotonic() + limit
        for command in stage.commands(build):
            what = f"stage {stage.name}: {command.program}"
            outcome = run_command(
                command,
                build.directory,
                deadline - time.monotonic(),
                lambda seconds, line: self._reporter.progress(stage, seconds, line),
            )
            failure = diagnose(build.design, what, outcome, self._logs(stage, command, self._began), limit)
            if failure is not None:
                raise failure
        self._require(stage, stage.expected(build))

    def _require(self, stage: Stage, files: Sequence[Path]) -> None:
        """BuildError for files that are missing although every tool claims success."""
        missing = [path for path in files if not path.is_file()]
        if missing:
            command = stage.commands(self._build)[-1]
            what = f"stage {stage.name}: {command.program}"
            raise missing_artefacts(self._build.design, what, missing, self._logs(stage, command, self._began))

    def _logs(self, stage: Stage, command: Command, began: float) -> list[Path]:
        """The log of a command and those that what it started has written since, the oldest first."""
        return [command.log, *log_files(stage.logs(self._build), began)]


def as_build_error(error: BfpgaError | OSError) -> BuildError:
    """Any error of a stage as the reason why a build stopped."""
    if isinstance(error, BuildError):
        return error
    if isinstance(error, OSError):
        return BuildError("file", f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return BuildError("tool", str(error))


class SilentReporter:
    """Discards the progress: for callers that only want the result."""

    def started(self, stage: Stage) -> None:
        return

    def progress(self, stage: Stage, seconds: float, line: str) -> None:
        return

    def finished(self, stage: Stage, status: Status, seconds: float) -> None:
        return

    def note(self, text: str) -> None:
        return
