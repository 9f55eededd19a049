"""Counted speed-ups of the sparse cluster, beside tables 6.3 and 6.4 of its specification.

    python -m benchmarks.sparse_cluster.speedups [--json FILE]

The dense array of the same lanes computes every product: ceil(cells * 9 / lanes) rounds. Maps are seeded; the kernel is
3 x 3 without zeros.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.common.command import command
from benchmarks.common.maps import BoolArray, map_of
from benchmarks.common.report import write_json
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings
from bfpga.engines.sparse_cluster.partition.geometry import Padding
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.formats.arrays import IntArray

ZEROS = (0.5, 0.8, 0.9, 0.95)
#: Variant, tile side, lanes, cap on weights, and the specification's speed-ups at the shares of zeros (6.3).
SPEED_TABLE = (
    ("A/B", "B", 3, 3, None, (1.64, 3.15, 4.83, 8.10)),
    ("A/B", "B", 3, 6, None, (1.84, 2.31, 3.26, 5.41)),
    ("A/B", "B", 3, 9, None, (1.00, 1.16, 1.63, 2.70)),
    ("A/B", "B", 4, 8, None, (1.43, 2.05, 2.45, 3.57)),
    ("A/B", "B", 8, 8, None, (1.80, 3.92, 6.75, 8.27)),
    ("E", "E", 3, 9, None, (2.00, 5.00, 10.00, 20.00)),
)  # fmt: skip
#: The same with conflicts, on three maps of 32 x 32 for each share of zeros, micro-tiles of 4 x 4, 8 lanes.
CONFLICT_TABLE = (
    ("B", "B", None, (1.39, 2.04, 2.39, 3.66)),
    ("C, w = 2", "C", 2, (1.84, 3.36, 4.20, 6.58)),
    ("D, w = 2", "D", 2, (1.86, 3.46, 4.27, 6.58)),
    ("D, no cap", "D", 256, (1.86, 4.25, 7.10, 14.05)),
)
#: One unit on one map: nothing is shared out.
ONE_UNIT = PartitionSettings(grid=(1, 1), mode="overlap_add")
SAME = Padding(1, 1, 1, 1)
#: 6.4: density of an object map of 56 x 56; speed-ups of the equal grid, balanced, and ideal.
CLUSTER_TABLE = ((0.5, 0.38, 1.19, 2.53), (0.8, 0.20, 1.65, 4.78), (0.9, 0.10, 3.21, 9.33), (0.95, 0.05, 6.43, 17.0))


def image_of(nonzero: BoolArray) -> IntArray:
    """A map with ones where it is not zero (rows, columns, 1)."""
    return nonzero.astype(np.int64)[:, :, None]


def kernel() -> SparseLayer:
    return SparseLayer(np.arange(1, 10).reshape(1, 3, 3, 1), SAME)


def dense_rounds(nonzero: BoolArray, config: SparseClusterConfig) -> int:
    """Rounds of a dense array with as many lanes: cells of a tile in groups of lanes for one weight a round (B)."""
    cells = nonzero.size
    if config.variant == "B":
        tile = config.tile_for((3, 3))
        return 9 * (cells // (tile[0] * tile[1])) * -(-tile[0] * tile[1] // config.lanes)
    return -(-9 * cells // (config.lanes * config.units))


def variants() -> list[dict[str, Any]]:
    """Table 6.3: one unit, uniform zeros, a map that all tile sides divide."""
    rows = []
    print("| variant | tile, lanes |" + "".join(f" {zeros:.0%} zeros |" for zeros in ZEROS) + " specification |")
    print("|---|---|" + "---|" * (len(ZEROS) + 1))
    for title, variant, side, lanes, limit, specified in SPEED_TABLE:
        config = SparseClusterConfig(
            units=1, lanes=lanes, variant=variant, tile=(side, side), weights_per_round=limit, partition=ONE_UNIT,
            accumulator_words=2048, memory_words=1 << 16,
        )  # fmt: skip
        cluster, speedups = SparseCluster(kernel(), config), []
        for zeros in ZEROS:
            nonzero = map_of("uniform", 120, 120, 1 - zeros, np.random.default_rng(7))
            counted = cluster.cycles(image_of(nonzero))
            speedups.append(dense_rounds(nonzero, config) / counted.counters.total("rounds"))
        rows.append({"variant": title, "tile": side, "lanes": lanes, "speedup": speedups, "specified": specified})
        cells = "".join(f" {speedup:.2f} |" for speedup in speedups)
        print(f"| {title} | {side}, {lanes} |{cells} {' / '.join(f'{value:.2f}' for value in specified)} |")
    return rows


def conflict_maps() -> dict[float, list[BoolArray]]:
    """The maps on which the specification simulated conflicts, in the order in which it drew them."""
    generator = np.random.default_rng(7)
    generator.integers(1, 10, (3, 3))
    maps: dict[float, list[BoolArray]] = {}
    for _ in range(3):  # the third of its combinations of tile and lanes is 4 x 4, 8 lanes
        for zeros in ZEROS:
            maps[zeros] = []
            for _ in range(3):
                maps[zeros].append(generator.random((32, 32)) < 1 - zeros)
                generator.integers(1, 9, (32, 32))
    return maps


def conflicts() -> list[dict[str, Any]]:
    """Second part of 6.3: packed rounds with products that clash."""
    rows, maps = [], conflict_maps()
    print("\n| variant, 4 x 4, 8 lanes |" + "".join(f" {zeros:.0%} zeros |" for zeros in ZEROS) + " specification |")
    print("|---|" + "---|" * (len(ZEROS) + 1))
    for title, variant, limit, specified in CONFLICT_TABLE:
        config = SparseClusterConfig(
            units=1, lanes=8, variant=variant, tile=(4, 4), weights_per_round=limit, partition=ONE_UNIT,
            memory_words=1 << 16,
        )  # fmt: skip
        cluster, speedups = SparseCluster(kernel(), config), []
        for zeros in ZEROS:
            rounds = sum(cluster.cycles(image_of(nonzero)).rounds for nonzero in maps[zeros])
            speedups.append(3 * 64 * 18 / rounds)  # 64 tiles a map; a dense tile takes 9 * ceil(16 / 8) rounds
        rows.append({"variant": title, "speedup": speedups, "specified": specified})
        cells = "".join(f" {speedup:.2f} |" for speedup in speedups)
        print(f"| {title} |{cells} {' / '.join(f'{value:.2f}' for value in specified)} |")
    return rows


def clusters() -> list[dict[str, Any]]:
    """Table 6.4: eight units of variant E on object maps of 56 x 56, rounds of the slowest unit."""
    rows = []
    print("\n| density | equal grid | balanced | halo, balanced | ideal | imbalance before → after | specification |")
    print("|---|---|---|---|---|---|---|")
    settings = PartitionSettings((2, 4), mode="overlap_add", tau=0.5)
    base = SparseClusterConfig(partition=settings, accumulator_words=2048)
    choices = {
        "equal": settings.without_moves(), "balanced": settings, "halo": replace(settings, mode="halo"),
    }  # fmt: skip
    for zeros, _, equal, balanced in CLUSTER_TABLE:
        nonzero = map_of("object", 56, 56, 1 - zeros, np.random.default_rng(5))
        density = float(nonzero.mean())
        counted = {
            name: SparseCluster(kernel(), replace(base, partition=partition)).cycles(image_of(nonzero))
            for name, partition in choices.items()
        }
        dense = dense_rounds(nonzero, base)
        speedups = {name: dense / each.rounds for name, each in counted.items()}
        rows.append({"density": density, "speedup": speedups, "specified": {"equal": equal, "balanced": balanced},
                     "imbalance": {name: each.imbalance for name, each in counted.items()}})  # fmt: skip
        print(f"| {density:.3f} | {speedups['equal']:.2f} | {speedups['balanced']:.2f} | {speedups['halo']:.2f} | "
              f"{1 / density:.2f} | {counted['equal'].imbalance:.2f} → {counted['balanced'].imbalance:.2f} | "
              f"{equal} / {balanced} |")  # fmt: skip
    return rows


def emulation() -> dict[str, float]:
    """Time of results and of results with clocks: 64 channels to 64 kernels, 28 x 28, 80 % zeros, default cluster."""
    generator = np.random.default_rng(3)
    images = generator.integers(-128, 128, (4, 28, 28, 64)) * (generator.random((4, 28, 28, 64)) < 0.2)
    cluster = SparseCluster(SparseLayer(generator.integers(-127, 128, (64, 3, 3, 64)), SAME), SparseClusterConfig())
    times = []
    for with_clocks in (False, True):
        cluster.run(images)
        start = time.perf_counter()
        cluster.run(images)
        for image in images if with_clocks else ():
            cluster.cycles(image)
        times.append((time.perf_counter() - start) / len(images))
    print(f"\n64 x 28 x 28 to 64 kernels: {1e3 * times[0]:.1f} ms, with partition and clocks {1e3 * times[1]:.1f} ms")
    return {"results_seconds": times[0], "with_clocks_seconds": times[1]}


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--json")
    arguments = parser.parse_args(given)
    content = {"variants": variants(), "conflicts": conflicts(), "cluster": clusters(), "emulation": emulation()}
    write_json(arguments.json, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
