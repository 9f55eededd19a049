"""What the operators left to the host take on the ARM cores of a board: an estimate, no board has been measured."""

from __future__ import annotations

from bfpga.accelerator.boards import ArmCores
from bfpga.contract.program import Program
from bfpga.estimate.program import ProgramEstimate
from bfpga.program.host import host_nodes
from bfpga.program.stream_time import StreamTime, stream_time


def host_seconds(program: Program, cores: ArmCores | None) -> float | None:
    """Seconds of all that is left to the host, for one sample; None where a board's cores are not known."""
    nodes = host_nodes(program)
    if cores is None:
        return None if nodes else 0.0
    return sum(map(cores.node_seconds, nodes), 0.0)


def time_in_stream(program: Program, estimate: ProgramEstimate, cores: ArmCores | None) -> StreamTime:
    """The time of a sample in a stream of them, host included; without it where a board's cores are not known."""
    host = cores.node_seconds if cores is not None else lambda node, together: 0.0
    return stream_time(program, estimate.cycles, estimate.bytes_per_clock, host)
