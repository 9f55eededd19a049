"""Clocks of a cluster of processes on real layers, against the dense array of a ZCU104.

    BFPGA_MODELS=FOLDER python -m benchmarks.sparse_cluster.process_clocks [--network NAME ...] [--planes KERNELS]
        [--units ROWS COLUMNS] [--samples N] [--markdown FILE]

Convolutions of 2 x 2 to 3 x 3 weights whose pieces fit the units; inputs are those of real samples on the emulator.
Clocks are those of `units/process_clocks.py`, mean of the samples: feeding and computing go on at the same time, then
sums leave. The array's are its steps, without loads of weights.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.command import command, required_models_folder
from benchmarks.common.report import finish, table
from benchmarks.sparse_cluster.shares import NAMES, network_run
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, PieceTooLargeError, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import overlap_add_geometry
from bfpga.engines.sparse_cluster.units.process_clocks import ClusterClocks, cluster_clocks
from bfpga.engines.sparse_cluster.units.process_maps import unit_capacity
from bfpga.engines.sparse_cluster.units.process_words import UnitNumbers
from bfpga.formats.arrays import BoolArray, IntArray


def sample_clocks(
    nonzero: BoolArray, weights: IntArray, settings: PartitionSettings, numbers: UnitNumbers
) -> ClusterClocks:
    """Clocks of one sample's map (rows, columns, channels)."""
    work = work_map(nonzero.transpose(2, 0, 1), settings.metric)
    geometry = overlap_add_geometry(*work.shape)
    found = balance(work, geometry, settings, unit_capacity(numbers), nonzero.shape[2])
    return cluster_clocks(nonzero, found.partition.rectangles(), weights, numbers)


def rows_of(
    name: str, folder: Path, samples: int, settings: PartitionSettings, numbers: UnitNumbers
) -> list[list[str]]:
    """A row for each layer of a network, and one for all of them."""
    run, rows, totals = network_run(name, folder, samples), [], np.zeros(5)
    for node, nonzero in run.layers:
        shape, window = nonzero.shape[1:], node.window
        small = 2 <= max(window.kernel_height, window.kernel_width) <= 3
        if node.weights is None or node.groups > 1 or not small or min(shape[:2]) < max(settings.grid):
            continue
        try:
            clocks = [sample_clocks(each, node.weights, settings, numbers) for each in nonzero]
        except PieceTooLargeError:
            continue
        figures = np.array([[each.feed, each.steps, each.drain, each.total] for each in clocks]).mean(axis=0)
        figures = np.array([run.array_clocks[node.name], *figures])
        totals += figures
        title = f"{shape[0]}x{shape[1]}x{shape[2]} to {node.channels}"
        rows.append([name, title, f"{nonzero.mean():.2f}", *(f"{figure:,.0f}" for figure in figures)])
    return [*rows, [name, "all of these", "", *(f"{figure:,.0f}" for figure in totals)]]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--network", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--units", nargs=2, type=int, default=(4, 4), metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--planes", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8)
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    numbers = UnitNumbers(4, (3, 3), arguments.planes, 64, arguments.planes + 4)
    settings = PartitionSettings(grid=tuple(arguments.units), mode="overlap_add", start="equal")
    head = ["network", "input to channels", "density", "array", "feed", "slowest unit", "drain", "cluster"]
    rows = [row for name in arguments.network for row in rows_of(name, folder, arguments.samples, settings, numbers)]
    return finish(table(head, rows) + "\n", arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
