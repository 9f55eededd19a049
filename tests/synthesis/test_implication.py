"""What conditions are made of shows whether one implies others; what it does not show is not claimed."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from bfpga.synthesis.body import Opcode, Operation
from bfpga.synthesis.implication import implies_one_of

_UNKNOWN = 5
_GATES = (Opcode.AND, Opcode.OR, Opcode.XOR, Opcode.SELECT)


@st.composite
def _conditions(draw: st.DrawFn) -> list[Operation]:
    """Unknown bits, both constants, and gates on what is before them."""
    operations = [Operation(Opcode.STATE, 1, register=n) for n in range(_UNKNOWN)]
    operations += [Operation(Opcode.CONSTANT, 1, value=value) for value in (0, 1)]
    for opcode in draw(st.lists(st.sampled_from(_GATES), min_size=3, max_size=12)):
        before = st.integers(0, len(operations) - 1)
        operands = tuple(draw(before) for _ in range(3 if opcode is Opcode.SELECT else 2))
        operations.append(Operation(opcode, 1, operands))
    return operations


def _values(operations: list[Operation], bits: tuple[int, ...]) -> list[int]:
    values: list[int] = []
    for operation in operations:
        of = [values[o] for o in operation.operands]
        match operation.opcode:
            case Opcode.AND:
                values.append(of[0] & of[1])
            case Opcode.OR:
                values.append(of[0] | of[1])
            case Opcode.XOR:
                values.append(of[0] ^ of[1])
            case Opcode.SELECT:
                values.append(of[1] if of[0] else of[2])
            case Opcode.CONSTANT:
                values.append(operation.value)
            case _:
                values.append(bits[operation.register])
    return values


@given(_conditions(), st.data())
def test_a_condition_implies_others_where_one_of_them_holds_for_all_values(
    operations: list[Operation], data: st.DataObject
) -> None:
    last = st.integers(_UNKNOWN, len(operations) - 1)
    condition, others = data.draw(last), data.draw(st.lists(last, min_size=1, max_size=3))
    rows = [_values(operations, bits) for bits in product((0, 1), repeat=_UNKNOWN)]
    expected = all(any(row[o] for o in others) for row in rows if row[condition])
    assert implies_one_of(operations, condition, others) == expected


def test_conditions_of_too_many_unknown_ones_count_as_independent() -> None:
    operations = [Operation(Opcode.STATE, 1, register=n) for n in range(24)]
    for n in (*range(2, 24), *range(2, 24)):  # two chains of the same bits
        operations.append(Operation(Opcode.XOR, 1, (len(operations) - 1 if n > 2 else 0, n)))
    assert not implies_one_of(operations, len(operations) - 1, [len(operations) - 23])
