#!/usr/bin/env python3
"""From an accelerator to an overlay with bitstream, where Vivado is installed; see docs/build-bitstream.md."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from bfpga.accelerator.loader import load_accelerator
from bfpga.cli import message, output
from bfpga.errors import BfpgaError, ToolError
from bfpga.vendor.bitstream.diagnosis import duration
from bfpga.vendor.bitstream.gates import utilization_table
from bfpga.vendor.bitstream.pipeline import (
    STAGES,
    BuildReport,
    Status,
    run_build,
)
from bfpga.vendor.bitstream.reports import Usage
from bfpga.vendor.bitstream.stage import Build, BuildSettings, Stage
from bfpga.vendor.bitstream.tools import HlsTools, Tool
from bfpga.vendor.bitstream.toolset import Toolset, discover
from bfpga.vendor.bitstream.versions import Version, parse_version
from bfpga.vendor.block_design import block_design
from bfpga.verify.vectors import kernel_vectors

#: Exit codes.
DONE, FAILED, WRONG_USE, NO_TOOLS, INTERRUPTED = 0, 1, 2, 3, 130
#: Seconds between two lines about a running stage where no terminal shows it.
LINE_SECONDS = 60.0

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class ConsoleReporter:
    """Tells on standard error what a build does: a moving line on a terminal, plain lines in a pipe."""

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


@app.command()
def build_bitstream(
    accelerator: Annotated[str, typer.Argument(help="Name of a ready accelerator or a YAML file.", show_default=False)],
    until: Annotated[str, typer.Option(help="Last stage to run.", metavar="STAGE")] = STAGES[-1].name,
    redo_from: Annotated[
        str | None,
        typer.Option(
            "--from", help="Do this stage and all after it again although nothing has changed.", metavar="STAGE"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Processes that Vivado may start.")] = min(
        4, os.cpu_count() or 1
    ),
    timeout: Annotated[float, typer.Option(min=0.0001, help="Hours that one stage may take.", metavar="HOURS")] = 12.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Render, and show what would be run; needs no vendor tool.")
    ] = False,
    directory: Annotated[Path, typer.Option(help="Where builds are kept.", metavar="DIR")] = Path("build"),
    overlays: Annotated[Path, typer.Option(help="Where finished overlays go.", metavar="DIR")] = Path("overlays"),
    hls_flow: Annotated[
        str, typer.Option(help="vitis_hls, vitis-run, v++, or auto: the first that is found.", metavar="FLOW")
    ] = "auto",
    vivado_version: Annotated[
        str | None, typer.Option(help="Version of the tools, if several are installed.", metavar="VERSION")
    ] = None,
    board_files: Annotated[
        Path | None, typer.Option(help="Folder with board files that Vivado lacks.", metavar="DIR")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the results to FILE as JSON.", metavar="FILE")
    ] = None,
) -> None:
    """Build the overlay of an accelerator: render, simulate, synthesise, check, implement, check, package.

    Stages that are done are kept; after a failure, an interruption or a change, the same command continues at the
    first stage that has to be done. Without Vivado the stages up to its first use are run.

    \b
    Stages: render, csim, tcl_check, hls, ip_check, block_design, synthesis, utilization,
            implementation, timing, package

    \b
    Examples:
      scripts/build_bitstream.py pynq_z2_dense
      scripts/build_bitstream.py pynq_z2_dense --dry-run
      scripts/build_bitstream.py my_accelerator.yaml --until utilization --jobs 2 --timeout 6
      scripts/build_bitstream.py pynq_z2_dense --from implementation --vivado-version 2022.1

    \b
    Exit code: 0 done, 1 a stage failed, 2 wrong use, 3 a tool is missing, 130 interrupted.
    """
    output.check_target(json)
    if board_files is not None and not board_files.is_dir():
        raise NotADirectoryError(20, "is no directory; give the folder that holds the board files", str(board_files))
    described = load_accelerator(accelerator)
    design = block_design(described)
    settings = BuildSettings(
        directory=(directory / f"{described.name}-{described.digest[:8]}").absolute(),
        overlays=overlays.absolute(),
        jobs=jobs,
        limit_seconds=timeout * 3600,
        board_files=None if board_files is None else board_files.absolute(),
        vectors=kernel_vectors,
    )
    tools = discover(hls_flow, parse_version(vivado_version) if vivado_version else None)
    build = Build(design, settings, tools)
    for note in tools.notes(described.board):
        output.note(f"note: {note}")
    with interruptible(), reporting() as reporter:
        report = run_build(build, reporter, "render" if dry_run else until, redo_from)
    output.write_json(json, content(build, report))
    if dry_run:
        show_plan(build)
    else:
        show_outcome(build, report)
    raise typer.Exit(exit_code(report))


@contextmanager
def interruptible() -> Iterator[None]:
    """An interruption of the block is no error: everything done so far is kept."""
    try:
        yield
    except KeyboardInterrupt:
        output.note("build_bitstream: interrupted; the same command continues where it stopped")
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
    """Every stage with its commands, where the scripts and logs lie; a tool that is missing is named all the same."""
    assumed = replace(build, tools=assumed_tools(build.tools))
    print(f"build directory: {build.directory}\n")
    for stage in STAGES:
        print(f"{stage.name}: {stage.purpose}")
        for command in stage.commands(assumed):
            print(f"  {shlex.join(command.arguments)}")
            print(f"    log: {command.log}")
    print(f"\nscripts: {', '.join(str(build.script(name)) for name in sorted(build.scripts))}")
    print(f"overlay: {build.settings.overlays / build.design.accelerator.name}")


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
        print(f"after synthesis:\n{utilization_table(usage)}")
    if "timing" in build.results:
        timing = build.results["timing"]
        print(f"timing met at {timing['clock_mhz']:.3f} MHz; {timing['reachable_mhz']:.1f} MHz would be met")
    if report.overlay is not None:
        print(f"overlay: {report.overlay}")
    if report.error is not None:
        output.note(f"\nbuild_bitstream: stage {report.failed_stage} failed\n{report.error}")


def content(build: Build, report: BuildReport) -> dict[str, Any]:
    """The results for programs."""
    accelerator, error = build.design.accelerator, report.error
    return {
        "accelerator": accelerator.name,
        "digest": accelerator.digest,
        "board": accelerator.board.name,
        "directory": str(build.directory),
        "overlay": None if report.overlay is None else str(report.overlay),
        "tools": tool_labels(build.tools),
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


def tool_labels(tools: Toolset) -> dict[str, str | None]:
    """The tools that were found, in words."""
    return {
        "hls": None if isinstance(tools.hls, BfpgaError) else tools.hls.tool.label(),
        "vivado": None if isinstance(tools.vivado, BfpgaError) else tools.vivado.label(),
    }


def exit_code(report: BuildReport) -> int:
    """The exit code that a report means."""
    if report.error is None:
        return DONE
    return NO_TOOLS if report.error.kind == "missing_tool" else FAILED


def terminated(number: int, frame: object) -> None:
    """SIGTERM ends a build as Ctrl-C does: its tools are ended with it."""
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run the command; an error of the user is one message, with `--debug` the traceback too."""
    signal.signal(signal.SIGTERM, terminated)
    words = [word for word in arguments if word != "--debug"]
    try:
        app(args=words, prog_name="build_bitstream.py")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (BfpgaError, OSError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        print(f"build_bitstream: {message(error)}", file=sys.stderr)
        return WRONG_USE
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
