"""Damaged files of every kind that a command reads: 2,000 mutants each, in processes with bounds of time and memory.

A mutant is read by the function that the command line reads it with. It may give a right result or one message for
the user; anything else (an uncaught error, a process that dies, more time or memory than allowed) is shown with the
number of the mutant, and counts as missed.

    python -m benchmarks.robustness --kind board --count 200
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.report import finish, table, write_json

sys.path.insert(0, str(TEST_SUPPORT))

from damaged_files import KINDS, damage, outcome, prepared

#: Address space of a process, the libraries' included, and seconds that one mutant may take.
MEMORY, SECONDS = 6 << 30, 30.0


@dataclass
class Result:
    """What became of the mutants of a kind."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    worst: float = 0.0
    peak: int = 0


def work(name: str, first: int, count: int, seed: int, answers: Connection) -> None:
    """Read mutants in a process of its own; for each its outcome, seconds, and the process's peak memory in KiB."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kind = KINDS[name]
    with tempfile.TemporaryDirectory() as folder:
        files = prepared(kind, Path(folder))
        outcome(kind, Path(folder))  # what is imported on first use is no time of a mutant
        answers.send(("ready", 0.0, 0))
        for index in range(first, count):
            damage(files, index, seed)
            start = time.perf_counter()
            try:
                found = outcome(kind, Path(folder))
            except BaseException as error:
                found = f"{type(error).__name__}: {error}"
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            answers.send((found, time.perf_counter() - start, peak))


def examine(name: str, count: int, seed: int) -> Result:
    """All mutants of a kind; a process that dies or takes too long is followed by another one."""
    result, index = Result(), 0
    context = multiprocessing.get_context("spawn")
    while index < count:
        answers, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(name, index, count, seed, sender), daemon=True)
        process.start()
        sender.close()
        index = follow(result, answers, index, count)
        process.kill()
        process.join()
    return result


def follow(result: Result, answers: Connection, index: int, count: int) -> int:
    """Take the answers of one process; the number of the first mutant that is left."""
    if not answers.poll(300):
        raise RuntimeError("a process did not start")
    answers.recv()
    while index < count:
        try:
            found, seconds, peak = answers.recv() if answers.poll(SECONDS) else (f"over {SECONDS:g} s", SECONDS, 0)
        except EOFError:
            found, seconds, peak = "the process died", 0.0, 0
        result.worst, result.peak = max(result.worst, seconds), max(result.peak, peak)
        known = found in ("right", "refused")
        result.outcomes[found if known else "else"] += 1
        index += 1
        if not known:
            result.failures.append(f"mutant {index - 1}: {found[:200]}")
        if found == "the process died" or found.startswith("over "):
            break
    return index


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each kind."""
    parser = command(__doc__, "--json")
    parser.add_argument("--count", type=int, default=2000, help="mutants of each kind (%(default)s)")
    parser.add_argument("--seed", type=int, default=12, help="what the mutants are made from (%(default)s)")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="one kind; repeatable; default: all")
    given = parser.parse_args(arguments)
    results = {name: examine(name, given.count, given.seed) for name in given.kind or KINDS}
    rows = [
        (name, f"{result.outcomes['right']:,}", f"{result.outcomes['refused']:,}", str(result.outcomes["else"]),
         f"{result.worst:.2f}", f"{result.peak / 1024:,.0f}")
        for name, result in results.items()
    ]  # fmt: skip
    write_json(given.json, {name: vars(result) for name, result in results.items()})
    head = ("kind", "right result", "refused with one message", "anything else", "worst time, s", "peak memory, MiB")
    missed = [f"{name}: {text}" for name, result in results.items() for text in result.failures]
    return finish(table(head, rows), missed=missed)


if __name__ == "__main__":
    sys.exit(main())
