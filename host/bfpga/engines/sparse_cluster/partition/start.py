"""Where the exchange of lines starts: an equal grid, or limits at the quantiles of the work (SC R22, 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bfpga.engines.sparse_cluster.partition.geometry import CutGeometry
from bfpga.engines.sparse_cluster.partition.moves import Limits
from bfpga.formats.arrays import Int64Array

Pair = tuple[int, int]


def equal_limits(geometry: CutGeometry, grid: Pair, snap: Pair, minimum: Pair) -> Limits:
    """Pieces of equal area, as nearly as lines and ``snap`` allow."""
    rows, columns = (
        _placed([index * lines / pieces for index in range(1, pieces)], lines, step, least)
        for lines, pieces, step, least in zip(geometry.shape, grid, snap, minimum, strict=True)
    )
    return Limits.of(rows, [columns] * grid[0])


def quantile_limits(table: Int64Array, geometry: CutGeometry, grid: Pair, snap: Pair, minimum: Pair) -> Limits:
    """Bands of equal work, and in each band pieces of equal work; table: the summed-area table of the work."""
    cell_rows, cell_columns = geometry.rows.middle, geometry.columns.middle
    whole = table[cell_rows, cell_columns[-1]] - table[cell_rows, cell_columns[0]]
    rows = _quantiles(whole - whole[0], grid[0], snap[0], minimum[0])
    bands = table[cell_rows][:, cell_columns]
    bands = bands - bands[:, :1]
    columns = [_quantiles(bands[bottom] - bands[top], grid[1], snap[1], minimum[1]) for top, bottom in pairwise(rows)]
    return Limits.of(rows, columns)


def _quantiles(cumulative: Int64Array, pieces: int, snap: int, minimum: int) -> list[int]:
    """Limits so that pieces hold equal shares; cumulative: work before each limit (lines + 1,)."""
    shares = cumulative[-1] * np.arange(1, pieces) / pieces
    targets = np.searchsorted(cumulative[1:], shares, "left") + 1
    return _placed(targets.tolist(), len(cumulative) - 1, snap, minimum)


def _placed(targets: Sequence[float], lines: int, snap: int, minimum: int) -> list[int]:
    """The nearest multiples of ``snap`` that leave every piece its ``minimum``."""
    step = -(-minimum // snap) * snap
    limits = [0]
    for index, target in enumerate(targets):
        pieces_right = len(targets) - index - 1
        highest = (lines - minimum) // snap * snap - step * pieces_right
        limits.append(max(limits[-1] + step, min(round(target / snap) * snap, highest)))
    return [*limits, lines]
