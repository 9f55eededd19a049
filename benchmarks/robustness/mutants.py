"""Hostile and damaged files of every kind that a command reads: 2,000 mutants each, in processes with limits.

A mutant is read by the function that the command line reads it with; networks are compiled, emulated and compared with
ONNX Runtime too (`onnx_kind.py` says how). It may give a right result or one message for the user; anything else (an
uncaught error, a process that dies, a wrong result, more than 20 s or 2 GiB) is shown with the number of the mutant,
and counts as missed. Unjudged are networks that were compiled and that ONNX Runtime cannot run, or whose values are not
finite. $BFPGA_MODELS may name a folder with more networks to start from.

    python -m benchmarks.robustness.mutants --kind board --cases 200
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.report import finish, table, write_json

sys.path.insert(0, str(TEST_SUPPORT))

from damaged_files import KINDS, damage, outcome, prepared

from benchmarks.robustness.children import Reader, examine
from benchmarks.robustness.onnx_kind import open_onnx

ONNX = "ONNX"


def open_kind(name: str, folder: Path, seed: int) -> Reader:
    """Reads the mutant of a number, of any kind, in ``folder``."""
    if name == ONNX:
        return open_onnx(name, folder, seed)
    kind = KINDS[name]
    files = prepared(kind, folder)
    outcome(kind, folder)  # what is imported on first use is no time of a mutant

    def read(index: int) -> str:
        damage(files, index, seed)
        return outcome(kind, folder)

    return read


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each kind."""
    names = [ONNX, *KINDS]
    parser = command(__doc__, "--json")
    parser.add_argument("--cases", type=int, default=2000, help="mutants of each kind (%(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="begin with this mutant (%(default)s)")
    parser.add_argument("--seed", type=int, default=12, help="what the mutants are made from (%(default)s)")
    parser.add_argument("--kind", action="append", choices=names, help="one kind; repeatable; default: all")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes at a time (%(default)s)")
    given = parser.parse_args(arguments)
    results = {
        name: examine(open_kind, name, given.cases, given.seed, given.workers, given.first)
        for name in given.kind or names
    }
    rows = [
        (name, *(f"{result.outcomes[word]:,}" for word in ("right", "refused", "unjudged", "else")),
         f"{result.worst:.2f}", f"{result.peak / 2**20:,.0f}")
        for name, result in results.items()
    ]  # fmt: skip
    write_json(given.json, {name: vars(result) for name, result in results.items()})
    head = ("kind", "right", "refused, one message", "unjudged", "anything else", "worst time, s", "most memory, MiB")
    missed = [f"{name}: {text}" for name, result in results.items() for text in result.failures]
    return finish(table(head, rows), missed=missed)


if __name__ == "__main__":
    sys.exit(main())
