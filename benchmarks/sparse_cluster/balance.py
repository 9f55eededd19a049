"""Clocks of one operation of the sparse cluster under several ways to share its input out among the units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.engines.sparse_cluster.cycles import ClusterOperation
from bfpga.engines.sparse_cluster.descriptors import count_step
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.sparse_cluster.partition.exchange import Capacity, PartitionSettings, balance, fitting_grid, work_map
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle, overlap_add_geometry
from bfpga.formats.arrays import Int64Array, IntArray

#: Pieces of equal size; limits from the channel words that the kernel counts; what the compiler chose of these two;
#: limits by the host's exchange of rows and columns; as if every word's elements were shared out exactly.
WAYS = ("equal", "counted", "chosen", "exchange", "ideal")


def clocks_by_way(
    config: SystolicConfig, descriptor: Descriptor, weights: IntArray, x: IntArray
) -> dict[str, Int64Array]:
    """Clocks of each sample by way (samples,); ``equal``, ``counted`` and ``chosen`` are what a kernel counts.

    weights, x: as ``ClusterOperation`` takes them. ``exchange`` and ``ideal`` leave out what finding them costs.
    """
    build = config.numbers_of(ClusterNumbers)
    steps = {"equal": 0, "counted": count_step(build, descriptor.channel_words), "chosen": descriptor.count_step}
    operations = {
        way: ClusterOperation(config, replace(descriptor, count_step=step), weights) for way, step in steps.items()
    }
    result = {way: operation.clocks(x) for way, operation in operations.items()}
    words = np.arange(0, x.shape[3], config.lanes)
    loads = [exchanged_loads(build, sample, weights.shape[1:3], words) for sample in x]
    totals = np.add.reduceat(np.count_nonzero(x, axis=(1, 2)), words, axis=1)
    result["exchange"] = operations["equal"].clocks_of(np.stack([load.max(axis=0) for load in loads]))
    result["ideal"] = operations["equal"].clocks_of(-(-totals // build.units))
    return result


def exchanged_loads(build: ClusterNumbers, sample: IntArray, kernel: tuple[int, ...], words: IntArray) -> Int64Array:
    """Non-zero elements of the units in each channel word (units, words) with the partition of the host's exchange.

    sample: (rows, columns, channels). words: first channel of each channel word.
    """
    nonzero = sample != 0
    settings = PartitionSettings((build.grid_rows, build.grid_columns), mode="overlap_add", tau=0.5)
    shape = nonzero.shape[:2]
    found = balance(
        work_map(nonzero.transpose(2, 0, 1), settings.metric), overlap_add_geometry(*shape),
        settings.with_grid(fitting_grid(shape, settings)),
        Capacity(build.accumulator_words, (kernel[0], kernel[1]), (build.kernel, build.kernel)), sample.shape[2],
    )  # fmt: skip
    return np.stack([_counted(nonzero, piece, words) for piece in found.partition.rectangles()])


def _counted(nonzero: IntArray, piece: Rectangle, words: IntArray) -> Int64Array:
    part = nonzero[piece.row0 : piece.row1, piece.column0 : piece.column1]
    counts: Int64Array = np.add.reduceat(np.count_nonzero(part, axis=(0, 1)), words)
    return counts
