"""Runs scripts in plain `tclsh` with recorded commands."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bfpga.errors import ToolError

#: Seconds that all runs of one check may take together.
LIMIT_SECONDS = 60
_RECORDER = Path(__file__).with_name("recorder.tcl")

Words = tuple[str, ...]
#: Pattern over a whole command -> what it returns; the first that matches.
Answers = tuple[tuple[str, str], ...]


@dataclass
class Recording:
    """The commands that are none of Tcl, with the line each stands on and its words after substitution.

    ``error``: line and message of the error that ended the script, None if it came to its end.
    """

    calls: list[tuple[int, Words]] = field(default_factory=list)
    error: tuple[int, str] | None = None


def find_tclsh() -> str:
    """Path of the Tcl shell; ToolError if there is none."""
    found = shutil.which("tclsh")
    if found is None:
        raise ToolError("tclsh was not found: the check of scripts runs them in it; install it (apt install tcl)")
    return found


def record(runs: Sequence[tuple[str, Answers]]) -> list[Recording]:
    """Run every script (its text) in an interpreter of its own; ToolError if the Tcl shell itself fails."""
    with tempfile.TemporaryDirectory(prefix="bfpga-tcl-") as folder:
        jobs = [_job(text, answers, Path(folder) / f"{n}.tcl") for n, (text, answers) in enumerate(runs)]
        try:
            result = subprocess.run(
                [find_tclsh(), str(_RECORDER)],
                input="\n".join(jobs),
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"tclsh did not finish the scripts within {LIMIT_SECONDS} seconds") from error
    if result.returncode:
        raise ToolError(f"tclsh failed: {result.stderr.strip()}; Tcl 8.6 or newer is needed")
    recordings = [Recording()]
    for kind, number, *rest in map(str.split, result.stdout.splitlines()):
        if kind == "call":
            recordings[-1].calls.append((int(number), tuple(map(_decoded, "".join(rest).split(",")))))
        else:
            recordings[-1].error = (int(number), _decoded("".join(rest))) if kind == "error" else None
            recordings.append(Recording())
    if len(recordings) != len(runs) + 1:
        raise ToolError(f"tclsh ran {len(recordings) - 1} of {len(runs)} scripts; Tcl 8.6 or newer is needed")
    return recordings[:-1]


def _job(text: str, answers: Answers, file: Path) -> str:
    file.write_text(text, encoding="utf-8")
    return f"{{{{{file}}} {{{' '.join(f'{{{_encoded(word)}}}' for pair in answers for word in pair)}}}}}"


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


@functools.lru_cache(maxsize=4096)
def _decoded(text: str) -> str:
    """A word of Tcl, whose version 8.6 has two surrogates in the place of a character beyond 16 bits."""
    word = b64decode(text).decode("utf-8", "surrogatepass")
    return word.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
