"""Rounds of a unit of variant C or D of a cluster of processes, and what of them waits, counted one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from unit_words import UnitNumbers

from bfpga.engines.sparse_cluster.partition.geometry import Rectangle

#: Bank and block of each product: a row of them for each weight; None in a pause.
Round = list[dict[int, tuple[int, int]]] | None


@dataclass
class Merged:
    """Rounds with products; products held back; clocks in which a round waited; clocks of all; products that leave."""

    rounds: int = 0
    held: int = 0
    stalls: int = 0
    clocks: int = 0
    left: int = 0


def rounds_of_piece(
    image: np.ndarray, piece: Rectangle, steps: Sequence[np.ndarray], numbers: UnitNumbers, products: int
) -> Iterator[Round]:
    """Rounds of a piece: tiles in the order in which their first values come, of each channel by channel in groups."""
    rows, columns = numbers.kernel
    for word, lists in enumerate(steps):
        ends = np.flatnonzero(lists[:, -1]) + 1
        channels = np.split(lists, ends)[: numbers.lanes]
        cells = image[..., word * numbers.lanes : (word + 1) * numbers.lanes]
        tiles: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for row in range(piece.row0, piece.row1):
            for column in range(piece.column0, piece.column1):
                if cells[row, column].any():
                    tiles.setdefault((row // rows, column // columns), []).append((row, column))
        for places in tiles.values():
            for lane in range(cells.shape[2]):
                values = [place for place in places if cells[place][lane]]
                for first in range(0, len(values), products):
                    for step in channels[lane]:
                        yield _round(values[first : first + products], step, numbers)


def _round(values: list[tuple[int, int]], step: np.ndarray, numbers: UnitNumbers) -> Round:
    rows, columns = numbers.kernel
    if not step[-2]:
        return None
    found = []
    for tap in np.flatnonzero(step[:-3]).tolist():
        at = {}
        for row, column in values:
            down, across = row + rows - 1 - tap // columns, column + columns - 1 - tap % columns
            at[down % rows * columns + across % columns] = (down // rows, across // columns)
        found.append(at)
    return found


def merged(rounds: Iterator[Round], adds: bool) -> Merged:
    """What an arbiter with room for one product a bank makes of rounds; adds: variant D."""
    count, waits = Merged(), set[int]()
    for each in rounds:
        products = [] if each is None else each
        number: dict[int, int] = {}
        for at in products:
            for bank in at:
                number[bank] = number.get(bank, 0) + 1
        joined = [b for b in number if number[b] == 2 and adds and products[0][b] == products[1][b]]
        number |= dict.fromkeys(joined, 1)
        count.rounds += each is not None
        count.clocks += 1
        if any(number[bank] == 2 for bank in waits & number.keys()):
            count.left += len(waits)
            count.clocks, count.stalls, waits = count.clocks + 1, count.stalls + 1, set()
        count.left += len(waits | number.keys())
        waits = {bank for bank in number if bank in waits or number[bank] == 2}
        count.held += len(waits)
    count.left += len(waits)
    return count
