"""Charts of accuracy, of confusion, and of what each layer loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bfpga.report.accuracy import Accuracy, Share
from bfpga.report.model import LayerFigures
from bfpga.report.page import Spec
from bfpga.report.theme import BLUE, GREY, ORANGE, RED, chart, hint, number, rows_axis

#: Classes up to which counts are written into the cells of a confusion.
WRITTEN_CLASSES = 12


def interval_chart(
    names: Sequence[str], shares: Sequence[Share], colours: Sequence[str] = (BLUE, GREY, ORANGE)
) -> Spec:
    """Shares with their intervals, one row each, in so many colours."""
    values = [
        {
            "what": name, "share": 100 * share.value, "low": 100 * share.interval[0], "high": 100 * share.interval[1],
            "hits": share.hits, "of": share.of,
        }
        for name, share in zip(names, shares, strict=True)
    ]  # fmt: skip
    tooltip = [
        hint("what", "what"), hint("share", "accuracy, %", ".2f"), hint("low", "95 % interval from, %", ".2f"),
        hint("high", "to, %", ".2f"), hint("hits", "right", ","), hint("of", "of", ","),
    ]  # fmt: skip
    y = rows_axis("what")
    colour = {
        "field": "what", "type": "nominal", "legend": None, "sort": None,
        "scale": {"domain": list(names), "range": list(colours)},
    }  # fmt: skip
    scale = {"zero": False, "nice": True, "padding": 12}
    return chart(
        30 * len(values),
        [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45, "strokeCap": "round"},
                "encoding": {
                    "y": y, "x": number("low", "share of samples, %", scale=scale), "x2": {"field": "high"},
                    "color": colour, "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
                "encoding": {"y": y, "x": number("share", "share of samples, %"), "color": colour, "tooltip": tooltip},
            },
        ],
        data={"values": values},
    )  # fmt: skip


def confusion_chart(accuracy: Accuracy) -> Spec:
    """Samples by label and largest output; solid by their share of the label."""
    assert accuracy.confusion is not None
    classes = len(accuracy.confusion)
    totals = accuracy.confusion.sum(axis=1)
    reference = accuracy.reference_confusion
    values: list[dict[str, Any]] = []
    for label in range(classes):
        for found in range(classes):
            count = int(accuracy.confusion[label, found])
            row = {
                "label": label, "found": found, "count": count, "right": label == found,
                "share": count / int(totals[label]) if totals[label] else 0.0,
            }  # fmt: skip
            if reference is not None:
                row["reference"] = int(reference[label, found])
            values.append(row)
    tooltip = [
        hint("label", "label"), hint("found", "largest output"), hint("count", "samples", ","),
        hint("share", "share of the label", ".1%"),
    ]  # fmt: skip
    if reference is not None:
        tooltip.append(hint("reference", f"of {accuracy.reference}", ","))
    x = {"field": "found", "type": "ordinal", "title": "largest output", "axis": {"labelAngle": 0, "grid": False}}
    y = {"field": "label", "type": "ordinal", "title": "label", "axis": {"grid": False}}
    cells = {
        "mark": {"type": "rect", "stroke": "currentColor", "strokeOpacity": 0.08},
        "encoding": {
            "x": x, "y": y, "tooltip": tooltip,
            "fill": {
                "field": "right", "type": "nominal", "legend": None,
                "scale": {"domain": [True, False], "range": [BLUE, ORANGE]},
            },
            "fillOpacity": {
                "field": "share", "type": "quantitative", "legend": None,
                "scale": {"type": "sqrt", "domain": [0, 1], "range": [0, 0.85]},
            },
        },
    }  # fmt: skip
    written = {
        "transform": [{"filter": "datum.count > 0"}],
        "mark": {"type": "text", "fontSize": 10},
        "encoding": {"x": x, "y": y, "text": {"field": "count", "type": "quantitative"}, "tooltip": tooltip},
    }
    step = max(12, min(30, 360 // classes))
    return chart(step * classes, [cells, written] if classes <= WRITTEN_CLASSES else [cells], data={"values": values})


def sqnr_chart(layers: Sequence[LayerFigures]) -> Spec:
    """Mean and worst sample of each layer's signal to quantization noise."""
    values = [
        {"layer": layer.label, "name": layer.name, "mean": layer.sqnr_db, "worst": layer.worst_sqnr_db}
        for layer in layers
        if layer.sqnr_db is not None
    ]
    tooltip = [hint("name", "layer"), hint("mean", "all samples, dB", ".1f"), hint("worst", "worst sample, dB", ".1f")]
    y = rows_axis("layer")
    scale = {"zero": False, "padding": 10}

    def points(field: str, name: str) -> Spec:
        return {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "y": y, "x": number(field, "signal to quantization noise, dB", scale=scale), "tooltip": tooltip,
                "color": {"datum": name, "scale": {"domain": ["all samples", "worst sample"], "range": [BLUE, ORANGE]}},
            },
        }  # fmt: skip

    line = {
        "mark": {"type": "rule", "opacity": 0.35, "strokeWidth": 2},
        "encoding": {"y": y, "x": number("worst", ""), "x2": {"field": "mean"}, "tooltip": tooltip},
    }
    layers_of_chart = [line, points("worst", "worst sample"), points("mean", "all samples")]
    return chart(22 * len(values), layers_of_chart, data={"values": values})


def saturation_chart(layers: Sequence[LayerFigures], traced: int) -> Spec:
    """Values of each layer that were cut to its largest number."""
    values = [
        {
            "layer": layer.label, "name": layer.name, "values": layer.saturated_values,
            "samples": layer.saturated_samples, "share": (layer.saturated_samples or 0) / max(traced, 1),
            "state": "too many" if layer.saturates_too_much else "as meant",
        }
        for layer in layers
        if layer.saturated_values is not None
    ]  # fmt: skip
    tooltip = [
        hint("name", "layer"), hint("values", "saturated values", ","), hint("samples", "samples with one", ","),
        hint("share", "share of samples", ".1%"), hint("state", "judgement"),
    ]  # fmt: skip
    bars = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": rows_axis("layer"),
            "x": number("values", "saturated values (logarithmic from 1 on)", scale={"type": "symlog"}),
            "color": {
                "field": "state", "type": "nominal",
                "scale": {"domain": ["as meant", "too many"], "range": [BLUE, RED]},
            },
            "tooltip": tooltip,
        },
    }  # fmt: skip
    return chart(22 * len(values), [bars], data={"values": values})
