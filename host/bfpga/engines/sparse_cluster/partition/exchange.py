"""Balanced partition of a feature map: pieces of nearly equal work for independent units (SC 3.3, 4.1).

The partition is *jagged*: bands of rows over the whole width, each band with column limits of its own. Rows or columns
move between neighbours while that makes the sum of squared loads smaller, so the search always ends; a threshold
that cannot be met is a normal result (R33). Loads are sums over rectangles of a *work map*, from a summed-area table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from bfpga.engines.kernel.products import NumberArray
from bfpga.engines.sparse_cluster.partition.geometry import CutGeometry, Rectangle
from bfpga.engines.sparse_cluster.partition.moves import Capacity, Limits, Search, summed_area_table
from bfpga.engines.sparse_cluster.partition.start import equal_limits, quantile_limits
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array, IntArray

__all__ = [
    "BalancedPartition",
    "Capacity",
    "Partition",
    "PartitionSettings",
    "PieceTooLargeError",
    "balance",
    "work_map",
    "work_table",
]

Metric = Literal["nnz_share", "zero_share", "nnz", "zeros"]
Start = Literal["equal", "quantile"]
Mode = Literal["halo", "overlap_add", "auto"]

#: Metrics that are a share of the nominal area of a piece (SC 9, I2).
SHARES = ("nnz_share", "zero_share")
#: Sum of a work map up to which sums of squared loads fit 64 bits, halo included.
LARGEST_WORK = 1 << 29


@dataclass(frozen=True)
class PartitionSettings:
    """How maps are cut (SC 2.2).

    grid: bands x pieces of a band. tau: largest difference of any two pieces, in percentage points for a share
    and in counts for a count. max_moves: None for 4 * (rows + columns).
    """

    grid: tuple[int, int] = (2, 4)
    mode: Mode = "halo"
    start: Start = "quantile"
    metric: Metric = "nnz_share"
    tau: float = 3.0
    max_moves: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no partition (R154)."""
        if len(self.grid) != 2 or min(self.grid) < 1:
            raise ConfigurationError(f"partition.grid is {self.grid}; two numbers of 1 at least are needed")
        if not self.tau >= 0:
            raise ConfigurationError(f"partition.tau is {self.tau}; 0 or more is needed")
        if self.max_moves is not None and self.max_moves < 0:
            raise ConfigurationError(f"partition.max_moves is {self.max_moves}; 0 or more is needed")

    @property
    def pieces(self) -> int:
        return self.grid[0] * self.grid[1]

    def without_moves(self) -> PartitionSettings:
        """The equal grid as it stands, to compare with."""
        return replace(self, start="equal", max_moves=0)


class PieceTooLargeError(ConfigurationError):
    """Pieces of the equal grid exceed what one unit accumulates; the map has to be folded first (R155)."""


@dataclass(frozen=True)
class Partition:
    """Row limits of the bands, and column limits of each band; first limits are 0, last ones the size."""

    row_limits: tuple[int, ...]
    column_limits: tuple[tuple[int, ...], ...]

    def rectangles(self) -> list[Rectangle]:
        """The pieces, band by band from the left."""
        return [
            Rectangle(self.row_limits[band], left, self.row_limits[band + 1], right)
            for band, limits in enumerate(self.column_limits)
            for left, right in pairwise(limits)
        ]


@dataclass(frozen=True)
class BalancedPartition:
    """What the exchange led to.

    loads: work of each piece (pieces,), halo included. spread: the largest difference, in the unit of the threshold;
    history: that before the first and after every move. reached: whether the threshold is met (R33).
    """

    partition: Partition
    start: Partition
    loads: tuple[int, ...]
    start_loads: tuple[int, ...]
    reached: bool
    history: tuple[float, ...]

    @property
    def moves(self) -> int:
        return len(self.history) - 1

    @property
    def spread(self) -> float:
        return self.history[-1]

    @property
    def imbalance(self) -> float:
        """Largest load over mean load (E17); 1 without any work."""
        return relative_imbalance(self.loads)


def relative_imbalance(loads: tuple[int, ...] | Int64Array) -> float:
    """max / mean of loads (E17); 1 if there is none."""
    total = int(np.sum(loads))
    return int(np.max(loads)) * len(loads) / total if total else 1.0


def work_map(nonzero: NumberArray, metric: Metric) -> Int64Array:
    """Work of each cell (rows, columns) for a metric (R27).

    nonzero: (rows, columns) or (channels, rows, columns), anything whose non-zeros count; channels are summed (R38).
    A function of one's own is any map of whole numbers given to ``balance`` directly.
    """
    present = np.asarray(nonzero) != 0
    channels = present.reshape(-1, *present.shape[-2:])
    counts: Int64Array = channels.sum(axis=0, dtype=np.int64) if len(channels) > 1 else channels[0].astype(np.int64)
    return counts if metric in ("nnz_share", "nnz") else len(channels) - counts


def balance(
    work: IntArray,
    geometry: CutGeometry,
    settings: PartitionSettings,
    capacity: Capacity | None = None,
    channels: int = 1,
) -> BalancedPartition:
    """Cut a map into pieces whose work differs by no more than the threshold, or as little as the search finds.

    work: (rows, columns) of the input map, whole numbers >= 0. capacity: what one unit can accumulate (R155); a start
    from quantiles that does not fit gives way to the equal one. channels: maps summed into ``work`` (for shares).
    ``ConfigurationError`` if the map has too few lines for the grid, its ``PieceTooLargeError`` if even the equal start
    does not fit.
    """
    table = work_table(work, geometry)
    if capacity is not None and capacity.holds(geometry):
        capacity = None  # no piece can be too large: nothing to check at every move
    search = _start(table, geometry, settings, capacity)
    start, start_loads = _partition(search.limits), search.loads()
    rows, columns = geometry.map_shape
    nominal_area = geometry.area * channels / settings.pieces
    allowed = 4 * (rows + columns) if settings.max_moves is None else settings.max_moves
    loads = start_loads
    history = [_spread(loads, settings, nominal_area)]
    while history[-1] > settings.tau and len(history) <= allowed and search.improve(loads):
        loads = search.loads()
        history.append(_spread(loads, settings, nominal_area))
    return BalancedPartition(
        partition=_partition(search.limits),
        start=start,
        loads=tuple(loads.ravel().tolist()),
        start_loads=tuple(start_loads.ravel().tolist()),
        reached=history[-1] <= settings.tau,
        history=tuple(history),
    )


def work_table(work: IntArray, geometry: CutGeometry) -> Int64Array:
    """Summed-area table of a work map (rows + 1, columns + 1); ``ConfigurationError`` for a map that is none."""
    work = np.asarray(work)
    if work.shape != geometry.map_shape:
        raise ConfigurationError(f"the work map has shape {work.shape}; the map that is cut has {geometry.map_shape}")
    if work.size and int(work.min()) < 0:
        raise ConfigurationError(f"the work map holds {int(work.min())}; work is 0 or more")
    total = int(work.sum(dtype=np.int64))
    if total > LARGEST_WORK:
        raise ConfigurationError(f"the work map sums to {total}; at most {LARGEST_WORK} can be balanced exactly")
    return summed_area_table(work)


def _start(
    table: Int64Array,
    geometry: CutGeometry,
    settings: PartitionSettings,
    capacity: Capacity | None,
) -> Search:
    for lines, pieces, axis in zip(geometry.shape, settings.grid, ("rows", "columns"), strict=True):
        if lines < pieces:
            raise ConfigurationError(f"{lines} {axis} cannot be cut into {pieces} pieces of one at least")
    equal = equal_limits(geometry, settings.grid)
    search = Search(table, geometry, equal, capacity)
    if settings.start == "quantile" and search.total:
        search.limits = quantile_limits(search.table, geometry, settings.grid)
        if not search.fits():
            search.limits = equal
    if not search.fits():
        raise PieceTooLargeError(
            f"pieces of {geometry.shape[0]} x {geometry.shape[1]} lines on a grid of {settings.grid[0]} x "
            f"{settings.grid[1]} exceed what a unit accumulates ({capacity}); fold the map first"
        )
    return search


def _partition(limits: Limits) -> Partition:
    return Partition(tuple(limits.rows.tolist()), tuple(map(tuple, limits.columns.tolist())))


def _spread(loads: Int64Array, settings: PartitionSettings, nominal_area: float) -> float:
    difference = float(int(loads.max()) - int(loads.min()))
    return 100.0 * difference / nominal_area if settings.metric in SHARES else difference
