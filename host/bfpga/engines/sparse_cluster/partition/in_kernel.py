"""Pieces of a map as the partition process of a kernel cuts it (processes/cluster/partition.hpp), limit by limit.

It begins with equal pieces, the limit of piece i at line i * lines / pieces, rounded down, and makes the moves of
``exchange`` while two pieces differ by more than a threshold, a move helps, and moves are allowed.
"""

from __future__ import annotations

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.skip_array.unit_maps import work_difference
from bfpga.engines.sparse_cluster.partition.exchange import BalancedPartition, Partition, work_table
from bfpga.engines.sparse_cluster.partition.geometry import overlap_add_geometry
from bfpga.engines.sparse_cluster.partition.moves import Capacity, Limits, Search
from bfpga.formats.arrays import BoolArray


def kernel_partition(nonzero: BoolArray, config: SystolicConfig, moves: int | None = None) -> BalancedPartition:
    """How a map (rows, columns, channels) is cut; moves: that are allowed, None for those of the configuration.

    A map with fewer lines than pieces has empty ones, and none of its limits moves.
    """
    rows, columns, channels = nonzero.shape
    grid = config.cluster_rows, config.cluster_columns
    geometry = overlap_add_geometry(rows, columns)
    table = work_table(np.count_nonzero(nonzero, axis=2).astype(np.int64), geometry)
    down, across = _equal(rows, grid[0]), _equal(columns, grid[1])
    worst, kernel = 2 * config.cluster_kernel - 1, config.cluster_kernel
    capacity = Capacity(config.cluster_words, (worst, worst), (kernel, kernel))
    search = Search(table, geometry, Limits.of(down, [across] * grid[0]), capacity)
    wide = rows >= grid[0] and columns >= grid[1]
    allowed = (config.cluster_moves if moves is None else moves) if wide else 0
    threshold = work_difference(rows, columns, channels, config)
    start = loads = search.loads()
    begun = _partition(search.limits)
    history = [float(np.ptp(loads))]
    while history[-1] > threshold and len(history) <= allowed and search.improve(loads):
        loads = search.loads()
        history.append(float(np.ptp(loads)))
    return BalancedPartition(
        _partition(search.limits), begun, tuple(loads.ravel().tolist()), tuple(start.ravel().tolist()),
        history[-1] <= threshold, tuple(history),
    )  # fmt: skip


def _equal(lines: int, pieces: int) -> list[int]:
    return [index * lines // pieces for index in range(pieces + 1)]


def _partition(limits: Limits) -> Partition:
    return Partition(tuple(limits.rows.tolist()), tuple(map(tuple, limits.columns.tolist())))
