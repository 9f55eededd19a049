"""Balanced partition of a feature map: pieces of nearly equal work for independent units (SC 3.3, 4.1).

The partition is *jagged*: bands of rows over the whole width, each band with column limits of its own. Rows or columns
move between neighbours while that makes the sum of squared loads smaller, so the search always ends; a threshold
that cannot be met is a normal result (R33). Loads are sums over rectangles of a *work map*, from a summed-area table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from bfpga.engines.array.products import NumberArray
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
    "balance_table",
    "fitting_grid",
    "loads_of",
    "work_map",
    "work_table",
]

Metric = Literal["nnz_share", "zero_share", "nnz", "zeros", "rounds"]
Start = Literal["equal", "quantile"]
ThresholdUnit = Literal["pp", "rel"]
Mode = Literal["halo", "overlap_add", "auto"]
Scope = Literal["layer", "channel"]

#: Metrics that are a share of the nominal area of a piece (SC 9, I2).
SHARES = ("nnz_share", "zero_share")
#: Sum of a work map up to which sums of squared loads fit 64 bits, halo included.
LARGEST_WORK = 1 << 29


@dataclass(frozen=True)
class PartitionSettings:
    """How maps are cut (SC 2.2).

    grid: bands x pieces of a band. tau: largest difference of any two pieces; with ``pp`` in percentage points for a
    share and in counts for a count, with ``rel`` of max / mean - 1. max_moves: None for 4 * (rows + columns). snap:
    limits are multiples of these rows and columns. minimum: fewest rows and columns of a piece.
    """

    grid: tuple[int, int] = (2, 4)
    mode: Mode = "halo"
    scope: Scope = "layer"
    start: Start = "quantile"
    metric: Metric = "nnz_share"
    tau: float = 3.0
    tau_unit: ThresholdUnit = "pp"
    max_moves: int | None = None
    snap: tuple[int, int] = (1, 1)
    minimum: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        """Refuse what is no partition (R154)."""
        for name in ("grid", "snap", "minimum"):
            pair: tuple[int, int] = getattr(self, name)
            if len(pair) != 2 or min(pair) < 1:
                raise ConfigurationError(f"partition.{name} is {pair}; two numbers of 1 at least are needed")
        if not self.tau >= 0:
            raise ConfigurationError(f"partition.tau is {self.tau}; 0 or more is needed")
        if self.max_moves is not None and self.max_moves < 0:
            raise ConfigurationError(f"partition.max_moves is {self.max_moves}; 0 or more is needed")

    @property
    def pieces(self) -> int:
        return self.grid[0] * self.grid[1]

    def with_grid(self, grid: tuple[int, int]) -> PartitionSettings:
        """The same settings for another grid."""
        return replace(self, grid=grid)

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


def work_map(nonzero: NumberArray, metric: Metric, rounds: IntArray | None = None) -> Int64Array:
    """Work of each cell (rows, columns) for a metric (R27).

    nonzero: (rows, columns) or (channels, rows, columns), anything whose non-zeros count; channels are summed (R38).
    rounds: for the metric ``rounds``, predicted rounds (rows, columns) with those of a micro-tile at its first cell.
    A function of one's own is any map of whole numbers given to ``balance`` directly.
    """
    if metric == "rounds":
        if rounds is None:
            raise ConfigurationError("partition.metric 'rounds' needs predicted rounds; give a map of them")
        return np.asarray(rounds, np.int64)
    present = np.asarray(nonzero) != 0
    channels = present.reshape(-1, *present.shape[-2:])
    counts: Int64Array = channels.sum(axis=0, dtype=np.int64) if len(channels) > 1 else channels[0].astype(np.int64)
    return counts if metric in ("nnz_share", "nnz") else len(channels) - counts


def fitting_grid(shape: tuple[int, int], settings: PartitionSettings) -> tuple[int, int]:
    """The largest grid, no larger than that of the settings, into which so many lines can be cut."""
    rows, columns = (
        max(1, min(pieces, lines // _pitch(snap, minimum)))
        for lines, pieces, snap, minimum in zip(shape, settings.grid, settings.snap, settings.minimum, strict=True)
    )
    return rows, columns


def _pitch(snap: int, minimum: int) -> int:
    """Fewest lines between limits that are multiples of ``snap``."""
    return -(-minimum // snap) * snap


def loads_of(work: IntArray, geometry: CutGeometry, partition: Partition) -> Int64Array:
    """Work of each piece (pieces,), halo included."""
    limits = Limits.of(partition.row_limits, partition.column_limits)
    return Search(work_table(work, geometry), geometry, limits).loads().ravel()


def balance(
    work: IntArray,
    geometry: CutGeometry,
    settings: PartitionSettings,
    capacity: Capacity | None = None,
    channels: int = 1,
    lanes: Sequence[int] | None = None,
) -> BalancedPartition:
    """Cut a map into pieces whose work differs by no more than the threshold, or as little as the search finds.

    work: (rows, columns) of the input map, whole numbers >= 0. capacity: what one unit can accumulate (R155); a start
    from quantiles that does not fit gives way to the equal one. channels: maps summed into ``work`` (for shares).
    lanes: those of each piece's unit where they differ, then work / lanes is balanced (R65): loads stay work, a
    difference of two pieces is what it would be with the mean number of lanes.
    ``ConfigurationError`` if the map has too few lines for the grid, its ``PieceTooLargeError`` if even the equal start
    does not fit.
    """
    return balance_table(work_table(work, geometry), geometry, settings, capacity, channels, lanes)


def balance_table(
    table: Int64Array,
    geometry: CutGeometry,
    settings: PartitionSettings,
    capacity: Capacity | None = None,
    channels: int = 1,
    lanes: Sequence[int] | None = None,
) -> BalancedPartition:
    """``balance`` for a table of ``work_table``, which folds of one map share."""
    if capacity is not None and capacity.holds(geometry):
        capacity = None  # no piece can be too large: nothing to check at every move
    costs = _costs(lanes, settings, int(table[-1, -1]))
    search = _start(table, geometry, settings, capacity, costs)
    start, start_loads = _partition(search.limits), search.loads()
    rows, columns = geometry.map_shape
    nominal_area = geometry.area * channels / settings.pieces
    allowed = 4 * (rows + columns) if settings.max_moves is None else settings.max_moves
    loads = start_loads
    history = [_spread(loads, settings, nominal_area, costs)]
    while history[-1] > settings.tau and len(history) <= allowed and search.improve(loads):
        loads = search.loads()
        history.append(_spread(loads, settings, nominal_area, costs))
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


def _costs(lanes: Sequence[int] | None, settings: PartitionSettings, total: int) -> Int64Array | None:
    """Clocks of one load of each piece's unit (bands, pieces of a band) in their smallest whole numbers."""
    if lanes is None or len(set(lanes)) == 1:
        return None
    if len(lanes) != settings.pieces or min(lanes) < 1:
        raise ConfigurationError(f"lanes are {tuple(lanes)}; {settings.pieces} numbers of 1 at least are needed")
    least = math.lcm(*lanes)
    costs = [least // each for each in lanes]
    if 2 * total * total * max(costs) >= 1 << 63:
        raise ConfigurationError(
            f"the work map sums to {total}; with lanes {tuple(lanes)} it cannot be balanced exactly"
        )
    return np.array(costs, np.int64).reshape(settings.grid)


def _start(
    table: Int64Array,
    geometry: CutGeometry,
    settings: PartitionSettings,
    capacity: Capacity | None,
    costs: Int64Array | None,
) -> Search:
    for lines, pieces, snap, minimum, axis in zip(
        geometry.shape, settings.grid, settings.snap, settings.minimum, ("rows", "columns"), strict=True
    ):
        if lines < (pieces * _pitch(snap, minimum) if pieces > 1 else 1):
            raise ConfigurationError(
                f"{lines} {axis} cannot be cut into {pieces} pieces of {minimum} {axis} at least on multiples of {snap}"
            )
    equal = equal_limits(geometry, settings.grid, settings.snap, settings.minimum)
    search = Search(table, geometry, equal, capacity, costs)
    search.snap, search.minimum = settings.snap, settings.minimum
    if settings.start == "quantile" and search.total:
        search.limits = quantile_limits(search.table, geometry, settings.grid, settings.snap, settings.minimum)
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


def _spread(loads: Int64Array, settings: PartitionSettings, nominal_area: float, costs: Int64Array | None) -> float:
    if costs is not None:
        loads = loads * costs
    if settings.tau_unit == "rel":
        return relative_imbalance(loads.ravel()) - 1
    difference = float(int(loads.max()) - int(loads.min()))
    if costs is not None:
        difference *= float(np.mean(1 / costs))
    return 100.0 * difference / nominal_area if settings.metric in SHARES else difference
