"""`bfpga compare`: one network on several accelerators, or with several recipes, side by side."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator, complete_recipe
from bfpga.cli.options import EngineOptions, ExponentOptions, InputShapes, Json, Model, OutputNames, grouped

if TYPE_CHECKING:
    from bfpga.api.jobs import Job
    from bfpga.compiler.read.network import Network
    from bfpga.data import InputSamples
    from bfpga.report.accuracy import Accuracy
    from bfpga.report.comparison import Comparison, Entry

SUFFIXES = (".html", ".svg")
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
    from bfpga.cli import work
    from bfpga.data import load_inputs
    from bfpga.report.comparison import HEADINGS, content
    from bfpga.report.comparison_page import rows

    output.check_target(json)
    check_comparison_picture(picture)
    network = work.read(model, input_shape, outputs)
    judged = None if data is None else load_inputs(data, network.inputs, samples)
    found = compared(network, accelerators, recipe, engines, judged, calibration)
    title = f"{found.model}, {found.samples} samples" if judged else found.model
    output.table(title, HEADINGS, rows(found), dropped=OPTIONAL)
    _say(found)
    if picture is not None:
        _write(picture, found)
    output.write_json(json, content(found))


def check_comparison_picture(path: Path | None) -> None:
    """Refuse a file that cannot be written or has another ending, before work is spent on it."""
    from bfpga.report.page import check_charts

    output.check_target(path)
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise OSError(errno.EINVAL, f"is no page or picture; its name must end with {' or '.join(SUFFIXES)}", str(path))
    check_charts()


def compared(
    network: Network,
    accelerators: list[str],
    recipes: list[str] | None,
    engines: EngineOptions,
    judged: InputSamples | None,
    calibration: Path | None,
) -> Comparison:
    """Every accelerator with every recipe; ConfigurationError for a file that is wrong, ModelError if none works."""
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.api.jobs import CALIBRATION_SAMPLES, Job
    from bfpga.cli import work
    from bfpga.data import load_inputs
    from bfpga.errors import BfpgaError, ModelError
    from bfpga.report.comparison import Comparison, entry

    described = [load_accelerator(name) for name in dict.fromkeys(accelerators)]
    names: list[str | None] = [*dict.fromkeys(recipes or [])] or [None]
    options = {name: work.compile_options(engines, ExponentOptions(recipe=name)) for name in names}
    judge = None if judged is None else _judge(network, judged)
    sources = None if calibration is None else load_inputs(calibration, network.inputs).inputs
    if sources is None and judged is not None:
        sources = judged.first(CALIBRATION_SAMPLES)
    entries: list[Entry] = []
    refused: list[tuple[str, str]] = []
    for accelerator in described:
        for name in names:
            shown = None if name is None else Path(name).stem
            try:
                if sources is None:
                    program = work.compile_for_estimate(accelerator, network, None, options[name])
                else:
                    program = work.compile_program(accelerator, network, sources, options[name])
            except BfpgaError as error:
                refused.append((accelerator.name if shown is None else f"{accelerator.name}, {shown}", str(error)))
                continue
            job = None if judged is None else Job(network, accelerator, program, judged)
            accuracy = None if job is None or judge is None else judge(job)
            entries.append(entry(accelerator, shown, program, accuracy))
    if not entries:
        raise ModelError("; ".join(f"{name}: {reason}" for name, reason in refused))
    known = next((item.accuracy for item in entries if item.accuracy is not None), None)
    return Comparison(
        network.name,
        len(judged) if judged is not None else 0,
        entries,
        refused,
        None if known is None else known.reference_correct,
        "float" if known is None else known.reference,
    )


def _judge(network: Network, samples: InputSamples) -> Callable[[Any], Accuracy]:
    """What gives a program's accuracy on the emulator; the float network runs once."""
    from bfpga.api.jobs import class_labels
    from bfpga.cli import work
    from bfpga.devices.reference import cosines, float_outputs
    from bfpga.report.accuracy import accuracy_of

    floats, kind = float_outputs(network, samples.inputs, _BATCH)

    def judge(job: Job) -> Accuracy:
        outputs = work.run(job, "emulator", _BATCH).outputs
        name = next(iter(job.program.outputs))
        found, wanted = outputs[name], floats[name]
        cosine = float(cosines(wanted.reshape(len(wanted), -1), found.reshape(len(found), -1)).mean())
        return accuracy_of(found, class_labels(job), wanted, kind, cosine)

    return judge


#: Samples computed at once.
_BATCH = 64


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


def _write(path: Path, found: Comparison) -> None:
    from bfpga.formats.files import replace_file
    from bfpga.report import comparison_page
    from bfpga.report.page import svg, write_page

    if path.suffix.lower() == ".html":
        write_page(path, comparison_page.page(found))
    else:
        replace_file(path, svg(comparison_page.picture(found)).encode())
    output.say(f"comparison in {path}")
