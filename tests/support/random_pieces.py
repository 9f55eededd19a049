"""Pieces of random maps for the units of a cluster of processes."""

from __future__ import annotations

import numpy as np

from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.engines.sparse_cluster.units.process_words import UnitNumbers


def random_numbers(generator: np.random.Generator, shape: tuple[int, ...], density: float, bits: int) -> np.ndarray:
    values = generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(generator.random(shape) < density, values, 0)


def largest_piece(numbers: UnitNumbers, generator: np.random.Generator, offset: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a piece at an offset that takes no more blocks than a unit has."""
    rows = int(generator.integers(1, 14))
    kernel_rows, kernel_columns = numbers.kernel
    down = (offset[0] + rows + kernel_rows - 2) // kernel_rows - offset[0] // kernel_rows + 1
    across = numbers.words // down
    most = (across - 1) * kernel_columns - kernel_columns + 2 - offset[1] % kernel_columns
    return rows, int(generator.integers(1, max(2, min(14, most + 1))))


def piece_blocks(piece: Rectangle, numbers: UnitNumbers) -> list[tuple[int, int]]:
    """Blocks that hold a cell to which a value of the piece may add, one by one."""
    rows, columns = numbers.kernel
    return [
        (row, column)
        for row in range(piece.row0 // rows, (piece.row1 + rows - 2) // rows + 1)
        for column in range(piece.column0 // columns, (piece.column1 + columns - 2) // columns + 1)
    ]
