"""A look-up table of the boards computes two functions with five inputs together; the counts know it."""

from __future__ import annotations

import pytest

from bfpga.synthesis.netlist.mapped import Cell, MappedModule, count, shared_tables


def table(output: int, *inputs: int) -> Cell:
    return "$lut", {"A": list(inputs), "Y": [output]}


def chain(*selections: int) -> Cell:
    return "CARRY4", {"S": list(selections), "DI": [0, 0, 0, 0]}


@pytest.mark.parametrize(
    ("cells", "shared"),
    [
        ([table(10, 1, 2), table(11, 2, 3)], 1),
        ([table(10, 1, 2), table(11, 3, 4)], 0),  # nothing in common: a placer's business
        ([table(10, 1, 2, 3), table(11, 3, 4, 5)], 1),
        ([table(10, 1, 2, 3, 4), table(11, 3, 4, 5, 6)], 0),  # six inputs together
        ([table(10, 1, 2, 3, 4, 5, 6), table(11, 1)], 0),
        ([table(10, 1, 2, 3, 4, 5), table(11, 1, 2, 3, 4, 5), table(12, 1, 2)], 1),
        ([table(number, 1, number) for number in range(10, 16)], 3),
        ([table(10, 1, 2), table(11, 2, 3), chain(10, 9, 9, 9)], 0),  # its second output may lead to the chain
    ],
)
def test_functions_share_a_table_if_its_inputs_suffice(cells: list[Cell], shared: int) -> None:
    module = MappedModule({}, cells, {})
    assert shared_tables(module) == shared
    tables = sum(kind == "$lut" for kind, _ in cells)
    assert count(module).lut == tables - shared

