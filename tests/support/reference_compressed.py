"""Compressed payloads written cell by cell, as plainly as the specification says it; slow, for comparison."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int64]


def words_of_bits(bits: list[int]) -> list[int]:
    """A string of bits in words, the first bit lowest."""
    padded = bits + [0] * (-len(bits) % 32)
    return [sum(bit << n for n, bit in enumerate(padded[k : k + 32])) for k in range(0, len(padded), 32)]


def words_of_values(values: list[int], value_bytes: int) -> list[int]:
    octets = struct.pack(f"<{len(values)}{'bh'[value_bytes - 1]}", *values)
    octets += bytes(-len(octets) % 4)
    return list(struct.unpack(f"<{len(octets) // 4}I", octets))


def tile_cells(shape: tuple[int, int], tile: tuple[int, int]) -> Iterator[list[tuple[int, int]]]:
    """Rows and columns of the cells of every tile, also beyond the border."""
    for top in range(0, shape[0], tile[0]):
        for left in range(0, shape[1], tile[1]):
            yield [(top + i, left + j) for i in range(tile[0]) for j in range(tile[1])]


def value_at(cells: Cells, row: int, column: int) -> int:
    """A value, zero beyond the border."""
    return int(cells[row, column]) if row < cells.shape[0] and column < cells.shape[1] else 0


def coo32(cells: Cells, tile: tuple[int, int]) -> list[int]:
    found = [(place, value_at(cells, *place)) for places in tile_cells(cells.shape, tile) for place in places]
    return [value & 0xFFFF | column << 16 | row << 24 for (row, column), value in found if value]


def bitmap(cells: Cells, value_bytes: int, tile: tuple[int, int]) -> list[int]:
    bits: list[int] = []
    values: list[int] = []
    for places in tile_cells(cells.shape, tile):
        held = [value_at(cells, *place) for place in places]
        bits += [int(value != 0) for value in held] + [0] * (-len(held) % 8)
        values += [value for value in held if value]
    return words_of_bits(bits) + words_of_values(values, value_bytes)


def tree(cells: Cells, value_bytes: int, leaf: int, levels: int) -> list[int]:
    root = next(leaf << n for n in range(10) if leaf << n >= max(cells.shape))
    bits: list[int] = []
    values: list[int] = []

    def visit(row: int, column: int, side: int, halvings: int) -> None:
        if row >= cells.shape[0] or column >= cells.shape[1]:
            return
        bits.append(int(cells[row : row + side, column : column + side].any()))
        if not bits[-1]:
            return
        if side > leaf and halvings:
            half = side // 2
            for top, left in ((row, column), (row, column + half), (row + half, column), (row + half, column + half)):
                visit(top, left, half, halvings - 1)
            return
        held = [value_at(cells, row + i, column + j) for i in range(side) for j in range(side)]
        bits.extend(int(value != 0) for value in held)
        values.extend(value for value in held if value)

    visit(0, 0, root, levels)
    header = [len(bits), leaf | levels << 8 | (root.bit_length() - 1) << 16]
    return header + words_of_bits(bits) + words_of_values(values, value_bytes)
