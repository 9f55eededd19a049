"""`bfpga init`: a folder with an accelerator, a recipe where one helps, and a script that runs a network on both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator, complete_board, complete_model
from bfpga.errors import ConfigurationError

if TYPE_CHECKING:
    from bfpga.cli.project import Wish

#: What is proposed, and what `--yes` takes.
BOARD, MODEL, GOAL = "pynq_z2", "lenet", "throughput"
GOALS = {
    "throughput": "most images a second",
    "latency": "shortest time of one image",
    "smallest": "least of the board",
    "accuracy": "closest to float",
}


def complete_goal(incomplete: str) -> list[str]:
    """What the shell offers for a goal."""
    return [goal for goal in GOALS if goal.startswith(incomplete)]


def init(
    directory: Annotated[Path, typer.Argument(help="New or empty folder.", metavar="[DIR]")] = Path(),
    *,
    board: Annotated[
        str | None, typer.Option("--board", help="Name of a board or its YAML file.", autocompletion=complete_board)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Network in ONNX format, or a name.", autocompletion=complete_model),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option("--goal", help="throughput, latency, smallest or accuracy.", autocompletion=complete_goal),
    ] = None,
    accelerator: Annotated[
        str | None,
        typer.Option(
            "--accelerator", "-a", help="Copy this one; without, the ready one that serves the goal best.",
            autocompletion=complete_accelerator,
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="NPZ with x and, where known, y; named networks have theirs.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", "-c", help="NPZ to calibrate with; default: the first 64 of the data."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help=f"Ask nothing: {BOARD}, {MODEL}, {GOAL} for what is not given.")
    ] = False,
) -> None:
    """Write a folder to start from: an accelerator to edit, a recipe where one helps, and a script that runs them.

    Without a terminal, and with --yes, nothing is asked.

    \b
    Examples:
      bfpga init mine
      bfpga init mine --board pynq_z2 --model lenet --goal latency
      bfpga init mine --model net.onnx -d samples.npz --accelerator pynq_z2_bfp16
    """
    from bfpga.cli import project

    project.check_folder(directory)
    wish = _asked(project.Wish(board, model, goal, accelerator, data, calibration), yes)
    plan = project.planned(wish)
    written = project.write(directory, plan, wish)
    for line in plan.reasons:
        output.say(line)
    output.say(f"written to {directory}: {', '.join(written)}")
    output.say(f"next: python {directory / project.SCRIPT}")


def _asked(wish: Wish, yes: bool) -> Wish:
    """The wish with what was missing: proposed, asked for, or refused where nobody can be asked."""
    from dataclasses import replace

    needed = {"model": MODEL, "board": BOARD, "goal": GOAL}
    if wish.accelerator is not None:
        needed = {"model": MODEL}
    missing = {name: value for name, value in needed.items() if getattr(wish, name) is None}
    if not yes and missing and not sys.stdin.isatty():
        options = ", ".join(f"--{name}" for name in missing)
        values = ", ".join(missing.values())
        raise ConfigurationError(f"without a terminal nothing can be asked: give {options}, or --yes for {values}")
    if not yes:
        missing = {name: _question(name, value) for name, value in missing.items()}
    given = {name: getattr(wish, name) or missing.get(name) for name in ("model", "board", "goal")}
    wish = replace(wish, model=given["model"], board=given["board"], goal=given["goal"])
    if wish.goal is not None and wish.goal not in GOALS:
        raise ConfigurationError(f"--goal is {wish.goal!r}; goals: {', '.join(GOALS)}")
    return wish


def _question(name: str, proposed: str) -> str:
    """The answer of the one at the terminal."""
    from bfpga.accelerator.boards import names
    from bfpga.compiler.read.named import network_names

    choices = {
        "model": f"network: a file, or one of {', '.join(network_names())}",
        "board": f"board: {', '.join(names('boards'))}",
        "goal": "goal: " + ", ".join(f"{goal} ({meaning})" for goal, meaning in GOALS.items()),
    }
    output.say(choices[name])
    return str(typer.prompt(name, default=proposed))
