"""Counted speed-ups are those of the specification's tables 6.3 and 6.4. SC R70, SC R101, SC R111, SC R114."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import Padding, overlap_add_geometry
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer

LAYER = SparseLayer(np.arange(1, 10).reshape(1, 3, 3, 1), Padding(1, 1, 1, 1))
ZEROS = (0.5, 0.8, 0.9, 0.95)


def object_map(side: int, density: float, seed: int | np.random.Generator) -> np.ndarray:
    """Values around one object (side, side)."""
    y, x = np.mgrid[0:side, 0:side]
    bell = np.exp(-((np.hypot(y - 0.4 * side, x - 0.35 * side) / (0.25 * side)) ** 2))
    return np.random.default_rng(seed).random((side, side)) < np.clip(bell * density / bell.mean(), 0, 1)


@pytest.mark.parametrize(
    ("zeros", "equal", "balanced"), [(0.5, 1.19, 2.53), (0.8, 1.65, 4.78), (0.9, 3.21, 9.33), (0.95, 6.43, 17.0)]
)
def test_eight_balanced_units_of_variant_e(zeros: float, equal: float, balanced: float) -> None:
    """6.4: the slowest unit against 392 rounds of a dense array, equal grid and balanced."""
    image = object_map(56, 1 - zeros, 5).astype(int)[:, :, None]
    settings = PartitionSettings((2, 4), mode="overlap_add", tau=0.5)
    config = SparseClusterConfig(partition=settings, accumulator_words=2048)
    unbalanced = replace(config, partition=settings.without_moves())
    assert round(392 / SparseCluster(LAYER, unbalanced).cycles(image).rounds, 2) == equal
    assert round(392 / SparseCluster(LAYER, config).cycles(image).rounds, 2) >= balanced


@pytest.mark.parametrize(
    ("variant", "cap", "specified"),
    [
        ("B", None, (1.39, 2.04, 2.39, 3.66)),
        ("C", 2, (1.84, 3.36, 4.20, 6.58)),
        ("D", 2, (1.86, 3.46, 4.27, 6.58)),
        ("D", 256, (1.86, 4.25, 7.10, 14.05)),
    ],
)
def test_packed_rounds_with_conflicts(variant: str, cap: int | None, specified: tuple[float, ...]) -> None:
    """6.3, second part: the specification's own maps; its generator drew two other shapes before these."""
    generator = np.random.default_rng(7)
    generator.integers(1, 10, (3, 3))
    config = SparseClusterConfig(
        units=1,
        lanes=8,
        variant=variant,  # type: ignore[arg-type]
        weights_per_round=cap,
        memory_words=4096,
        partition=PartitionSettings((1, 1), mode="overlap_add"),
    )
    cluster, rounds = SparseCluster(LAYER, config), dict.fromkeys(ZEROS, 0)
    for shape in range(3):
        for zeros in ZEROS:
            for _ in range(3):
                mask = generator.random((32, 32)) < 1 - zeros
                generator.integers(1, 9, (32, 32))
                if shape == 2:
                    rounds[zeros] += cluster.cycles(mask.astype(int)[:, :, None]).rounds
    assert tuple(round(3 * 64 * 18 / rounds[zeros], 2) for zeros in ZEROS) == specified


def test_load_balance_of_object_maps() -> None:
    """6.4, first part: 8 units, 64 x 64, density 0.1: 2.93 on the equal grid, 1.14 balanced, 17 of 20 met."""
    generator = np.random.default_rng(11)
    before, after, reached = [], [], 0
    for _ in range(20):
        work = work_map(object_map(64, 0.1, generator), "nnz_share")
        result = balance(work, overlap_add_geometry(64, 64), PartitionSettings((2, 4), start="equal"))
        before.append(max(result.start_loads) * 8 / sum(result.start_loads))
        after.append(result.imbalance)
        reached += result.reached
    assert (round(np.mean(before), 2), round(np.mean(after), 2), reached) == (2.93, 1.14, 17)
