"""`bfpga check-tcl`: the scripts of the vendor's tools, run in tclsh, against golden scripts."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator
from bfpga.cli.options import Json

#: Folder that the checked scripts name; nothing is read or written there.
BUILD_FOLDER = Path("/build")


def check_tcl(
    accelerators: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of ready accelerators or YAML files.", show_default=False, autocompletion=complete_accelerator
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every ready accelerator.")] = False,
    json: Json = None,
) -> None:
    """Check the scripts for HLS and Vivado without these tools: they run in tclsh, and all that they call is compared.

    An accelerator is checked on its board and on every other board of the family that holds it, with the scripts for
    Vitis HLS and those of `bfpga build --hls own`.

    \b
    Examples:
      bfpga check-tcl pynq_z2_dense
      bfpga check-tcl --all --json findings.json
    """
    from bfpga.accelerator.loader import accelerator_names
    from bfpga.vendor.tcl_check import format_findings

    if every == bool(accelerators):
        raise typer.BadParameter("give accelerators, or --all")
    output.check_target(json)
    checks = [check for name in accelerators or accelerator_names() for check in _checks(name)]
    headers = ["accelerator", "board", "scripts", "ms a script", "findings"]
    rows = [
        (c["accelerator"], c["board"], c["scripts"], 1e3 * c["seconds"] / c["scripts"], len(c["findings"]))
        for c in checks
    ]
    output.table("Scripts of the vendor's tools", headers, rows)
    for check in checks:
        if check["findings"]:
            output.say(f"{check['accelerator']} on {check['board']}:\n{format_findings(check['findings'])}\n")
    count = sum(len(check["findings"]) for check in checks)
    output.say(f"{count} findings in {sum(check['scripts'] for check in checks)} scripts")
    content = [check | {"findings": [asdict(finding) for finding in check["findings"]]} for check in checks]
    output.write_json(json, {"checks": content})
    if count:
        raise typer.Exit(1)


def _checks(name: str) -> list[dict[str, Any]]:
    """The checks of an accelerator, one for each board."""
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.accelerator.variants import fitting_boards, on_board
    from bfpga.vendor.block_design import block_design
    from bfpga.vendor.build_scripts import ScriptOptions, ScriptPaths, render_scripts
    from bfpga.vendor.tcl_check import check_scripts

    accelerator = load_accelerator(name)
    paths = ScriptPaths(sources=BUILD_FOLDER / "kernel", build=BUILD_FOLDER)
    checks = []
    for board in fitting_boards(accelerator):
        start = time.perf_counter()
        design = block_design(on_board(accelerator, board))
        scripts: dict[str, str] = {}
        findings = []
        for options in (ScriptOptions(hls="vitis"), ScriptOptions(hls="own")):
            others = {
                name: text
                for name, text in render_scripts(design, paths, 1, options).items()
                if scripts.get(name) != text
            }
            findings += check_scripts(design, others, paths, 1, options)
            scripts |= others
        seconds = time.perf_counter() - start
        checks.append(
            {
                "accelerator": accelerator.name,
                "board": board.name,
                "scripts": len(scripts),
                "seconds": seconds,
                "findings": findings,
            }
        )
    return checks
