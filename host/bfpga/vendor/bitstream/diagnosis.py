"""What a vendor tool that failed says in its logs, and what that means."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bfpga.vendor.bitstream.failure import BuildError, Kind
from bfpga.vendor.bitstream.runner import Outcome, tail
from bfpga.vendor.block_design import BlockDesign

#: Exit codes of a process that was killed: as Python reports it, and as a shell around the tool does.
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
#: GiB of memory that Vivado needs for devices up to so many LUTs; a rule of thumb for one job.
MEMORY_NEEDS = ((100_000, 8), (300_000, 16), (10**9, 32))
#: Lines of a log that are shown when none of them is an error.
SHOWN = 5


@dataclass(frozen=True)
class LogLine:
    """One line of a log."""

    path: Path
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.text.strip()}"


@dataclass(frozen=True)
class Symptom:
    """A line that shows why a tool failed, and what it means for a design."""

    kind: Kind
    pattern: re.Pattern[str]
    meaning: Callable[[BlockDesign], str]


def memory_advice(design: BlockDesign) -> str:
    """What this machine has and what the board's device needs."""
    needed = next(gib for luts, gib in MEMORY_NEEDS if design.accelerator.board.lut <= luts)
    return (
        f"the system ended the tool for lack of memory: this machine has {total_memory()}, "
        f"{design.accelerator.board.part} needs about {needed} GiB for one job (rule of thumb); use fewer --jobs, "
        "close other programs, or add swap space"
    )


def total_memory() -> str:
    """Memory of this machine in words."""
    try:
        line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
        return f"{int(line.split()[1]) / 2**20:.1f} GiB"
    except (OSError, StopIteration, ValueError, IndexError):
        return "an unknown amount of memory"


def board_advice(design: BlockDesign) -> str:
    """Where the board files come from."""
    board = design.accelerator.board
    if board.board_files_in_vivado:
        source = f"Vivado brings them along when the device {board.part} is installed (Add Design Tools or Devices)"
    else:
        source = f"Vivado does not ship them; get them from {board.board_files_source or 'the maker of the board'}"
    return (
        f"the board files of {board.title} ({board.board_part}) are missing: {source}, "
        "and give their folder with --board-files or put it into data/boards/board_files of Vivado"
    )


def _y2k22(design: BlockDesign) -> str:
    return (
        "this is Y2K22: up to 2021.2 the revision of an IP is the date as a 32-bit number, which overflows since 2022; "
        "install AMD's patch (answer record 76960, https://support.xilinx.com/s/article/76960) or use 2022.1 or newer"
    )


def _part(design: BlockDesign) -> str:
    return (
        f"{design.accelerator.board.part} is not known to this installation: add the device with the installer "
        "(Add Design Tools or Devices), or correct it in the board's file; since 2026.1 a missing license says so too"
    )


def _license(design: BlockDesign) -> str:
    return (
        f"no license for {design.accelerator.board.part}: see the Vivado License Manager and $XILINXD_LICENSE_FILE; "
        "without one, only the devices of the free edition can be built for"
    )


def _utilization(design: BlockDesign) -> str:
    return (
        f"the design does not fit into {design.accelerator.board.part}; make the array or its memories smaller "
        f"in {design.accelerator.path}"
    )


#: In the order in which they are looked for: a cause before what follows from it.
SYMPTOMS = (
    Symptom("memory", re.compile(r"^(.*: line \d+: +\d+ )?Killed\b|std::bad_alloc|out of memory", re.I), memory_advice),
    Symptom("license", re.compile(r"\[Common 17-34[58]\]|valid license was not found|license checkout failed", re.I),
            _license),
    Symptom("y2k22", re.compile(r"bad lexical cast|set_property core_revision \d{10}"), _y2k22),
    Symptom("part", re.compile(r"\[Coretcl 2-106\]|\[HLS 200-1023\]|No parts matched|part could not be found"), _part),
    Symptom("board_files", re.compile(r"\[Board 49-71\]|board_part definition was not found|the board files of .* are "
                                      r"not installed"), board_advice),
    Symptom("utilization", re.compile(r"^ERROR: .*(UTLZ-1|\[Place 30-(640|484|487)\]|over-?utilized)"), _utilization),
)  # fmt: skip
#: Lines that report an error; those that only say that an earlier one ended the tool are kept for last.
_ERROR = re.compile(r"^\s*(ERROR\b|CRITICAL WARNING: \[IMPL 213-28\]|error:|fatal:|.*: error: |.*\bError \d+$)")
_TRACE = "    while executing"
_SECONDARY = re.compile(r"\[Common 17-(39|69|70|206)\]|\[Vivado 12-13638\]|due to earlier errors|has failed: ")


def diagnose(
    design: BlockDesign, what: str, outcome: Outcome, logs: Sequence[Path], limit_seconds: float
) -> BuildError | None:
    """Why a tool failed; None if it ended with 0 in time. ``logs``: its own, then those of what it started."""
    if outcome.returncode == 0 and not outcome.expired:
        return None
    log = logs[0]
    if outcome.expired:
        shown = "\n".join(f"  {line.strip()}" for line in tail(log, 3))
        message = f"{what} has not finished within {duration(limit_seconds)}; raise --timeout. Its last words:\n{shown}"
        return BuildError("timeout", f"{message}\nlog: {log}", log)
    lines = [line for path in [*logs[1:], log] for line in log_lines(path)]
    ended = f"{what} ended with exit code {outcome.returncode}"
    if outcome.returncode in KILLED:
        return BuildError("memory", f"{ended} (killed)\n{memory_advice(design)}\nlog: {log}", log)
    explained = _explained(design, ended, lines)
    if explained is not None:
        return explained
    shown = "\n".join(f"  {line.strip()}" for line in tail(log, SHOWN))
    return BuildError("tool", f"{ended} without an ERROR line; the end of {log}:\n{shown}", log)


def missing_artefacts(design: BlockDesign, what: str, missing: Sequence[Path], logs: Sequence[Path]) -> BuildError:
    """A tool that claims success but has not written its files; the reason may be in a log all the same."""
    named = ", ".join(str(path) for path in missing)
    message = f"{what} ended with exit code 0 but has not written {named}"
    lines = [line for path in [*logs[1:], *logs[:1]] for line in log_lines(path)]
    return _explained(design, message, lines) or BuildError("artefact", f"{message}\nlog: {logs[0]}", logs[0])


def _explained(design: BlockDesign, message: str, lines: Sequence[LogLine]) -> BuildError | None:
    """The message with the first line that is a known symptom, else the first error; None if there is neither."""
    for symptom in SYMPTOMS:
        found = next((line for line in lines if symptom.pattern.search(line.text)), None)
        if found is not None:
            return BuildError(symptom.kind, f"{message}\n{found}\n{symptom.meaning(design)}", found.path)
    error = first_error(lines)
    return None if error is None else BuildError("tool", f"{message}\n{error}", error.path)


def log_lines(path: Path) -> Iterator[LogLine]:
    """The lines of a log, none if it cannot be read; script lines that the tool echoes (`#`) are left out."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            yield LogLine(path, number, line)


def first_error(lines: Sequence[LogLine]) -> LogLine | None:
    """The first line that reports an error itself, else the first that reports one at all.

    What a script itself raises has no mark before it, but a trace of Tcl after it.
    """
    traced = {line for line, after in pairwise(lines) if after.text.startswith(_TRACE) and line.text.strip()}
    errors = [line for line in lines if _ERROR.match(line.text) or line in traced]
    return next((line for line in errors if not _SECONDARY.search(line.text)), errors[0] if errors else None)


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
