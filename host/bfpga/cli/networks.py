"""Commands that take a network: what it costs, its program, its results and how far they are from float."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.options import (
    AcceleratorArgument,
    AcceleratorOption,
    EngineOptions,
    ExponentOptions,
    InputShapes,
    Json,
    Model,
    RunOptions,
    ScaleOptions,
    Scheduler,
    grouped,
)


@grouped
def estimate(
    accelerator: AcceleratorArgument,
    engines: EngineOptions,
    model: Annotated[Path | None, typer.Argument(help="Network in ONNX format.", show_default=False)] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", "-c", help="NPZ with samples; without, the zeros between layers are not known."),
    ] = None,
    input_shape: InputShapes = None,
    json: Json = None,
) -> None:
    """Resources against the board, the roofline, and with a network its cycles and what limits them.

    \b
    Examples:
      bfpga estimate pynq_z2_dense
      bfpga estimate pynq_z2_dense examples/models/lenet_mnist.onnx
      bfpga estimate zcu104_hetero examples/models/lenet_mnist.onnx -c examples/models/mnist_calibration.npz
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.cli import reports, work

    output.check_target(json)
    described = load_accelerator(accelerator)
    options = work.compile_options(engines)
    network = work.read(model, input_shape) if model else None
    program = work.compile_for_estimate(described, network, calibration, options) if network else None
    content = reports.accelerator_estimate(described)
    if program:
        content["program"] = reports.program_estimate(described, program)
    output.write_json(json, content)


@grouped
def compile_command(
    model: Model,
    accelerator: AcceleratorOption,
    target: Annotated[Path, typer.Option("--output", "-o", help="Program file.", metavar="FILE", show_default=False)],
    *,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", "-c", help="NPZ with samples; without, every layer measures itself.")
    ] = None,
    input_shape: InputShapes = None,
    exponents: ExponentOptions,
    engines: EngineOptions,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print the cycles of each layer on each engine, the choice and its reason."),
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="The same as a picture: PNG, PDF or SVG; needs matplotlib.", metavar="FILE"),
    ] = None,
    json: Json = None,
) -> None:
    """Compile a network for an accelerator: a program file and its listing.

    \b
    Examples:
      bfpga compile lenet_mnist.onnx -a pynq_z2_dense -c mnist_calibration.npz -o lenet.bfpga
      bfpga compile lenet_mnist.onnx -a zcu104_hetero -c mnist_calibration.npz -o lenet.bfpga --explain
      bfpga compile lenet_mnist.onnx -a pynq_z2_dense -o lenet.bfpga --policy dynamic --flow auto
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.cli import reports, work
    from bfpga.cli.pictures import check_picture
    from bfpga.cli.report_engines import print_engines, write_engines
    from bfpga.program.file import save_program
    from bfpga.program.listing import listing

    output.check_target(json)
    output.check_target(target)
    check_picture(picture)
    described = load_accelerator(accelerator)
    options = work.compile_options(engines, exponents)
    program = work.compile_for_file(described, work.read(model, input_shape), calibration, options)
    if picture is not None:
        write_engines(picture, program)
    save_program(program, target)
    output.say(listing(program).rstrip())
    if explain:
        print_engines(program)
    content = reports.program_content(described, program)
    output.say(f"program in {target}")
    output.write_json(json, content)


@grouped
def run(
    task: RunOptions,
    exponents: ExponentOptions,
    engines: EngineOptions,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            help="emulator, csim (native integers), csim:ap_int, csim:exact, virtual (board without hardware), "
            "board or remote:HOST; several boards with commas between share the samples.",
        ),
    ] = "emulator",
    boards: Annotated[
        int | None, typer.Option("--boards", min=1, max=64, help="With --device virtual: number of boards.")
    ] = None,
    board_timeout: Annotated[
        float,
        typer.Option(
            "--board-timeout", min=0.1, help="Seconds after which one of several boards that does not answer is hung."
        ),
    ] = 120.0,
    scheduler: Scheduler = None,
    compare: Annotated[bool, typer.Option("--compare", help="Run the emulator too and compare bit by bit.")] = False,
) -> None:
    """Compile a network, run it on samples, and print accuracy, cycles, latency and a line for every layer.

    \b
    Examples:
      bfpga run examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz
      bfpga run net.onnx -a my.yaml -d samples.npz --device csim --compare --samples 20 --json result.json
      bfpga run net.onnx -a pynq_z2_dense -d samples.npz --device remote:10.0.0.5,remote:10.0.0.6
      bfpga run net.onnx -a pynq_z2_dense -d samples.npz --device virtual --boards 4
    """
    from bfpga.cli import reports, work
    from bfpga.cli.device_choice import DeviceChoice, device_name
    from bfpga.runtime import check_device

    output.check_target(task.json)
    choice = DeviceChoice(device_name(device, boards), board_timeout, scheduler)
    check_device(choice.name)
    choice.check()
    job = work.prepare(task, work.compile_options(engines, exponents))
    if not compare:
        output.write_json(task.json, reports.run_report(job, work.run(job, choice, task.batch), choice.name))
        return
    comparison = work.compare(job, choice, task.batch)
    output.write_json(task.json, reports.comparison_report(job, comparison, choice.name))
    if not comparison.bit_exact:
        raise typer.Exit(1)


@grouped
def evaluate(
    task: RunOptions,
    exponents: ExponentOptions,
    engines: EngineOptions,
    scale: ScaleOptions,
) -> None:
    """Compare a network on an accelerator with float: accuracy, and the signal to noise ratio of every layer.

    \b
    Examples:
      bfpga evaluate examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz
      bfpga evaluate resnet.onnx -a zcu104_dense -d cifar.npz --workers 8
    """
    from bfpga.cli import reports, work
    from bfpga.scale.choice import check_choice

    output.check_target(task.json)
    check_choice(scale.workers, scale.scheduler)
    job = work.prepare(task, work.compile_options(engines, exponents))
    with work.opened_workers(scale) as workers:
        evaluation = work.evaluate(job, task.batch, workers)
    output.write_json(task.json, reports.evaluation_report(job, evaluation))
