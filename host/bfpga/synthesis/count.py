"""Cells of scheduled loops, counted in their mapped netlists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bfpga.estimate.hardware import Area, LoopFigures
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.netlist.mapped import Counts, MappedModule, count
from bfpga.synthesis.netlist.verilog import Design, translate
from bfpga.synthesis.netlist.yosys import Family, map_modules
from bfpga.synthesis.schedule_types import Schedule


def family_of(part: str) -> Family:
    """What Yosys calls the family of a part."""
    return "xc7" if part.startswith("xc7") else "xcup"


def count_loops(
    figures: Sequence[LoopFigures],
    loops: Sequence[tuple[LoopBody, Schedule | None]],
    part: str,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[LoopFigures]:
    """The figures with the cells of each loop and of its functions.

    Raises:
        ToolError: Yosys is missing or fails.
    """
    pipelined = [body for body, schedule in loops if schedule is not None]
    carried = {_variable(register.name) for body in pipelined for register in body.registers}
    designs = [translate(body, schedule) for body, schedule in loops]
    modules = {name: text for design in designs for name, text in design.modules.items()}
    mapped = map_modules(modules, family_of(part), cache)
    counted = []
    for done, (figure, design, (body, schedule)) in enumerate(zip(figures, designs, loops, strict=True), 1):
        parts = _parts(design, mapped)
        area = sum((area for _, _, area in parts), Area())
        if schedule is None:
            own = (r.width for r in body.registers if _variable(r.name) not in carried)
            area = replace(area, ff=sum(own))
        counted.append(replace(figure, area=area, parts=parts))
        if progress is not None:
            progress(done, len(designs))
    return counted


def _variable(name: str) -> str:
    """A register's variable, without the bit from which a part of it begins: what loops carry is counted with them."""
    return re.sub(r"(\.\d+)+$", "", name)


def _parts(design: Design, mapped: Mapping[str, MappedModule]) -> tuple[tuple[str, int, Area], ...]:
    """Functions of a loop, largest first: how many instances and the cells of all."""
    areas = {name: _area(count(mapped[name])) for name in {instance.module for instance in design.instances}}
    found: dict[str, tuple[int, Area]] = {}
    for instance in design.instances:
        number, area = found.get(instance.function, (0, Area()))
        found[instance.function] = number + 1, area + areas[instance.module]
    ordered = sorted(found.items(), key=lambda item: (-item[1][1].lut, item[0]))
    return tuple((function, number, area) for function, (number, area) in ordered)


def _area(counts: Counts) -> Area:
    return Area(counts.lut, counts.lut_memory, counts.ff, counts.dsp, counts.bram18 + 2 * counts.bram36, counts.uram)
