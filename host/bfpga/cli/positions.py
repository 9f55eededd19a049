"""`bfpga research position-times`, `position-choice`, `position-measure`: what positions cost, which way is fastest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_device, complete_recipe
from bfpga.cli.options import EngineOptions, ExponentOptions, Json, Picture, SampleOptions, grouped
from bfpga.cli.pictures import check_picture, write_picture
from bfpga.cli.report_partition import choice

if TYPE_CHECKING:
    from bfpga.api.flow_measuring import MeasuredFlows
    from bfpga.engines.positions.times import Flow, FlowTimes

WHAT: dict[Flow, str] = {
    "delayed": "position of the iteration before",
    "two_pass": "everything computed twice",
    "two_pass_sampled": "a sample computed twice",
    "keep": "all wide results kept",
    "keep_sampled": "wide results of a sample kept",
    "static": "calibrated position",
}


def position_times(
    compute: Annotated[float, typer.Option("--compute", min=0, help="Computing the layer, ms.")] = 2.0,
    read: Annotated[float, typer.Option("--read", min=0, help="Reading its narrow input, ms.")] = 0.4,
    write: Annotated[float, typer.Option("--write", min=0, help="Writing its narrow output, ms.")] = 1.7,
    wide_ratio: Annotated[
        float, typer.Option("--wide-ratio", min=1, help="Size of a wide result over that of a narrow one.")
    ] = 4.0,
    sample: Annotated[str, typer.Option("--sample", help="Part that is sampled, like 1/8.")] = "1/8",
    duplex: Annotated[bool, typer.Option("--duplex", help="Reading and writing have channels of their own.")] = False,
    on_chip: Annotated[bool, typer.Option("--on-chip", help="Kept wide results never leave the chip.")] = False,
    launch: Annotated[
        float, typer.Option("--launch", min=0, help="A second start by the host, ms; 0: one start runs both passes.")
    ] = 0.0,
    picture: Picture = None,
    json: Json = None,
) -> None:
    """What finding the fixed-point position of a layer's results costs under each flow.

    Without options it shows the published example: 2.1, 4.1, 2.35, 15.7 and 3.8 ms.

    \b
    Examples:
      bfpga research position-times
      bfpga research position-times --compute 10 --on-chip -o times.png
    """
    from bfpga.engines.positions.choice import modelled_choice
    from bfpga.engines.positions.sampling import SampleFraction
    from bfpga.engines.positions.times import LayerTimes, TimeModel
    from bfpga.engines.positions.times_picture import draw_flow_times

    output.check_target(json)
    check_picture(picture)
    layer = LayerTimes(compute, read, write)
    model = TimeModel(wide_ratio, duplex, on_chip, launch)
    part = SampleFraction.parse(sample)
    times = model.flow_times(layer, part.value)
    break_even = model.break_even_compute(read, write)
    chosen = modelled_choice(layer, model, part.value)
    _say_times(times, f"Computing {compute:g} ms, reading {read:g} ms, writing {write:g} ms, {part} sampled")
    output.say(
        f"choice: {chosen}; keeping wide results is faster for layers that compute more than {break_even:.4g} ms"
    )
    if picture is not None:
        write_picture(picture, draw_flow_times(layer, model, part))
    milliseconds = {flow: times.of(flow) for flow in WHAT}
    output.write_json(json, {"times_ms": milliseconds, "choice": chosen, "break_even_compute_ms": break_even})


def _say_times(times: FlowTimes, title: str) -> None:
    from bfpga.engines.positions.times import FLOWS

    delayed = float(times.delayed)
    rows = []
    for number, flow in enumerate(FLOWS):
        time = float(times.of(flow))
        more = f"{time / delayed:.2f}" if delayed else "-"
        rows.append(("-" if flow == "static" else str(number), flow, WHAT[flow], time, more))
    output.table(title, ["flow", "name", "preceding operation", "ms", "times flow 0"], rows)


def position_choice(
    clocks: Annotated[
        Path,
        typer.Argument(help="JSON with the measured cycles of every layer.", metavar="FILE", show_default=False),
    ],
    by: Annotated[str, typer.Option("--by", help="One choice for each layer or for each operation.")] = "layer",
    json: Json = None,
) -> None:
    """Which flow finds the position of each layer fastest, by measured cycles.

    The file holds layers with name, operation, and the cycles of each flow in every iteration (key `clocks`);
    docs/dynamic-positions.md shows one.

    \b
    Examples:
      bfpga research position-choice clocks.json
      bfpga research position-choice clocks.json --by operation
    """
    from bfpga.engines.positions.choice import choice_rows
    from bfpga.engines.positions.measured_clocks import load_clocks

    output.check_target(json)
    choice("--by", by, ("layer", "operation"))
    chooser = load_clocks(clocks, by)  # type: ignore[arg-type]
    headings, rows = choice_rows(chooser)
    output.table(f"Flows by {by}, mean cycles of up to {chooser.iterations} iterations", headings, rows)
    content: dict[str, Any] = {"by": by, "choices": chooser.choices()}
    output.write_json(json, content)


@grouped
def position_measure(
    task: SampleOptions,
    engines: EngineOptions,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", "-r", help="Name of a recipe or a YAML file: all options but policy and flows.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option("--rule", help="How statistics become an exponent; only rate takes samples, others measure all."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device", help="emulator, csim, rtl, virtual, board or remote:HOST.", autocompletion=complete_device
        ),
    ] = "emulator",
    iterations: Annotated[
        int, typer.Option("--iterations", min=1, max=65536, help="How often both flows run, a sample each time.")
    ] = 8,
    by: Annotated[str, typer.Option("--by", help="One choice for each layer or for each operation.")] = "layer",
    save_recipe: Annotated[
        Path | None,
        typer.Option("--save-recipe", help="The recipe with the flows chosen, for --recipe.", metavar="FILE"),
    ] = None,
) -> None:
    """Run both flows of each layer on a device, choose the faster one, and write the recipe that repeats the choice.

    Two passes with a sample, and the same with kept accumulators; their exponents must be equal. Clocks are those of
    the kernel's registers, of its clock counter where there is one. Each layer is a start of its own.

    \b
    Examples:
      bfpga research position-measure lenet -a pynq_z2_flows --device virtual --save-recipe flows.yaml
      bfpga research position-measure net.onnx -a my.yaml -d samples.npz --by operation --json clocks.json
    """
    from bfpga.api.flow_measuring import FlowTask, measure_flows
    from bfpga.cli import work
    from bfpga.compiler.recipes import save_recipe as save
    from bfpga.runtime import check_device

    output.check_target(task.json)
    output.check_target(save_recipe)
    choice("--by", by, ("layer", "operation"))
    check_device(device)
    options = work.compile_options(engines, ExponentOptions(recipe=recipe, rule=rule))
    with output.waiting(f"measuring the flows of {task.model.name}"):
        measured = measure_flows(FlowTask(*work.load_calibrated(task), options), device, iterations, by)  # type: ignore[arg-type]
    _say_measured(measured, device)
    if save_recipe is not None:
        save(measured.options, save_recipe, f"flows measured on {device}, {iterations} iterations, by {by}")
        output.say(f"recipe in {save_recipe}")
    output.write_json(task.json, {"device": device, **measured.to_dict()})


def _say_measured(measured: MeasuredFlows, device: str) -> None:
    from bfpga.engines.positions.choice import choice_rows

    chooser = measured.chooser
    headings, rows = choice_rows(chooser)
    title = f"Flows by {chooser.by} on {device}, mean cycles of {chooser.iterations} iterations, and the next one"
    next_one = f"iteration {chooser.iterations + 1}"
    shown = [(*row, measured.chosen.get(str(row[0]), "-")) for row in rows]
    output.table(title, [*headings, next_one], shown, dropped=["saves"])
