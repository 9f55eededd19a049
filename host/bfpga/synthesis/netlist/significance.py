"""How many bits of each value of a loop body carry something: the others repeat a sign or are zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bfpga.synthesis.body import LoopBody, Opcode, Operation
from bfpga.synthesis.graph import amount_bits


@dataclass(frozen=True, slots=True)
class Bits:
    """``unsigned``: bits from this one on are zero; ``signed``: bits from this one on repeat the one below it."""

    unsigned: int
    signed: int

    @property
    def is_signed(self) -> bool:
        """Whether the sign form is the shorter one."""
        return self.signed < self.unsigned

    @property
    def count(self) -> int:
        """Bits of the shorter form, at least one."""
        return max(1, min(self.signed, self.unsigned))


def significant_bits(body: LoopBody) -> list[Bits]:
    """`Bits` of every operation's value, from what its operands are (no ranges of values are followed)."""
    known: list[Bits] = []
    for operation in body.operations:
        operands = [known[index] for index in operation.operands]
        rule = _RULES.get(operation.opcode)
        found = rule(body, operation, operands) if rule else Bits(operation.width, operation.width)
        unsigned = max(0, min(found.unsigned, operation.width))
        known.append(Bits(unsigned, max(1, min(found.signed, unsigned + 1, operation.width))))
    return known


Rule = Callable[[LoopBody, Operation, Sequence[Bits]], Bits]


def _constant(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    value, width = operation.value, operation.width
    negative = ~value & ((1 << width) - 1)
    return Bits(value.bit_length(), min(value.bit_length(), negative.bit_length()) + 1)


def _sign_extension(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    (operand,) = operands
    positive = operand.unsigned < body.operations[operation.operands[0]].width
    return Bits(operand.unsigned if positive else operation.width, operand.signed)


def _sum(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    first, second = operands
    return _grown(operation, max(first.unsigned, second.unsigned) + 1, max(first.signed, second.signed) + 1)


def _difference(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    return _grown(operation, operation.width, max(operands[0].signed, operands[1].signed) + 1)


def _product(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    first, second = operands
    return _grown(operation, first.unsigned + second.unsigned, first.signed + second.signed)


def _grown(operation: Operation, unsigned: int, signed: int) -> Bits:
    """A form that has outgrown the width wraps around: it says nothing."""
    return Bits(min(unsigned, operation.width), min(signed, operation.width))


def _shift_left(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    amount = body.operations[operation.operands[1]]
    if amount.opcode is not Opcode.CONSTANT:
        return Bits(operation.width, operation.width)
    return _grown(operation, operands[0].unsigned + amount.value, operands[0].signed + amount.value)


def _shift_right(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    amount = body.operations[operation.operands[1]]
    read = (1 << amount_bits(operation.width)) - 1
    fixed = amount.value & read if amount.opcode is Opcode.CONSTANT else 0
    value = operands[0]
    arithmetic = operation.opcode is Opcode.ASHR
    if not arithmetic:
        return Bits(value.unsigned - fixed, operation.width)
    positive = value.unsigned < operation.width
    return Bits(value.unsigned - fixed if positive else operation.width, value.signed - fixed)


def _slice(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    return Bits(operands[0].unsigned - operation.value, operands[0].signed - operation.value)


def _concatenation(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    place = top = 0
    for index, operand in zip(operation.operands, operands, strict=True):
        if operand.unsigned:
            top = place + operand.unsigned
        place += body.operations[index].width
    return Bits(top, operation.width)


def _count(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    return Bits(body.operations[operation.operands[0]].width.bit_length(), operation.width)


def _either(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    values = operands[-2:]
    return Bits(max(bits.unsigned for bits in values), max(bits.signed for bits in values))


def _both(body: LoopBody, operation: Operation, operands: Sequence[Bits]) -> Bits:
    return Bits(min(bits.unsigned for bits in operands), max(bits.signed for bits in operands))


_RULES: dict[Opcode, Rule] = {
    Opcode.CONSTANT: _constant,
    Opcode.ZEXT: lambda body, operation, operands: Bits(operands[0].unsigned, operands[0].unsigned + 1),
    Opcode.SEXT: _sign_extension,
    Opcode.ADD: _sum,
    Opcode.SUB: _difference,
    Opcode.MUL: _product,
    Opcode.SHL: _shift_left,
    Opcode.LSHR: _shift_right,
    Opcode.ASHR: _shift_right,
    Opcode.SLICE: _slice,
    Opcode.CONCAT: _concatenation,
    Opcode.SELECT: _either,
    Opcode.OR: _either,
    Opcode.XOR: _either,
    Opcode.AND: _both,
    Opcode.UDIV: lambda body, operation, operands: Bits(operands[0].unsigned, operation.width),
    Opcode.UREM: lambda body, operation, operands: Bits(
        min(operands[0].unsigned, operands[1].unsigned), operation.width
    ),
    Opcode.POPCOUNT: _count,
    Opcode.CLZ: _count,
    Opcode.CTZ: _count,
}
