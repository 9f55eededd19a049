"""Whether a condition of 1 bit implies one of others, whatever the values are that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bfpga.synthesis.body import Opcode, Operation

#: Unknown conditions in a truth table: 2^10 bits are one word of Python's arithmetic and quick.
_MOST_UNKNOWN = 10
_GATES = (Opcode.AND, Opcode.OR, Opcode.XOR, Opcode.SELECT)


def implies_one_of(operations: Sequence[Operation], condition: int, others: Sequence[int]) -> bool:
    """True if one of ``others`` is known to hold whenever ``condition`` does.

    Conditions are opened into what they are made of, the last one first, until a truth table shows it: what stands
    for anything until then cannot make it true by mistake. False says that it is not known.
    """
    if condition in others:
        return True
    opened: set[int] = set()
    unknown = _no_constants(operations, (condition, *others))
    while len(unknown) <= _MOST_UNKNOWN:
        tables = _Tables(operations, sorted(unknown))
        for gate in sorted(opened):  # an operation comes behind its operands
            tables.open(gate)
        missing = tables[condition]
        for other in others:
            missing &= ~tables[other]
        if not missing:
            return True
        last = max((index for index in unknown if operations[index].opcode in _GATES), default=None)
        if last is None:
            return False
        unknown.remove(last)
        opened.add(last)
        unknown |= _no_constants(operations, operations[last].operands) - opened
    return False


def _no_constants(operations: Sequence[Operation], indices: Iterable[int]) -> set[int]:
    return {index for index in indices if operations[index].opcode is not Opcode.CONSTANT}


class _Tables:
    """Truth tables of conditions: bit k is the value where the bits of k are those of the unknown ones."""

    def __init__(self, operations: Sequence[Operation], unknown: Sequence[int]) -> None:
        rows = 1 << len(unknown)
        self._operations, self._every = operations, (1 << rows) - 1
        # The table of the n-th: 2^n times 0, 2^n times 1, and so on.
        self._tables = {index: self._every // ((1 << (1 << n)) + 1) << (1 << n) for n, index in enumerate(unknown)}

    def __getitem__(self, index: int) -> int:
        operation = self._operations[index]
        return self._every * operation.value if operation.opcode is Opcode.CONSTANT else self._tables[index]

    def open(self, index: int) -> None:
        """Adds the table of a gate whose operands have theirs."""
        operation = self._operations[index]
        one, other, *rest = (self[operand] for operand in operation.operands)
        match operation.opcode:
            case Opcode.AND:
                table = one & other
            case Opcode.OR:
                table = one | other
            case Opcode.XOR:
                table = one ^ other
            case _:  # SELECT
                table = (one & other) | (~one & rest[0])
        self._tables[index] = table
