"""What the operators left to the host take on the ARM cores of a board: an estimate, no board has been measured."""

from __future__ import annotations

from bfpga.accelerator.boards import ArmCores
from bfpga.contract.program import HostNode, Program
from bfpga.program.host import host_nodes


def arm_seconds(node: HostNode, cores: ArmCores) -> float:
    """Seconds of a host node for one sample on one core: its operations, and what calling each operator takes.

    One core, since numpy computes most operators with one, and those of one sample are too small to share.
    """
    return cores.seconds(node.flops, len(node.operators))


def host_seconds(program: Program, cores: ArmCores | None) -> float | None:
    """Seconds of all that is left to the host, for one sample; None where a board's cores are not known."""
    nodes = host_nodes(program)
    if cores is None:
        return None if nodes else 0.0
    return sum((arm_seconds(node, cores) for node in nodes), 0.0)
