"""What the commands print and write: tables on the terminal, JSON for machines, progress while waiting.

Names in files of users reach the terminal here alone, and what would steer it is shown as an escape.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfpga.formats.files import check_target as check_target
from bfpga.formats.files import printable, replace_file

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of a table when the output is no terminal (a file or a pipe has no width).
PIPE_WIDTH = 140
#: Cells that are aligned to the right: numbers, shares, and the mark for none.
NUMERIC = re.compile(r"-?|-?[\d.,]+(e[-+]?\d+)?( %| dB)?")


def console() -> Console:
    """Console on the current standard output; plain text and a fixed width in a pipe."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False, soft_wrap=False)


def say(text: str = "") -> None:
    """Print one line or several."""
    print(printable(text, keep="\n"))


def note(text: str) -> None:
    """Print a remark on standard error, so that a pipe gets results only."""
    print(printable(text, keep="\n"), file=sys.stderr)


def table(title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; columns of numbers are aligned to the right."""
    from rich import box
    from rich.table import Table

    result = Table(title=printable(title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, header in enumerate(headers):
        numeric = all(NUMERIC.fullmatch(cell(row[index])) for row in rows)
        result.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        result.add_row(*map(cell, row))
    target = console()
    with target.capture() as capture:
        target.print(result)
    for line in capture.get().rstrip().split("\n"):
        print(line.rstrip())
    print()


def cell(value: object) -> str:
    """A table cell: thousands separated, floats with four digits that count."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    return printable(str(value))


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
