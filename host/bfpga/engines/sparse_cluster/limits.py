"""The sparse cluster's partition rule: where the lines of a map are cut so that pieces hold equal work (SC R22, R36).

The hardware decides line by line in one scan (docs/engines.md, section 6). Its conditions become true once and stay
true, so a piece begins with the first line at which they hold: found here for all maps at once.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

import numpy as np

from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.formats.arrays import Int64Array, IntArray


def limits(counts: IntArray, pieces: int, most: int) -> Int64Array:
    """Limits of pieces with shares of ``counts`` as equal as whole lines allow, at most ``most`` lines each.

    counts: (..., lines), 0 or more; lines that are all 0 count alike. The result is (..., pieces + 1): piece i holds
    lines [limit i, limit i + 1). There must be at most pieces * most lines; with fewer lines than pieces the last
    pieces are empty.
    """
    lines = counts.shape[-1]
    counts = np.where(counts.any(axis=-1, keepdims=True), counts, 1)
    prefix = np.cumsum(counts, axis=-1, dtype=np.int64)
    result = np.full((*counts.shape[:-1], pieces + 1), lines, np.int64)
    result[..., 0] = 0
    total = prefix[..., -1:]
    twice_middle = 2 * prefix - counts
    for piece in range(1, pieces):
        start = result[..., piece - 1]
        behind = pieces - piece
        share = (pieces * twice_middle < 2 * piece * total).sum(axis=-1)
        wanted = np.maximum(np.maximum(share, lines - behind * most), start + 1)
        forced = np.maximum(lines - behind, start + 1)
        result[..., piece] = np.minimum(np.minimum(np.minimum(wanted, start + most), forced), lines)
    return result


@lru_cache(maxsize=4096)
def piece_limits(build: ClusterNumbers, rows: int, columns: int, kernel: tuple[int, int]) -> tuple[int, int] | None:
    """The most rows and columns a piece of a strip's rectangle may have, or None if the strip does not fit (SC R155).

    rows, columns: of the rectangle. kernel: rows and columns. The more a piece may grow beyond the nominal one (rows /
    grid_rows, columns / grid_columns), the better the partition follows the data: of the sizes that a unit holds it is
    the one whose smaller growth is the largest, of equal ones that with the largest area.
    """
    whole = rows * columns
    sizes = (
        (piece_rows, _most_columns(build, piece_rows, columns, kernel))
        for piece_rows in range(-(-rows // build.grid_rows), rows + 1)
    )
    # Smaller growths times ``whole``, so that they are integers.
    grown = [
        (min(size[0] * build.grid_rows * columns, size[1] * build.grid_columns * rows), size[0] * size[1], size)
        for size in sizes
    ]
    growth, _, size = max(grown)
    return size if growth >= whole else None


def _most_columns(build: ClusterNumbers, rows: int, columns: int, kernel: tuple[int, int]) -> int:
    """The widest piece of this height that a unit holds, 0 if there is none."""
    return bisect_left(range(1, columns + 1), True, key=lambda width: not build.piece_fits(rows, width, *kernel))
