"""Commands around a kernel: its HLS project, random tests of its bits, and the rules of HLS compilers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator
from bfpga.cli.options import AcceleratorArgument, Json, ScaleOptions, grouped


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
    parts = (described.name, described.digest, described.config, directory)
    try:
        written = write_project(*parts, kernel_vectors)
    except ToolError as error:
        written = write_project(*parts)
        output.say(f"the testbench has no vectors: {error}")
    output.say(f"HLS project of {described.name} ({described.digest[:12]}) in {written}")


def rtl(
    accelerator: AcceleratorArgument,
    directory: Annotated[
        Path, typer.Option("--output", "-o", help="New directory.", metavar="DIR", show_default=False)
    ],
) -> None:
    """Write the kernel of an accelerator in Verilog, made of its C++ without a vendor's tool.

    A file for each IP, with the names and the ports that C synthesis gives it; fifo.v and clock_counter.v; kernel.v,
    which joins them to the module bfpga_kernel: AXI4-Lite for registers (s_axi_control) and for the clock counter
    (s_axi_counter), AXI4-Stream for input, weights and output, and the interrupt. Clock ap_clk; reset ap_rst_n, active
    low, for one clock or more. How many clocks a network takes: bfpga run --device rtl. The files
    need the packages of bfpga[synthesis] and take about a minute.

    \b
    Examples:
      bfpga rtl tiny --output build/tiny_rtl
      bfpga rtl my.yaml -o build/my_rtl
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.formats.files import check_new_directory, write_directory
    from bfpga.rtl.kernel import KERNEL_MODULE, ips_of, kernel_design

    described = load_accelerator(accelerator)
    check_new_directory(directory, "the Verilog")
    with output.progress(f"Verilog of {described.name}") as progress:
        design = kernel_design(described, ips_of(described, progress))
    files = {name: text.encode() for name, text in design.items()}
    written = write_directory(directory, files, "the Verilog")
    output.say(f"Verilog of {described.name} ({described.digest[:12]}) in {written}, top module {KERNEL_MODULE}")


@grouped
def verify(
    accelerator: Annotated[
        str,
        typer.Argument(
            help="Name of a ready accelerator, a YAML file, or `random`.", show_default=False,
            autocompletion=complete_accelerator,
        ),
    ],
    *,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            help="csim (native integers, the default), csim:ap_int, csim:exact, csim:stalled[:STAGES,...], rtl, "
            "rtl:seed=N, virtual, virtual:cores=N (with N copies of the kernel), or native (the emulator's compiled "
            "layers with every instruction set of this machine); may be repeated.",
        ),
    ] = None,
    cases: Annotated[int, typer.Option("--cases", min=1, help="Number of random networks.")] = 20,
    arrays: Annotated[int, typer.Option("--arrays", min=1, help="With `random`: number of random arrays.")] = 8,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Number the random cases start from.")] = 0,
    json: Json = None,
    scale: ScaleOptions,
) -> None:
    """Random layers on the emulator's engines and on the C simulation of an accelerator: equal, or a difference.

    `random` draws the arrays too: any format, shape, multiplier, rounding and memory size that validate. `virtual`
    is the virtual board, with an overlay of each array and PYNQ between. `csim:stalled` gives every pipelined loop 0 to
    40 stages, drawn for each network: a word leaves so many iterations later, and a loop that waits moves nothing; and
    all streams pause by chance. `csim:stalled:scheduled` gives loops the stages of their schedule. A kernel whose
    processes wait for each other then ends with what each waits for, in which loop. `rtl` is the kernel's
    Verilog, clock by clock; the streams of half of the networks pause by chance, with a seed those of all.

    \b
    Examples:
      bfpga verify tiny --cases 50
      bfpga verify pynq_z2_dense --against csim:ap_int
      bfpga verify random --arrays 16 --cases 500 --against csim --against csim:ap_int
      bfpga verify random --arrays 8 --cases 80 --against virtual
      bfpga verify random --arrays 200 --cases 400 --against csim:stalled
      bfpga verify tiny --against csim:stalled:Array=8,post.Rows=3
      bfpga verify tiny --against csim:stalled:scheduled,pauses
      bfpga verify tiny --against rtl --cases 40
      bfpga verify random --arrays 40 --cases 400 --against native
      bfpga verify random --arrays 40 --cases 4000 --workers 4
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.cli import reports, work
    from bfpga.scale.choice import check_choice

    output.check_target(json)
    check_choice(scale.workers, scale.scheduler)
    described = None if accelerator == "random" else load_accelerator(accelerator)
    with work.opened_workers(scale) as workers:
        report = work.verify(described, arrays, against or ["csim"], cases, seed, workers)
    output.write_json(json, reports.verification_report(accelerator, report))
    if report.mismatch is not None:
        raise typer.Exit(1)


def lint_hls(
    sources: Annotated[
        list[str], typer.Argument(help="C++ files, folders, or accelerators to render.", show_default=False)
    ],
    json: Json = None,
) -> None:
    """Check the C++ of kernels against the rules of HLS compilers: pragmas, loops, memories, recursion, division.

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
