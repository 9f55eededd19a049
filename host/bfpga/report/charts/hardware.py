"""Charts of what an accelerator is made of and of what computes what on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bfpga.engines.interface.resource_units import Resources
from bfpga.estimate.hardware import FULL, Area, kinds_of
from bfpga.program.places import ARRAY_COLOUR, ARRAY_TITLE
from bfpga.report.model import LayerFigures
from bfpga.report.page import Spec
from bfpga.report.partition import LayerPartition
from bfpga.report.theme import BLUE, GREY, ORANGE, PALETTE, RED, TINTS, chart, hint, number, rows_axis

#: Cells of a map's picture in each direction at most.
MOST_CELLS = 40


def resources_chart(parts: Mapping[str, Resources], limits: Mapping[str, int], counted: Area | None) -> Spec:
    """Parts of the kernel as shares of the board's limits; a mark where a netlist was counted."""
    names, kinds = [name for name in parts if name != "total"], kinds_of(limits)
    values = [
        {
            "kind": title, "part": name, "order": order, "amount": getattr(parts[name], kind), "limit": limits[kind],
            "share": 100 * getattr(parts[name], kind) / limits[kind],
        }
        for kind, title in kinds.items()
        for order, name in enumerate(names)
        if getattr(parts[name], kind)
    ]  # fmt: skip
    found = {kind: counted.used[kind] for kind in kinds} if counted is not None else {}
    amounts = [{kind: getattr(parts["total"], kind) for kind in kinds}, found]
    full = 1.05 * max(100.0, *(100 * amount / limits[kind] for used in amounts for kind, amount in used.items()))
    bars: Spec = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": {"band": 0.62}},
        "encoding": {
            "y": rows_axis("kind", sort=list(kinds.values())),
            "x": number("share", "share of the board, %", stack="zero", scale={"domain": [0, full], "nice": False}),
            "color": {
                "field": "part", "type": "nominal", "sort": None,
                "scale": {"domain": names, "range": [*PALETTE, *TINTS]},
            },
            "order": {"field": "order", "type": "quantitative"},
            "tooltip": [
                hint("part", "part"), hint("kind", "resource"), hint("amount", "amount", ","),
                hint("limit", "the board has", ","), hint("share", "share, %", ".1f"),
            ],
        },
    }  # fmt: skip
    lines = {
        "data": {"values": [{"at": 100, "what": "all of the board"}, {"at": 100 * FULL, "what": "routes reliably"}]},
        "mark": {"type": "rule", "strokeDash": [4, 3], "opacity": 0.6},
        "encoding": {"x": number("at", ""), "tooltip": [hint("what", "limit"), hint("at", "share, %", ".0f")]},
    }
    layers = [bars, lines]
    if counted is not None:
        marks = [
            {"kind": kinds[kind], "share": 100 * amount / limits[kind], "amount": amount, "what": "counted, netlist"}
            for kind, amount in found.items()
        ]
        layers.append(
            {
                "data": {"values": marks},
                "mark": {"type": "tick", "thickness": 3, "color": RED, "height": {"band": 0.9}},
                "encoding": {
                    "y": rows_axis("kind", sort=list(kinds.values())),
                    "x": number("share", ""),
                    "tooltip": [hint("what", "figure"), hint("kind", "resource"), hint("amount", "amount", ",")],
                },
            }
        )
    return chart(34 * len(kinds), layers)


def dispatch_chart(layers: Sequence[LayerFigures], host_operations: int) -> Spec:
    """Which share of the layers, of the products and of the cycles each engine has."""
    totals: dict[str, dict[str, float]] = {}
    for layer in layers:
        row = totals.setdefault(layer.engine, {"layers": 0, "MACs": 0, "cycles": 0})
        row["layers"] += 1
        row["MACs"] += layer.estimate.macs
        row["cycles"] += layer.estimate.cycles + layer.estimate.transfer_cycles
    if host_operations:
        totals["host"] = {"layers": 0, "MACs": host_operations / 2, "cycles": 0}
    values = [
        {"what": what, "engine": engine, "amount": amount, "share": amount / whole}
        for what in ("layers", "MACs", "cycles")
        for whole in [sum(row[what] for row in totals.values()) or 1]
        for engine, row in totals.items()
        for amount in [row[what]]
    ]
    colours = [ARRAY_COLOUR if name == ARRAY_TITLE else GREY for name in totals]
    bars = {
        "mark": {"type": "bar", "height": {"band": 0.62}},
        "encoding": {
            "y": rows_axis("what"),
            "x": number("share", "share", stack="zero", axis={"format": "%"}, scale={"domain": [0, 1]}),
            "color": {
                "field": "engine", "type": "nominal", "sort": None,
                "scale": {"domain": list(totals), "range": colours},
            },
            "tooltip": [
                hint("engine", "engine"), hint("what", "of"), hint("amount", "amount", ",.0f"),
                hint("share", "share", ".1%"),
            ],
        },
    }  # fmt: skip
    return chart(90, [bars], data={"values": values})


def partition_chart(partition: LayerPartition) -> Spec:
    """The map that is shared out, with the pieces of equal size (dashed) and of equal work."""
    rows, columns = partition.counts.shape
    step = max(1, -(-max(rows, columns) // MOST_CELLS))
    coarse = np.add.reduceat(np.add.reduceat(partition.counts, range(0, rows, step)), range(0, columns, step), axis=1)
    cells = [
        {"x": column * step, "y": row * step, "x2": min(columns, (column + 1) * step),
         "y2": min(rows, (row + 1) * step), "count": int(coarse[row, column])}
        for row in range(coarse.shape[0])
        for column in range(coarse.shape[1])
    ]  # fmt: skip
    frame_x = {"domain": [0, columns], "nice": False}
    frame_y = {"domain": [rows, 0], "nice": False}
    layers: list[Spec] = [
        {
            "data": {"values": cells},
            "mark": {"type": "rect", "color": GREY},
            "encoding": {
                "x": number("x", "column", scale=frame_x, axis={"grid": False}),
                "x2": {"field": "x2"},
                "y": number("y", "row", scale=frame_y, axis={"grid": False}),
                "y2": {"field": "y2"},
                "fillOpacity": {
                    "field": "count",
                    "type": "quantitative",
                    "legend": None,
                    "scale": {"range": [0.02, 0.75]},
                },
                "tooltip": [hint("y", "row", ".0f"), hint("x", "column", ".0f"), hint("count", "not zero", ",")],
            },
        }
    ]
    for name, shares, dash in (("equal size", partition.equal, [4, 3]), ("equal work", partition.balanced, [])):
        pieces = [
            {"unit": unit, "x": left, "x2": right, "y": top, "y2": bottom, "load": load, "pieces": name}
            for unit, ((top, bottom, left, right), load) in enumerate(zip(shares.pieces, shares.loads, strict=True))
            if bottom > top and right > left
        ]
        layers.append(
            {
                "data": {"values": pieces},
                "mark": {"type": "rect", "filled": False, "strokeWidth": 2, "strokeDash": dash},
                "encoding": {
                    "x": number("x", "column", scale=frame_x),
                    "x2": {"field": "x2"},
                    "y": number("y", "row", scale=frame_y),
                    "y2": {"field": "y2"},
                    "stroke": {
                        "field": "pieces",
                        "type": "nominal",
                        "scale": {"domain": ["equal size", "equal work"], "range": [BLUE, ORANGE]},
                    },
                    "tooltip": [
                        hint("pieces", "pieces of"),
                        hint("unit", "unit", ".0f"),
                        hint("load", "not zero", ","),
                    ],
                },
            }
        )
    return chart(300, layers)


def loads_chart(partition: LayerPartition) -> Spec:
    """Work of each unit before and after."""
    values = [
        {"unit": str(unit), "pieces": name, "load": load}
        for name, shares in (("equal size", partition.equal), ("equal work", partition.balanced))
        for unit, load in enumerate(shares.loads)
    ]
    bars = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "x": {"field": "unit", "type": "ordinal", "sort": None, "title": "unit", "axis": {"labelAngle": 0}},
            "xOffset": {"field": "pieces", "type": "nominal"},
            "y": number("load", "elements that are not zero"),
            "color": {
                "field": "pieces", "type": "nominal",
                "scale": {"domain": ["equal size", "equal work"], "range": [BLUE, ORANGE]},
            },
            "tooltip": [hint("unit", "unit"), hint("pieces", "pieces of"), hint("load", "not zero", ",")],
        },
    }  # fmt: skip
    return chart(300, [bars], data={"values": values})
