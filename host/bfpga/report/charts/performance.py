"""Charts of time: the roofline, the timeline, where cycles go, and what the activation memories hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bfpga.estimate.roofline import Roofline
from bfpga.report.memory import MemoryMap
from bfpga.report.model import LayerFigures
from bfpga.report.page import Spec
from bfpga.report.theme import BLUE, GREEN, GREY, ORANGE, PALETTE, chart, hint, number, rows_axis
from bfpga.report.timeline import Timeline

#: Moving in time: by dragging, and by the wheel with Shift, so that a page still scrolls.
_ZOOM = {
    "name": "zoom",
    "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.shiftKey]"},
    "bind": "scales",
}
_CYCLED = {"range": [*PALETTE]}


def roofline_chart(roofline: Roofline, layers: Sequence[LayerFigures]) -> Spec:
    """Layers with products: what they reach, by the products that each moved byte serves, under the ceilings."""
    points: list[dict[str, Any]] = [
        {
            "layer": layer.label, "name": layer.name, "engine": layer.engine, "x": layer.macs_per_byte,
            "y": layer.gmac_s, "share": layer.estimate.seconds, "limit": layer.estimate.limit,
            "cycles": layer.estimate.cycles + layer.estimate.transfer_cycles, "macs": layer.estimate.macs,
        }
        for layer in layers
        if layer.estimate.macs and layer.gmac_s
    ]  # fmt: skip
    low = 10.0 ** math.floor(math.log10(min([p["x"] for p in points], default=1.0)))
    high = 10.0 ** math.ceil(math.log10(max([p["x"] for p in points] + [2 * roofline.ridge_macs_per_byte])))
    floor = 10.0 ** math.floor(math.log10(0.7 * min([p["y"] for p in points], default=1.0)))
    roofs = [
        *_roof("memory", roofline.memory_gb_s, roofline.gmac_s, low, high),
        *_roof("weights", roofline.weight_stream_gb_s, roofline.gmac_s, low, high),
    ]
    scale_x = {"type": "log", "domain": [low, high], "nice": False}
    scale_y = {"type": "log", "domain": [floor, 2 * roofline.gmac_s], "nice": False, "clamp": True}
    x = number(
        "x",
        "multiply-accumulates for each byte moved",
        scale=scale_x,
        axis={"format": "~g", "values": _decades(low, high)},
    )
    y = number("y", "GMAC/s", scale=scale_y, axis={"format": "~g", "values": _decades(floor, roofline.gmac_s)})
    lines = {
        "data": {"values": roofs},
        "mark": {"type": "line", "strokeWidth": 2, "clip": True},
        "encoding": {
            "x": x, "y": y,
            "strokeDash": {
                "field": "roof", "type": "nominal", "sort": None, "legend": {"symbolStrokeColor": "currentColor"},
            },
            "stroke": {"value": GREY}, "tooltip": [hint("roof", "ceiling"), hint("rate", "GB/s", ".2f")],
        },
    }  # fmt: skip
    marks = {
        "data": {"values": points},
        "mark": {"type": "point", "filled": True, "opacity": 0.8, "stroke": "currentColor", "strokeWidth": 0.6},
        "encoding": {
            "x": x, "y": y,
            "color": {"field": "engine", "type": "nominal", "sort": None, "scale": _CYCLED},
            "size": {
                "field": "share", "type": "quantitative", "legend": None, "scale": {"range": [60, 620]},
            },
            "tooltip": [
                hint("name", "layer"), hint("engine", "engine"), hint("y", "GMAC/s", ".2f"),
                hint("x", "MAC/byte", ".1f"), hint("macs", "MACs", ","), hint("cycles", "cycles of work", ","),
                hint("limit", "most cycles go to"),
            ],
        },
    }  # fmt: skip
    wide_enough = {"expr": "width < 700 ? 0 : 1"}
    names: Spec = {
        "data": {"values": _apart(points, (low, high), (floor, 2 * roofline.gmac_s))},
        "mark": {"type": "text", "align": "right", "dx": -11, "dy": 10, "fontSize": 10, "opacity": wide_enough},
        "encoding": {"x": x, "y": y, "text": {"field": "layer", "type": "nominal"}},
    }
    peak: Spec = {
        "data": {"values": [{"x": high, "y": roofline.gmac_s, "text": f"array: {roofline.gmac_s:.1f} GMAC/s"}]},
        "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -15, "dx": -2, "fontSize": 10},
        "encoding": {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}},
    }
    return chart(340, [lines, marks, names, peak], resolve={"scale": {"color": "independent"}})


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten in a range."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def _apart(
    points: Sequence[dict[str, Any]], across: tuple[float, float], down: tuple[float, float]
) -> list[dict[str, Any]]:
    """Points whose names, below and left of them, cover no other name or point; those of long layers first."""

    def place(point: dict[str, Any]) -> tuple[float, float]:
        return (
            math.log(point["x"] / across[0]) / math.log(across[1] / across[0]),
            math.log(point["y"] / down[0]) / math.log(down[1] / down[0]),
        )

    def box(point: dict[str, Any]) -> tuple[float, float, float, float]:
        (x, y), length = place(point), 0.02 + _LETTER * len(point["layer"])
        return x - length, y - _LINE, x - 0.005, y

    boxes: list[tuple[float, float, float, float]] = []
    named: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda item: -item["share"]):
        left, bottom, right, top = box(point)
        names = any(left < b[2] and b[0] < right and bottom < b[3] and b[1] < top for b in boxes)
        others = (place(other) for other in points if other is not point)
        marks = any(left - 0.015 < x < right + 0.015 and bottom - 0.03 < y < top + 0.01 for x, y in others)
        if left > 0 and bottom > 0 and not names and not marks:
            boxes.append((left, bottom, right, top))
            named.append(point)
    return named


#: Room of a name in a roofline, as shares of its width and height.
_LETTER, _LINE = 0.0065, 0.055


def _roof(name: str, rate: float, peak: float, low: float, high: float) -> list[dict[str, Any]]:
    """A ceiling: what a rate of bytes feeds, up to the array's peak."""
    bend = min(max(peak / rate, low), high)
    corners = [(low, min(peak, low * rate)), (bend, min(peak, bend * rate)), (high, peak)]
    return [{"roof": f"{name} {rate:.2f} GB/s", "x": x, "y": y, "rate": rate} for x, y in corners]


def timeline_chart(timeline: Timeline, clock_mhz: float, labels: dict[str, str]) -> Spec:
    """One row for each thing that works at the same time. Colours mark layers, or samples where there are several."""
    by_sample = timeline.samples > 1
    values = [
        {
            "lane": bar.lane, "layer": labels.get(bar.layer, bar.layer), "name": bar.layer, "what": bar.what,
            "a": round(bar.begin / clock_mhz, 4), "b": round(bar.end / clock_mhz, 4),
            "cycles": round(bar.end - bar.begin), "sample": f"sample {bar.sample + 1}",
        }
        for bar in timeline.bars
    ]  # fmt: skip
    tooltip = [
        hint("name", "layer"), hint("what", "operation"), hint("a", "from, µs", ",.2f"), hint("b", "to, µs", ",.2f"),
        hint("cycles", "cycles", ","),
    ]  # fmt: skip
    field = "sample" if by_sample else "layer"
    whole = {"domain": [0, timeline.cycles / clock_mhz], "nice": False}
    colour: dict[str, Any] = {"field": field, "type": "nominal", "sort": None, "scale": _CYCLED}
    if by_sample:
        tooltip.insert(0, hint("sample", "sample"))
    else:
        colour["legend"] = None
    bars = {
        "params": [_ZOOM],
        "mark": {"type": "bar", "clip": True, "strokeWidth": 0.4, "height": {"band": 0.78}},
        "encoding": {
            "y": rows_axis("lane", sort=timeline.lanes),
            "x": number("a", "µs from the begin of the sample", scale=whole), "x2": {"field": "b"},
            "color": colour, "stroke": {"field": field, "type": "nominal", "sort": None, "scale": _CYCLED},
            "tooltip": tooltip,
        },
    }  # fmt: skip
    if not by_sample:
        bars["encoding"]["stroke"]["legend"] = None  # type: ignore[index]
    return chart(30 * len(timeline.lanes), [bars], data={"values": values})


def limits_chart(layers: Sequence[LayerFigures]) -> Spec:
    """Cycles of each layer by what they are spent on."""
    values = [
        {"layer": layer.label, "name": layer.name, "spent": spent, "cycles": cycles, "order": order}
        for layer in layers
        for order, (spent, cycles) in enumerate(layer.estimate.limits.items())
        if cycles
    ]
    names = list(dict.fromkeys(str(row["spent"]) for row in values))
    bars = {
        "mark": {"type": "bar"},
        "encoding": {
            "y": rows_axis("layer", sort=[layer.label for layer in layers]),
            "x": number("cycles", "cycles of one sample", stack="zero", axis={"format": "~s"}),
            "color": {
                "field": "spent", "type": "nominal",
                "scale": {"domain": names, "range": [_SPENT.get(name, GREY) for name in names]},
            },
            "order": {"field": "order", "type": "quantitative"},
            "tooltip": [hint("name", "layer"), hint("spent", "spent on"), hint("cycles", "cycles", ",")],
        },
    }  # fmt: skip
    return chart(22 * len({row["layer"] for row in values}), [bars], data={"values": values})


#: Colours of what cycles are spent on: useful work blue, waits warm, moving data green.
_SPENT = {
    "array": BLUE, "elements": "#7fb2e5", "transfer": GREEN, "weights": ORANGE, "windows": "#2aa198",
    "activation memory": "#d1495b", "output stage": "#b8a01c", "addresses": "#b39ddb", "idle tiles": "#c9ced6",
}  # fmt: skip


def memory_chart(memory: MemoryMap, clock_mhz: float, cycles: float) -> Spec:
    """Tensors as rectangles: their words, and from when to when they are needed. cycles: of the whole sample."""
    values = [
        {
            "tensor": item.tensor, "first": item.first, "last": item.last, "words": item.last - item.first,
            "a": round(item.begin / clock_mhz, 4), "b": round(item.end / clock_mhz, 4),
        }
        for item in memory.allocations
    ]  # fmt: skip
    tooltip = [
        hint("tensor", "tensor"), hint("first", "first word", ","), hint("last", "after its last word", ","),
        hint("words", "words of each bank", ","), hint("a", "from, µs", ",.2f"), hint("b", "to, µs", ",.2f"),
    ]  # fmt: skip
    y = number("first", "word of each bank", scale={"domain": [0, memory.words], "nice": False})
    x = number("a", "µs from the begin of the sample", scale={"domain": [0, cycles / clock_mhz], "nice": False})
    across = "abs(scale('x', datum.b) - scale('x', datum.a))"
    down = "abs(scale('y', datum.first) - scale('y', datum.last))"
    boxes = {
        "mark": {"type": "rect", "opacity": 0.72, "stroke": "currentColor", "strokeWidth": 0.6, "strokeOpacity": 0.5},
        "encoding": {
            "x": x, "x2": {"field": "b"}, "y": y, "y2": {"field": "last"}, "tooltip": tooltip,
            "color": {"field": "tensor", "type": "nominal", "sort": None, "legend": None, "scale": _CYCLED},
        },
    }  # fmt: skip
    names = {
        "transform": [{"calculate": "(datum.a + datum.b) / 2", "as": "x"},
                      {"calculate": "(datum.first + datum.last) / 2", "as": "y"}],
        "mark": {
            "type": "text", "limit": {"expr": f"max(1, {across} - 8)"}, "fontSize": 10,
            "opacity": {"expr": f"{across} > 44 && {down} > 13 ? 1 : 0"},
        },
        "encoding": {
            "x": number("x", ""), "y": number("y", ""), "text": {"field": "tensor", "type": "nominal"},
            "tooltip": tooltip,
        },
    }  # fmt: skip
    return chart(320, [boxes, names], data={"values": values})
