"""The front as a picture: time against energy, lost accuracy as colour; needs matplotlib."""

from __future__ import annotations

import io
from typing import Any

from bfpga.engines.drawing import empty_figure
from bfpga.explore.figures import Point
from bfpga.explore.search import Exploration

SIZE = (7.0, 4.6)
FAINT, READY, LINE = "#b8b8b8", "#c03030", "#305080"
#: Points further than this many times from the front are left out of the picture.
FAR = 4.0


def draw(axes: Any, found: Exploration) -> None:
    """Everything that was tried, the ready accelerators and the front on one pair of axes."""
    goal, best = found.task.goal, found.front
    if not best:
        axes.text(0.5, 0.5, "no point fits", ha="center", transform=axes.transAxes)
        return

    def places(points: list[Point]) -> tuple[list[float], list[float]]:
        return [1e6 * goal.time(point.figures) for point in points], [1e3 * point.figures.joules for point in points]

    limit = FAR * max(goal.time(point.figures) for point in best)
    near = [point for point in found.points if goal.time(point.figures) <= limit]
    ready = [point for point in near if point.candidate.origin]
    axes.scatter(*places([point for point in near if not point.candidate.origin]), s=9, c=FAINT, label="tried")
    fitting = [point for point in ready if goal.accepts(point)]
    others = [point for point in ready if point not in fitting]
    axes.scatter(*places(fitting), s=42, marker="D", facecolors="none", edgecolors=READY, label="ready accelerators")
    axes.scatter(*places(others), s=36, marker="x", c=READY, label="ready, too large or inexact")
    for point, x, y in zip(ready, *places(ready), strict=True):
        axes.annotate(
            point.candidate.origin, (x, y), xytext=(6, -3), textcoords="offset points", fontsize=7, color=READY
        )
    losses = [max(point.figures.loss or 0.0, 0.0) for point in best]
    ordered = sorted(best, key=lambda point: goal.time(point.figures))
    axes.plot(*places(ordered), color=LINE, linewidth=0.8, zorder=2)
    drawn = axes.scatter(
        *places(best), s=46, c=losses, cmap="viridis", vmin=0, vmax=max(goal.drop, 1e-3), zorder=3,
        edgecolors="black", linewidths=0.6, label="front",
    )  # fmt: skip
    axes.figure.colorbar(drawn, ax=axes, label="points of accuracy lost")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
        axis.set_tick_params(which="both", labelsize=7)
    axes.set_xlabel("us a sample alone" if goal.objective == "latency" else "us a sample")
    axes.set_ylabel("mJ a sample")
    axes.set_title(f"{found.task.network.name} on {found.task.board.title}", fontsize="medium")
    axes.legend(fontsize=7, loc="upper left")


def svg(*found: Exploration) -> bytes:
    """The fronts beside each other; the same bytes for the same searches. ToolError without matplotlib."""
    figure = empty_figure((SIZE[0] * len(found), SIZE[1]))
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "bfpga", "svg.fonttype": "none"}):
        for axes, one in zip(figure.subplots(1, len(found), squeeze=False)[0], found, strict=True):
            draw(axes, one)
        picture = io.BytesIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()
