"""The order in which a program runs the streams and the processes of its kernel: as it comes, or drawn by chance."""

from __future__ import annotations

import zlib

from bfpga.contract.program import LaunchStep, Program


def order_of(program: Program) -> int:
    """The seed of a program's order, 0 for half of all programs: theirs is that of an undisturbed kernel."""
    drawn = number_of(program)
    return drawn if drawn & 1 else 0


def number_of(program: Program) -> int:
    """A number of 32 bits as if drawn by chance.

    It follows from the program alone, so a repeated case has the same one whatever ran before it.
    """
    steps = [step for step in program.steps if isinstance(step, LaunchStep)]
    operations = [operation for step in steps for operation in step.operations]
    return zlib.crc32(b"".join(operation.descriptor.to_words().tobytes() for operation in operations))
