"""Whether a program keeps the rounding of the quantizers of few values, and what it says where it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bfpga.compiler.lower.layers import Lowered
from bfpga.compiler.read.importer import Graph
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode


def lost_rounding(
    graph: Graph, lowered: Lowered, nodes: Iterable[ArrayNode], exponents: Mapping[str, int]
) -> list[str]:
    """A note for the values of few kinds that no operation rounds; none if all are kept.

    nodes: of the array; exponents: static ones of tensors.
    """
    layers = {node.output: node for node in nodes}
    by_host = {name for operator in lowered.host for name in operator.outputs}
    joined = {name for operator in graph.operators if operator.type == "Concat" for name in operator.inputs}

    def kept(name: str) -> bool:
        if name not in layers:  # written as a part of another, or as a rearrangement of it
            readers = [operator.outputs[0] for operator in graph.consumers.get(name, [])]
            return name in joined or any(kept(other) for other in readers if other in lowered.views)
        policy = layers[name].policy
        static = policy.inherit or policy.policy == Policy.STATIC
        return static and exponents.get(name) == graph.grids[name].power

    values = [name for operator in graph.operators for name in operator.outputs if graph.rounds(name)]
    lost = [name for name in values if name not in by_host and name not in lowered.views and not kept(name)]
    if not lost:
        return []
    others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return [f"{lost[0]}{others}: the rounding of a quantizer of few values is lost: results differ from the network's"]
