"""Random cases on several processes against one: the same report, with and without a worker killed in the middle.

    python -m benchmarks.scale.workers [--cases 4000] [--arrays 8] [--workers 4] [--reference FILE] [--markdown FILE]

FILE is what `bfpga verify random --json FILE` has written with as many cases and arrays; without it one process
verifies here too. Ends with 1 if a report differs. Wall clock depends on what else the machine does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.common.command import command
from benchmarks.common.report import finish
from bfpga.scale.choice import open_workers
from bfpga.scale.cluster import Cluster
from bfpga.verify.check import VerifyReport, random_configs, verify
from bfpga.verify.parts import verify_spread

#: Keys of a report that do not depend on time.
KEYS = ("cases", "arrays", "against", "layers", "values", "bit_exact", "mismatch", "seed")


def figures(report: VerifyReport) -> dict[str, Any]:
    """A report as `bfpga verify --json` has it."""
    return {
        "cases": report.cases, "arrays": report.accelerators, "against": report.targets, "layers": report.layers,
        "values": report.values, "bit_exact": report.mismatch is None,
        "mismatch": None if report.mismatch is None else str(report.mismatch), "seed": report.seed,
    }  # fmt: skip


def killing(cluster: Cluster, share: float) -> Callable[[int, int], None]:
    """A progress that kills the process of one worker when ``share`` of the work is done."""
    processes = list(cluster.client.run(os.getpid).values())
    once = threading.Event()

    def show(done: int, whole: int) -> None:
        if done >= share * whole and not once.is_set():
            once.set()
            os.kill(processes[0], signal.SIGKILL)
            print(f"killed worker process {processes[0]} after {done} of {whole} cases", file=sys.stderr, flush=True)

    return show


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--cases", type=int, default=4000)
    parser.add_argument("--arrays", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--reference", type=Path, metavar="FILE", help="report of one process")
    arguments = parser.parse_args(given)
    configs, against = random_configs(arguments.arrays), ["csim"]
    rows: list[tuple[str, dict[str, Any], float]] = []
    if arguments.reference is not None:
        found = json.loads(arguments.reference.read_text())
        rows.append(("one process", {key: found[key] for key in KEYS}, found["seconds"]))
    else:
        report = verify(configs, against, arguments.cases)
        rows.append(("one process", figures(report), report.seconds))
    for kill in (True, False):
        with open_workers(arguments.workers) as workers:
            assert isinstance(workers, Cluster)
            begun = perf_counter()
            progress = killing(workers, 0.4) if kill else None
            report = verify_spread(workers, configs, against, arguments.cases, progress=progress)
            name = f"{arguments.workers} workers" + (", one killed at 40 %" if kill else "")
            rows.append((name, figures(report), perf_counter() - begun))
            same = "the same report" if rows[-1][1] == rows[0][1] else "ANOTHER REPORT"
            print(f"{name}: {same}, {rows[-1][2]:.0f} s", file=sys.stderr, flush=True)
    first = rows[0][1]
    missed = [f"{name}: another report than one process" for name, report, _ in rows if report != first]
    lines = ["| who | cases | layers | values | report | s |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {name} | {report['cases']} | {report['layers']} | {report['values']:,} | "
        f"{'the same' if report == first else 'ANOTHER'} | {seconds:.0f} |"
        for name, report, seconds in rows
    ]
    return finish("\n".join(lines) + "\n", arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
