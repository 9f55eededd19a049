"""Stages of Vivado and their gates: block_design, synthesis, utilization, implementation, timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.gates import reachable_mhz, routed_gate, timing_gate, utilization_gate
from bfpga.vendor.bitstream.reports import read_timing, read_utilization
from bfpga.vendor.bitstream.runner import Command
from bfpga.vendor.bitstream.stage import Build, Product, Stage, read_result
from bfpga.vendor.build_scripts import VIVADO_PROJECT


def _command(stage: str) -> Callable[[Build], list[Command]]:
    def commands(build: Build) -> list[Command]:
        return [vivado_command(build, f"{stage}.tcl", stage)]

    return commands


def vivado_command(build: Build, script: str, log: str, part: str = "") -> Command:
    """Vivado with a script. part: of the stage, where several run at the same time."""
    vivado = build.tools.require_vivado()
    options = ("-mode", "batch", "-nojournal", "-nolog", "-source", str(build.script(script)))
    arguments = (str(vivado.path), *options)
    return Command(arguments, build.directory / "logs", build.log(log), build.tools.environment, part)


def _vivado_stage(
    name: str,
    purpose: str,
    finish: Callable[[Build], Product],
    clears: Callable[[Build], list[Path]],
) -> Stage:
    return Stage(
        name,
        purpose,
        finish=finish,
        inputs=lambda build: [build.script_identities[f"{name}.tcl"]],
        tool=lambda build: build.tools.require_vivado(),
        clears=lambda build: [build.paths.result(name), *clears(build)],
        commands=_command(name),
        expected=lambda build: [build.paths.result(name)],
        logs=lambda build: [build.paths.vivado_project],
    )


def _result(build: Build, stage: str) -> dict[str, str]:
    """The script's result; BuildError if it is incomplete or of another part."""
    path, part = build.paths.result(stage), build.design.accelerator.board.part
    result = read_result(path)
    if result.get("status") != "complete":
        raise BuildError("artefact", f"{path} is not complete: the script did not come to its end", path)
    if result.get("part") != part:
        raise BuildError("part", f"Vivado built for {result.get('part')}, the board has {part}: {path}", path)
    return result


def _project(build: Build) -> Path:
    return build.paths.vivado_project / f"{VIVADO_PROJECT}.xpr"


def _block_design(build: Build) -> Product:
    result = _result(build, "block_design")
    board_part = build.design.accelerator.board.board_part
    notes = []
    if result.get("board_part", board_part) != board_part:
        notes.append(f"board files: {result['board_part']} is installed, {board_part} is in the board's file")
    numbers = {
        "clock_hz": float(result["clock_hz"]),
        "board_part": result.get("board_part"),
        "vivado": result["version"],
    }
    return Product([build.paths.result("block_design")], [_project(build)], numbers, notes)


def _synthesis(build: Build) -> Product:
    _result(build, "synthesis")
    artefacts = [build.paths.result("synthesis"), build.paths.reports / "synthesis.txt"]
    return Product(artefacts, [_project(build)])


def _utilization(build: Build) -> Product:
    report = build.paths.reports / "synthesis.txt"
    usage = read_utilization(report)
    utilization_gate(build.design, usage, report)
    return Product(result={name: asdict(item) for name, item in usage.items()})


def _implementation(build: Build) -> Product:
    """Bitstream and handoff are there if, and only if, the script found the timing met."""
    result = _result(build, "implementation")
    reports = [build.paths.reports / name for name in ("implementation.txt", "timing.txt")]
    files = [build.paths.overlay_file("bit"), build.paths.overlay_file("hwh")] if result["timing"] == "met" else []
    missing = [str(path) for path in [*reports, *files] if not path.is_file()]
    if missing:
        raise BuildError(
            "artefact", f"implementation has not written {', '.join(missing)}", build.log("implementation")
        )
    return Product([build.paths.result("implementation"), *reports, *files], result={"timing": result["timing"]})


def _timing(build: Build) -> Product:
    report = build.paths.reports / "timing.txt"
    timing = read_timing(report)
    clock_hz = build.results["block_design"]["clock_hz"]
    timing_gate(build.design, timing, report)
    if build.results["implementation"]["timing"] != "met":
        raise BuildError("timing", f"Vivado says that the timing is missed, its report does not: {report}", report)
    routed = build.paths.reports / "implementation.txt"
    notes = routed_gate(build.design, read_utilization(routed), routed, build.settings.accepted)
    reachable = reachable_mhz(1e9 / clock_hz, timing.wns)
    result = asdict(timing) | {"clock_mhz": clock_hz / 1e6, "reachable_mhz": round(reachable, 3)}
    return Product(result=result, notes=notes)


BLOCK_DESIGN = _vivado_stage(
    "block_design",
    "processing system, DMA, interconnect and kernel, validated",
    _block_design,
    lambda build: [build.paths.vivado_project],
)
SYNTHESIS = _vivado_stage(
    "synthesis", "synthesis of the whole design", _synthesis, lambda build: [build.paths.reports / "synthesis.txt"]
)
UTILIZATION = Stage("utilization", "gate: the design fits into the device", finish=_utilization)
IMPLEMENTATION = _vivado_stage(
    "implementation",
    "placing, routing, bitstream",
    _implementation,
    lambda build: [
        build.paths.overlay,
        build.paths.reports / "implementation.txt",
        build.paths.reports / "timing.txt",
    ],
)
TIMING = Stage(
    "timing",
    "gate: no negative slack, no resource beyond its limit",
    finish=_timing,
    inputs=lambda build: sorted(build.settings.accepted),
)
