"""Runs the parts of a stage at the same time, as many as the build has jobs; those that are done are kept."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from bfpga.errors import BfpgaError
from bfpga.vendor.bitstream.diagnosis import diagnose, missing_artefacts
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.processes import end_processes
from bfpga.vendor.bitstream.records import Records, StageRecord, hashes, text_hash
from bfpga.vendor.bitstream.runner import Command, run_command
from bfpga.vendor.bitstream.stage import Build, Part, Stage

#: Seconds between two looks at the tools that an interruption has ended.
_LOOK_SECONDS = 0.1
#: Called with a line of a tool and the seconds since the stage began.
ReportLine = Callable[[float, str], None]


def part_record(stage: Stage, part: Part) -> str:
    """Name of the record of a part."""
    return f"{stage.name}.{part.name}"


def log_files(folders: Sequence[Path], began: float) -> list[Path]:
    """Logs that were written in these folders since a time, the oldest first."""
    written: list[tuple[float, Path]] = []
    for folder in folders:
        written += [(path.stat().st_mtime, path) for path in folder.rglob("*.log") if path.is_file()]
    # A clock of the file system may lag behind ours by a tick.
    return [path for time_written, path in sorted(written) if time_written >= began - 1]


class PartRunner:
    """The parts of a stage of a build. A part that fails lets those that run come to their end and no other begin."""

    def __init__(self, build: Build, stage: Stage, records: Records, report: ReportLine) -> None:
        self._build = build
        self._stage = stage
        self._records = records
        self._report = report
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._started, self._began = time.monotonic(), time.time()

    def run(self, parts: Sequence[Part]) -> list[str]:
        """Make the parts that are not there as their inputs say; the names of those that were kept.

        Raises BuildError of the first part that failed, with the others in its message.
        """
        waiting = [part for part in parts if not self._kept(part)]
        with ThreadPoolExecutor(max(1, min(self._build.settings.jobs, len(waiting)))) as pool:
            runs = [pool.submit(self._make, part) for part in waiting]
            try:
                wait(runs)
            except BaseException:  # An interruption: the tools must not outlive it.
                self._end(runs)
                raise
        self._raise(waiting, runs)
        return [part.name for part in parts if part not in waiting]

    def _end(self, runs: Sequence[Future[None]]) -> None:
        self._stopped.set()
        while not all(run.done() for run in runs):
            end_processes(self._build.directory)
            wait(runs, _LOOK_SECONDS)

    def _raise(self, parts: Sequence[Part], runs: Sequence[Future[None]]) -> None:
        failed = [(part, error) for part, run in zip(parts, runs, strict=True) if (error := run.exception())]
        if not failed:
            return
        (_, first), others = failed[0], failed[1:]
        if not others or not isinstance(first, BfpgaError):
            raise first
        more = "".join(f"\nalso failed: {str(error).splitlines()[0]}" for _, error in others)
        kind, log = (first.kind, first.log) if isinstance(first, BuildError) else ("tool", None)
        raise BuildError(kind, f"{first}{more}", log)

    def _key(self, part: Part) -> str:
        tool = self._stage.tool(self._build)
        version = "" if tool is None else f"{tool.name} {tool.version}"
        return text_hash(self._stage.name, part.name, version, *part.inputs)

    def _kept(self, part: Part) -> bool:
        record = self._records.read(part_record(self._stage, part))
        return record is not None and record.key == self._key(part) and record.intact(self._build.directory)

    def _make(self, part: Part) -> None:
        if self._stopped.is_set():
            return
        try:
            self._do(part)
        except BaseException:
            self._stopped.set()
            raise

    def _do(self, part: Part) -> None:
        started = time.monotonic()
        name = part_record(self._stage, part)
        self._records.forget(name)
        for path in part.clears:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        for command in part.commands:
            self._call(part, command)
        self._require(part, part.expected)
        files = part.finish()
        self._require(part, files)
        tool = self._stage.tool(self._build)
        label = None if tool is None else f"{tool.name} {tool.version}"
        seconds = round(time.monotonic() - started, 3)
        self._records.write(StageRecord(name, self._key(part), seconds, label, hashes(self._build.directory, files)))

    def _call(self, part: Part, command: Command) -> None:
        limit = self._build.settings.limit_seconds
        left = limit - (time.monotonic() - self._started)
        outcome = run_command(command, self._build.directory, left, lambda _, line: self._forward(part, line))
        logs = [command.log, *log_files(part.logs, self._began)]
        failure = diagnose(self._build.design, self._what(command), outcome, logs, limit)
        if failure is not None:
            raise failure

    def _forward(self, part: Part, line: str) -> None:
        with self._lock:
            self._report(time.monotonic() - self._started, f"{part.name}: {line}" if line else line)

    def _require(self, part: Part, files: Sequence[Path]) -> None:
        missing = [path for path in files if not path.is_file()]
        if missing:
            command = part.commands[-1]
            logs = [command.log, *log_files(part.logs, self._began)]
            raise missing_artefacts(self._build.design, self._what(command), missing, logs)

    def _what(self, command: Command) -> str:
        return f"stage {self._stage.name}: {command.program}"
