"""The names by which a recipe knows layers: those of the array's layers and of their results."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from bfpga.compiler.lower.layers import Lowered
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.network import Network
from bfpga.errors import ConfigurationError

#: What a recipe may say of the network's input, which no layer gives.
OF_INPUTS = {"result_parts"}


def without_effect(
    asked: Mapping[str, Mapping[str, Any]], lowered: Lowered, graph: Graph, network: Network
) -> list[str]:
    """Notes of what a recipe says of operators that are no layers here: another one does their work, or the host.

    ConfigurationError for a name that the network does not have, with the nearest one, and for what cannot be said of
    an input.
    """
    layers = {name for layer in lowered.layers for name in (layer.name, layer.output)}
    inputs = set(lowered.tensors) & set(graph.inputs) - layers
    notes = []
    for name, values in asked.items():
        if name in inputs:
            _check_input(name, values)
        elif name not in layers:
            known = layers | inputs | _of_file(network, graph)
            # Layers that one operator becomes have its name in front.
            if not any(name == other or name.startswith(f"{other}/") for other in known):
                near = _nearest(name, known)
                raise ConfigurationError(f"layer {name}: {network.path} has nothing of that name; {near}")
            notes.append(f"layer {name}: what the recipe says has no effect; it is no layer of its own on the array")
    return notes


def _check_input(name: str, values: Mapping[str, Any]) -> None:
    unknown = sorted(set(values) - OF_INPUTS)
    if unknown:
        raise ConfigurationError(
            f"layer {name}: {unknown[0]} = {values[unknown[0]]!r} cannot be: it is an input of the network, of which "
            f"a recipe says {', '.join(OF_INPUTS)} alone"
        )


def _of_file(network: Network, graph: Graph) -> set[str]:
    """Operators and values of the file, and of the network as it was read."""
    found = {name for operator in graph.operators for name in (operator.name, *operator.outputs)} | set(graph.inputs)
    for model in (network.model, network.reference):
        found.update(name for node in model.graph.node for name in (node.name, *node.output))
        found.update(item.name for item in model.graph.input)
    return found - {""}


def _nearest(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return f"did you mean {near[0]}?" if near else "`bfpga compile` lists the layers"
