"""The commands. Each imports what it needs when it runs, so that `bfpga --help` answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.check_tcl import check_tcl
from bfpga.cli.overlay import overlay
from bfpga.cli.positions import position_choice, position_times
from bfpga.cli.report_partition import report_partition

app = typer.Typer(
    name="bfpga",
    help="FPGA deployment toolkit for PYNQ boards: from an ONNX file to a bit-exact run, with or without a board.",
    epilog="`--debug` after any command shows the traceback of an error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[Path, typer.Argument(help="Network in ONNX format.", show_default=False)]
AcceleratorOption = Annotated[
    str, typer.Option("--accelerator", "-a", help="Name of a ready accelerator or a YAML file.", show_default=False)
]
AcceleratorArgument = Annotated[
    str, typer.Argument(help="Name of a ready accelerator or a YAML file.", show_default=False)
]
Data = Annotated[Path, typer.Option("--data", "-d", help="NPZ with x and, where known, y.", show_default=False)]
Json = Annotated[Path | None, typer.Option("--json", help="Write the results to FILE as JSON.", metavar="FILE")]
Calibration = Annotated[
    Path | None,
    typer.Option("--calibration", "-c", help="NPZ with samples to calibrate with; default: the first 64 of the data."),
]
Recipe = Annotated[
    str | None,
    typer.Option("--recipe", "-r", help="Name of a ready recipe or a YAML file; the options below go before it."),
]
PolicyName = Annotated[
    str | None, typer.Option("--policy", help="How the exponents of activations are chosen; default: auto.")
]
FlowName = Annotated[
    str | None,
    typer.Option(
        "--flow",
        help="With --policy dynamic, what precedes a layer: two_pass_sampled (a sample computed twice, the default), "
        "two_pass, keep or keep_sampled (accumulators are kept), or auto (the fewest clocks).",
    ),
]
RuleName = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="With --policy dynamic or delayed, how statistics of results become an exponent: rate (the default), max, "
        "lsb, window or lead.",
    ),
]
Formats = Annotated[
    str | None,
    typer.Option(
        "--formats",
        help="How weights are held where the array has a choice: auto (error and time, the default), linear, two_hot, "
        "power_of_two.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Where layers are computed, on accelerators with several engines: auto (the default), systolic_array, "
        "zero_skip (skips weights that are zero) or sparse_cluster (skips activations that are zero). What the engine "
        "cannot compute stays on the array.",
    ),
]
Dispatch = Annotated[
    str | None,
    typer.Option(
        "--dispatch",
        help="How --engine auto chooses for each layer: cost (the fewest clocks, the default), majority (half of the "
        "input zero or more: sparse_cluster) or band (from 80 % zeros sparse_cluster, up to 40 % not, else by clocks).",
    ),
]
SideBySide = Annotated[
    int | None,
    typer.Option("--side-by-side", min=1, help="Samples computed together, one a column (fully connected networks)."),
]
Samples = Annotated[int | None, typer.Option("--samples", "-n", min=1, help="Use the first N samples only.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Number the random cases start from.")]
Batch = Annotated[int, typer.Option("--batch", "-b", min=1, max=65536, help="Samples computed at once.")]
DeviceName = Annotated[
    str,
    typer.Option(
        "--device",
        help="emulator, csim (native integers), csim:ap_int, virtual (board without hardware), board or remote:HOST.",
    ),
]


@app.command()
def boards(json: Json = None) -> None:
    """List the boards that are known.

    \b
    Example:
      bfpga boards
    """
    from dataclasses import asdict

    from bfpga.accelerator.boards import load_boards

    output.check_target(json)
    known = load_boards()
    rows = [
        (b.name, b.title, b.part, b.dsp, b.bram36, b.uram, b.lut, f"{b.clock_min:g}-{b.clock_max:g}", b.assumed_gb_s,
         ", ".join(b.pynq_images))
        for b in known
    ]  # fmt: skip
    headers = ["board", "title", "part", "DSP", "BRAM36", "URAM", "LUT", "MHz", "GB/s*", "PYNQ"]
    output.table("Boards", headers, rows)
    output.say("* assumed memory rate, not measured; see the board's file. A new board is one YAML file.")
    output.write_json(json, {"boards": [asdict(board) for board in known]})


@app.command()
def accelerators(json: Json = None) -> None:
    """List the ready accelerators.

    \b
    Example:
      bfpga accelerators
    """
    from bfpga.accelerator.loader import accelerator_names, load_accelerator
    from bfpga.cli import reports

    output.check_target(json)
    ready = [load_accelerator(name) for name in accelerator_names()]
    rows = [
        (a.name, a.board.name, a.clock_mhz, a.systolic.format.mantissa_bits, f"{a.systolic.columns} x "
         f"{a.systolic.rows} x {a.systolic.lanes}", a.systolic.multiplier, a.systolic.macs_per_clock,
         reports.engines_beside(a.systolic), a.description)
        for a in ready
    ]  # fmt: skip
    headers = ["accelerator", "board", "MHz", "bits", "array*", "multiplier", "MAC/clock", "beside it", "purpose"]
    output.table("Ready accelerators", headers, rows)
    output.say("* columns x rows x lanes; MAC/clock are those of the systolic array: engines beside it skip zeros.")
    content = [
        {"name": a.name, "board": a.board.name, "clock_mhz": a.clock_mhz, "digest": a.digest, "path": str(a.path),
         "systolic": a.systolic.to_dict(), "engines": reports.engine_operations(a.systolic)}
        for a in ready
    ]  # fmt: skip
    output.write_json(json, {"accelerators": content})


@app.command()
def schema(
    target: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to FILE instead.", metavar="FILE")
    ] = None,
) -> None:
    """Print the JSON schema of accelerator files, for editors that complete and check YAML.

    \b
    Example:
      bfpga schema --output accelerator.schema.json
    """
    import json

    from bfpga.accelerator.schema import json_schema

    output.check_target(target)
    if target is None:
        output.say(json.dumps(json_schema(), indent=2))
    else:
        output.write_json(target, json_schema())


@app.command()
def doctor(json: Json = None) -> None:
    """Say what this machine can do, what is missing, what for, and how to get it.

    \b
    Example:
      bfpga doctor
    """
    from dataclasses import asdict

    from bfpga.cli.doctor import examine

    output.check_target(json)
    checks = examine()
    rows = [(c.name, "yes" if c.found else "no", c.detail, c.needed_for) for c in checks]
    output.table("This machine", ["tool", "found", "version or place", "needed for"], rows)
    for check in checks:
        if not check.found:
            output.say(f"{check.name}: {check.remedy}")
    output.write_json(json, {"checks": [asdict(check) for check in checks]})
    if any(check.required and not check.found for check in checks):
        raise typer.Exit(1)


@app.command()
def render(
    accelerator: AcceleratorArgument,
    directory: Annotated[
        Path, typer.Option("--output", "-o", help="New directory.", metavar="DIR", show_default=False)
    ],
) -> None:
    """Write the HLS project of an accelerator: sources, headers, testbench.

    \b
    Example:
      bfpga render pynq_z2_dense --output build/pynq_z2_dense
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.errors import ToolError
    from bfpga.vendor.render import write_project
    from bfpga.verify.vectors import kernel_vectors

    described = load_accelerator(accelerator)
    parts = (described.name, described.digest, described.systolic, directory)
    try:
        written = write_project(*parts, kernel_vectors)
    except ToolError as error:
        written = write_project(*parts)
        output.say(f"the testbench has no vectors: {error}")
    output.say(f"HLS project of {described.name} ({described.digest[:12]}) in {written}")


app.command()(overlay)
app.command("check-tcl")(check_tcl)
app.command("report-partition")(report_partition)


@app.command()
def estimate(
    accelerator: AcceleratorArgument,
    model: Annotated[Path | None, typer.Argument(help="Network in ONNX format.", show_default=False)] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", "-c", help="NPZ with samples; without, the zeros between layers are not known."),
    ] = None,
    formats: Formats = None,
    engine: Engine = None,
    dispatch: Dispatch = None,
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
    options = work.compile_options(formats=formats, engine=engine, dispatch=dispatch)
    program = work.compile_for_estimate(described, model, calibration, options) if model else None
    content = reports.accelerator_estimate(described)
    if program:
        content["program"] = reports.program_estimate(described, program)
    output.write_json(json, content)


@app.command("compile")
def compile_command(
    model: Model,
    accelerator: AcceleratorOption,
    target: Annotated[Path, typer.Option("--output", "-o", help="Program file.", metavar="FILE", show_default=False)],
    calibration: Annotated[
        Path | None, typer.Option("--calibration", "-c", help="NPZ with samples; without, every layer measures itself.")
    ] = None,
    recipe: Recipe = None,
    policy: PolicyName = None,
    flow: FlowName = None,
    rule: RuleName = None,
    formats: Formats = None,
    engine: Engine = None,
    dispatch: Dispatch = None,
    side_by_side: SideBySide = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print the clocks of each layer on each engine, the choice and its reason."),
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
    options = work.compile_options(recipe, policy, side_by_side, formats, engine, dispatch, flow, rule)
    program = work.compile_for_file(described, model, calibration, options)
    if picture is not None:
        write_engines(picture, program)
    save_program(program, target)
    output.say(listing(program).rstrip())
    if explain:
        print_engines(program)
    content = reports.program_content(described, program)
    output.say(f"program in {target}")
    output.write_json(json, content)


@app.command()
def run(
    model: Model,
    accelerator: AcceleratorOption,
    data: Data,
    device: DeviceName = "emulator",
    compare: Annotated[bool, typer.Option("--compare", help="Run the emulator too and compare bit by bit.")] = False,
    calibration: Calibration = None,
    recipe: Recipe = None,
    policy: PolicyName = None,
    flow: FlowName = None,
    rule: RuleName = None,
    formats: Formats = None,
    engine: Engine = None,
    dispatch: Dispatch = None,
    side_by_side: SideBySide = None,
    samples: Samples = None,
    batch: Batch = 64,
    json: Json = None,
) -> None:
    """Compile a network, run it on samples, and print accuracy, cycles, latency and a line for every layer.

    \b
    Examples:
      bfpga run examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz
      bfpga run net.onnx -a my.yaml -d samples.npz --device csim --compare --samples 20 --json result.json
    """
    from bfpga.cli import reports, work

    output.check_target(json)
    options = work.compile_options(recipe, policy, side_by_side, formats, engine, dispatch, flow, rule)
    job = work.prepare(model, accelerator, data, calibration, options, samples)
    if not compare:
        output.write_json(json, reports.run_report(job, work.run(job, device, batch), device))
        return
    comparison = work.compare(job, device, batch)
    output.write_json(json, reports.comparison_report(job, comparison, device))
    if not comparison.bit_exact:
        raise typer.Exit(1)


@app.command()
def evaluate(
    model: Model,
    accelerator: AcceleratorOption,
    data: Data,
    calibration: Calibration = None,
    recipe: Recipe = None,
    policy: PolicyName = None,
    flow: FlowName = None,
    rule: RuleName = None,
    formats: Formats = None,
    engine: Engine = None,
    dispatch: Dispatch = None,
    side_by_side: SideBySide = None,
    samples: Samples = None,
    batch: Batch = 64,
    json: Json = None,
) -> None:
    """Compare a network on an accelerator with float: accuracy, and the signal to noise ratio of every layer.

    \b
    Example:
      bfpga evaluate examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz
    """
    from bfpga.cli import reports, work

    output.check_target(json)
    options = work.compile_options(recipe, policy, side_by_side, formats, engine, dispatch, flow, rule)
    job = work.prepare(model, accelerator, data, calibration, options, samples)
    output.write_json(json, reports.evaluation_report(job, work.evaluate(job, batch)))


@app.command()
def verify(
    accelerator: Annotated[
        str,
        typer.Argument(help="Name of a ready accelerator, a YAML file, or `random`.", show_default=False),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option("--against", help="csim (native integers, the default), csim:ap_int or virtual; may be repeated."),
    ] = None,
    cases: Annotated[int, typer.Option("--cases", min=1, help="Number of random networks.")] = 20,
    arrays: Annotated[int, typer.Option("--arrays", min=1, help="With `random`: number of random arrays.")] = 8,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Random layers on the emulator and on the C simulation of an accelerator: equal, or the first difference.

    `random` draws the arrays too: any format, shape, multiplier, rounding, memory size and engines beside the array
    that validate. `virtual` is the virtual board, with an overlay of each array and PYNQ between.

    \b
    Examples:
      bfpga verify tiny --cases 50
      bfpga verify pynq_z2_dense --against csim:ap_int
      bfpga verify random --arrays 16 --cases 500 --against csim --against csim:ap_int
      bfpga verify random --arrays 8 --cases 80 --against virtual
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.cli import reports, work

    output.check_target(json)
    described = None if accelerator == "random" else load_accelerator(accelerator)
    report = work.verify(described, arrays, against or ["csim"], cases, seed)
    output.write_json(json, reports.verification_report(accelerator, report))
    if report.mismatch is not None:
        raise typer.Exit(1)


@app.command("lint-hls")
def lint_hls(
    sources: Annotated[
        list[str], typer.Argument(help="C++ files, folders, or accelerators to render.", show_default=False)
    ],
    json: Json = None,
) -> None:
    """Check the C++ of kernels against the rules of HLS compilers: pragmas, loops, recursion, allocation, division.

    \b
    Examples:
      bfpga lint-hls pynq_z2_dense
      bfpga lint-hls build/pynq_z2_dense
    """
    from bfpga.cli import reports, work

    output.check_target(json)
    findings = work.lint(sources)
    output.write_json(json, reports.lint_report(findings))
    if findings:
        raise typer.Exit(1)


app.command("position-times")(position_times)
app.command("position-choice")(position_choice)
