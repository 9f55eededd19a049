"""What the operators left to the host take on the ARM cores of a board: an estimate, no board has been measured."""

from __future__ import annotations

from bfpga.accelerator.boards import ArmCores
from bfpga.contract.program import HostNode


def arm_seconds(node: HostNode, cores: ArmCores) -> float:
    """Seconds of a host node for one sample on one core: its operations, and what calling each operator takes.

    One core, since numpy computes most operators with one, and those of one sample are too small to share.
    """
    return node.flops / (cores.assumed_gflops * 1e9) + len(node.operators) * cores.assumed_call_us * 1e-6
