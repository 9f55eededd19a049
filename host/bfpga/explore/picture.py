"""The front as Vega-Lite charts: time against energy and against lost accuracy; alone also as a picture."""

from __future__ import annotations

from typing import Any

from bfpga.explore.figures import Point
from bfpga.explore.search import Exploration
from bfpga.explore.tables import HEADINGS, table_row
from bfpga.report.page import Spec, svg
from bfpga.report.theme import BLUE, GREY, OCHRE, RED, chart, hint, number, standalone

HEIGHT = 340
#: Points further than this many times from the front are left out of the charts.
FAR = 4.0
TRIED, READY, UNFIT, FRONT = KINDS = ("tried", "ready accelerators", "ready, unfit", "front")
_COLOURS = (GREY, RED, OCHRE, BLUE)
_SHAPES = ("circle", "diamond", "cross", "circle")


def front_chart(found: Exploration) -> Spec:
    """Energy over time: everything that was tried near the front, the ready accelerators, the front as a line."""
    return _chart(found, number("mj", "mJ a sample", scale={"type": "log", "nice": False, "padding": 14}, axis=_FINE))


def loss_chart(found: Exploration) -> Spec:
    """Lost accuracy over time, of the points whose accuracy was measured."""
    return _chart(found, number("loss", "points of accuracy lost", scale={"padding": 14}), judged=True)


_FINE = {"format": "~g"}


def _chart(found: Exploration, y: dict[str, Any], judged: bool = False) -> Spec:
    rows = [row for row in _rows(found) if not judged or row["loss"] is not None]
    x = number("time", _time_title(found), scale={"type": "log", "nice": False, "padding": 14}, axis=_FINE)
    shown = [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]
    kinds = {"field": "kind", "type": "nominal", "sort": None}
    colour = {**kinds, "scale": {"domain": shown, "range": [_COLOURS[KINDS.index(kind)] for kind in shown]}}
    shape = {**kinds, "scale": {"domain": shown, "range": [_SHAPES[KINDS.index(kind)] for kind in shown]}}
    hints = [hint("name", "accelerator"), *(hint(heading, heading) for heading in HEADINGS[1:])]
    points = {
        "mark": {"type": "point", "filled": True, "opacity": 0.9},
        "encoding": {
            "x": x, "y": y, "color": colour, "shape": shape, "tooltip": hints,
            "size": {"condition": {"test": f"datum.kind == '{TRIED}'", "value": 18}, "value": 90},
        },
    }  # fmt: skip
    line = {
        "transform": [{"filter": f"datum.kind == '{FRONT}'"}],
        "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.6, "color": BLUE},
        "encoding": {"x": x, "y": y, "order": {"field": "time", "type": "quantitative"}},
    }
    named = {
        "transform": [{"filter": "datum.ready"}],
        "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 9, "opacity": 0.8},
        "encoding": {"x": x, "y": y, "text": {"field": "name", "type": "nominal"}},
    }
    has_names = not judged and any(row["ready"] for row in rows)  # an empty layer is a warning in the browser
    layers: list[Spec] = [*([line] if FRONT in shown else []), points, *([named] if has_names else [])]
    return chart(HEIGHT, layers, data={"values": rows})


def _time_title(found: Exploration) -> str:
    return "µs a sample alone" if found.task.goal.objective == "latency" else "µs a sample"


def _rows(found: Exploration) -> list[dict[str, Any]]:
    """The points that are drawn, those of the front last."""
    goal, best = found.task.goal, found.front
    if not best:
        return [_row(found, point, UNFIT) for point in found.ready]
    limit = FAR * max(goal.time(point.figures) for point in best)
    leading = {point.number for point in best}
    near = [p for p in found.points if p.number not in leading and goal.time(p.figures) <= limit]
    return [*(_row(found, point, _kind(found, point)) for point in near), *(_row(found, p, FRONT) for p in best)]


def _kind(found: Exploration, point: Point) -> str:
    if not point.candidate.origin:
        return TRIED
    return READY if found.task.goal.accepts(point) else UNFIT


def _row(found: Exploration, point: Point, kind: str) -> dict[str, Any]:
    cells = dict(zip(HEADINGS, table_row(found, point, point.name), strict=True))
    loss = point.figures.loss
    return {
        **cells,
        "name": point.name,
        "kind": kind,
        "ready": bool(point.candidate.origin),
        "time": 1e6 * found.task.goal.time(point.figures),
        "mj": 1e3 * point.figures.joules,
        "loss": None if loss is None else max(loss, 0.0),
    }


def picture(*found: Exploration) -> bytes:
    """The fronts side by side as SVG; the same bytes for the same searches. ToolError without the charts."""
    charts = [(f"{one.task.network.name} on {one.task.board.title}", front_chart(one)) for one in found]
    return svg(standalone("", charts, width=400, side_by_side=True)).encode()
