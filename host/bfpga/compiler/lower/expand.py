"""Operators that the array has no layer for, written with operators that it has.

LeakyReLU with any slope and PReLU are slope * x + max((1 - slope) * x, 0); a hard sigmoid is a clip after a factor and
an offset; a constant matrix times a value is the transposed value times the transposed matrix; phases of a transposed
convolution become channels (``row_phases``); a mask is two sums (``masks``). The host is faster with the operator as it
was, so it is written in parts only where the array computes all of them, but for rearrangements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto

from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.lower.definitions import DEFINED, by_definition
from bfpga.compiler.lower.functions import find_functions
from bfpga.compiler.lower.gathered import gathered
from bfpga.compiler.lower.masks import MASKING, masked_scores, may_mask
from bfpga.compiler.lower.over_channels import (
    largest_channel,
    may_place,
    may_spread,
    placed_channels,
    spread_over_channels,
    sum_of_channels,
)
from bfpga.compiler.lower.rotary import may_turn, rotated, turned_parts
from bfpga.compiler.lower.row_phases import phases_as_channels
from bfpga.compiler.read.graphs import attributes_of
from bfpga.compiler.read.importer import Graph, Operator, activations, rebuilt
from bfpga.compiler.read.opsets import opset_of
from bfpga.compiler.read.simplify import without_unused
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function

Floats = npt.NDArray[np.float32]
#: Mean square of the shortest vector that is scaled to length 1, about; opset since which ReduceMean reads its axes.
SHORTEST, AXES_AS_INPUT = 1e-12, 18
_Rule = Callable[[Rewriter, NodeProto, KernelConfig], bool]


@dataclass
class Expanded:
    """A graph with operators in parts. parts: names of what an operator became, by its name."""

    graph: Graph
    parts: dict[str, set[str]] = field(default_factory=dict)

    def split_operators(self, host: Iterable[Operator]) -> set[str]:
        """Operators of whose parts the host would compute or carry some; rearrangements may be its work."""
        names = {operator.name for operator in host if operator.type not in ("Transpose", "Reshape")}
        return {name for name, parts in self.parts.items() if parts & names}


def expand(graph: Graph, config: KernelConfig, kept: Collection[str]) -> Expanded:
    """Write operators in parts, but not those that are ``kept``; parts of definitions may be written in parts again."""
    defined = _written(graph, config, kept, DEFINITIONS)
    result = _written(defined.graph, config, kept, RULES)
    inner = {
        name: parts.union(*(result.parts.get(part, ()) for part in parts)) for name, parts in defined.parts.items()
    }
    return Expanded(result.graph, {**result.parts, **inner})


def _written(graph: Graph, config: KernelConfig, kept: Collection[str], rules: Mapping[str, _Rule]) -> Expanded:
    """Write the operators that have a rule in parts."""
    wanted = [item for item in graph.operators if item.name not in kept and _may_have_parts(graph, item, rules)]
    if not wanted:
        return Expanded(graph)
    taken = {operator.name for match in find_functions(graph, config).values() for operator in match.operators}
    chosen = {operator.outputs: operator for operator in wanted if operator.name not in taken}
    rewriter, parts = Rewriter(graph.model, {name: (0, *shape) for name, shape in graph.shapes.items()}), {}
    written: set[str] = set()
    #: Operators after one that were fused keep their names, and are no part of it.
    own = {other.name for other in graph.operators}
    for node in graph.model.graph.node:
        operator = chosen.get(tuple(node.output))
        before = len(rewriter.nodes)
        if node.output[0] in written:
            continue
        if operator is None or not rules[node.op_type](rewriter, node, config):
            rewriter.nodes.append(node)
        else:
            parts[operator.name] = {made.name for made in rewriter.nodes[before:]} - own
            written |= {name for made in rewriter.nodes[before:] for name in made.output}
    if not parts:
        return Expanded(graph)
    # Of several operators that a layer absorbs, the results between them are left, and those that gave them.
    return Expanded(rebuilt(graph, without_unused(rewriter.finish())), parts)


def _may_have_parts(graph: Graph, operator: Operator, rules: Mapping[str, _Rule]) -> bool:
    """Whether an operator has a rule, which is for numbers in float; those that rarely have parts are looked at."""
    floats = all(graph.types.get(name, TensorProto.FLOAT) == TensorProto.FLOAT for name in activations(graph, operator))
    return operator.type in rules and floats and LOOKED_AT.get(operator.type, _always)(graph, operator)


def _always(graph: Graph, operator: Operator) -> bool:
    return True


def _scaled(rewriter: Rewriter, value: str, factor: Floats) -> str:
    return rewriter.add("Mul", value, rewriter.constant(factor.astype(np.float32)))


def _leaky(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    slope = attributes_of(node).get("alpha", 0.01)
    return _sloped(rewriter, node, np.array(slope, np.float32), config)


def _prelu(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    slopes = rewriter.constants.get(node.input[1])
    return slopes is not None and _sloped(rewriter, node, slopes, config)


def _sloped(rewriter: Rewriter, node: NodeProto, slopes: Floats, config: KernelConfig) -> bool:
    if Function.RELU.key not in config.known_functions or (slopes > 1).any():
        return False
    value = node.input[0]
    above = rewriter.add("Relu", _scaled(rewriter, value, 1 - slopes))
    rewriter.add("Add", _scaled(rewriter, value, slopes), above, output=node.output[0])
    return True


def _hard_sigmoid(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    if Function.CLIP.key not in config.known_functions:
        return False
    attributes = attributes_of(node)
    alpha, beta = (np.array(attributes.get(name, usual), np.float32) for name, usual in (("alpha", 0.2), ("beta", 0.5)))
    line = rewriter.add("Add", _scaled(rewriter, node.input[0], alpha), rewriter.constant(beta))
    bounds = [rewriter.constant(np.float32(bound)) for bound in (0, 1)]
    rewriter.add("Clip", line, *bounds, output=node.output[0])
    return True


def _lp_normalization(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Vectors of length 1: an RMSNormalization, whose parts are found by their values, over the root of the size."""
    shape, attributes = rewriter.shapes.get(node.input[0], ()), attributes_of(node)
    axis = int(attributes.get("axis", -1)) % max(len(shape), 1)
    if not config.has_rows or attributes.get("p", 2) != 2 or axis == 0 or len(shape) < 2:
        return False
    order = [*(place for place in range(len(shape)) if place != axis), axis]
    last = axis == len(shape) - 1
    value = node.input[0] if last else rewriter.add("Transpose", node.input[0], perm=order)
    squares = rewriter.add("Mul", value, value)
    if opset_of(rewriter.model) < AXES_AS_INPUT:
        mean = rewriter.add("ReduceMean", squares, axes=[-1], keepdims=1)
    else:
        mean = rewriter.add("ReduceMean", squares, rewriter.constant(np.array([-1], np.int64)), keepdims=1)
    length = rewriter.add("Sqrt", rewriter.add("Add", mean, rewriter.constant(np.float32(SHORTEST))))
    scaled = rewriter.add("Div", value, length)
    factor = rewriter.constant(np.float32(1 / np.sqrt(shape[axis])))
    result = rewriter.add("Mul", scaled, factor, output=node.output[0] if last else "")
    if not last:
        rewriter.add("Transpose", result, perm=np.argsort(order).tolist(), output=node.output[0])
    return True


def _matmul(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    matrix, shape = rewriter.constants.get(node.input[0]), rewriter.shapes.get(node.input[1], ())
    if matrix is None or matrix.ndim != 2 or len(shape) != 3:
        return False
    turned = rewriter.add("Transpose", node.input[1], perm=[0, 2, 1])
    product = rewriter.add("MatMul", turned, rewriter.constant(np.ascontiguousarray(matrix.T)))
    rewriter.add("Transpose", product, output=node.output[0], perm=[0, 2, 1])
    return True


def _may_join(graph: Graph, operator: Operator) -> bool:
    return may_turn(graph, operator) or may_place(graph, operator)


def _joined(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Parts of pairs that are turned, along the last axis, or channels of images."""
    rule = placed_channels if int(attributes_of(node)["axis"]) == 1 else turned_parts
    return rule(rewriter, node, config)


#: Rules write an operator in parts, with those after it that are fused, or return False and write nothing.
RULES: dict[str, _Rule] = {
    "LeakyRelu": _leaky, "PRelu": _prelu, "HardSigmoid": _hard_sigmoid, "MatMul": _matmul,
    "ConvTranspose": phases_as_channels, "Gather": gathered, "ReduceMean": sum_of_channels,
    "ReduceSum": sum_of_channels, "ReduceMax": largest_channel, "Mul": spread_over_channels,
    **dict.fromkeys(MASKING, masked_scores),
}  # fmt: skip
#: Those of operators that ONNX defines by others, and of what exporters write for these: parts may have parts again.
DEFINITIONS: dict[str, _Rule] = {
    **dict.fromkeys(DEFINED, by_definition), "LpNormalization": _lp_normalization, "RotaryEmbedding": rotated,
    "Concat": _joined,
}  # fmt: skip
#: What is asked before a rule of operators that rarely have parts.
LOOKED_AT: dict[str, Callable[[Graph, Operator], bool]] = {
    **dict.fromkeys(MASKING, may_mask), "Concat": _may_join, "Mul": may_spread,
}  # fmt: skip
