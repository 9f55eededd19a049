"""Whether a program stays within what its kernel's registers and counters hold."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.limits import CYCLE_BITS, problems
from bfpga.contract.program import HostStep, KernelOperation, Program
from bfpga.errors import ProgramError
from bfpga.program.cycles import longest_clocks


def check_limits(program: Program) -> None:
    """ProgramError for the first operation that the program's kernel cannot hold, and for starts that take too long."""
    for number, operations in starts(program):
        for operation in operations:
            for problem in problems(program.config, operation.descriptor):
                raise ProgramError(f"program {program.name}, start {number}, layer {operation.layer}: {problem}")
        _check_cycles(program.config, operations, f"program {program.name}, start {number}")


def starts(program: Program) -> Iterator[tuple[int, list[KernelOperation]]]:
    """The kernel starts of a program with their numbers; 0 loads the resident weights."""
    yield 0, program.setup.operations
    for number, step in enumerate(program.steps, 1):
        if not isinstance(step, HostStep):
            yield number, step.operations


def _check_cycles(config: KernelConfig, operations: list[KernelOperation], where: str) -> None:
    cycles = sum(longest_clocks(config, operation) for operation in operations)
    if cycles >= 1 << CYCLE_BITS:
        raise ProgramError(f"{where}: takes {cycles:,} cycles; the kernel counts {(1 << CYCLE_BITS) - 1:,} at most")
