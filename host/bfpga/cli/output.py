"""What the commands print and write: tables on the terminal, JSON for machines, progress while waiting.

Names in files of users reach the terminal here alone, and what would steer it is shown as an escape.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bfpga.formats.files import check_target as check_target
from bfpga.formats.files import printable, replace_file
from bfpga.formats.tables import table_lines

#: Characters of a line when the output is no terminal (a file or a pipe has no width); no column falls away there.
PIPE_WIDTH = 140


def line_width() -> int | None:
    """Characters of a line: those that $BFPGA_COLUMNS says, else of the terminal; None in a pipe.

    $COLUMNS would not do in a pipe: GNU readline exports it to whatever a program starts that has loaded it.
    """
    given = os.environ.get("BFPGA_COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def say(text: str = "") -> None:
    """Print one line or several."""
    print(printable(text, keep="\n"))


def note(text: str) -> None:
    """Print a remark on standard error, so that a pipe gets results only."""
    print(printable(text, keep="\n"), file=sys.stderr)


def table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    dropped: Sequence[str] | None = None,
) -> None:
    """Print a table. dropped: headings of columns that fall away on a narrow terminal, as for ``table_lines``."""
    width = line_width()
    for line in table_lines(title, headings, rows, width or PIPE_WIDTH, dropped, keep_all=width is None):
        print(line)
    print()


def percent(part: float, whole: float) -> str:
    """`12.3 %`; `-` of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def write_json(path: Path | None, content: dict[str, Any]) -> None:
    """Write ``content`` to ``path`` completely or not at all; nothing without a path. Floats stay finite numbers."""
    if path is None:
        return
    replace_file(path, (json.dumps(plain(content), indent=2, allow_nan=False) + "\n").encode())


def plain(value: Any) -> Any:
    """``value`` in JSON's types: numpy scalars become numbers, infinities and NaN become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def progress(text: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar that the yielded function moves (done, all); without a terminal None is yielded and nothing shown."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show that work is going on; silent unless standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
