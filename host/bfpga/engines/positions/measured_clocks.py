"""Measured clocks of layers as a JSON file: what a flow is chosen from after a run (FP R33, R34).

{"layers": [{"name": "conv1", "operation": "conv",
             "clocks": {"two_pass_sampled": [5012, 5020], "keep_sampled": [4100, 4108]}},
            {"name": "relu1", "operation": "relu", "updates_position": false}]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bfpga.engines.positions.choice import CANDIDATES, FlowChooser, Grouping, PositionLayer
from bfpga.engines.positions.times import FLOWS, Flow
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.files import read_file

#: Clocks of a thousand layers in a thousand iterations have some ten million bytes.
LARGEST_FILE = 1 << 26
#: More clocks than a kernel counts in a century.
MOST_CLOCKS = 1 << 60
KEYS = ("name", "operation", "updates_position", "clocks")


def load_clocks(path: Path, by: Grouping = "layer") -> FlowChooser:
    """All measurements of a file, ready to answer; the flows that it names are the candidates.

    ``DataError`` for a file of another form, with the layer and the key.
    """
    content = _json(path)
    layers = content.get("layers") if isinstance(content, dict) else None
    if not isinstance(layers, list) or not layers:
        raise DataError(f"{path}: 'layers' is missing; a list of layers with their clocks is needed")
    try:
        return _chooser([_checked(layer, number) for number, layer in enumerate(layers)], by)
    except (ConfigurationError, DataError) as error:
        raise DataError(f"{path}: {error}") from None


def _json(path: Path) -> Any:
    """The value of a JSON file; ``DataError`` for anything else, for NaN and for what is nested too deeply."""
    try:
        return json.loads(read_file(path, LARGEST_FILE), parse_constant=_no_number)
    except OSError as error:
        raise DataError(f"{path}: cannot read the clocks: {error.strerror or error}") from None
    except RecursionError:
        raise DataError(f"{path} is no JSON with clocks: it is nested too deeply") from None
    except ValueError as error:  # no UTF-8, no JSON, or a number of thousands of digits
        raise DataError(f"{path} is no JSON: {error}") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _chooser(layers: Sequence[dict[str, Any]], by: Grouping) -> FlowChooser:
    clocks: list[dict[Flow, list[float]]] = [layer.get("clocks", {}) for layer in layers]
    named = {flow for of_layer in clocks for flow in of_layer}
    candidates = tuple(sorted(named, key=(*CANDIDATES, *FLOWS).index)) or CANDIDATES
    lengths = [len(measured) for of_layer in clocks for measured in of_layer.values()]
    described = [
        PositionLayer(layer["name"], layer["operation"], layer.get("updates_position", True)) for layer in layers
    ]
    chooser = FlowChooser(described, max(lengths, default=1), by, candidates)
    for layer, of_layer in zip(described, clocks, strict=True):
        for flow, measured in of_layer.items():
            for taken in measured:
                chooser.record(layer.name, flow, taken)
    for _ in range(chooser.iterations):
        chooser.finish_iteration()
    return chooser


def _checked(layer: Any, number: int) -> dict[str, Any]:
    """A layer of the file with keys and types as they must be."""
    if not isinstance(layer, dict) or not isinstance(layer.get("name"), str):
        raise DataError(f"layer {number} has no 'name'")
    where = f"layer {layer['name']!r}"
    for key in layer:
        if key not in KEYS:
            raise DataError(f"{where}: {key!r} is no key; {', '.join(KEYS)} are")
    if not isinstance(layer.get("operation"), str):
        raise DataError(f"{where}: 'operation' is missing; a name like conv is needed")
    if not isinstance(layer.get("updates_position", True), bool):
        raise DataError(f"{where}: 'updates_position' is {layer['updates_position']!r}; true or false is needed")
    clocks = layer.get("clocks", {})
    if not isinstance(clocks, dict):
        raise DataError(f"{where}: 'clocks' is no object; lists of numbers by flow are needed")
    for flow, measured in clocks.items():
        if flow not in FLOWS:
            raise DataError(f"{where}: {flow!r} is no flow; {', '.join(FLOWS)} are")
        if not isinstance(measured, list) or not all(type(value) in (int, float) for value in measured):
            raise DataError(f"{where}: clocks of {flow} are {_short(measured)}; a list of numbers is needed")
        if any(value > MOST_CLOCKS for value in measured):
            most = _short(max(measured))
            raise DataError(f"{where}: {most} clocks under {flow}; {MOST_CLOCKS:,} at most are possible")
    return layer


def _short(value: Any) -> str:
    """A value of the file, cut where a message would become a page."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
