"""Charts of choices side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from bfpga.estimate.hardware import FULL, KINDS
from bfpga.report.charts.accuracy import interval_chart
from bfpga.report.comparison import Comparison, Entry
from bfpga.report.page import Spec
from bfpga.report.theme import BLUE, GREEN, GREY, ORANGE, PALETTE, chart, hint, number, rows_axis

TABLE_NOTE = (
    "Work and schedule: cycles of one sample, counted and modelled. Latency, energy and resources: estimated; "
    "resources as shares of each accelerator's own board. *: the array alone, the board's cores are not known."
)
FOOTNOTE = (
    "Accuracy is measured on the samples, on the emulator, which is bit-exact with the kernel. Cycles are counted. "
    "Latency rests on the assumed rate of each board's memory and an estimate of its cores; resources and energy are "
    "models."
)


def accuracy_chart(comparison: Comparison) -> Spec:
    """Accuracy with intervals, the reference last."""
    judged = [(item.name, item.correct) for item in comparison.entries if item.correct is not None]
    colours = [colour for _, colour in zip(judged, cycle(PALETTE), strict=False)]
    if comparison.reference is not None:
        judged.append((comparison.reference_name, comparison.reference))
        colours.append(GREY)
    return interval_chart([name for name, _ in judged], [share for _, share in judged], colours)


def tradeoff_chart(entries: Sequence[Entry]) -> Spec:
    """Accuracy over latency."""
    values = [
        {
            "name": item.name, "ms": 1e3 * item.seconds, "share": 100 * item.correct.value,
            "low": 100 * item.correct.interval[0], "high": 100 * item.correct.interval[1],
        }
        for item in entries
        if item.correct is not None
    ]  # fmt: skip
    tooltip = [
        hint("name", "choice"), hint("share", "accuracy, %", ".2f"), hint("ms", "latency, ms", ".3f"),
    ]  # fmt: skip
    x = number("ms", "latency of one sample, ms", scale={"type": "log", "padding": 20}, axis={"format": "~g"})
    y = number("share", "accuracy, %", scale={"zero": False, "padding": 10})
    colour = {"field": "name", "type": "nominal", "sort": None, "scale": {"range": [*PALETTE]}}
    bars = {
        "mark": {"type": "rule", "opacity": 0.35, "strokeWidth": 2},
        "encoding": {"x": x, "y": number("low", "accuracy, %"), "y2": {"field": "high"}, "stroke": colour},
    }
    points = {
        "mark": {"type": "point", "filled": True, "size": 120, "opacity": 1},
        "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip},
    }
    bars["encoding"]["stroke"] = {**colour, "legend": None}  # type: ignore[index]
    return chart(240, [bars, points], data={"values": values})


def latency_chart(entries: Sequence[Entry]) -> Spec:
    """Milliseconds of one sample."""
    return _bars(entries, "latency of one sample, ms", [1e3 * item.seconds for item in entries], BLUE, ".3g")


def energy_chart(entries: Sequence[Entry]) -> Spec:
    """Millijoules of one sample."""
    return _bars(entries, "energy of one sample, mJ", [1e3 * item.joules for item in entries], GREEN, ".3g")


def cycles_chart(entries: Sequence[Entry]) -> Spec:
    """Work, and the schedule that overlaps it."""
    values = [
        {"name": item.name, "kind": kind, "cycles": cycles}
        for item in entries
        for kind, cycles in (("work", item.work), ("schedule", item.schedule))
    ]
    kinds = ["work", "schedule"]
    bars = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": rows_axis("name"), "yOffset": {"field": "kind", "type": "nominal", "sort": kinds},
            "x": number("cycles", "cycles", axis={"format": "~s"}),
            "color": {
                "field": "kind", "type": "nominal", "scale": {"domain": kinds, "range": [BLUE, ORANGE]},
            },
            "tooltip": [hint("name", "choice"), hint("kind", "what"), hint("cycles", "cycles", ",")],
        },
    }  # fmt: skip
    return chart(34 * len(entries), [bars], data={"values": values})


def resources_chart(entries: Sequence[Entry]) -> Spec:
    """Shares of the board by kind."""
    kinds = {kind: title for kind, title in KINDS.items() if any(kind in item.limits for item in entries)}
    values = [
        {"name": item.name, "kind": kinds[kind], "share": 100 * share, "amount": item.used[kind], "board": item.board}
        for item in entries
        for kind, share in item.shares.items()
    ]
    bars: Spec = {
        "data": {"values": values},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": rows_axis("kind", sort=list(kinds.values())),
            "yOffset": {"field": "name", "type": "nominal", "sort": None},
            "x": number("share", "share of its board, %"),
            "color": {"field": "name", "type": "nominal", "sort": None, "scale": {"range": [*PALETTE]}},
            "tooltip": [
                hint("name", "choice"), hint("kind", "resource"), hint("amount", "amount", ","),
                hint("share", "share, %", ".1f"), hint("board", "board"),
            ],
        },
    }  # fmt: skip
    line = {
        "data": {"values": [{"at": 100 * FULL, "what": "routes reliably up to here"}]},
        "mark": {"type": "rule", "strokeDash": [4, 3], "opacity": 0.6},
        "encoding": {"x": number("at", ""), "tooltip": [hint("what", "limit"), hint("at", "share, %", ".0f")]},
    }
    return chart(len(kinds) * max(26, 12 * len(entries)), [bars, line])


def _bars(entries: Sequence[Entry], title: str, amounts: Sequence[float], colour: str, form: str) -> Spec:
    """A bar with its number for each entry."""
    values: list[dict[str, Any]] = [
        {"name": item.name, "amount": amount} for item, amount in zip(entries, amounts, strict=True)
    ]
    tooltip = [hint("name", "choice"), hint("amount", title, form)]
    room = 1.18 * max(amounts, default=1.0)  # for the number after the longest bar
    y, x = rows_axis("name"), number("amount", title, scale={"domain": [0, room], "nice": False})
    bars = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2, "color": colour, "height": {"band": 0.66}},
        "encoding": {"y": y, "x": x, "tooltip": tooltip},
    }
    text = {
        "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": 10},
        "encoding": {"y": y, "x": x, "text": {"field": "amount", "type": "quantitative", "format": form}},
    }
    return chart(26 * len(entries), [bars, text], data={"values": values})
