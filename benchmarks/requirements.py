"""Switches the feature of each requirement off and sees its test fail.

    python -m benchmarks.requirements [BFP [R9 ...]]

Switches are texts of `tests/data/switches/`: each replaces a piece of the emulator, the compiler or the C++ in a copy
of `host/` and `hls/`, and names the test that must fail with it. A test that passes all the same is no test of the
requirement. All of them take hours; a row takes as long as its test and what has to be compiled for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.common.command import ROOT, TEST_SUPPORT, command
from benchmarks.common.report import status

sys.path.insert(0, str(TEST_SUPPORT))

from requirement_tables import TABLES, Switch, Table

#: In what pytest shows where the C++ of a switch does not compile: that says nothing about the test.
NOT_COMPILED = "the C++ compiler failed"


def switched_off(switch: Switch) -> bool:
    """Whether the test of a switch fails once its feature is off (pytest's exit code 1: tests ran and failed)."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("host", "hls"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        target = copy / switch.file
        target.write_text(target.read_text().replace(switch.old, switch.new))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--all", "-p", "no:cacheprovider", switch.test]
        environment = {**os.environ, "PYTHONPATH": f"{copy / 'host'}:{copy / 'hls'}"}
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    compiled = NOT_COMPILED not in result.stdout
    if result.returncode not in (0, 1) or not compiled:
        print(result.stdout[-2000:], file=sys.stderr)
    return result.returncode == 1 and compiled


def wanted(tables: list[Table], rows: set[int]) -> Iterator[tuple[Table, Switch]]:
    for table in tables:
        yield from ((table, switch) for switch in table.switches if not rows or switch.row in rows)


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("table", nargs="?", choices=sorted(TABLES), help="specification; all of them if left out")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="requirements, such as R9; all rows if left out")
    arguments = parser.parse_args(given)
    tables = [TABLES[arguments.table]] if arguments.table else list(TABLES.values())
    rows = {int(row.lstrip("R")) for row in arguments.rows}
    passed: list[str] = []
    count = 0
    for table, switch in wanted(tables, rows):
        failed = switched_off(switch)
        count += 1
        outcome = "fails" if failed else "PASSES"
        print(f"{table.tag} R{switch.row}: {switch.test} {outcome} with the feature off", flush=True)
        if not failed:
            passed.append(f"{table.tag} R{switch.row}")
    print(f"{count - len(passed)} of {count} switches are seen")
    return status(passed)


if __name__ == "__main__":
    sys.exit(main())
