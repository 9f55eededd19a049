"""Cells and carried paths of scheduled loops, from their mapped netlists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bfpga.estimate.hardware import Area, LoopFigures
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.netlist.implement import Implementation, implement
from bfpga.synthesis.netlist.mapped import Counts, count, total
from bfpga.synthesis.netlist.verilog import translate
from bfpga.synthesis.netlist.yosys import Family, map_modules
from bfpga.synthesis.schedule_types import Schedule

#: Bits from which the parts of a split register begin, at the end of its name.
_PARTS = re.compile(r"(@\d+)+$")


def family_of(part: str) -> Family:
    """What Yosys calls the family of a part."""
    return "xc7" if part.startswith("xc7") else "xcup"


def count_loops(
    figures: Sequence[LoopFigures],
    loops: Sequence[tuple[LoopBody, Schedule | None]],
    part: str,
    cache: Path | None = None,
) -> list[LoopFigures]:
    """The figures with the cells of each loop, those of its functions, and its carried path.

    Raises:
        ToolError: Yosys is missing or fails.
    """
    scheduled = [(body, schedule) for body, schedule in loops if schedule is not None]
    made = iter(implement(scheduled, family_of(part), cache))
    carried = {_variable(register.name) for body, _ in scheduled for register in body.registers}
    return [
        _implemented(figure, next(made)) if schedule is not None else _outside(figure, body, carried, part, cache)
        for figure, (body, schedule) in zip(figures, loops, strict=True)
    ]


def _implemented(figure: LoopFigures, made: Implementation) -> LoopFigures:
    parts: dict[str, tuple[int, Area]] = {}
    for size in made.functions:
        number, area = parts.get(size.function, (0, Area()))
        parts[size.function] = number + size.instances, area + _area(total([size.each] * size.instances))
    ordered = sorted(parts.items(), key=lambda item: (-item[1][1].lut, item[0]))
    return replace(
        figure,
        area=_area(made.logic),
        carried=round(made.recurrence.period * figure.interval, 2),
        path=round(made.path.delay, 2) if made.path is not None else 0.0,
        carried_by=tuple(dict.fromkeys(end.name.partition("[")[0] for end in made.recurrence.cycle)),
        parts=tuple((name, number, area) for name, (number, area) in ordered),
    )


def _outside(figure: LoopFigures, body: LoopBody, carried: set[str], part: str, cache: Path | None) -> LoopFigures:
    """What is done between the loops: its look-up tables, and the registers that no loop has."""
    design = translate(body, None, loads=False)
    mapped = map_modules(design.modules, family_of(part), cache)
    area = _area(total(count(mapped[instance.module]) for instance in design.instances))
    own = sum(register.width for register in body.registers if _variable(register.name) not in carried)
    return replace(figure, area=replace(area, ff=own))


def _variable(name: str) -> str:
    """A register's variable; what loops carry is counted with them."""
    return _PARTS.sub("", name)


def _area(counts: Counts) -> Area:
    return Area(counts.lut, counts.lut_memory, counts.ff, counts.dsp, counts.bram18 + 2 * counts.bram36, counts.uram)
