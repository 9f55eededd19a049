"""Runs scripts in plain `tclsh` with recorded commands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bfpga.errors import ToolError

#: Seconds that all runs of one check may take together.
LIMIT_SECONDS = 60
_RECORDER = Path(__file__).with_name("recorder.tcl")


@dataclass(frozen=True)
class Call:
    """A command that is none of Tcl, its words after substitution, and the line it stands on."""

    script: str
    line: int
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.words[0]


@dataclass(frozen=True)
class Run:
    """A script to run in a scenario. ``answers``: pattern over the whole command -> what it returns."""

    scenario: str
    script: str
    text: str
    answers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Recording:
    """What a script called, and the error it ended with: line and message, None if it came to its end."""

    scenario: str
    script: str
    calls: tuple[Call, ...]
    error: tuple[int, str] | None


def find_tclsh() -> str:
    """Path of the Tcl shell; ToolError if there is none."""
    found = shutil.which("tclsh")
    if found is None:
        raise ToolError("tclsh was not found: the check of scripts runs them in it; install it (apt install tcl)")
    return found


def record(runs: Sequence[Run]) -> list[Recording]:
    """Run every script in an interpreter of its own; ToolError if the Tcl shell itself fails."""
    with tempfile.TemporaryDirectory(prefix="bfpga-tcl-") as folder:
        jobs = [_job(run, Path(folder) / f"{number}.tcl") for number, run in enumerate(runs)]
        try:
            result = subprocess.run(
                [find_tclsh(), str(_RECORDER)],
                input=" ".join(map(_word, jobs)),
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
    recordings = [_recording(line) for line in result.stdout.splitlines()]
    if [(r.scenario, r.script) for r in recordings] != [(run.scenario, run.script) for run in runs]:
        raise ToolError(f"tclsh ran {len(recordings)} of {len(runs)} scripts; Tcl 8.6 or newer is needed")
    return recordings


def _job(run: Run, file: Path) -> str:
    file.write_text(run.text, encoding="utf-8")
    answers = " ".join(_word(word) for pair in run.answers for word in pair)
    return " ".join(map(_word, (run.scenario, run.script, str(file), answers)))


def _word(text: str) -> str:
    """A word of a Tcl list that stands for ``text``: in braces where those keep every character as it is."""
    if not re.search(r"\\[\\{}\n]|\\$", text) and _balanced(text):
        return f"{{{text}}}"
    return re.sub(r'([\\{}\[\]$"; #])', r"\\\1", text).replace("\n", "\\n").replace("\t", "\\t")


def _balanced(text: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _recording(line: str) -> Recording:
    content = json.loads(line)
    calls = tuple(Call(content["script"], number, tuple(words)) for number, words in content["calls"])
    error = content["error"]
    return Recording(content["scenario"], content["script"], calls, (error[0], error[1]) if error else None)
