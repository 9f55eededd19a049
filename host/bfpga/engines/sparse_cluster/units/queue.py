"""Which unit takes which piece where there are more pieces than units (SC R32, R150)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def units_of_pieces(loads: Sequence[int], lanes: Sequence[int]) -> list[int]:
    """The unit of each piece: pieces wait in one queue, the unit that is free first takes the next one.

    loads: work of each piece, in the order in which they are fetched. lanes: those of each unit, which finishes a piece
    after load / lanes; of units that are free at the same time the first one takes it.
    """
    free = [Fraction(0)] * len(lanes)
    result = []
    for load in loads:
        unit = min(range(len(lanes)), key=free.__getitem__)
        free[unit] += Fraction(load, lanes[unit])
        result.append(unit)
    return result
