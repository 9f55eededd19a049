"""Sums that a DSP block keeps in the register after its adder.

The block adds a product to that register's own word, or to zero where a new sum begins, which is its operating mode
(UG479, UG579: the multiplexer Z takes P or nothing). So the selection, the addition and the register take no
look-up tables, but nothing sees the sum before the register has it: others use it a cycle later.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.synthesis.body import LoopBody, Opcode, Register
from bfpga.synthesis.grouping import Groups


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A loop-carried ``register`` (its number) that a ``product`` is added to; operations of the loop body.

    ``sum``: the addition. ``start``: what it starts from, the register's STATE or a selection of it and zero.
    ``following``: the register's next value, the sum or a selection that keeps the register in what is no iteration.
    """

    register: int
    product: int
    sum: int
    start: int
    following: int

    def members(self) -> tuple[int, ...]:
        """Operations inside of the block."""
        return tuple(dict.fromkeys((self.product, self.start, self.sum, self.following)))


def find_accumulators(groups: Groups) -> list[Accumulator]:
    """The accumulators of a body whose operations are grouped."""
    body = groups.body
    found = []
    for number, register in enumerate(body.registers):
        total = _kept_sum(groups, register)
        if total not in groups.accumulates or not groups.live[total]:
            continue
        for side, operand in enumerate(body.operations[total].operands):
            product = groups.source_product(body.operations[total].operands[1 - side])
            if product in groups.multiplies and _starts(groups, operand, register.current):
                found.append(Accumulator(number, product, total, operand, register.next))
                break
    return found


def _kept_sum(groups: Groups, register: Register) -> int:
    """What a register takes in every iteration, past the selection that keeps it where the loop is left."""
    operation = groups.body.operations[register.next]
    of_register = groups.live[register.current] + bool(register.left)
    if operation.opcode is not Opcode.SELECT or groups.uses[register.next] != of_register:
        return register.next
    condition, if_true, if_false = operation.operands
    if if_false == register.current and _complementary(groups.body, condition):
        return if_true
    return register.next


def _complementary(body: LoopBody, condition: int) -> bool:
    """Whether a condition says that an iteration is not the one that leaves the loop."""
    leaves = body.operations[body.leaves] if body.leaves >= 0 else None
    if leaves is None or leaves.opcode is not Opcode.XOR or condition not in leaves.operands:
        return False
    others = [body.operations[operand] for operand in leaves.operands if operand != condition]
    return [(other.opcode, other.value) for other in others] == [(Opcode.CONSTANT, 1)]


def _starts(groups: Groups, index: int, current: int) -> bool:
    """Whether a value is a register's, or a selection of that and zero that nothing else uses."""
    if index == current:
        return True
    operations = groups.body.operations
    operation = operations[index]
    if operation.opcode is not Opcode.SELECT or groups.uses[index] != 1:
        return False
    zero = [operations[arm].opcode is Opcode.CONSTANT and not operations[arm].value for arm in operation.operands[1:]]
    return (zero[0] and operation.operands[2] == current) or (zero[1] and operation.operands[1] == current)
