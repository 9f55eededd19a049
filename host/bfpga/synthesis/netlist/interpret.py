"""One iteration of a loop body in plain Python: the meaning of the graph that the netlist has to have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bfpga.synthesis.body import LoopBody, Opcode, Operation
from bfpga.synthesis.graph import amount_bits, mask_of, signed

#: Operations whose result comes from outside of the body; their operands leave it.
EXTERNAL = frozenset(
    {
        Opcode.MEMORY_READ, Opcode.STREAM_READ, Opcode.STREAM_STATUS, Opcode.FLOAT, Opcode.CALL,
    }
)  # fmt: skip
#: Operations with an effect and no result.
WRITES = frozenset({Opcode.MEMORY_WRITE, Opcode.STREAM_WRITE})
#: Operations that have an enable, their last operand.
ENABLED = frozenset({Opcode.MEMORY_READ, Opcode.STREAM_READ}) | WRITES


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one iteration does: the value of every operation, next state by register, operands of enabled accesses."""

    values: tuple[int, ...]
    state: tuple[int, ...]
    accesses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def iterate(body: LoopBody, state: Sequence[int], invariants: Mapping[int, int], reads: Mapping[int, int]) -> Outcome:
    """Evaluate one iteration.

    ``state``: values of ``body.registers``; ``invariants`` and ``reads``: values by operation, those of reads that
    are not enabled may be missing (they are 0 then). Operands of accesses are given without the enable.
    """
    values: list[int] = []
    accesses: dict[int, tuple[int, ...]] = {}
    for index, operation in enumerate(body.operations):
        if operation.opcode is Opcode.STATE:
            value = state[operation.register]
        elif operation.opcode is Opcode.INVARIANT:
            value = invariants[index]
        elif operation.opcode in EXTERNAL or operation.opcode in WRITES:
            operands = [values[operand] for operand in operation.operands]
            enabled = bool(operands.pop()) if operation.opcode in ENABLED else True
            if enabled:
                accesses[index] = tuple(operands)
            value = reads.get(index, 0)
        else:
            value = evaluate(body, operation, [values[operand] for operand in operation.operands])
        values.append(value & mask_of(operation.width))
    following = tuple(values[register.next] for register in body.registers)
    return Outcome(tuple(values), following, accesses)


def evaluate(body: LoopBody, operation: Operation, operands: Sequence[int]) -> int:
    """Result of an operation without state or access; bits above its width may be set.

    The amount of a shift is read in the bits that amounts below the width need, a divisor of 0 gives 0.
    """
    widths = [body.operations[operand].width for operand in operation.operands]
    binary = _BINARY.get(operation.opcode)
    if binary is not None:
        return binary(operands[0], operands[1], widths[0])
    match operation.opcode:
        case Opcode.CONSTANT:
            return operation.value
        case Opcode.SELECT:
            return operands[1] if operands[0] else operands[2]
        case Opcode.ZEXT:
            return operands[0]
        case Opcode.SEXT:
            return signed(operands[0], widths[0])
        case Opcode.SLICE:
            return operands[0] >> operation.value
        case Opcode.CONCAT:
            return _concatenate(operands, widths)
        case Opcode.POPCOUNT:
            return operands[0].bit_count()
        case Opcode.CLZ:
            return widths[0] - operands[0].bit_length()
        case Opcode.CTZ:
            return (operands[0] & -operands[0]).bit_length() - 1 if operands[0] else widths[0]
    raise ValueError(f"{operation.opcode.value} has no value of its own")


def _concatenate(operands: Sequence[int], widths: Sequence[int]) -> int:
    result = place = 0
    for operand, width in zip(operands, widths, strict=True):
        result |= operand << place
        place += width
    return result


def _amount(amount: int, width: int) -> int:
    return amount & mask_of(amount_bits(width))


def _divide(dividend: int, divisor: int) -> int:
    """Quotient towards zero, 0 for a division by 0."""
    if divisor == 0:
        return 0
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    return dividend - divisor * _divide(dividend, divisor) if divisor else 0


_BINARY: dict[Opcode, Callable[[int, int, int], int]] = {
    Opcode.ADD: lambda a, b, w: a + b,
    Opcode.SUB: lambda a, b, w: a - b,
    Opcode.MUL: lambda a, b, w: a * b,
    Opcode.UDIV: lambda a, b, w: _divide(a, b),
    Opcode.SDIV: lambda a, b, w: _divide(signed(a, w), signed(b, w)),
    Opcode.UREM: lambda a, b, w: _remainder(a, b),
    Opcode.SREM: lambda a, b, w: _remainder(signed(a, w), signed(b, w)),
    Opcode.AND: lambda a, b, w: a & b,
    Opcode.OR: lambda a, b, w: a | b,
    Opcode.XOR: lambda a, b, w: a ^ b,
    Opcode.SHL: lambda a, b, w: a << _amount(b, w),
    Opcode.LSHR: lambda a, b, w: a >> _amount(b, w),
    Opcode.ASHR: lambda a, b, w: signed(a, w) >> _amount(b, w),
    Opcode.EQ: lambda a, b, w: int(a == b),
    Opcode.NE: lambda a, b, w: int(a != b),
    Opcode.ULT: lambda a, b, w: int(a < b),
    Opcode.ULE: lambda a, b, w: int(a <= b),
    Opcode.SLT: lambda a, b, w: int(signed(a, w) < signed(b, w)),
    Opcode.SLE: lambda a, b, w: int(signed(a, w) <= signed(b, w)),
}
