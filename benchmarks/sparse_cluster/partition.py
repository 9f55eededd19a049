"""Time and quality of the partitioner: a 512 x 512 map cut into 16 pieces, and the load balance of small maps.

    python -m benchmarks.sparse_cluster.partition [--json FILE]

The first table must stay below 20 ms a map: counting, summed-area table, start from quantiles and all moves. The second
is table 6.4 of the sparse cluster's specification: largest over mean load, 20 maps each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common.command import command
from benchmarks.common.maps import KINDS, BoolArray, map_of
from benchmarks.common.report import write_json
from bfpga.engines.sparse_cluster.partition.exchange import BalancedPartition, PartitionSettings, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import Padding, halo_geometry, overlap_add_geometry

REPEATS = 15
MAPS = 20
#: Units, grid, side, kind, density; largest over mean load of the specification: before, after, quantile start.
BALANCE_TABLE = (
    (4, (2, 2), 64, "uniform", 0.3, 1.05, 1.03, 1.01),
    (4, (2, 2), 64, "object", 0.1, 2.18, 1.12, 1.04),
    (8, (2, 4), 64, "gradient", 0.1, 1.89, 1.14, 1.06),
    (8, (2, 4), 64, "object", 0.1, 2.93, 1.14, 1.09),
    (16, (4, 4), 64, "object", 0.1, 4.38, 1.19, 1.14),
    (16, (4, 4), 64, "object", 0.3, 3.60, 1.14, 1.12),
)  # fmt: skip


def timed(nonzero: BoolArray, settings: PartitionSettings) -> tuple[float, float, BalancedPartition]:
    """Milliseconds of the processor and on the clock, medians of REPEATS partitions in halo mode for a 3 x 3 kernel."""
    processor, clock = [], []
    for _ in range(REPEATS):
        starts = time.process_time(), time.perf_counter()
        geometry = halo_geometry(*nonzero.shape, (3, 3), Padding(1, 1, 1, 1))
        result = balance(work_map(nonzero, settings.metric), geometry, settings)
        processor.append(time.process_time() - starts[0])
        clock.append(time.perf_counter() - starts[1])
    return 1e3 * median(processor), 1e3 * median(clock), result


def speed() -> list[dict[str, Any]]:
    """512 x 512 into 16 pieces at the default threshold and at a tight one."""
    rows = []
    print("| 512 x 512 map, 16 pieces | density | threshold | processor ms | clock ms | moves | met | largest / mean |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        for density in (0.1, 0.3):
            nonzero = map_of(kind, 512, 512, density, np.random.default_rng(1))
            for tau in (3.0, 0.5):
                processor, clock, result = timed(nonzero, PartitionSettings(grid=(4, 4), tau=tau))
                rows.append({"kind": kind, "density": density, "tau": tau, "processor_ms": processor,
                             "clock_ms": clock, "moves": result.moves, "reached": result.reached,
                             "imbalance": result.imbalance})  # fmt: skip
                print(f"| {kind} | {density} | {tau} pp | {processor:.1f} | {clock:.1f} | {result.moves} | "
                      f"{'yes' if result.reached else 'no'} | {result.imbalance:.3f} |")  # fmt: skip
    return rows


def balance_quality() -> list[dict[str, Any]]:
    """Largest over mean load from the equal grid, and from quantiles, beside the specification's numbers."""
    rows = []
    print(
        "\n| m, map | kind, density | equal grid | balanced, 3 pp | moves | met | quantiles, 0.5 pp | specification |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for units, grid, side, kind, density, *specified in BALANCE_TABLE:
        generator = np.random.default_rng(11)
        equal, tight = [], []
        for _ in range(MAPS):
            work = work_map(map_of(kind, side, side, density, generator), "nnz_share")
            geometry = overlap_add_geometry(side, side)
            equal.append(balance(work, geometry, PartitionSettings(grid, start="equal")))
            tight.append(balance(work, geometry, PartitionSettings(grid, tau=0.5)))
        before = [max(each.start_loads) * units / sum(each.start_loads) for each in equal]
        means = [float(np.mean(values)) for values in
                 (before, [each.imbalance for each in equal], [each.imbalance for each in tight])]  # fmt: skip
        moves, met = float(np.mean([each.moves for each in equal])), sum(each.reached for each in equal)
        rows.append({"units": units, "side": side, "kind": kind, "density": density, "measured": means,
                     "specified": specified, "moves": moves, "reached": met})  # fmt: skip
        print(f"| {units}, {side}² | {kind} {density} | {means[0]:.2f} | {means[1]:.2f} | {moves:.0f} | {met}/{MAPS} | "
              f"{means[2]:.2f} | {specified[0]:.2f} → {specified[1]:.2f}; {specified[2]:.2f} |")  # fmt: skip
    return rows


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--json")
    arguments = parser.parse_args(given)
    content = {"speed": speed(), "balance": balance_quality()}
    write_json(arguments.json, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
