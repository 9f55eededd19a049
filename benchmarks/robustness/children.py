"""Mutants in processes of their own, with time and memory measured; a process that dies is followed by another one."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

#: Seconds of the processor that one mutant may take, and bytes that a process may grow by while it reads one; what the
#: processes take that it starts is counted too. (Seconds on the clock would tell what else the machine does.)
SECONDS, MEMORY = 20.0, 2 << 30
#: Seconds until a process is ended that gives no answer, and bytes of addresses that it gets: both far beyond what may
#: be taken, so that what was taken is known.
ENDED_AFTER, ADDRESSES = 240.0, 12 << 30
#: Mutants of one process: what libraries keep of one is not counted as memory of a later one.
PART = 100

#: Makes and reads the mutants of a kind: a folder and the number of a mutant -> what became of it.
Reader = Callable[[int], str]
#: Prepares a folder in the process that reads; the functions of kinds are named, not sent.
Opener = Callable[[str, Path, int], Reader]


@dataclass
class Result:
    """What became of the mutants of a kind. failures: whatever is neither a right result nor one message."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    worst: float = 0.0
    peak: int = 0

    def add(self, index: int, found: str, seconds: float, grown: int) -> None:
        """Count a mutant. seconds: it took; grown: bytes that its process grew by."""
        self.worst, self.peak = max(self.worst, seconds), max(self.peak, grown)
        word = found.partition(": ")[0]
        if word in ("right", "refused", "unjudged") and seconds <= SECONDS and grown <= MEMORY:
            self.outcomes[word] += 1
            return
        self.outcomes["else"] += 1
        limits = f"{seconds:.1f} s, {grown / 2**20:,.0f} MiB"
        self.failures.append(f"mutant {index}: {found if word not in ('right', 'refused') else limits}"[:400])
        print(self.failures[-1], file=sys.stderr, flush=True)


def work(
    opener: Opener, name: str, folder: str, first: int, last: int, seed: int, answers: Connection
) -> None:
    """Read mutants and send, for each, what became of it, its seconds and the bytes by which the process grew."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    read = opener(name, Path(folder), seed)
    answers.send_bytes(b"[]")
    for index in range(first, last):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = memory("VmRSS"), used()
        try:
            found = read(index)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            found = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        seconds = used() - start
        answers.send_bytes(json.dumps([found, seconds, memory("VmHWM") - before]).encode())


def used() -> float:
    """Seconds of the processor that this process, its children and theirs that have ended have used."""
    own, ticks = str(os.getpid()), 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            if own in (status.parent.name, fields[1]):
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(which: str) -> int:
    """A line of the process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{which}:"))


def examine(opener: Opener, name: str, cases: int, seed: int, workers: int, first: int = 0) -> Result:
    """``cases`` mutants of a kind from number ``first`` on, shared by ``workers`` processes at a time."""
    result, lock = Result(), threading.Lock()

    def count(start: int) -> None:
        for answer in part(opener, name, start, min(start + PART, first + cases), seed):
            with lock:
                result.add(*answer)
        print(f"{name}: {result.outcomes.total():,} of {cases:,} mutants", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(count, range(first, first + cases, PART)))
    return result


def part(opener: Opener, name: str, first: int, last: int, seed: int) -> Iterator[tuple[int, str, float, int]]:
    """Numbers of mutants with what became of them, from as many processes as it takes."""
    context, index = multiprocessing.get_context("spawn"), first
    while index < last:
        answers, sender = context.Pipe(duplex=False)
        with tempfile.TemporaryDirectory() as folder:
            process = context.Process(target=work, args=(opener, name, folder, index, last, seed, sender), daemon=True)
            process.start()
            sender.close()
            for answer in received(process, answers, index, last):
                yield answer
                index += 1
            process.kill()
            process.join()


def received(
    process: multiprocessing.process.BaseProcess, answers: Connection, index: int, last: int
) -> Iterator[tuple[int, str, float, int]]:
    """The answers of one process, up to the mutant that ends it."""
    if not answers.poll(300):
        raise RuntimeError("a process did not start")
    answers.recv_bytes()
    for number in range(index, last):
        try:
            found = json.loads(answers.recv_bytes()) if answers.poll(ENDED_AFTER) else None
        except EOFError:
            process.join()
            yield number, f"the process ended: {process.exitcode}", 0.0, 0
            return
        if found is None:
            yield number, "no answer", ENDED_AFTER, 0
            return
        yield number, *found
