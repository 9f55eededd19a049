"""Whether a program's exponents follow the samples in their order."""

from __future__ import annotations

from bfpga.contract.program import HostNode, Program
from bfpga.engines.output.exponents import LEARNING


def learns(program: Program) -> bool:
    """Whether a sample's result depends on the samples before it: exponents that follow the data."""
    nodes = (node for node in program.nodes if not isinstance(node, HostNode))
    return any(node.policy.policy in LEARNING for node in nodes)
