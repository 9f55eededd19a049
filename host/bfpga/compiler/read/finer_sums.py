"""Sums whose operands have steps of different size: the array adds in units of the coarser one.

A value of few kinds has a large exponent, its quantizer's step, and whatever is added to it would be rounded to that.
Such an operand is written once more, by an operator that changes nothing, with the exponent that its range allows.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from bfpga.compiler.read.graphs import copied, replace_nodes
from bfpga.compiler.read.grids import Grid, Grids
from bfpga.compiler.read.importer import Graph, rebuilt
from bfpga.formats.block_format import BlockFormat

SUMS = ("Add", "Sub")


def finer_sums(graph: Graph, form: BlockFormat) -> Graph:
    """The graph whose sums read values of few kinds with exponents of their own; itself if it has no such sum.

    form: of the mantissas; where they are no wider than a value's quantizer, no other exponent holds it.
    """
    found = [node for node in graph.model.graph.node if _coarse(node, graph.constants, graph.grids, form)]
    if not found:
        return graph
    result = copied(graph.model)
    written: dict[str, str] = {}
    nodes: list[NodeProto] = []
    for node in result.graph.node:
        for index in _coarse(node, graph.constants, graph.grids, form):
            name = node.input[index]
            if name not in written:
                steps = _again(name, graph.grids[name], result)
                nodes += steps
                written[name] = steps[-1].output[0]
            node.input[index] = written[name]
        nodes.append(node)
    replace_nodes(result, nodes)
    return rebuilt(graph, result)


def _coarse(node: NodeProto, constants: Collection[str], grids: Grids, form: BlockFormat) -> list[int]:
    """The operands of a sum whose steps are powers of two, and larger than another operand's may be."""
    if node.op_type not in SUMS or any(name in constants for name in node.input):
        return []
    steps = [_step(grids.get(name)) for name in node.input]
    return [
        index for index, (name, step) in enumerate(zip(node.input, steps, strict=True))
        if step > min(steps) and 2 * grids[name].largest <= form.mantissa_max * step
    ]


def _step(grid: Grid | None) -> float:
    return grid.step if grid is not None and grid.few and grid.power is not None else 0.0


def _again(name: str, grid: Grid, model: ModelProto) -> list[NodeProto]:
    """The value once more: a ReLU of it, or of its distance from the least one."""

    def step(kind: str, inputs: list[str], suffix: str) -> NodeProto:
        return helper.make_node(kind, inputs, [f"{name}/{suffix}"], name=f"{name}/{suffix}")

    if grid.low >= 0:
        return [step("Relu", [name], "again")]
    least = f"{name}/least"
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(-grid.low, np.float32), least))
    return [
        step("Add", [name, least], "from_zero"),
        step("Relu", [f"{name}/from_zero"], "positive"),
        step("Sub", [f"{name}/positive", least], "again"),
    ]
