"""What the dispatcher knew of every layer and what it made of it: a table for people, the same for machines."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from bfpga.contract.descriptor import Operation
from bfpga.contract.engine_numbers import ARRAY, EngineName
from bfpga.contract.program import ArrayNode, EngineFigures, HostNode, Node, Program
from bfpga.engines.registry import ENGINES, depends_on_inputs
from bfpga.program.cycles import operation_clocks, step_operations

#: Engines in tables.
ENGINE_WORDS: dict[EngineName, str] = {engine.name: engine.title for engine in ENGINES}
#: What the columns of ``engine_rows`` hold.
ENGINES_TITLE = "Engines: zeros of weights and inputs, cycles of one sample on each engine with all transfers"


def node_engine(node: Node) -> str:
    """Where a node is computed: the name of an engine, or `host`."""
    if isinstance(node, ArrayNode):
        return node.engine
    return "host" if isinstance(node, HostNode) else ARRAY


def dispatched(program: Program) -> list[ArrayNode]:
    """Layers that had a choice of engines."""
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.engine_choices]


def engine_headings(program: Program) -> tuple[str, ...]:
    """Headings of ``engine_rows``."""
    clocks = tuple(ENGINE_WORDS[engine] for engine in program.config.engines)
    return ("layer", "zeros of weights", "zeros of inputs", *clocks, "chosen", "because")


def engine_rows(program: Program) -> list[tuple[str, ...]]:
    """Layers that had a choice of engines: their zeros, cycles on each engine, the choice and its reason."""
    moves = moving_clocks(program)
    return [
        (
            node.name, _percent(1 - weight_density(node)), _percent(None if node.input_density is None else
            1 - node.input_density), *(_clocks(item, moves[node.name]) for item in node.engine_choices),
            ENGINE_WORDS[node.engine], node.engine_reason,
        )
        for node in dispatched(program)
    ]  # fmt: skip


def moving_clocks(program: Program) -> Counter[str]:
    """Cycles of one sample that layers spend on loads and stores of activations, by name: the same on all engines."""
    moves: Counter[str] = Counter()
    for step in program.steps:
        for operation, times in step_operations(program, step):
            kind = operation.descriptor.operation
            if kind in (Operation.LOAD, Operation.STORE) and not operation.first_only:
                moves[operation.layer] += times * operation_clocks(program.config, operation)
    return moves


def refusals(program: Program) -> list[str]:
    """One line for each engine and reason, with the layers that it does not take."""
    layers: dict[tuple[EngineName, str], list[str]] = {}
    for node in dispatched(program):
        for item in node.engine_choices:
            if item.refused:
                layers.setdefault((item.engine, item.refused), []).append(node.name)
    return [
        f"{ENGINE_WORDS[engine]} not for {', '.join(names)}: {reason}" for (engine, reason), names in layers.items()
    ]


def without_choice(program: Program) -> dict[str, list[str]]:
    """Names of the layers that only one place can compute, by place: an engine in words, or the host."""
    places: dict[str, list[str]] = {}
    chosen = {node.name for node in dispatched(program)}
    for node in program.nodes:
        if node.name not in chosen:
            engine = node_engine(node)
            places.setdefault("host" if engine == "host" else ENGINE_WORDS[ARRAY], []).append(node.name)
    return places


def dispatch_cycles(program: Program) -> tuple[Counter[EngineName], int, int]:
    """Layers by the engine that was chosen for them, their cycles there, and those on the array alone."""
    moves, nodes = moving_clocks(program), dispatched(program)
    chosen, alone = 0, 0
    for node in nodes:
        cycles = {item.engine: item.cycles + moves[node.name] for item in node.engine_choices}
        chosen, alone = chosen + cycles[node.engine], alone + cycles[ARRAY]
    return Counter(node.engine for node in nodes), chosen, alone


def gain(program: Program) -> str:
    """One sentence: how many layers each engine got, and their cycles next to those of the array alone."""
    got, chosen, alone = dispatch_cycles(program)
    shared = ", ".join(f"{ENGINE_WORDS[engine]} {count}" for engine, count in got.items())
    compared = "" if chosen == alone else f", {alone:,} on the array alone"
    return f"{sum(got.values())} layers with weights ({shared}): {chosen:,} cycles{compared}"


def zeros_unknown(program: Program) -> bool:
    """Whether an engine was passed over because the zeros of some input are not known."""
    return any(
        node.input_density is None and depends_on_inputs(item.engine) and not item.refused
        for node in dispatched(program)
        for item in node.engine_choices
    )


def engine_choices(program: Program) -> list[dict[str, Any]]:
    """The same for machines (SC R10, R13, ZS R53). Numbers of zeros are those of one sample, a mean."""
    moves = moving_clocks(program)
    return [_choice(program, node, moves[node.name]) for node in dispatched(program)]


def _choice(program: Program, node: ArrayNode, moves: int) -> dict[str, Any]:
    assert node.weights is not None
    spec = program.tensors[node.inputs[0]]
    elements = spec.height * spec.width * spec.channels
    return {
        "layer": node.name,
        "chosen": node.engine,
        "because": node.engine_reason,
        "weights": int(node.weights.size),
        "weight_zeros": int(node.weights.size - np.count_nonzero(node.weights)),
        "inputs": elements,
        "input_zeros": None if node.input_density is None else elements * (1 - node.input_density),
        "input_density": node.input_density,
        "engines": [
            {
                "engine": item.engine,
                "cycles": None if item.refused else item.cycles + moves,
                "refused": item.refused or None,
            }
            for item in node.engine_choices
        ],
    }


def weight_density(node: ArrayNode) -> float:
    """Share of a layer's weights that are not zero."""
    return float(np.count_nonzero(node.weights)) / node.weights.size if node.weights is not None else 1.0


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _clocks(item: EngineFigures, moves: int) -> str:
    return "-" if item.refused else f"{item.cycles + moves:,}"
