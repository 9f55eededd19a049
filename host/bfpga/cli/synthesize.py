"""`bfpga synthesize`: what a kernel's loops are as hardware, without a vendor's tools."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_accelerator
from bfpga.cli.options import Json
from bfpga.errors import ConfigurationError

if TYPE_CHECKING:
    from bfpga.accelerator.boards import Board
    from bfpga.accelerator.loader import Accelerator
    from bfpga.estimate.hardware import Area, HardwareFigures, LoopFigures

#: Recurrences that are shown for a loop that is slower than it states.
_SHOWN_LIMITS = 3
#: Functions that are shown for a loop.
_SHOWN_PARTS = 12


def synthesize(
    accelerator: Annotated[
        str | None,
        typer.Argument(
            help="Name of a ready accelerator or a YAML file.", show_default=False, autocompletion=complete_accelerator
        ),
    ] = None,
    loop: Annotated[
        str, typer.Option("--loop", help="Only the loop with this label, in detail.", show_default=False)
    ] = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Fail where a loop is slower than it states, a path misses the clock, or more than 80 % of a resource "
            "is taken. Without an accelerator: all ready ones of processes.",
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", help="A csynth.xml of the vendor's tool, for comparison.", metavar="FILE", show_default=False
        ),
    ] = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            help="Repeat iterations of each loop as they are in the C simulation: the code against the graph that is "
            "scheduled, the graph against its netlist, bit by bit.",
        ),
    ] = False,
    count: Annotated[
        bool, typer.Option("--count/--no-count", help="Count look-up tables, flip-flops and DSPs (slower).")
    ] = True,
    json: Json = None,
) -> None:
    """Interval, depth, slack and size of every pipelined loop, and the size of every IP, read from the code itself.

    The kernel is compiled by clang with exact widths. Recurrences and memory ports give each loop's interval, a
    schedule at the accelerator's clock its depth and slack, Yosys the cells: of each loop by itself, and of each IP
    in one piece, with all that `bfpga rtl` writes of it. No vendor tool is needed or replaced: where a report of one
    differs, the report is right.

    \b
    Examples:
      bfpga synthesize pynq_z2_dense
      bfpga synthesize tiny --loop Array
      bfpga synthesize tiny --check
      bfpga synthesize pynq_z2_dense --against build/hls/solution/syn/report/csynth.xml
    """
    from bfpga.accelerator.loader import accelerator_names, load_accelerator
    from bfpga.estimate.hardware import findings

    output.check_target(json)
    if accelerator is None and not check:
        raise ConfigurationError(
            "which accelerator? `bfpga accelerators` lists them; --check alone checks all ready ones"
        )
    names = [accelerator] if accelerator is not None else accelerator_names()
    if prove:
        for name in names:
            _show_proofs(load_accelerator(name), loop)
        return
    contents, failed = [], False
    for name in names:
        described = load_accelerator(name)
        figures = figures_of(described, loop, count)
        found = findings(figures, described.board.resources)
        show(figures, described.board, loop)
        if against is not None:
            _show_against(figures, against)
        for finding in found:
            output.say(f"- {finding}")
        failed = failed or bool(found)
        contents.append({**asdict(figures), "findings": found})
    output.write_json(json, contents[0] if accelerator is not None else {"accelerators": contents})
    if check and failed:
        raise typer.Exit(1)


def figures_of(accelerator: Accelerator, loop: str, count: bool) -> HardwareFigures:
    """Figures of an accelerator: kept ones where there are, else made now and kept."""
    from bfpga.formats.cache import cache_directory
    from bfpga.rtl.whole import synthesize_whole
    from bfpga.synthesis.driver import synthesize
    from bfpga.synthesis.kept import keep_figures, kept_figures, packaged_records

    cache = cache_directory("synthesis")
    if count and not loop and (known := kept_figures(accelerator, cache)) is not None:
        return known
    present = packaged_records(accelerator)
    with output.progress(f"synthesis of {accelerator.name}") as progress:
        if count and not loop:
            figures = synthesize_whole(accelerator, cache / "netlists", progress, present)
        else:
            figures = synthesize(accelerator, loop, count, cache / "netlists", progress)
    if loop and not figures.loops:
        raise ConfigurationError(f"{accelerator.name} has no pipelined loop with the label {loop}")
    if figures.counted:
        keep_figures(figures, accelerator, cache)
    return figures


def show(figures: HardwareFigures, board: Board, loop: str) -> None:
    """Print the loops, and for one loop or slow ones what limits them."""
    headers = ["loop", "at", "II stated", "II", "depth", "slack ns", "carried ns", "LUT", "FF", "DSP"]
    rows = [_row(one) for one in figures.loops]
    title = f"{figures.accelerator} on {figures.part} at {figures.period:.2f} ns, {figures.usable:.2f} ns usable"
    output.table(title, headers, rows, dropped=["FF", "DSP", "LUT", "at", "carried ns", "II stated"])
    for one in figures.loops:
        if loop or one.is_slow:
            _show_limits(one)
        if loop:
            _show_parts(one)
    if figures.counted:
        _show_ips(figures)
        _show_total(figures, board)


def _row(loop: LoopFigures) -> tuple[object, ...]:
    area = loop.area
    carried = f"{loop.carried:.1f}" if loop.carried else "-"
    return (
        loop.name, loop.place, loop.stated_interval, loop.interval, loop.depth, f"{loop.slack:.2f}", carried,
        area.tables, area.ff, area.dsp,
    )  # fmt: skip


def _show_limits(loop: LoopFigures) -> None:
    for limit in loop.limits[:_SHOWN_LIMITS]:
        if limit.interval > loop.stated_interval:
            what = f"{limit.delay:.1f} ns over {limit.distance}" if limit.reason == "recurrence" else "its ports"
            output.say(f"{loop.name}: interval {limit.interval} by {limit.subject} ({what}):")
            output.say("    " + " -> ".join(limit.lines))


def _show_parts(loop: LoopFigures) -> None:
    rows = [(name, number, a.tables, a.ff, a.dsp) for name, number, a in loop.parts[:_SHOWN_PARTS]]
    if rows:
        output.table(f"functions of {loop.name}", ["function", "instances", "LUT", "FF", "DSP"], rows)


def _show_ips(figures: HardwareFigures) -> None:
    rows: list[tuple[object, ...]] = []
    ultra = any(ip.area.uram for ip in figures.ips)
    for ip in figures.ips:
        area = ip.area
        blocks = (area.bram36, area.uram) if ultra else (area.bram36,)
        rows.append((ip.name, area.tables, area.ff, area.dsp, *blocks, ip.loops.tables, f"{ip.path:.1f}"))
    memories = ["BRAM36", "URAM"] if ultra else ["BRAM36"]
    headers = ["IP", "LUT", "FF", "DSP", *memories, "LUT of loops alone", "longest path ns"]
    if rows:
        output.table(f"IPs, {how_counted(figures)}", headers, rows)


def how_counted(figures: HardwareFigures) -> str:
    """What the cells of a kernel's IPs are."""
    parts = [ip.name for ip in figures.ips if not ip.is_whole]
    if not parts:
        return "each mapped in one piece"
    return f"of {', '.join(parts)} loops and memories alone, the others each mapped in one piece"


def _show_total(figures: HardwareFigures, board: Board) -> None:
    from bfpga.engines.kernel.counted_resources import STREAMS
    from bfpga.estimate.hardware import kinds_of

    def row(name: str, area: Area) -> tuple[object, ...]:
        return name, *(area.used[kind] for kind in limits)

    limits = board.resources
    total = figures.total
    used = total.used
    alone = [] if figures.ips else [*(row(f"loop {loop.name}", loop.area) for loop in figures.loops),
                                    row("memories", figures.memories)]  # fmt: skip
    rows: list[tuple[object, ...]] = [
        *(row(ip.name, ip.area) for ip in figures.ips),
        *alone,
        *([row(STREAMS, figures.streams)] if figures.ips else []),
        *([row(f"{figures.cores} kernels", figures.kernel.times(figures.cores))] if figures.cores > 1 else []),
        row("interconnect, DMAs (assumed)", figures.infrastructure),
        row("total", total),
        (board.title, *limits.values()),
        ("used", *(output.percent(used[kind], limit) for kind, limit in limits.items())),
    ]  # fmt: skip
    output.table("resources, counted by Yosys", ["part", *kinds_of(limits).values()], rows)


def _show_proofs(accelerator: Accelerator, loop: str) -> None:
    from bfpga.synthesis.prove import Proof
    from bfpga.synthesis.prove import prove as proofs_of
    from bfpga.verify.traffic import kernel_traffic
    from bfpga.verify.vectors import kernel_vectors

    def report(proof: Proof) -> None:
        netlist = f", {proof.netlist} of them by the netlist" if proof.netlist else ""
        output.say(f"{proof.loop}: {proof.iterations} iterations as the code{netlist}")

    output.say(f"{accelerator.name}: loops on what passed the streams in the C simulation of random networks")
    traffic = kernel_traffic(accelerator, kernel_vectors(accelerator.config))
    proofs_of(accelerator, traffic, loop, on_proof=report)


def _show_against(figures: HardwareFigures, report: Path) -> None:
    """A vendor's report next to the figures, loop by loop."""
    from bfpga.vendor.csynth_report import read_csynth_report

    theirs = read_csynth_report(report).loops
    rows: list[tuple[object, ...]] = []
    for loop in figures.loops:
        other = next((reported for reported in theirs if reported.has_label(loop.name)), None)
        interval, depth = (other.interval, other.depth) if other is not None else (None, None)
        rows.append((loop.name, loop.interval, interval or "-", loop.depth, depth or "-"))
    output.table(f"against {report}", ["loop", "II", "II of the report", "depth", "depth of the report"], rows)
