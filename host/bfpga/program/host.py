"""What a program leaves to the host."""

from __future__ import annotations

from bfpga.contract.program import HostNode, Program


def host_nodes(program: Program) -> list[HostNode]:
    """The nodes that the host computes, in order."""
    return [node for node in program.nodes if isinstance(node, HostNode)]


def host_share(program: Program) -> float:
    """The share of the network's operations that the host computes (a multiply-accumulate counts two)."""
    host = sum(node.flops for node in host_nodes(program))
    array = sum(2 * node.macs for node in program.nodes if not isinstance(node, HostNode))
    return host / (host + array) if host + array else 0.0


def array_alone(program: Program) -> str:
    """What follows times and rates that leave the host out; nothing where they are the whole network's."""
    return ", the array alone" if host_nodes(program) else ""
