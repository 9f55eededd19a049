"""The command line's tree. Commands import what they need when they run, so that `bfpga --help` answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from bfpga.cli.build import build
from bfpga.cli.check_tcl import check_tcl
from bfpga.cli.compare import compare
from bfpga.cli.deploy import deploy
from bfpga.cli.explore import explore
from bfpga.cli.guard import guarded
from bfpga.cli.kernels import lint_hls, render, verify
from bfpga.cli.listings import accelerators, boards, doctor, operators, schema
from bfpga.cli.networks import compile_command, estimate, evaluate, report, run
from bfpga.cli.overlay import overlay
from bfpga.cli.positions import position_choice, position_times
from bfpga.cli.prune import prune
from bfpga.cli.report_partition import report_partition
from bfpga.cli.synthesize import synthesize
from bfpga.formats.version import VERSION


def commands(name: str, text: str, epilog: str | None = None) -> typer.Typer:
    """A group of commands whose help is plain text."""
    return typer.Typer(
        name=name,
        help=text,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = commands(
    "bfpga",
    "FPGA deployment toolkit for PYNQ boards: from an ONNX file to a bit-exact run, with or without a board.",
    "`--debug` after any command shows the traceback of an error.",
)
research = commands("research", "Studies of methods: what finding exponents costs, how sparse work is shared out.")


def say_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        print(f"bfpga {VERSION}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=say_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options before the command; ``say_version`` has done what there is to do."""


COMMANDS: dict[str, Callable[..., None]] = {
    "boards": boards,
    "accelerators": accelerators,
    "operators": operators,
    "schema": schema,
    "doctor": doctor,
    "estimate": estimate,
    "compile": compile_command,
    "run": run,
    "evaluate": evaluate,
    "report": report,
    "compare": compare,
    "explore": explore,
    "prune": prune,
    "verify": verify,
    "render": render,
    "synthesize": synthesize,
    "overlay": overlay,
    "build": build,
    "deploy": deploy,
    "check-tcl": check_tcl,
    "lint-hls": lint_hls,
}
RESEARCH: dict[str, Callable[..., None]] = {
    "position-times": position_times,
    "position-choice": position_choice,
    "report-partition": report_partition,
}

for name, command in COMMANDS.items():
    app.command(name)(guarded(command))
for name, command in RESEARCH.items():
    research.command(name)(guarded(command))
app.add_typer(research)
