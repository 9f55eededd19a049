"""What operators read must be given before: by an input, a constant or an operator; and subgraphs must be few."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto

from bfpga.compiler.read.graphs import all_nodes, subgraphs
from bfpga.errors import ModelError
from bfpga.formats.files import printable

#: Branches and loop bodies of a model: ONNX's libraries take seconds for some hundreds.
MOST_SUBGRAPHS = 256


def check_wiring(model: ModelProto, path: object) -> None:
    """ModelError for values that nothing gives, or an operator further down (a cycle), and for too many subgraphs."""
    count = sum(len(subgraphs(node)) for node in all_nodes(model))
    if count > MOST_SUBGRAPHS:
        raise ModelError(
            f"{path}: has {count:,} branches of If and bodies of loops; {MOST_SUBGRAPHS} are possible: export the "
            "network with its conditions decided and its loops unrolled"
        )
    _check_graph(model.graph, [], path)


def _check_graph(graph: GraphProto, around: list[set[str]], path: object) -> None:
    """around: the values that are there already, of each graph around this one."""
    values = [*graph.input, *graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
    known = {"", *(value.name for value in values)}
    scopes = [*around, known]
    for node in graph.node:
        for name in node.input:
            if not any(name in scope for scope in scopes):
                raise ModelError(f"{path}: operator {_named(node)} reads {_reason(name, graph)}")
        for inner in subgraphs(node):
            _check_graph(inner, scopes, path)
        known.update(node.output)


def _reason(name: str, graph: GraphProto) -> str:
    giver = next((node for node in graph.node if name in node.output), None)
    if giver is None:
        return (
            f"{printable(name)!r}, which no input, constant or operator before it gives; export the network again, "
            "and check it with onnx.checker"
        )
    return (
        f"{printable(name)!r}, which operator {_named(giver)} gives only afterwards: operators must be in the order "
        "in which they run, without a cycle"
    )


def _named(node: NodeProto) -> str:
    return f"{printable(node.name or ', '.join(node.output))} ({printable(node.op_type)})"
