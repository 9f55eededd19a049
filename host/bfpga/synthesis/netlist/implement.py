"""Scheduled loops as hardware of a device family: how large each is, by function, and how fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.netlist.cell_arcs import net_graph
from bfpga.synthesis.netlist.mapped import Counts, MappedModule, count, total
from bfpga.synthesis.netlist.timing import Path as TimingPath
from bfpga.synthesis.netlist.timing import RecurrenceClock, longest_path, recurrence_clock
from bfpga.synthesis.netlist.verilog import Design, translate
from bfpga.synthesis.netlist.yosys import Family, map_modules
from bfpga.synthesis.schedule_types import Schedule


@dataclass(frozen=True, slots=True)
class FunctionSize:
    """Resources of one function of the source in a loop; equal instances of it, as "12 x 2,859", are distinguished."""

    function: str
    instances: int
    each: Counts


@dataclass(frozen=True, slots=True)
class Implementation:
    """A loop as mapped hardware. ``logic``: its cells without memories, which several loops share.

    ``path``: the longest between two registers; ``recurrence``: the clock that no pipeline of it can beat.
    """

    design: Design
    logic: Counts
    functions: tuple[FunctionSize, ...]
    path: TimingPath | None
    recurrence: RecurrenceClock


def implement(
    loops: Sequence[tuple[LoopBody, Schedule | None]],
    family: Family = "xc7",
    cache: Path | None = None,
    processes: int | None = None,
    timeout: float = 1200.0,
) -> list[Implementation]:
    """Map loops, all of their parts at once; a loop without a schedule is one cycle an iteration.

    ``cache``, ``processes`` and ``timeout`` as `map_modules` takes them. ToolError if Yosys is missing or fails.
    """
    designs = [translate(body, schedule, loads=False) for body, schedule in loops]
    modules = {name: text for design in designs for name, text in design.modules.items()}
    mapped = map_modules(modules, family, cache, processes, timeout)
    counts = {name: count(module) for name, module in mapped.items()}
    return [_implementation(design, mapped, counts, family) for design in designs]


def _implementation(
    design: Design, mapped: dict[str, MappedModule], counts: dict[str, Counts], family: Family
) -> Implementation:
    graph = net_graph(design, mapped, family)
    return Implementation(
        design,
        total(counts[instance.module] for instance in design.instances),
        _functions(design, counts),
        longest_path(graph),
        recurrence_clock(graph, design.pipeline.interval),
    )


def _functions(design: Design, counts: dict[str, Counts]) -> tuple[FunctionSize, ...]:
    """Equal modules of a function together, those with the most look-up tables first."""
    found = Counter((instance.function, instance.module) for instance in design.instances)
    sizes = [FunctionSize(function, number, counts[module]) for (function, module), number in found.items()]
    return tuple(sorted(sizes, key=lambda size: (-size.instances * size.each.lut, size.function)))
