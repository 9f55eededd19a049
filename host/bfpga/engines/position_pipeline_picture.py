"""A table and a picture of both sides of a pipeline over layers (FP R41); the picture needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bfpga.engines.drawing import empty_figure
from bfpga.engines.position_pipeline import StageTimes
from bfpga.engines.position_pipeline_events import PipelineRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCHES = (9.0, 2.6)
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


def draw_timeline(layers: Sequence[str], run: PipelineRun, unit: str = "microseconds") -> Figure:
    """Both sides as bars, a layer a colour. FP R41. ``ToolError`` without matplotlib."""
    figure = empty_figure(INCHES)
    axes = figure.subplots()
    for span in run.spans:
        row = _ROWS[span.side]
        axes.barh(row, span.end - span.begin, left=span.begin, color=f"C{span.layer % 10}", edgecolor="white")
        if span.side == "main":
            axes.text((span.begin + span.end) / 2, row, layers[span.layer], ha="center", va="center", fontsize="small")
    axes.set_yticks(list(_ROWS.values()), list(_ROWS))
    axes.set_xlabel(unit)
    return figure
