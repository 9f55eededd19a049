"""Processes of a build: each carries the build's directory in its environment, so that none is lost sight of.

The vendor's tools start wrappers, loaders and helpers, some in groups of their own. A build that was killed leaves
them running; they would go on writing into the directory of the next build. The mark finds them all.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

#: Environment variable that marks a process as part of a build.
MARK = "BFPGA_BUILD_DIRECTORY"
#: Names the part of a stage, where several run at the same time.
PART_MARK = "BFPGA_BUILD_PART"
#: Seconds for a process to end by itself after SIGTERM, and to vanish after SIGKILL.
GRACE_SECONDS = 2.0


def marked(directory: Path, part: str = "") -> dict[str, str]:
    """The environment entries of the tools of a build, or of one part of a stage of it."""
    return {MARK: str(directory.resolve())} | ({PART_MARK: part} if part else {})


def processes_of(directory: Path, part: str = "") -> list[int]:
    """Numbers of the running processes of a build, or of one part of a stage of it, other than this one."""
    entries = {f"{name}={value}".encode() for name, value in marked(directory, part).items()}
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes()
        except OSError:  # ended meanwhile, or another user's
            continue
        if entries <= set(environment.split(b"\0")) and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return sorted(found)


def end_processes(directory: Path, grace: float = GRACE_SECONDS, part: str = "") -> list[int]:
    """End every process of a build, or of one part of a stage: SIGTERM, then SIGKILL.

    Returns the numbers of those that were running.
    """
    running = left = processes_of(directory, part)
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, GRACE_SECONDS)):
        if not left:
            break
        for process in left:
            _send(process, number)
        _until_gone(directory, seconds, part)
        left = processes_of(directory, part)
    return running


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def _until_gone(directory: Path, seconds: float, part: str) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and processes_of(directory, part):
        time.sleep(0.02)
