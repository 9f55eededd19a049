"""Where the exchange of lines starts: an equal grid, or limits at the quantiles of the work (SC R22, 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bfpga.engines.sparse_cluster.partition.geometry import CutGeometry
from bfpga.engines.sparse_cluster.partition.moves import Limits
from bfpga.formats.arrays import Int64Array

Pair = tuple[int, int]


def equal_limits(geometry: CutGeometry, grid: Pair) -> Limits:
    """Pieces of equal area, as nearly as lines allow."""
    rows, columns = (
        _placed([index * lines / pieces for index in range(1, pieces)], lines)
        for lines, pieces in zip(geometry.shape, grid, strict=True)
    )
    return Limits.of(rows, [columns] * grid[0])


def quantile_limits(table: Int64Array, geometry: CutGeometry, grid: Pair) -> Limits:
    """Bands of equal work, and in each band pieces of equal work; table: the summed-area table of the work."""
    cell_rows, cell_columns = geometry.rows.middle, geometry.columns.middle
    whole = table[cell_rows, cell_columns[-1]] - table[cell_rows, cell_columns[0]]
    rows = _quantiles(whole - whole[0], grid[0])
    bands = table[cell_rows][:, cell_columns]
    bands = bands - bands[:, :1]
    columns = [_quantiles(bands[bottom] - bands[top], grid[1]) for top, bottom in pairwise(rows)]
    return Limits.of(rows, columns)


def _quantiles(cumulative: Int64Array, pieces: int) -> list[int]:
    """Limits so that pieces hold equal shares; cumulative: work before each limit (lines + 1,)."""
    shares = cumulative[-1] * np.arange(1, pieces) / pieces
    targets = np.searchsorted(cumulative[1:], shares, "left") + 1
    return _placed(targets.tolist(), len(cumulative) - 1)


def _placed(targets: Sequence[float], lines: int) -> list[int]:
    """The nearest limits that leave every piece a line."""
    limits = [0]
    for index, target in enumerate(targets):
        highest = lines - len(targets) + index
        limits.append(max(limits[-1] + 1, min(round(target), highest)))
    return [*limits, lines]
