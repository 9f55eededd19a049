"""A table and a picture of both sides of a pipeline over layers (FP R41); the picture needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bfpga.engines.drawing import empty_figure
from bfpga.engines.positions.pipeline import StageTimes
from bfpga.engines.positions.pipeline_events import PipelineRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCHES = (9.0, 2.6)
#: Share of the whole from which a bar has room for its layer's number.
NUMBERED = 0.015
_ROWS = {"preceding": 1, "main": 0}


def timeline_table(layers: Sequence[str], times: StageTimes, run: PipelineRun) -> str:
    """Markdown: times of every layer on both sides and when each side ends it; the makespan against the main work."""
    ends = {side: [span.end for span in run.spans if span.side == side] for side in _ROWS}
    rows = zip(layers, times.preceding, times.main, ends["preceding"], ends["main"], strict=True)
    lines = ["| layer | p | m | p ends | m ends |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(f'{number:.2f}' for number in numbers)} |" for name, *numbers in rows]
    alone = sum(times.main)
    return "\n".join(
        [*lines, f"| main alone / makespan | | {alone:.2f} | | {run.makespan:.2f} (+{run.makespan / alone - 1:.1%}) |"]
    )


def draw_timeline(run: PipelineRun, unit: str = "microseconds") -> Figure:
    """Both sides as bars, each layer with its number and colour. FP R41. ``ToolError`` without matplotlib."""
    figure = empty_figure(INCHES)
    axes = figure.subplots()
    for span in run.spans:
        row, width = _ROWS[span.side], span.end - span.begin
        axes.barh(row, width, left=span.begin, color=f"C{span.layer % 10}", edgecolor="white", linewidth=0.5)
        if width > NUMBERED * run.makespan:
            axes.text(span.begin + width / 2, row, str(span.layer + 1), ha="center", va="center")
    axes.set_yticks(list(_ROWS.values()), list(_ROWS))
    axes.set_xlabel(unit)
    return figure
