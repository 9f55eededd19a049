"""Commands that take a network: what it costs, its program, its results and how far they are from float."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_device, complete_model
from bfpga.cli.options import (
    AcceleratorArgument,
    AcceleratorOption,
    EngineOptions,
    ExponentOptions,
    InputShapes,
    Json,
    Model,
    OutputNames,
    PrecisionOptions,
    RunOptions,
    SampleOptions,
    ScaleOptions,
    Scheduler,
    grouped,
)
from bfpga.errors import ConfigurationError


@grouped
def estimate(
    accelerator: AcceleratorArgument,
    model: Annotated[
        Path | None,
        typer.Argument(help="Network in ONNX format, or a name.", show_default=False, autocompletion=complete_model),
    ] = None,
    *,
    engines: EngineOptions,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", "-c", help="NPZ with samples; without, the zeros between layers are not known."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="The same: the first 64 samples of an NPZ are used.")
    ] = None,
    input_shape: InputShapes = None,
    outputs: OutputNames = None,
    faster: Annotated[
        bool,
        typer.Option(
            "--faster",
            help="Compile for the other ready accelerators of the board too, some seconds each, and name one that is "
            "more than 5 % faster, and why.",
        ),
    ] = False,
    json: Json = None,
) -> None:
    """Resources against the board, the roofline, and with a network its cycles, what limits them, and what to change.

    \b
    Examples:
      bfpga estimate pynq_z2_dense
      bfpga estimate pynq_z2_dense examples/models/lenet_mnist.onnx
      bfpga estimate pynq_z2_dense net.onnx --faster
      bfpga estimate zcu104_hetero examples/models/lenet_mnist.onnx -c examples/models/mnist_calibration.npz
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.cli import reports, work

    output.check_target(json)
    if faster and model is None:
        raise ConfigurationError("--faster compares accelerators for a network; name one: bfpga estimate NAME MODEL")
    options = work.compile_options(engines)
    described = load_accelerator(accelerator)
    program = None
    if model is not None:
        network = work.read(model, input_shape, outputs)
        samples = work.estimate_samples(network, calibration, data)
        program = work.compile_for_estimate(described, network, samples, options)
    content = reports.accelerator_estimate(described)
    if program:
        content["program"] = reports.program_estimate(described, program)
    if program and faster:
        found = work.find_faster(described, program, network, samples, options)
        content["program"]["faster"] = reports.faster_report(described, found)
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
    outputs: OutputNames = None,
    exponents: ExponentOptions,
    engines: EngineOptions,
    precision: PrecisionOptions,
    json: Json = None,
) -> None:
    """Compile a network for an accelerator: a program file and its listing.

    \b
    Examples:
      bfpga compile lenet_mnist.onnx -a pynq_z2_dense -c mnist_calibration.npz -o lenet.bfpga
      bfpga compile lenet_mnist.onnx -a zcu104_hetero -c mnist_calibration.npz -o lenet.bfpga
      bfpga compile lenet_mnist.onnx -a pynq_z2_dense -o lenet.bfpga --policy dynamic --flow auto
      bfpga compile lenet_mnist.onnx -a pynq_z2_shift -c mnist_calibration.npz -o lenet.bfpga --accuracy-drop 0.3
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.cli import precision as finding
    from bfpga.cli import reports, work
    from bfpga.program.file import save_program
    from bfpga.program.listing import listing

    output.check_target(json)
    output.check_target(target)
    finding.check(precision)
    described = load_accelerator(accelerator)
    options, network = work.compile_options(engines, exponents), work.read(model, input_shape, outputs)
    found = finding.for_file(precision, described, network, calibration, options)
    program = found.program if found else work.compile_for_file(described, network, calibration, options)
    save_program(program, target)
    output.say(listing(program, output.line_width()).rstrip())
    content = reports.program_content(described, program) | finding.report(found, precision)
    output.say(f"program in {target}")
    output.write_json(json, content)


@grouped
def run(
    task: RunOptions,
    exponents: ExponentOptions,
    engines: EngineOptions,
    precision: PrecisionOptions,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            help="emulator, csim (native integers), csim:ap_int, csim:exact, rtl (the kernel's Verilog, clock by "
            "clock), rtl:seed=N (its streams pause by chance), virtual (board without hardware), virtual:rtl "
            "(its kernel is the Verilog), board or "
            "remote:HOST; several boards with commas between share the samples.",
            autocompletion=complete_device,
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
    histograms: Annotated[
        int | None,
        typer.Option(
            "--histograms", min=1, max=4096,
            help="With --policy dynamic or delayed: what each exponent was found from, of the first N samples. A "
            "kernel tells its own counts, which are compared with the emulator's (docs/kernel-positions.md).",
            metavar="N",
        ),
    ] = None,
) -> None:
    """Compile a network, run it on samples, and print accuracy, cycles, latency and a line for every layer.

    \b
    Examples:
      bfpga run examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz
      bfpga run net.onnx -a my.yaml -d samples.npz --device csim --compare --samples 20 --json result.json
      bfpga run net.onnx -a pynq_z2_dense -d samples.npz --device remote:10.0.0.5,remote:10.0.0.6
      bfpga run net.onnx -a pynq_z2_dense -d samples.npz --device virtual --boards 4
      bfpga run net.onnx -a my.yaml -d samples.npz --device virtual --report report.html
    """
    from bfpga.cli import precision as finding
    from bfpga.cli import reports, work
    from bfpga.cli.device_choice import DeviceChoice, device_name
    from bfpga.cli.report_page import check_report, sources, write_run_report
    from bfpga.runtime import check_device

    output.check_target(task.json)
    check_report(task.report)
    choice = DeviceChoice(device_name(device, boards), board_timeout, scheduler)
    check_device(choice.name)
    choice.check()
    finding.check(precision)
    job, found = finding.prepare(precision, task, work.compile_options(engines, exponents))
    searched = finding.report(found, precision)
    if not compare:
        result = work.run(job, choice, task.batch)
        content = reports.run_report(job, result, choice.name) | reports.histogram_report(job, histograms, choice)
        write_run_report(task.report, job, sources(task, exponents), content, result)
        output.write_json(task.json, content | searched)
        if content.get("histogram_difference"):
            raise typer.Exit(1)
        return
    comparison = work.compare(job, choice, task.batch)
    content = reports.comparison_report(job, comparison, choice.name)
    content |= reports.histogram_report(job, histograms, choice)
    write_run_report(task.report, job, sources(task, exponents), content, comparison.got)
    output.write_json(task.json, content | searched)
    if not comparison.bit_exact or content.get("histogram_difference"):
        raise typer.Exit(1)


@grouped
def evaluate(
    task: RunOptions,
    exponents: ExponentOptions,
    engines: EngineOptions,
    precision: PrecisionOptions,
    scale: ScaleOptions,
) -> None:
    """Compare a network on an accelerator with float: accuracy, and the signal to noise ratio of every layer.

    \b
    Examples:
      bfpga evaluate examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz
      bfpga evaluate resnet.onnx -a zcu104_dense -d cifar.npz --workers 8
      bfpga evaluate net.onnx -a pynq_z2_shift -d samples.npz --accuracy-drop 0.3 --save-recipe net.yaml
    """
    from bfpga.cli import precision as finding
    from bfpga.cli import reports, work
    from bfpga.cli.report_page import check_report, sources, write_evaluation_report
    from bfpga.scale.choice import check_choice

    output.check_target(task.json)
    check_report(task.report)
    check_choice(scale.workers, scale.scheduler)
    finding.check(precision)
    job, found = finding.prepare(precision, task, work.compile_options(engines, exponents))
    searched = finding.report(found, precision)
    with work.opened_workers(scale) as workers:
        evaluation = work.evaluate(job, task.batch, workers)
    content = reports.evaluation_report(job, evaluation)
    write_evaluation_report(task.report, job, sources(task, exponents), content, evaluation)
    output.write_json(task.json, content | searched)


@grouped
def report(
    task: SampleOptions,
    exponents: ExponentOptions,
    engines: EngineOptions,
    target: Annotated[Path, typer.Option("--output", "-o", help="HTML file.", metavar="FILE", show_default=False)],
) -> None:
    """Evaluate a network and write all there is to know about it on an accelerator into one HTML file.

    Accuracy with confidence intervals, noise and saturation of every layer, the roofline, a timeline, where cycles go,
    memory, resources, engines, digests. The file needs no network and no other file (docs/report.md).

    \b
    Example:
      bfpga report examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz -o report.html
    """
    from bfpga.cli import reports, work
    from bfpga.cli.report_page import check_report, sources, write_evaluation_report

    output.check_target(task.json)
    check_report(target)
    job = work.prepare(task, work.compile_options(engines, exponents))
    evaluation = work.evaluate(job, task.batch)
    content = reports.evaluation_report(job, evaluation)
    write_evaluation_report(target, job, sources(task, exponents), content, evaluation)
    output.write_json(task.json, content)
