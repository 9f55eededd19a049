"""A trial reading of a network in a process of its own, with limits of time and memory.

The libraries that read ONNX files can end the process or turn for ever over a hostile file. What could make them do so
(`plain.py`) is read by a helper first, in the same way; what the helper survives, this process reads after it. The
helper starts with the first such file and serves all later ones. It gets paths and gives messages, both as JSON.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from select import select
from typing import Any

from bfpga.compiler.read.sizes import InputShapes
from bfpga.errors import ModelError

#: Seconds of the processor, seconds on the clock (the machine may be busy), and bytes, for any file; and for its bytes.
CPU_SECONDS, SECONDS, MEMORY = 5.0, 60.0, 1 << 30
SECONDS_A_BYTE, MEMORY_A_BYTE = 4e-7, 8
#: The helper, and where it starts: Python takes modules from there before all others.
PROCESS, PACKAGES = "bfpga.compiler.trial_process", Path(__file__).parents[3]
#: Seconds between two looks at the helper's memory, and until it must have started.
LOOK, START = 0.02, 120.0


class _Helper:
    """The process that reads before this one does."""

    def __init__(self) -> None:
        self.lock, self.owner, self.over = threading.Lock(), 0, ""
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.end)

    def ask(self, path: Path, shapes: InputShapes) -> str:
        """What is wrong with a file, empty if nothing is."""
        with self.lock:
            if self.process is None or self.process.poll() is not None or self.owner != os.getpid():
                self._start()
            size = path.stat().st_size
            seconds = CPU_SECONDS + size * SECONDS_A_BYTE
            request = {
                "path": str(path.absolute()), "name": str(path), "cpu": seconds,
                "shapes": {name: [int(number) for number in shape] for name, shape in shapes.items()},
            }  # fmt: skip
            memory = MEMORY + size * MEMORY_A_BYTE
            answer = self._answer(request, SECONDS + 2 * size * SECONDS_A_BYTE, memory)
            return answer if isinstance(answer, str) else self._ended(path, seconds, memory)

    def _start(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", PROCESS]
        folders = [os.path.abspath(folder) for folder in sys.path if folder]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            start_new_session=True, cwd=PACKAGES,
        )  # fmt: skip
        self.owner = os.getpid()
        if self._line(START, None) is None:
            self.end()
            raise ModelError("the process that reads networks on trial does not start")

    def _answer(self, request: dict[str, Any], seconds: float, memory: float) -> str | None:
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return None
        line = self._line(seconds, memory)
        return None if line is None else str(json.loads(line)["problem"])

    def _line(self, seconds: float, memory: float | None) -> bytes | None:
        """The helper's next line; None if it ends, or takes more time or grows by more memory than it may."""
        assert self.process is not None
        assert self.process.stdout is not None
        end, before = time.monotonic() + seconds, resident(self.process.pid)
        self.over = ""
        while not select([self.process.stdout], [], [], LOOK)[0]:
            if time.monotonic() > end:
                self.over = "time"
                return None
            if memory is not None and resident(self.process.pid) - before > memory:
                self.over = "memory"
                return None
        return self.process.stdout.readline() or None

    def _ended(self, path: Path, seconds: float, memory: float) -> str:
        """What a helper that gave no answer says of the file."""
        assert self.process is not None
        process, over = self.process, self.over
        self.end()
        if not over and process.returncode == -signal.SIGXCPU:
            over = "time"
        limits = {"time": f"more than {seconds:.0f} s", "memory": f"more than {memory / 2**20:,.0f} MiB"}
        if over:
            return (
                f"{path}: reading this network takes {limits[over]}: it has a loop, a function or a constant of "
                "enormous size; export it with constants of the sizes that it needs"
            )
        code = -process.returncode
        name = signal.Signals(code).name if code in set(signal.Signals) else f"status {process.returncode}"
        return (
            f"{path}: ONNX's libraries end the process that reads this network ({name}): an operator has inputs of a "
            "shape that it cannot have, or a function calls itself; export it again, and check it with onnx.checker"
        )

    def end(self) -> None:
        """End the helper, if it is this process's."""
        process, self.process = self.process, None
        if process is None or self.owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def resident(process: int) -> int:
    """Bytes of memory that a process holds; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


_HELPER = _Helper()


def try_reading(path: str | Path, shapes: InputShapes) -> None:
    """Read a network in another process; ModelError if it cannot be read there, or not within the limits."""
    problem = _HELPER.ask(Path(path), shapes)
    if problem:
        raise ModelError(problem)
