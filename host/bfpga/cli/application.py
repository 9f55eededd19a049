"""The command line's tree. Commands import what they need when they run, so that `bfpga --help` answers at once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Annotated

import typer

from bfpga.cli.advise import advise
from bfpga.cli.blocks import blocks
from bfpga.cli.build import build
from bfpga.cli.check_tcl import check_tcl
from bfpga.cli.compare import compare
from bfpga.cli.deploy import deploy
from bfpga.cli.explore import explore
from bfpga.cli.guard import guarded
from bfpga.cli.init import init
from bfpga.cli.kernels import lint_hls, render, rtl, verify
from bfpga.cli.listings import accelerators, boards, doctor, operators, schema
from bfpga.cli.models import models
from bfpga.cli.networks import compile_command, estimate, evaluate, report, run
from bfpga.cli.overlay import overlay
from bfpga.cli.positions import position_choice, position_measure, position_times
from bfpga.cli.prune import prune
from bfpga.cli.report_partition import report_partition
from bfpga.cli.synthesize import synthesize
from bfpga.formats.version import VERSION


def commands(name: str, text: str, epilog: str | None = None, completion: bool = False) -> typer.Typer:
    """A group of commands whose help is plain text. completion: whether it has the options that install it."""
    return typer.Typer(
        name=name,
        help=text,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = commands(
    "bfpga",
    "FPGA deployment toolkit for PYNQ boards: from an ONNX file to a bit-exact run, with or without a board.",
    "`--debug` after any command shows the traceback of an error.",
    completion=True,
)
research = commands("research", "Studies of methods: what exponents cost, what blocks give, how sparse work is shared.")


def say_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        print(f"bfpga {VERSION}")
        raise typer.Exit


class LogLevel(str, Enum):
    """From which level on messages of the modules are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@app.callback()
def common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=say_version, is_eager=True, help="Print the version and end.")
    ] = False,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="What the modules say of their work, on standard error.")
    ] = LogLevel.WARNING,
) -> None:
    """Options before the command; ``say_version`` has done what there is to do for its own."""
    context.call_on_close(show_log(log_level.value))


def show_log(level: str) -> Callable[[], None]:
    """Show the package's messages from a level on; returned is what ends it."""
    logger, handler = logging.getLogger("bfpga"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)

    return end


COMMANDS: dict[str, Callable[..., None]] = {
    "init": init,
    "boards": boards,
    "accelerators": accelerators,
    "models": models,
    "operators": operators,
    "schema": schema,
    "doctor": doctor,
    "estimate": estimate,
    "advise": advise,
    "compile": compile_command,
    "run": run,
    "evaluate": evaluate,
    "report": report,
    "compare": compare,
    "explore": explore,
    "prune": prune,
    "verify": verify,
    "render": render,
    "rtl": rtl,
    "synthesize": synthesize,
    "overlay": overlay,
    "build": build,
    "deploy": deploy,
    "check-tcl": check_tcl,
    "lint-hls": lint_hls,
}
RESEARCH: dict[str, Callable[..., None]] = {
    "blocks": blocks,
    "position-times": position_times,
    "position-choice": position_choice,
    "position-measure": position_measure,
    "report-partition": report_partition,
}

for name, command in COMMANDS.items():
    app.command(name)(guarded(command))
for name, command in RESEARCH.items():
    research.command(name)(guarded(command))
app.add_typer(research)
