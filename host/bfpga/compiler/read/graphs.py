"""Walks over the operators of an ONNX model, and changes that several passes make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, MutableSequence
from itertools import count
from typing import Any, TypeVar

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

Message = TypeVar("Message", NodeProto, ValueInfoProto)


def copied(model: ModelProto) -> ModelProto:
    """A copy that a pass may change."""
    result = ModelProto()
    result.CopyFrom(model)
    return result


def graph_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that a caller feeds: older files list their weights among the inputs too."""
    constants = {item.name for item in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def without_constant_inputs(model: ModelProto) -> ModelProto:
    """The model whose inputs are those that a caller feeds; itself if it has no others."""
    fed = graph_inputs(model)
    if len(fed) == len(model.graph.input):
        return model
    result = copied(model)
    del result.graph.input[:]
    result.graph.input.extend(fed)
    return result


def with_own_names(model: ModelProto) -> ModelProto:
    """The model whose nodes have names of their own, which ONNX Runtime wants; itself if they have already."""
    names = Counter(node.name for node in model.graph.node if node.name)
    if all(uses == 1 for uses in names.values()):
        return model
    result, used = copied(model), set(names)
    for node in result.graph.node:
        if names[node.name] > 1:
            names[node.name] -= 1
            node.name = next(name for number in count(2) if (name := f"{node.name}_{number}") not in used)
            used.add(node.name)
    return result


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """Graphs in the attributes of an operator."""
    return [graph for item in node.attribute for graph in ([item.g] if item.HasField("g") else item.graphs)]


def all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """All operators of a model: of its graph, its subgraphs and its functions."""
    yield from nested(model.graph.node)
    for function in model.functions:
        yield from nested(function.node)


def nested(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Operators and those of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from nested(graph.node)


def rename(names: MutableSequence[str], old: str, new: str) -> None:
    """Replace a name everywhere."""
    for index, name in enumerate(names):
        if name == old:
            names[index] = new


def replace_nodes(model: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Give a model other operators; they may be its own."""
    kept = [_copy_of(node) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def replace_outputs(model: ModelProto, values: Iterable[ValueInfoProto]) -> None:
    """Give a model other outputs; they may be its own."""
    kept = [_copy_of(value) for value in values]
    del model.graph.output[:]
    model.graph.output.extend(kept)


def _copy_of(message: Message) -> Message:
    result = type(message)()
    result.CopyFrom(message)
    return result


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """Attributes as plain values."""
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}
