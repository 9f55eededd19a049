"""The command line: `bfpga COMMAND ...`."""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bfpga.errors import BfpgaError, ClockWarning, CoreWarning, RangeWarning
from bfpga.formats.files import printable

#: Exit codes: a difference or a failed check, and an error that is the user's to mend.
FAILED, WRONG_USE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error prints one message (with `--debug` the traceback too)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    command = _command()
    try:
        with _warnings_in_words():
            command(args=[word for word in words if word != "--debug"], prog_name="bfpga")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is left to say, not even by the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (BfpgaError, OSError, MemoryError) as error:
        if debug:
            traceback.print_exc()
        print(f"bfpga: {message(error)}", file=sys.stderr)
        return WRONG_USE
    return 0


@contextmanager
def _warnings_in_words() -> Iterator[None]:
    """A line on standard error for samples out of range and for cores that failed.

    What the reports print in their own words is left to them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ClockWarning)
        for told in (RangeWarning, CoreWarning):
            warnings.filterwarnings("always", category=told)
        others = warnings.showwarning

        def show(text: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, (RangeWarning, CoreWarning)):
                print(printable(f"bfpga: warning: {text}"), file=sys.stderr)
            else:
                others(text, category, *where, **more)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


@functools.cache
def _command() -> Callable[..., Any]:
    """The tree of commands with their options, which takes a while to make; a process may run many commands."""
    from typer.main import get_command

    from bfpga.cli.application import app

    return get_command(app)


def message(error: BaseException) -> str:
    """One sentence about an error; files that cannot be opened are named with the reason."""
    if isinstance(error, OSError) and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror}")
    return printable(str(error) or type(error).__name__, keep="\n")
