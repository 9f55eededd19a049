"""`bfpga models`: networks that have a name, what they reach on each board, and training those that do not ship."""

from __future__ import annotations

import json as text_format
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_trained
from bfpga.cli.options import Json

#: Figures of all named networks, next to those that ship.
FIGURES = "figures.json"
HEADINGS = ("network", "what it is", "samples", "judged by", "float")


def models(
    train: Annotated[
        str | None,
        typer.Option(
            "--train", help="Train this network here, from computed samples.", metavar="NAME",
            autocompletion=complete_trained,
        ),
    ] = None,
    json: Json = None,
) -> None:
    """List the networks that have a name, which every command takes in the place of a file.

    \b
    Examples:
      bfpga models
      bfpga models --train keywords
    """
    output.check_target(json)
    if train is not None:
        _train(train)
        return
    figures = packaged_figures()
    output.table("Networks", HEADINGS, network_rows(figures))
    output.table("Images/s, and what the judge says", ["board", *figures], board_rows(figures))
    output.say("Images/s are estimates, at the clock of the board's fastest ready accelerator for the network.")
    output.say("bfpga run NAME -a ACCELERATOR takes its own samples; * is trained first: bfpga models --train NAME")
    output.write_json(json, {"networks": figures})


def _train(name: str) -> None:
    from time import perf_counter

    from bfpga.training.from_nothing import train

    begun = perf_counter()
    with output.progress(f"training {name}") as show:
        path = train(name, show)
    output.say(f"{name} is trained: {path}, {perf_counter() - begun:.0f} s")
    output.say(f"next: bfpga run {name} -a pynq_z2_dense")


def packaged_figures() -> dict[str, Any]:
    """The figures of the package, by network; `python -m benchmarks.compiler.models` renews them."""
    from bfpga.compiler.read.named import NAMED

    found: dict[str, Any] = text_format.loads((NAMED[0].folder / FIGURES).read_text(encoding="utf-8"))
    return found


def network_rows(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The networks with their results in float; what is trained here has a star."""
    from bfpga.compiler.read.named import NAMED

    return [
        (network.name + "*" * network.trained, network.title, str(known["samples"]), known["metric"],
         value_text(known["float"]))
        for network in NAMED for known in [figures[network.name]]
    ]  # fmt: skip


def board_rows(figures: Mapping[str, Any]) -> list[list[str]]:
    """A row for each board: images/s and the metric of every network; `-` where no ready accelerator fits."""
    from bfpga.accelerator.boards import names
    from bfpga.cli.report_host import rate

    rows = []
    for board in names("boards"):
        cells = [known["boards"].get(board) for known in figures.values()]
        rows.append([board, *(_cell(cell, rate) for cell in cells)])
    return rows


def _cell(cell: Mapping[str, Any] | None, rate: Any) -> str:
    return "-" if cell is None else f"{rate(cell['images_per_second'])} ({value_text(cell['value'])})"


def value_text(value: float) -> str:
    """A percentage, or an area under a curve."""
    return f"{value:.1f} %" if value > 1 else f"{value:.3f}"
