"""What benchmarks leave: tables in Markdown, files that appear complete or not at all, goals that were missed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, without a line end."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def write_file(path: Path | None, text: str) -> None:
    """Write the file at once; nothing without a path."""
    if path is not None:
        temporary = path.with_name(f".{path.name}.partial")
        temporary.write_text(text)
        os.replace(temporary, path)


def write_json(path: Path | None, content: Any) -> None:
    """Write the content as indented JSON; nothing without a path."""
    if path is not None:
        write_file(path, json.dumps(content, indent=2) + "\n")


def write_picture(path: Path | None, figure: Any) -> None:
    """Write a figure of matplotlib; nothing without a path."""
    if path is not None:
        figure.savefig(path, dpi=150)


def finish(text: str, path: Path | None = None, missed: Sequence[str] = ()) -> int:
    """Print the results, write them, name the goals that were missed; the status to end with: 1 if there are any."""
    print(text)
    write_file(path, text)
    return status(missed)


def status(missed: Sequence[str]) -> int:
    """Name the goals that were missed; the status to end with."""
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0
