"""Colours and type of all charts. Ink is `currentColor`: charts follow the page from light to dark, and to print."""

from __future__ import annotations

from typing import Any

INK = "currentColor"
#: Colours that can be distinguished on white and on black, by most kinds of colour vision too (after Okabe and Ito).
BLUE, ORANGE, GREEN, RED, PURPLE, GREY, SKY, OCHRE = PALETTE = (
    "#3d7fc1", "#e08214", "#1b9e77", "#d1495b", "#8e6cc0", "#8b95a5", "#56b4e9", "#b8a01c",
)  # fmt: skip
#: More colours for what has more than eight parts: the same, lighter.
TINTS = ("#9dc3ea", "#f6c98d", "#8fd6bd", "#efa9b2", "#cbb8e8", "#c9ced6", "#b5dcf5", "#e2d48a")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"


def config(compact: bool) -> dict[str, Any]:
    """Vega-Lite's configuration; compact: for narrow windows."""
    return {
        "background": "transparent",
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None},
        "range": {"category": list(PALETTE)},
        "axis": {
            "labelColor": INK, "titleColor": INK, "domainColor": INK, "tickColor": INK, "gridColor": INK,
            "gridOpacity": 0.14, "domainOpacity": 0.4, "tickOpacity": 0.4, "labelOpacity": 0.85,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "titleOpacity": 0.75,
            "labelOverlap": "greedy", "labelSeparation": 6,
            "labelLimit": 92 if compact else 160, "tickCount": 4 if compact else 8,
        },
        "axisY": {"titleAnchor": "middle", "minExtent": 0},
        "legend": {
            "labelColor": INK, "titleColor": INK, "orient": "top", "direction": "horizontal", "title": None,
            "labelFontSize": 11, "columns": 2 if compact else 5, "labelLimit": 118 if compact else 240,
            "symbolStrokeWidth": 1.5, "layout": {"top": {"direction": "vertical" if compact else "horizontal"}},
        },
        "title": {"color": INK, "fontSize": 12, "fontWeight": 600, "anchor": "start"},
        "text": {"fill": INK, "fontSize": 11},
        "rule": {"stroke": INK},
    }  # fmt: skip


def chart(height: int, layers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A chart as wide as its place. height: of what is drawn, in pixels, without axes and legends."""
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": layers,
        **more,
    }


def rows_axis(field: str, **more: Any) -> dict[str, Any]:
    """A nominal axis from above in the order of the data, without a title."""
    return {"field": field, "type": "nominal", "sort": None, "title": None, "axis": {"ticks": False}, **more}


def number(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A quantitative channel."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def hint(field: str, title: str, form: str | None = None) -> dict[str, Any]:
    """A line of what hovering shows. form: of d3-format; None for text."""
    if form is None:
        return {"field": field, "type": "nominal", "title": title}
    return {"field": field, "type": "quantitative", "title": title, "format": form}


def standalone(
    title: str, charts: list[tuple[str, dict[str, Any]]], width: int = 620, side_by_side: bool = False
) -> dict[str, Any]:
    """Charts with their titles as one picture on white, for files that no page surrounds.

    side_by_side: from left to right instead of below each other.
    """
    sized = [
        {**{key: value for key, value in spec.items() if key != "autosize"}, "width": width, "title": name}
        for name, spec in charts
    ]
    return {
        "title": {"text": title, "fontSize": 15, "anchor": "start", "offset": 14},
        "hconcat" if side_by_side else "vconcat": sized,
        "resolve": {"scale": {"color": "independent", "shape": "independent", "x": "independent", "y": "independent"}},
        "config": {**config(compact=False), "background": "white", "padding": 14},
    }
