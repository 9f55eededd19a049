"""From an accelerator to the figures of its hardware: front end, schedule, netlist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bfpga.accelerator.clocks import wire_percent
from bfpga.accelerator.loader import Accelerator
from bfpga.engines.interface.beside_kernel import BESIDE
from bfpga.engines.interface.fifos import stream_cells
from bfpga.estimate.hardware import Area, HardwareFigures, IntervalLimit, LoopFigures
from bfpga.synthesis.body import LoopBody, Place
from bfpga.synthesis.delays import technology_of
from bfpga.synthesis.frontend.kernel import analyse_kernel
from bfpga.synthesis.frontend.loops import OUTSIDE
from bfpga.synthesis.kept import sources_digest
from bfpga.synthesis.memories import memories_area
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.synthesis.schedule_types import Limit, Schedule
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.render import top_files

#: Called with (steps done, steps in all).
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with its schedule; what lies outside of the loops has none. ``ip``: number of the IP it belongs to."""

    body: LoopBody
    schedule: Schedule | None
    ip: int = 0


def scheduled_loops(
    accelerator: Accelerator, only: str = "", progress: Progress | None = None, cache: Path | None = None
) -> list[Loop]:
    """The pipelined loops of an accelerator at its clock. ``only``: those with this label.

    Raises:
        ToolError: clang is missing or refuses the kernel.
    """
    analyses = analyse_kernel(accelerator, only, cache)
    bodies = [(ip, body) for ip, analysis in enumerate(analyses) for body in analysis.loops]
    part = accelerator.board.part
    clocks = [clock_of(accelerator, name) for name in ip_names(accelerator)]
    with ProcessPoolExecutor() as pool:
        runs = [
            pool.submit(schedule_loop, body, part, clocks[ip]) if body.name != OUTSIDE else None for ip, body in bodies
        ]
        loops = []
        for (ip, body), run in zip(bodies, runs, strict=True):
            loops.append(Loop(body, run.result() if run is not None else None, ip))
            if progress is not None:
                progress(len(loops), len(bodies))
    return loops


def clock_of(accelerator: Accelerator, part: str = "") -> Clock:
    """The accelerator's clock with the uncertainty that the build states for an IP; ``part``: its name."""
    period = 1000 / accelerator.clock_mhz
    return Clock(period, period * wire_percent(accelerator.board.processing_system, part) / 100)


def synthesize(
    accelerator: Accelerator,
    only: str = "",
    count: bool = True,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> HardwareFigures:
    """Figures of an accelerator's kernel.

    ``only``: the loops with this label; ``count``: with the netlist's cells; ``cache``: directory of what is kept of
    analyses and netlists; ``progress`` hears of every scheduled loop.

    Raises:
        ToolError: clang or Yosys is missing or fails.
    """
    loops = scheduled_loops(accelerator, only, progress, cache)
    figures = [_loop_figures(loop) for loop in loops]
    if count:
        from bfpga.synthesis.count import count_loops

        figures = count_loops(figures, [(loop.body, loop.schedule) for loop in loops], accelerator.board.part, cache)
    clock = clock_of(accelerator)
    part = accelerator.board.part
    names = ip_names(accelerator)
    figures = [replace(figure, ip=names[loop.ip]) for figure, loop in zip(figures, loops, strict=True)]
    memories = {name: _memories(loops, number, part) for number, name in enumerate(names)}
    return HardwareFigures(
        accelerator=accelerator.name,
        part=part,
        sources=sources_digest(accelerator),
        period=clock.period,
        usable=clock.usable,
        loops=tuple(figures),
        memories=sum(memories.values(), Area()),
        infrastructure=Area(lut=BESIDE.lut, ff=BESIDE.ff, bram18=2 * BESIDE.bram36),
        counted=count and not only,
        memories_of=memories,
        streams=_streams(accelerator),
    )


def _streams(accelerator: Accelerator) -> Area:
    lut, stored, ff, halves = stream_cells(accelerator.systolic)
    return Area(lut=lut, lut_memory=stored, ff=ff, bram18=halves)


def ip_names(accelerator: Accelerator) -> list[str]:
    """Names of the IPs in the order of their sources; one that is the whole kernel has none."""
    by_source = {ip.source: ip.part for ip in kernel_ips(accelerator.systolic)}
    return [by_source[source] for source in top_files(accelerator.systolic)]


def _memories(loops: Sequence[Loop], ip: int, part: str) -> Area:
    """Memories of one IP; those of two that are called alike are two."""
    return memories_area((loop.body for loop in loops if loop.ip == ip), technology_of(part))


def _loop_figures(loop: Loop) -> LoopFigures:
    body, schedule = loop.body, loop.schedule
    bits = sum(register.width for register in body.registers)
    if schedule is None:
        return LoopFigures(body.name, "", 0, 0, 0, 0.0, (), len(body.operations), bits, ())
    limits = sorted(schedule.limits, key=lambda limit: -limit.interval)
    return LoopFigures(
        body.name, str(body.place), body.stated_interval, schedule.interval, schedule.depth, round(schedule.slack, 3),
        lines_of(body, schedule.worst), len(body.operations), bits,
        tuple(_limit(body, limit) for limit in limits),
    )  # fmt: skip


def _limit(body: LoopBody, limit: Limit) -> IntervalLimit:
    lines = lines_of(body, limit.cycle)
    return IntervalLimit(
        limit.reason, limit.interval, _subject(limit, lines), round(limit.delay, 3), limit.distance, lines
    )


def _subject(limit: Limit, lines: Sequence[str]) -> str:
    """What a limit is about; values that have no variable of their own are named by where they are computed."""
    if not limit.subject.startswith(".") and not limit.subject[:1].isdigit():
        return limit.subject
    return f"a value carried at {lines[0]}" if lines else "a carried value"


def lines_of(body: LoopBody, operations: Sequence[int]) -> tuple[str, ...]:
    """file:line of operations in their order, each once."""
    places = (body.operations[k].place for k in operations)
    return tuple(dict.fromkeys(str(place) for place in places if _is_known(place)))


def _is_known(place: Place | None) -> bool:
    return place is not None and place.line > 0
