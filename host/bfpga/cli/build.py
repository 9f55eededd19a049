"""`bfpga build`: from an accelerator to an overlay with bitstream, where Vivado is installed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator
from bfpga.cli.options import Json, ScaleOptions, grouped

if TYPE_CHECKING:
    from bfpga.vendor.build_scripts import Hls


@grouped
def build(
    accelerators: Annotated[
        list[str],
        typer.Argument(
            help="Names of ready accelerators or YAML files.", show_default=False, autocompletion=complete_accelerator
        ),
    ],
    *,
    until: Annotated[
        str | None, typer.Option(help="Last stage to run; default: all.", metavar="STAGE", show_default=False)
    ] = None,
    redo_from: Annotated[
        str | None,
        typer.Option(
            "--from", help="Do this stage and all after it again although nothing has changed.", metavar="STAGE"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Processes of Vivado, and IPs synthesised at once.")] = min(
        4, os.cpu_count() or 1
    ),
    timeout: Annotated[float, typer.Option(min=0.0001, help="Hours that one stage may take.", metavar="HOURS")] = 12.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Render, and show what would be run; needs no vendor tool.")
    ] = False,
    directory: Annotated[Path, typer.Option(help="Where builds are kept.", metavar="DIR")] = Path("build"),
    overlays: Annotated[Path, typer.Option(help="Where finished overlays go.", metavar="DIR")] = Path("overlays"),
    hls: Annotated[
        str,
        typer.Option(
            help="vitis: C synthesis by Vitis HLS. own: the Verilog that bfpga makes of the kernel (bfpga rtl), Vivado "
            "alone; no Vivado has read it yet.",
            metavar="WHO",
        ),
    ] = "vitis",
    hls_flow: Annotated[
        str,
        typer.Option(
            help="Of --hls vitis: vitis_hls, vitis-run, v++, or auto: the first that is found.", metavar="FLOW"
        ),
    ] = "auto",
    vivado_version: Annotated[
        str | None, typer.Option(help="Version of the tools, if several are installed.", metavar="VERSION")
    ] = None,
    board_files: Annotated[
        Path | None, typer.Option(help="Folder with board files that Vivado lacks.", metavar="DIR")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            help="Go on although this gate fails: a loop's name, a resource (lut, ff, dsp, bram18, bram36, uram) or "
            "clock. May be given several times.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    json: Json = None,
    scale: ScaleOptions,
) -> None:
    """Build overlays of accelerators: render, simulate, synthesise, check, implement, check, package.

    Stages that are done are kept; after a failure, an interruption or a change, the same command continues at the
    first stage that has to be done. Without Vivado the stages up to its first use are run. Several accelerators are
    built one after the other, or with --workers or --scheduler one on each worker at a time; workers of a scheduler
    that have Vivado are started with --resources vivado=1.

    \b
    Stages: render, csim, tcl_check, hls, hls_check, ip_check, block_design, synthesis,
            utilization, implementation, timing, package

    \b
    Examples:
      bfpga build pynq_z2_dense
      bfpga build pynq_z2_dense --dry-run
      bfpga build my_accelerator.yaml --until utilization --jobs 2 --timeout 6
      bfpga build pynq_z2_dense --from implementation --vivado-version 2022.1
      bfpga build pynq_z2_dense --accept Array
      bfpga build tiny --hls own
      bfpga build pynq_z2_dense zcu104_dense kv260_dense --scheduler tcp://farm:8786

    \b
    Exit code: 0 done, 1 a stage failed, 2 wrong use, 3 a tool is missing, 130 interrupted. Of several builds, the
    first of 1 and 3 that is the code of any.
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.api.building import BuildPlan
    from bfpga.cli import build_several
    from bfpga.scale.choice import check_choice

    output.check_target(json)
    check_choice(scale.workers, scale.scheduler)
    last = "render" if dry_run else until
    plan = BuildPlan(
        last, redo_from, jobs, timeout, directory, overlays, hls_flow, vivado_version, board_files, accept or (),
        cast("Hls", hls),
    )
    orders = [plan.order(described) for described in map(load_accelerator, dict.fromkeys(accelerators))]
    build_several.check(orders)
    if dry_run or (scale.workers is None and scale.scheduler is None):
        code = build_several.build_here(orders, dry_run, json)
    else:
        code = build_several.build_on_workers(orders, scale, json)
    raise typer.Exit(code)
