"""What a program leaves to the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bfpga.contract.program import HostNode, Program, values_read

#: ONNX operators that leave the order of scores as it is; and those that only shape them, in their order.
MONOTONE = frozenset({"LogSoftmax", "Sigmoid", "Softmax"})
SHAPES = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})

#: Operators that give a sample the same bits in ONNX Runtime and in numpy, however many are computed with it: they move
#: values, round each result once, or go through rows. Others (matrix products, sums, Log, Elu, Softplus) do not.
SEPARATE = frozenset({
    "Abs", "Add", "And", "ArgMax", "ArgMin", "Cast", "Ceil", "Clip", "Concat", "Constant", "DepthToSpace", "Div",
    "Dropout", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather", "GlobalMaxPool", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "InstanceNormalization", "LayerNormalization",
    "LeakyRelu", "Less", "LessOrEqual", "LogSoftmax", "LpNormalization", "Max", "MaxPool", "Min", "Mul", "Neg", "Not",
    "Or", "PRelu", "Pad", "Reciprocal", "ReduceMax", "ReduceMin", "Relu", "Reshape", "Resize", "Round", "Shape",
    "Sigmoid", "Sign", "Slice", "Softmax", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Tanh",
    "Tile", "TopK", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
#: Samples of a call have at most this many bytes: larger ones gain nothing, and what lies between operators takes room.
CALL_BYTES = 1 << 22


def keeps_apart(node: HostNode) -> bool:
    """Whether samples that share a call of a node have the bits of samples that are computed by themselves."""
    return set(node.operators) <= SEPARATE


def host_nodes(program: Program) -> list[HostNode]:
    """The nodes that the host computes, in order."""
    return [node for node in program.nodes if isinstance(node, HostNode)]


def kinds_of(nodes: Iterable[HostNode]) -> Counter[str]:
    """Operators of host nodes by their kind."""
    return Counter(kind for node in nodes for kind in node.operators)


def host_share(program: Program) -> float:
    """The share of the network's operations that the host computes (a multiply-accumulate counts two)."""
    host = sum(node.flops for node in host_nodes(program))
    array = sum(2 * node.macs for node in program.nodes if not isinstance(node, HostNode))
    return host / (host + array) if host + array else 0.0


def array_alone(program: Program) -> str:
    """What follows times and rates that leave the host out; nothing where they are the whole network's."""
    return ", the array alone" if host_nodes(program) else ""


def final_host_nodes(program: Program) -> list[HostNode]:
    """Nodes at the outputs that leave the largest value where it is: who wants a class does not need them."""
    read = {name for node in program.nodes for name in values_read(node)}
    return [
        node
        for node in host_nodes(program)
        if set(node.operators) & MONOTONE
        and set(node.operators) <= MONOTONE | SHAPES
        and not read & set(node.outputs)
    ]
