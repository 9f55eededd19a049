"""One build at a time in a directory.

The kernel holds the lock and releases it when its process ends, however it ends; the file only names the process.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bfpga.errors import ToolError
from bfpga.vendor.bitstream.processes import end_processes

LOCK_FILE = "build.lock"


@contextmanager
def build_lock(directory: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a build directory.

    ToolError if another build has it. The lock of a build that died is taken over with a message, and tools it left
    running are ended.
    """
    path = directory / LOCK_FILE
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(f"{directory}: {_owner(path)} is building here; wait for it or end it") from None
        if path.stat().st_size:
            report(f"taking over from {_owner(path)}, which ended without finishing")
        orphans = end_processes(directory, grace=0.0)
        if orphans:
            report(f"ended tools it had left running: process {', '.join(map(str, orphans))}")
        _write(file, {"process": os.getpid(), "host": platform.node(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"})
        try:
            yield
        finally:
            end_processes(directory)
            _write(file, None)


def _write(file: Any, owner: dict[str, Any] | None) -> None:
    file.truncate(0)
    if owner is not None:
        file.write(json.dumps(owner) + "\n")
    file.flush()


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text())
        return f"process {owner['process']} on {owner['host']} (since {owner['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another build"
