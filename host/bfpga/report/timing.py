"""When each operation of one sample runs, in the order that the kernel keeps; the host's work between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import HostNode, HostStep, KernelOperation, Program
from bfpga.estimate.program import clock_hz
from bfpga.program.cycles import sample_starts
from bfpga.program.schedule import schedule


@dataclass(frozen=True)
class Timed:
    """Work in cycles [begin, end) from the sample's begin: an operation of a kernel start, or a node of the host.

    start: number of the program's step.
    """

    work: KernelOperation | HostNode
    begin: float
    end: float
    start: int = 0


def sample_times(accelerator: Accelerator, program: Program) -> tuple[list[Timed], float]:
    """All work of one sample alone and the cycles that it takes, resident weights already loaded.

    Memory gives the board's assumed rate. The host takes what is estimated for a core of the board, and no time where
    the board's file has no cores.
    """
    work: list[Timed] = []
    moment = 0.0
    starts = {start.step: start for start in sample_starts(program)}
    for number, step in enumerate(program.steps):
        if isinstance(step, HostStep):
            node = program.nodes[step.node]
            assert isinstance(node, HostNode)
            end = moment + host_cycles(accelerator, node)
            work.append(Timed(node, moment, end, number))
            moment = end
            continue
        if number not in starts:
            continue
        start = starts[number]
        moments, length = start_times(accelerator, program, start.operations)
        for _ in range(start.times):
            work += [
                Timed(operation, moment + begin, moment + end, number)
                for operation, (begin, end) in zip(start.operations, moments, strict=True)
            ]
            moment += length
    return work, moment


def start_times(
    accelerator: Accelerator, program: Program, operations: Sequence[KernelOperation]
) -> tuple[list[tuple[float, float]], float]:
    """Begin and end of the operations of one kernel start, and its cycles in all."""
    found = schedule(program.config, operations, 1, accelerator.bytes_per_clock)
    return [(timed.begin, timed.end) for timed in found.operations], found.clocks


def host_cycles(accelerator: Accelerator, node: HostNode) -> float:
    """Cycles of the kernel's clock that a node is estimated to take a core of the board; 0 if it is not known."""
    cores = accelerator.board.arm_cores
    return 0.0 if cores is None else cores.node_seconds(node) * clock_hz(accelerator)


def kernel_operations(work: Sequence[Timed]) -> Iterator[tuple[KernelOperation, Timed]]:
    """What kernels do of the work."""
    for item in work:
        if isinstance(item.work, KernelOperation):
            yield item.work, item
