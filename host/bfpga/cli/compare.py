"""`bfpga compare`: one network on several accelerators, or with several recipes, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator, complete_recipe
from bfpga.cli.options import EngineOptions, ExponentOptions, InputShapes, Json, Model, OutputNames, grouped

if TYPE_CHECKING:
    from bfpga.report.comparison import Comparison

#: Columns that fall away on a narrow terminal, in this order.
OPTIONAL = ("FF", "BRAM36", "DSP", "as float", "work", "95 % interval", "energy", "schedule")


@grouped
def compare(
    model: Model,
    accelerators: Annotated[
        list[str],
        typer.Option(
            "--accelerator", "-a", help="Name or YAML file; give several.", show_default=False,
            autocompletion=complete_accelerator,
        ),
    ],
    engines: EngineOptions,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--recipe", "-r", help="Name or YAML file of a recipe; give several.", autocompletion=complete_recipe
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="NPZ with x and, where known, y; without, no accuracy.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", "-c", help="NPZ with samples to calibrate with; default: the first of the data."),
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", "-n", min=1, help="Use the first N samples only.")] = None,
    input_shape: InputShapes = None,
    outputs: OutputNames = None,
    picture: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The same as a page (.html) or as a picture (.svg).", metavar="FILE"),
    ] = None,
    json: Json = None,
) -> None:
    """Accuracy, cycles, latency, resources and energy of a network on several accelerators, side by side.

    Every accelerator is tried with every recipe. What cannot be compiled is listed with its reason.

    \b
    Examples:
      bfpga compare examples/models/lenet_mnist.onnx -a pynq_z2_dense -a pynq_z2_shift -d examples/models/mnist_test.npz
      bfpga compare net.onnx -a my.yaml -r adaptive -r two_hot -d samples.npz -o compare.html --json compare.json
    """
    from bfpga.api.comparing import check_comparison_target, compared, write_comparison
    from bfpga.cli import work
    from bfpga.data import load_inputs
    from bfpga.report.comparison import HEADINGS, content, rows

    output.check_target(json)
    check_comparison_target(picture)
    network = work.read(model, input_shape, outputs)
    judged = None if data is None else load_inputs(data, network.inputs, samples)
    own = None if calibration is None else load_inputs(calibration, network.inputs)
    names: list[str | None] = [*dict.fromkeys(recipe or [])] or [None]
    options = {name: work.compile_options(engines, ExponentOptions(recipe=name)) for name in names}
    found = compared(network, list(dict.fromkeys(accelerators)), options, judged, own, output.waiting)
    title = f"{found.model}, {found.samples} samples" if judged else found.model
    output.table(title, HEADINGS, rows(found), dropped=OPTIONAL)
    _say(found)
    if picture is not None:
        write_comparison(picture, found)
        output.say(f"comparison in {picture}")
    output.write_json(json, content(found))


def _say(found: Comparison) -> None:
    """Lines with the table: float, what did not work, and what the numbers are."""
    from bfpga.report import words
    from bfpga.report.charts.comparison import TABLE_NOTE

    if found.reference is not None:
        reference = f"{words.points(found.reference.value)} (95 % interval {words.interval(found.reference)})"
        output.say(f"{found.reference_name}: {reference}")
    for name, reason in found.refused:
        output.say(f"not for {name}: {reason}")
    output.say(TABLE_NOTE)
