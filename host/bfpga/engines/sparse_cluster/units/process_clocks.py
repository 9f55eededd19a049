"""Clocks of a cluster of processes for a map: what the feed takes, the slowest unit, and the sums that leave.

A group of kernels in flight is fed and computed at the same time; then its sums leave, a block of a kernel each clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bfpga.contract.configuration import SUM_DISTANCE
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.engines.sparse_cluster.units.process_words import (
    FEWEST_STEPS,
    UnitNumbers,
    blocks_of,
    kernel_steps,
)
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray


@dataclass(frozen=True)
class ClusterClocks:
    """Clocks of all groups of kernels: cells that are fed, steps of the slowest units, blocks that leave."""

    feed: int
    steps: int
    computing: int
    drain: int

    @property
    def total(self) -> int:
        return self.computing + self.drain


def steps_of_channels(weights: IntArray, numbers: UnitNumbers) -> Int64Array:
    """Clocks of a value of each channel (channels,), pauses included; weights: (kernels, rows, columns, channels)."""
    steps = np.concatenate(kernel_steps(weights, numbers))
    last = np.flatnonzero(steps[:, -1])
    return np.diff(last, prepend=-1)[: weights.shape[3]]


def unit_clocks(nonzero: BoolArray, piece: Rectangle, steps: Int64Array, kernels: int, numbers: UnitNumbers) -> int:
    """Clocks of a unit that nobody keeps waiting; nonzero: the map (rows, columns, channels), steps: as above."""
    inside = nonzero[piece.row0 : piece.row1, piece.column0 : piece.column1]
    values = int((np.count_nonzero(inside, axis=(0, 1)) * steps).sum())
    words = -(-nonzero.shape[2] // numbers.lanes)
    return values + words * FEWEST_STEPS + blocks_of(piece, numbers).count * kernels + 2 * SUM_DISTANCE


def cluster_clocks(
    nonzero: BoolArray, pieces: Sequence[Rectangle], weights: IntArray, numbers: UnitNumbers
) -> ClusterClocks:
    """Clocks of a map (rows, columns, channels) with kernels (kernels, rows, columns, channels) in groups in flight."""
    rows, columns, channels = nonzero.shape
    words = -(-channels // numbers.lanes)
    feed = words * (rows * columns + 1) + 2
    blocks = blocks_of(Rectangle(0, 0, rows, columns), numbers).count
    counts = np.stack(
        [np.count_nonzero(nonzero[p.row0 : p.row1, p.column0 : p.column1], axis=(0, 1)) for p in pieces]
    )
    slowest = [
        int((counts * steps_of_channels(weights[first : first + numbers.planes], numbers)).sum(axis=1).max())
        for first in range(0, len(weights), numbers.planes)
    ]
    return ClusterClocks(
        feed * len(slowest), sum(slowest), sum(max(feed, each) for each in slowest), blocks * len(weights)
    )
