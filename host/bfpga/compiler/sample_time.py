"""Seconds of a sample of a compiled program, by which one of several ways to lower a network is chosen."""

from __future__ import annotations

from bfpga.accelerator.boards import ArmCores
from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import Program
from bfpga.program.cycles import program_cycles
from bfpga.program.host import host_nodes


def sample_seconds(program: Program, accelerator: Accelerator, cores: ArmCores) -> float:
    """Seconds of a sample in a stream of them, the host's operators on one core included."""
    host = sum(cores.seconds(node.flops, len(node.operators)) for node in host_nodes(program))
    return program_cycles(program).stream_seconds(accelerator.bytes_per_clock) + host
