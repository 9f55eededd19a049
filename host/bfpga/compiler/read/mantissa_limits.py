"""Quantizers whose limits are those of an array's mantissas: the mantissas round and saturate as the quantizers do.

A signed quantizer of few values is read as steps that any array has: the distance from its least value is limited,
rounded and taken back (``quantizers``). Where mantissas are as wide as its integers, its values are mantissas at the
exponent of its step, and these steps would only cost: the distance has twice the range, which mantissas do not reach.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.compiler.read.graphs import copied, rename, replace_nodes
from bfpga.compiler.read.grids import Grid
from bfpga.compiler.read.importer import Graph, Operator, rebuilt
from bfpga.formats.block_format import BlockFormat


def with_mantissa_limits(graph: Graph, form: BlockFormat) -> Graph:
    """The graph without the steps of quantizers that are mantissas of a format; itself if it has none."""
    model, grids = copied(graph.model), dict(graph.grids)
    gone: set[str] = set()
    for first, clip, last in _quantizers(graph, form):
        read, given = _read(graph, first), last.outputs[0]
        if read in graph.inputs and given in graph.outputs:
            continue
        gone |= {first.name, clip.name, last.name}
        old, new = (given, read) if read in graph.inputs else (read, given)
        for node in model.graph.node:
            rename(node.input, old, new)
            rename(node.output, old, new)
        grids[new] = replace(graph.grids[given], rounds=True, saturates=True)
    if not gone:
        return graph
    replace_nodes(model, [node for node in model.graph.node if node.name not in gone])
    return replace(rebuilt(graph, model), grids=grids, consumers={})


def _quantizers(graph: Graph, form: BlockFormat) -> list[tuple[Operator, Operator, Operator]]:
    """The steps of each quantizer that is a mantissa of the format."""
    givers = {name: operator for operator in graph.operators for name in operator.outputs}
    found = []
    for clip in graph.operators:
        first, last = givers.get(clip.inputs[0]), graph.only_consumer(clip.outputs[0])
        if clip.type == "Clip" and graph.rounds(clip.outputs[0]) and first is not None and last is not None:
            grid = graph.grids.get(last.outputs[0])
            if grid is not None and _is_mantissa(grid, form) and _are_steps(graph, grid, first, clip, last):
                found.append((first, clip, last))
    return found


def _is_mantissa(grid: Grid, form: BlockFormat) -> bool:
    """Whether a grid's values are all the mantissas at the exponent that its step is."""
    limits = form.mantissa_min * grid.step, form.mantissa_max * grid.step
    exponent = grid.power
    return (
        form.saturation != "wrap" and exponent is not None and (grid.low, grid.high) == limits
        and form.exponent_min <= exponent <= form.exponent_max
    )


def _are_steps(graph: Graph, grid: Grid, first: Operator, clip: Operator, last: Operator) -> bool:
    """Whether the operators are a sum, a limit and a sum that take the distance from a least value and give it back."""
    if not (first.type == last.type == "Add" and graph.only_consumer(clip.inputs[0]) is clip):
        return False
    read, numbers = _read(graph, first), [_number(graph, operator) for operator in (first, last)]
    alone = read != "" and graph.only_consumer(read) is first and not graph.ends_a_layer(read)
    return alone and numbers == [-grid.low, grid.low]


def _read(graph: Graph, operator: Operator) -> str:
    """What a sum with a constant reads; nothing if both or none are constant."""
    found = [name for name in operator.inputs if name not in graph.constants]
    return found[0] if len(found) == 1 else ""


def _number(graph: Graph, operator: Operator) -> float | None:
    """The constant of a sum, if it is one number."""
    found = [graph.constants[name] for name in operator.inputs if name in graph.constants]
    return float(np.asarray(found[0]).item()) if len(found) == 1 and np.size(found[0]) == 1 else None
