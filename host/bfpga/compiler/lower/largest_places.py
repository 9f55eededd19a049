"""The place of the largest score is the same before functions that keep the order of scores: ArgMax reads it there.

Where float32 rounds several results of such a function to one number, a Sigmoid's to 1, ArgMax would give the first of
their places; here the scores themselves decide.
"""

from __future__ import annotations

from bfpga.compiler.read.graphs import copied, rename
from bfpga.compiler.read.importer import Graph, Operator, rebuilt
from bfpga.compiler.read.opsets import OLDER_BECOMES, opset_of
from bfpga.compiler.read.simplify import without_unused
from bfpga.program.host import MONOTONE


def with_places_of_scores(graph: Graph) -> tuple[Graph, list[str]]:
    """The graph whose ArgMax operators read scores before such functions, where nothing else needs these; notes."""
    producers = {name: operator for operator in graph.operators for name in operator.outputs}
    found = {}
    for operator in graph.operators:
        source = operator.inputs[0] if operator.type == "ArgMax" else ""
        while (before := producers.get(source)) and _keeps_places(graph, before, operator):
            source = before.inputs[0]
            found[operator.name] = (source, before)
    if not found:
        return graph, []
    model = copied(graph.model)
    for node, operator in zip(model.graph.node, graph.operators, strict=True):
        if operator.name in found:
            rename(node.input, operator.inputs[0], found[operator.name][0])
    notes = [
        f"{name} takes the place from {source}, the scores before {before.name} ({before.type}): it is the same"
        for name, (source, before) in found.items()
    ]
    return rebuilt(graph, without_unused(model)), notes


def _keeps_places(graph: Graph, operator: Operator, reader: Operator) -> bool:
    """Whether the largest value along the axis of ``reader``, an ArgMax, is where it was before ``operator``.

    A Softmax keeps the order of what it adds up together. A quantizer may round two of its results to one.
    """
    value = operator.outputs[0]
    if operator.type not in MONOTONE or operator.proto.domain or graph.ends_a_layer(value):
        return False
    if graph.only_consumer(value) is None or value not in graph.shapes or value in graph.grids:
        return False
    if operator.type == "Sigmoid":
        return True
    rank, joint = len(graph.shapes[value]) + 1, opset_of(graph.model) < OLDER_BECOMES
    axis = operator.attributes.get("axis", 1 if joint else -1) % rank
    asked = reader.attributes.get("axis", 0) % rank
    return bool(asked >= axis if joint else asked == axis)
