"""Cells and carried paths of scheduled loops, from their mapped netlists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bfpga.estimate.hardware import Area, LoopFigures
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.netlist.implement import Implementation, implement
from bfpga.synthesis.netlist.mapped import Counts, total
from bfpga.synthesis.netlist.yosys import Family
from bfpga.synthesis.schedule_types import Schedule


def family_of(part: str) -> Family:
    """What Yosys calls the family of a part."""
    return "xc7" if part.startswith("xc7") else "xcup"


def count_loops(
    figures: Sequence[LoopFigures],
    loops: Sequence[tuple[LoopBody, Schedule]],
    part: str,
    cache: Path | None = None,
) -> list[LoopFigures]:
    """The figures with the cells of each loop, those of its functions, and its carried path.

    Raises:
        ToolError: Yosys is missing or fails.
    """
    made = implement(loops, family_of(part), cache)
    return [_implemented(figure, each) for figure, each in zip(figures, made, strict=True)]


def _implemented(figure: LoopFigures, made: Implementation) -> LoopFigures:
    parts: dict[str, tuple[int, Area]] = {}
    for size in made.functions:
        number, area = parts.get(size.function, (0, Area()))
        parts[size.function] = number + size.instances, area + area_of(total([size.each] * size.instances))
    ordered = sorted(parts.items(), key=lambda item: (-item[1][1].lut, item[0]))
    return replace(
        figure,
        area=area_of(made.logic),
        carried=round(made.recurrence.period * figure.interval, 2),
        path=round(made.path.delay, 2) if made.path is not None else 0.0,
        carried_by=tuple(dict.fromkeys(end.name.partition("[")[0] for end in made.recurrence.cycle)),
        parts=tuple((name, number, area) for name, (number, area) in ordered),
    )


def area_of(counts: Counts) -> Area:
    """Cells as figures have them: memory blocks in halves."""
    return Area(counts.lut, counts.lut_memory, counts.ff, counts.dsp, counts.bram18 + 2 * counts.bram36, counts.uram)
