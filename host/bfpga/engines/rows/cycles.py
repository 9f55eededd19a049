"""Clocks of the process `rows`: lanes one after the other, and what its two loops wait for each other."""

from __future__ import annotations

from bfpga.contract.rows import RowOperation

#: Stages of the loops that a sum and the factors made of it pass, as `bfpga synthesize` schedules them at 8 ns on
#: Zynq-7000: 10 of the loop over lanes, 14 of the loop over rows.
EXCHANGE_STAGES = 24
#: Clocks of an operation besides those of its groups, and more than other operations have between their last read and
#: their last result: its commands, the way of the operand's exponent, scales that are moved a bit a clock, the first
#: factors, the stages of both loops. So the schedule of one operation has at most 2.4 % more than its Verilog takes.
OPENING_CLOCKS = 49
#: Clocks until a beat between the loops is used, there and back.
_BEATS = 3


def operation_cycles(operation: RowOperation, channels: int, groups: int, columns: int, lanes: int) -> int:
    """Clocks of an operation by itself."""
    return OPENING_CLOCKS + groups * group_cycles(operation, channels, columns, lanes)


def group_cycles(operation: RowOperation, channels: int, columns: int, lanes: int) -> int:
    """Clocks of an operation over a group of ``columns`` rows, where operands are there in time."""
    words = -(-channels // lanes)
    steps = operation.passes * words * lanes
    if operation is RowOperation.PRODUCT:
        return steps + words  # a word of the first tensor is taken in a clock of its own
    # Totals leave and factors come, both in half the clocks of the loop between; offsets are cleared beforehand.
    cleared = columns if operation.normalizes else 0
    return steps + 2 * columns + cleared + _BEATS + EXCHANGE_STAGES
