"""From an accelerator to the figures of its hardware: front end, schedule, netlist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.estimate.hardware import Area, HardwareFigures, IntervalLimit, LoopFigures
from bfpga.synthesis.body import LoopBody, Place
from bfpga.synthesis.delays import technology_of
from bfpga.synthesis.frontend.kernel import analyse_kernel
from bfpga.synthesis.frontend.loops import OUTSIDE
from bfpga.synthesis.ip_figures import IpRecord, kernel_figures
from bfpga.synthesis.kept import Compiled, sources_by_ip
from bfpga.synthesis.memories import memories_area
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.synthesis.schedule_types import Limit, Schedule

#: Called with (steps done, steps in all).
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with its schedule; what is outside of the loops has none. ``ip``: number of the IP it belongs to."""

    body: LoopBody
    schedule: Schedule | None
    ip: int = 0


def scheduled_loops(
    accelerator: Accelerator,
    only: str = "",
    progress: Progress | None = None,
    cache: Path | None = None,
    leave: Collection[str] = (),
) -> list[Loop]:
    """The pipelined loops of an accelerator at its clock. ``only``: those with this label; ``leave``: not of these IPs.

    Raises:
        ToolError: clang is missing or refuses the kernel.
    """
    analyses = analyse_kernel(accelerator, only, cache, leave)
    bodies = [(ip, body) for ip, analysis in enumerate(analyses) for body in analysis.loops]
    part = accelerator.board.part
    clocks = [clock_of(accelerator, name) for name in sources_by_ip(accelerator)]
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
    return Clock(period, period * accelerator.wire_percent(part) / 100)


def synthesize(
    accelerator: Accelerator,
    only: str = "",
    count: bool = True,
    cache: Path | None = None,
    progress: Progress | None = None,
    known: Mapping[str, IpRecord] | None = None,
) -> HardwareFigures:
    """Figures of the loops of an accelerator's kernel; those of whole IPs are made by `rtl.whole`.

    ``only``: the loops with this label; ``count``: with the netlist's cells; ``cache``: directory of what is kept of
    analyses and netlists; ``progress`` hears of every scheduled loop; ``known``: IPs whose figures are there.

    Raises:
        ToolError: clang or Yosys is missing or fails.
    """
    known = known or {}
    loops = scheduled_loops(accelerator, only, progress, cache, known.keys())
    scheduled = [(loop.ip, loop.body, loop.schedule) for loop in loops if loop.schedule is not None]
    figures = [_loop_figures(body, schedule) for _, body, schedule in scheduled]
    part = accelerator.board.part
    if count:
        from bfpga.synthesis.count import count_loops

        figures = count_loops(figures, [(body, schedule) for _, body, schedule in scheduled], part, cache)
    ips = {}
    for number, (name, sources) in enumerate(Compiled.of(accelerator).digests.items()):
        own = tuple(figure for figure, (ip, _, _) in zip(figures, scheduled, strict=True) if ip == number)
        ips[name] = known.get(name) or IpRecord(name, sources, _memories(loops, number, part), own)
    return kernel_figures(accelerator, ips, count and not only)


def _memories(loops: Sequence[Loop], ip: int, part: str) -> Area:
    """Memories of one IP; those of two that are called alike are two."""
    return memories_area((loop.body for loop in loops if loop.ip == ip), technology_of(part))


def _loop_figures(body: LoopBody, schedule: Schedule) -> LoopFigures:
    bits = sum(register.width for register in body.registers)
    slow = (limit for limit in schedule.limits if limit.interval > body.stated_interval)
    limits = sorted(slow, key=lambda limit: -limit.interval)
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
