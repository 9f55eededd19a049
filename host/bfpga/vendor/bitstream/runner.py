"""Runs a vendor tool: its log in a file, its time limited, its processes ended with it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bfpga.errors import ToolError
from bfpga.vendor.bitstream.processes import end_processes, marked

#: Called once a second, and when there is news, with the elapsed seconds and the last line that says something.
Progress = Callable[[float, str], None]
#: Beginnings of lines without interest for the progress.
DULL = ("#", "INFO: [Common", "INFO: [Device", "WARNING", "    ", "**", "source ", "---", "|", "+-")


@dataclass(frozen=True)
class Command:
    """A call of a tool. ``directory``: where it runs; ``log``: file that gets what it prints.

    ``part``: of the stage, where several run at the same time.
    """

    arguments: tuple[str, ...]
    directory: Path
    log: Path
    environment: Mapping[str, str]
    part: str = ""

    @property
    def program(self) -> str:
        """Name of the tool, after that of the part that it works on."""
        name = Path(self.arguments[0]).name
        return f"{self.part}: {name}" if self.part else name


@dataclass(frozen=True)
class Outcome:
    """How a tool ended. ``returncode``: negative for a signal; ``expired``: it ran into its time limit."""

    returncode: int
    seconds: float
    expired: bool


def run_command(
    command: Command, build_directory: Path, limit_seconds: float, progress: Progress | None = None
) -> Outcome:
    """Run a tool to its end or to its time limit; nothing it has started survives.

    ToolError if it cannot be started; how it ended is for the caller to judge.
    """
    command.log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    environment = {**command.environment, **marked(build_directory, command.part)}
    with command.log.open("wb") as log:
        try:
            process = subprocess.Popen(
                command.arguments, cwd=command.directory, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"{command.arguments[0]} cannot be started: {error.strerror}") from error
        with process:
            try:
                expired = not _follow(process, log, started, limit_seconds, progress)
            finally:
                # Helpers outlive a tool that crashed; a tool that would not end is not waited for.
                end_processes(build_directory, part=command.part)
                process.kill()
    return Outcome(process.returncode, time.monotonic() - started, expired)


def _follow(
    process: subprocess.Popen[bytes], log: BinaryIO, started: float, limit: float, progress: Progress | None
) -> bool:
    """Copy output to the log until the tool ends (True) or the limit is reached (False)."""
    assert process.stdout is not None
    interesting, rest, reported, next_report = "", b"", "", 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (elapsed := time.monotonic() - started) < limit:
            if progress is not None and (elapsed >= next_report or interesting != reported):
                progress(elapsed, interesting)
                reported, next_report = interesting, elapsed + 1.0
            if not selector.select(min(1.0, limit - elapsed)):
                if process.poll() is not None:
                    return True  # a helper keeps the pipe open
                continue
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            log.write(chunk)
            log.flush()
            *lines, rest = (rest + chunk).split(b"\n")
            interesting = next((text for line in reversed(lines) if (text := informative(line))), interesting)
    try:
        process.wait(max(0.0, limit - (time.monotonic() - started)))
    except subprocess.TimeoutExpired:
        return False
    return True


def informative(line: bytes) -> str | None:
    """A line of a log as text, if it is of interest for the progress."""
    text = line.decode(errors="replace").rstrip()
    return None if not text.strip() or text.startswith(DULL) else text


def tail(log: Path, count: int) -> list[str]:
    """The last lines of a log that are not empty."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip()][-count:]
