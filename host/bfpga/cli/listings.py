"""Commands that say what there is: boards, accelerators, operators, the schema of files, and this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.options import Json


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
    output.table("Boards", headers, rows, dropped=["part", "PYNQ", "URAM", "GB/s*", "title", "MHz"])
    output.say("* assumed memory rate, not measured; see the board's file. A new board is one YAML file.")
    output.write_json(json, {"boards": [asdict(board) for board in known]})


def accelerators(json: Json = None) -> None:
    """List the ready accelerators.

    \b
    Example:
      bfpga accelerators
    """
    from bfpga.accelerator.loader import accelerator_names, load_accelerator
    from bfpga.cli import reports
    from bfpga.engines.configurations import config_to_dict

    output.check_target(json)
    ready = [load_accelerator(name) for name in accelerator_names()]
    rows = [
        (a.name, a.board.name, a.clock_mhz, a.config.format.mantissa_bits, reports.kernels_text(a),
         a.config.multiplier, a.cores * a.config.macs_per_clock, f"{'demonstrator: ' * a.demonstrator}{a.description}")
        for a in ready
    ]  # fmt: skip
    headers = ["accelerator", "board", "MHz", "bits", "array*", "multiplier", "MAC/cycle", "purpose"]
    output.table("Ready accelerators", headers, rows, dropped=["multiplier", "purpose", "board", "bits"])
    arrays = "columns x rows x lanes, of a skip array groups x pixels"
    output.say(f"* {arrays}; MAC/cycle is that of the systolic array where there are two arrays.")
    slower = ", ".join(f"{a.name} {a.first_light_mhz:g} MHz" for a in ready if a.first_light_mhz)
    if slower:
        output.say(f"NAME_first_light is an accelerator at a slower clock, for the first start on a board: {slower}.")
    content = [
        {"name": a.name, "board": a.board.name, "clock_mhz": a.clock_mhz, "digest": a.digest, "path": str(a.path),
         "first_light_mhz": a.first_light_mhz, "systolic": config_to_dict(a.config),
         "engines": reports.engine_operations(a.config), "demonstrator": a.demonstrator,
         **({"cores": a.cores} if a.cores > 1 else {})}
        for a in ready
    ]  # fmt: skip
    output.write_json(json, {"accelerators": content})


def operators(json: Json = None) -> None:
    """List the ONNX operators: which the array computes and when, which the host, which are refused.

    \b
    Example:
      bfpga operators
    """
    from bfpga.compiler.lower.operator_table import operator_rows

    output.check_target(json)
    rows = list(operator_rows())
    output.table("Operators", ["operator", "computed by", "how, and when"], rows)
    names = [{"operators": name.split(", "), "computed_by": where, "how": how} for name, where, how in rows]
    output.write_json(json, {"operators": names})


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


def doctor(json: Json = None) -> None:
    """Say what this machine can do, which extras of the package work, what is missing, what for, and how to get it.

    \b
    Example:
      bfpga doctor
    """
    from dataclasses import asdict

    from bfpga.cli.doctor import examine, extras

    output.check_target(json)
    checks = examine()
    rows = [(c.name, "yes" if c.found else "no", c.detail, c.needed_for) for c in checks]
    output.table("This machine", ["tool", "found", "version or place", "needed for"], rows)
    found = extras(checks)
    output.table("Extras", ["extra", "works", "why not"], found)
    for check in checks:
        if not check.found:
            output.say(f"{check.name}: {check.remedy}")
    if not all(works for _, works, _ in found):
        output.say("all extras at once: pip install 'bfpga[all]'")
    working = {extra: works for extra, works, _ in found}
    output.write_json(json, {"checks": [asdict(check) for check in checks], "extras": working})
    if any(check.required and not check.found for check in checks):
        raise typer.Exit(1)
