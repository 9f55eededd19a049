"""What `bfpga build` shows and returns: a moving line while stages run, then a table, or why the build stopped."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from bfpga.cli import output
from bfpga.errors import ToolError
from bfpga.formats.version import VERSION
from bfpga.vendor.bitstream.diagnosis import duration
from bfpga.vendor.bitstream.gates import utilization_table
from bfpga.vendor.bitstream.own_ips import PROGRAM
from bfpga.vendor.bitstream.pipeline import STAGES, BuildReport, Status
from bfpga.vendor.bitstream.reports import Usage
from bfpga.vendor.bitstream.stage import Build, Stage
from bfpga.vendor.bitstream.tools import HlsTools, Tool
from bfpga.vendor.bitstream.toolset import Toolset
from bfpga.vendor.bitstream.versions import Version

#: Exit codes.
DONE, FAILED, NO_TOOLS, INTERRUPTED = 0, 1, 3, 130
#: Seconds between two lines about a running stage where no terminal shows it.
LINE_SECONDS = 60.0


class ConsoleReporter:
    """Reports on standard error what a build does: a moving line on a terminal, plain lines in a pipe."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._spinner: Spinner | None = None
        self._next_line = 0.0

    def started(self, stage: Stage) -> None:
        self._next_line = time.monotonic() + LINE_SECONDS
        if self._console.is_terminal:
            self._spinner = self._console.status(Text(f"{stage.name}: {stage.purpose}"))
            self._spinner.start()
        else:
            output.note(f"{stage.name}: {stage.purpose}")

    def progress(self, stage: Stage, seconds: float, line: str) -> None:
        if self._spinner is not None:
            room = max(20, self._console.width - len(stage.name) - 24)
            # A line of a log is full of brackets, which are no markup.
            self._spinner.update(Text(f"{stage.name}  {duration(seconds)}  {line[:room]}"))
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            output.note(f"{stage.name}: {duration(seconds)}: {line}")

    def finished(self, stage: Stage, status: Status, seconds: float) -> None:
        self.close()
        took = f" in {duration(seconds)}" if status == "done" else ""
        output.note(f"{stage.name}: {'unchanged' if status == 'kept' else status}{took}")

    def note(self, text: str) -> None:
        output.note(f"note: {text}")

    def close(self) -> None:
        """End the moving line."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


@contextmanager
def interruptible() -> Iterator[None]:
    """An interruption of the block, SIGTERM included, is no error: its tools are ended and what is done is kept."""
    signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    except KeyboardInterrupt:
        output.note("bfpga build: interrupted; the same command continues where it stopped")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def reporting() -> Iterator[ConsoleReporter]:
    """A reporter whose moving line ends with the block."""
    reporter = ConsoleReporter()
    try:
        yield reporter
    finally:
        reporter.close()


def show_plan(build: Build) -> None:
    """Every stage with its commands, places of the scripts and logs; a tool that is missing is named all the same."""
    assumed = replace(build, tools=assumed_tools(build.tools))
    output.say(f"build directory: {build.directory}\n")
    for stage in STAGES:
        output.say(f"{stage.name}: {stage.purpose}")
        for command in stage.commands(assumed):
            output.say(f"  {shlex.join(command.arguments)}")
            output.say(f"    log: {command.log}")
    output.say(f"\nscripts: {', '.join(str(build.script(name)) for name in sorted(build.scripts))}")
    output.say(f"overlay: {build.settings.overlays / build.design.accelerator.name}")


def assumed_tools(tools: Toolset) -> Toolset:
    """The tools that were found; programs by their plain names in place of the others."""
    plain = Version(2024, 1)
    hls, vivado = tools.hls, tools.vivado
    if isinstance(hls, ToolError):
        hls = HlsTools("vitis_hls", Tool("vitis_hls", Path("vitis_hls"), plain))
    if isinstance(vivado, ToolError):
        vivado = Tool("vivado", Path("vivado"), plain)
    return replace(tools, hls=hls, vivado=vivado)


def show_outcome(build: Build, report: BuildReport) -> None:
    """The table of stages, then the resources and the clock, or why the build stopped."""
    accelerator = build.design.accelerator
    rows = [
        (item.stage, item.status, duration(item.seconds) if item.status in ("done", "kept") else "", item.tool or "")
        for item in report.outcomes
    ]
    output.table(f"{accelerator.name} for {accelerator.board.title}", ["stage", "status", "time", "tool"], rows)
    if "utilization" in build.results:
        usage = {name: Usage(**item) for name, item in build.results["utilization"].items()}
        output.say(f"after synthesis:\n{utilization_table(usage)}")
    if "timing" in build.results:
        timing = build.results["timing"]
        output.say(f"timing met at {timing['clock_mhz']:.3f} MHz; {timing['reachable_mhz']:.1f} MHz would be met")
    if report.overlay is not None:
        output.say(f"overlay: {report.overlay}")
    if report.error is not None:
        output.note(f"\nbfpga build: stage {report.failed_stage} failed\n{report.error}")


def content(build: Build, report: BuildReport) -> dict[str, Any]:
    """The results for programs."""
    accelerator, error = build.design.accelerator, report.error
    return {
        "accelerator": accelerator.name,
        "digest": accelerator.digest,
        "board": accelerator.board.name,
        "directory": str(build.directory),
        "overlay": None if report.overlay is None else str(report.overlay),
        "tools": tool_labels(build),
        "stages": [vars(item) for item in report.outcomes],
        "results": build.results,
        "error": None
        if error is None
        else {
            "stage": report.failed_stage,
            "kind": error.kind,
            "message": str(error),
            "log": None if error.log is None else str(error.log),
        },
    }


def tool_labels(build: Build) -> dict[str, str | None]:
    """The tools that were found, in words; of own HLS this toolkit."""
    tools, own = build.tools, f"{PROGRAM} {VERSION}" if build.settings.own_hls else None
    return {
        "hls": tools.hls.tool.label() if isinstance(tools.hls, HlsTools) else own,
        "vivado": None if isinstance(tools.vivado, ToolError) else tools.vivado.label(),
    }


def exit_code(report: BuildReport) -> int:
    """The exit code that a report means."""
    if report.error is None:
        return DONE
    return NO_TOOLS if report.error.kind == "missing_tool" else FAILED


def terminated(number: int, frame: object) -> None:
    """SIGTERM ends a build as Ctrl-C does."""
    raise KeyboardInterrupt
