"""Pieces of a map as the partition process of a kernel cuts it (sparse_cluster/partition.hpp), limit by limit.

It begins with equal pieces, the limit of piece i at line i * lines / pieces, rounded down, and makes the moves of
``exchange`` while two pieces differ by more than a threshold, a move helps, and moves are allowed. Where pieces of the
grid are joined, there are fewer, and units of a piece take its cells with values in turn (distributor.hpp).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bfpga.contract.arrays.sparse_cluster import cluster_array, map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode
from bfpga.engines.sparse_cluster.partition.exchange import BalancedPartition, Partition, work_table
from bfpga.engines.sparse_cluster.partition.geometry import (
    CutGeometry,
    Rectangle,
    overlap_add_geometry,
    shared_halo_geometry,
)
from bfpga.engines.sparse_cluster.partition.moves import Capacity, Limits, Search
from bfpga.engines.sparse_cluster.unit_maps import (
    APART,
    Joined,
    Kernel,
    allowed_moves,
    imbalance_tolerance,
    joined_grid,
    joined_pieces,
    kernel_of,
)
from bfpga.formats.arrays import BoolArray, Int64Array


def layer_partition(node: ArrayNode, nonzero: BoolArray, config: KernelConfig) -> BalancedPartition:
    """How a map (rows, columns, channels) of a layer is cut."""
    rows, columns, _ = nonzero.shape
    joined = joined_pieces(rows, columns, node, config)
    moves = allowed_moves(rows, columns, node, config)
    return kernel_partition(nonzero, kernel_of(node.window, config), config, moves, joined)


def kernel_partition(
    nonzero: BoolArray, kernel: Kernel, config: KernelConfig, moves: int, joined: Joined = APART
) -> BalancedPartition:
    """How a map (rows, columns, channels) is cut with so many moves at most; a map with few lines has empty pieces.

    kernel: that meets the map; joined: pieces of the grid that are one.
    """
    rows, columns, channels = nonzero.shape
    bands, across = joined_grid(joined, config)
    geometry = piece_geometry(rows, columns, kernel, config)
    table = work_table(np.count_nonzero(nonzero, axis=2).astype(np.int64), geometry)
    limits = Limits.of(_equal(rows, bands), [_equal(columns, across)] * bands)
    search = Search(table, geometry, limits, unit_capacity(config))
    threshold = imbalance_tolerance(rows, columns, channels, config, joined)
    there = np.array([piece.area > 0 for piece in _partition(search.limits).rectangles()]).reshape(bands, across)
    start = loads = search.loads() * there
    begun = _partition(search.limits)
    history = [float(np.ptp(loads))]
    while history[-1] > threshold and len(history) <= moves and search.improve(loads):
        loads = search.loads()
        history.append(float(np.ptp(loads)))
    return BalancedPartition(
        _partition(search.limits), begun, tuple(loads.ravel().tolist()), tuple(start.ravel().tolist()),
        history[-1] <= threshold, tuple(history),
    )  # fmt: skip


def unit_capacity(config: KernelConfig) -> Capacity:
    """What a unit accumulates, wherever a piece begins: blocks are counted from the map's origin (SC R155)."""
    worst, banks = 2 * map_array(config.array).kernel - 1, map_array(config.array).kernel
    return Capacity(cluster_array(config.array).words, (worst, worst), (banks, banks))


def piece_geometry(rows: int, columns: int, kernel: Kernel, config: KernelConfig) -> CutGeometry:
    """Which cells of a map pieces have between their limits, of the form of a kernel (SC R29, R30, R31)."""
    halo = cluster_array(config.array).has_halo
    return shared_halo_geometry(rows, columns, kernel) if halo else overlap_add_geometry(rows, columns)


def piece_cells(
    partition: Partition, shape: tuple[int, ...], kernel: Kernel, config: KernelConfig
) -> list[Rectangle]:
    """The cells of each piece of a map of ``shape``, halo included; a piece without a line has none."""
    geometry = piece_geometry(shape[0], shape[1], kernel, config)
    return [geometry.stored(piece) if piece.area else piece for piece in partition.rectangles()]


def unit_values(
    partition: Partition, nonzero: BoolArray, blocks: Sequence[Sequence[int]], kernel: Kernel, config: KernelConfig
) -> Int64Array:
    """Values that are not zero of each unit (units,), of a map (rows, columns, channels).

    kernel: that meets the map. blocks: words of channels that each block of output channels reads, one where all read
    the same. Units of a piece take its cells that have a value, word of channels by word in raster order, in turn, for
    each block anew; a value that several pieces need counts in each of them.
    """
    words = values_of_words(nonzero, config.lanes)
    pieces = piece_cells(partition, nonzero.shape, kernel, config)
    sharers = map_array(config.array).units // len(pieces)
    found = np.zeros((len(pieces), sharers), np.int64)
    for own, piece in zip(found, pieces, strict=True):
        inside = words[:, piece.row0 : piece.row1, piece.column0 : piece.column1]
        for block in blocks:
            values = inside[list(block)].ravel()
            values = values[values > 0]
            own += np.bincount(np.arange(len(values)) % sharers, values, sharers).astype(np.int64)
    return found.ravel()


def values_of_words(nonzero: BoolArray, lanes: int) -> Int64Array:
    """How many values of a word are not zero (words, rows, columns), of a map (rows, columns, channels)."""
    starts = np.arange(0, nonzero.shape[2], lanes)
    counts: Int64Array = np.add.reduceat(nonzero, starts, axis=2, dtype=np.int64).transpose(2, 0, 1)
    return counts


def _equal(lines: int, pieces: int) -> list[int]:
    return [index * lines // pieces for index in range(pieces + 1)]


def _partition(limits: Limits) -> Partition:
    return Partition(tuple(limits.rows.tolist()), tuple(map(tuple, limits.columns.tolist())))
