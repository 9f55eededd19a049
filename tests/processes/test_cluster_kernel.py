"""A kernel with a sparse cluster in the place of its array, compiled: bits, counters and work of the emulator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from changed_kernels import changed
from cluster_configs import CLUSTER
from cluster_partitions import BUILDS, run_in_kernel, run_partition
from effort import drawn
from map_words import overlap_add_limits

from bfpga.contract.arrays.sparse_cluster import cluster_array
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition
from bfpga.engines.sparse_cluster.unit_maps import imbalance_tolerance, possible_joins
from bfpga.verify.check import verify

SLOW = pytest.mark.slow
#: Units of variant A.
SHIFTING: dict[str, Any] = {"array_variant": "A"}
#: Of B.
INDEXED: dict[str, Any] = {"array_variant": "B", "array_lanes": 4}
#: Of C; of D.
MERGING: dict[str, Any] = {"array_variant": "C", "array_lanes": 6}
ADDING: dict[str, Any] = {"array_variant": "D", "array_lanes": 6}


@pytest.mark.parametrize(
    ("target", "changes", "cases"),
    [
        ("csim", {}, 40),
        ("csim:exact", {"array_moves": 0, "columns": 3}, 10),
        ("virtual", {"count_registers": 2}, 6),
        ("csim", INDEXED, 20),
        pytest.param("csim:exact", {**INDEXED, "array_lanes": 9, "rows": 8, "columns": 3}, 8, marks=SLOW),
        ("csim", {**INDEXED, "array_lanes": 3, "array_kernel": 2, "array_queue": 16, "lanes": 2}, 12),
        ("virtual", INDEXED, 6),
        ("csim", MERGING, 20),
        pytest.param("csim:exact", {**MERGING, "array_lanes": 8, "rows": 8, "columns": 3}, 8, marks=SLOW),
        ("csim", {**MERGING, "array_lanes": 2, "array_kernel": 2, "array_queue": 16, "lanes": 2}, 12),
        ("virtual", MERGING, 6),
        ("csim", ADDING, 20),
        pytest.param("csim:ap_int", {**ADDING, "array_lanes": 8, "rows": 8, "columns": 3}, 6, marks=SLOW),
        ("csim:exact", {**ADDING, "array_lanes": 4, "array_kernel": 2, "lanes": 2}, 8),
        ("virtual", ADDING, 6),
        ("csim", SHIFTING, 20),
        pytest.param("csim:exact", {**SHIFTING, "rows": 8, "columns": 3}, 8, marks=SLOW),
        pytest.param("csim:ap_int", {**SHIFTING, "array_queue": 16, "lanes": 1}, 6, marks=SLOW),
        ("csim", {**SHIFTING, "array_kernel": 2, "array_queue": 16, "lanes": 2}, 12),
        ("virtual", SHIFTING, 6),
    ],
)  # fmt: skip
def test_random_networks(target: str, changes: dict[str, Any], cases: int) -> None:
    """SC R1, SC R5, SC R15, SC R34, SC R62, SC R152: no other array is in the kernel, and units go on by themselves.
    SC R61, SC R91, SC R92, SC R93, SC R96, SC R97: units of variant B give the same bits, a weight a step with several
    values. SC R98, SC R105, SC R112: so do those of C and D, two weights a step. SC R83-R87: and those of A."""
    report = verify([changed(CLUSTER, **changes)], [target], drawn(cases))
    assert report.mismatch is None, report.mismatch
    assert report.cases == drawn(cases)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("number", [0, 2, 5, 6])
def test_reported_pieces_are_those_of_the_partition_process(number: int, seed: int) -> None:
    """SC R23, SC R24, SC R25, SC R33: what `bfpga run` tells of pieces and moves, the process of the kernel finds."""
    numbers, grid = BUILDS[number]
    rng = np.random.default_rng(seed)
    shape = tuple(int(rng.integers(pieces, 20)) for pieces in grid)
    image = np.where(rng.random((*shape, 3)) < np.linspace(0.05, 0.9, shape[1])[:, None], 1, 0)
    config = changed(
        CLUSTER, lanes=numbers.lanes, array_rows=grid[0], array_columns=grid[1], array_kernel=numbers.kernel[0],
        array_words=numbers.words, array_threshold=int(rng.choice([0, 3, 30])),
    )  # fmt: skip
    expected = kernel_partition(image != 0, numbers.kernel, config, cluster_array(config.array).moves)
    threshold = imbalance_tolerance(shape[0], shape[1], 3, config)
    run = run_partition("native", number, image, expected.start, threshold, cluster_array(config.array).moves)
    assert (run.moves, run.reached) == (expected.moves, expected.reached)
    assert (run.largest, run.smallest) == (max(expected.loads), min(expected.loads))
    pieces = overlap_add_limits(expected.partition.rectangles(), numbers, len(run.limits))
    assert run.limits.tolist() == pieces.tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [0, 2, 4, 5, 6])
def test_joined_pieces_are_those_of_the_partition_process(number: int, seed: int) -> None:
    """SC R21, SC R23, SC R155: fewer pieces of the same moves, of each as many units, whatever is joined."""
    numbers, grid = BUILDS[number]
    rng = np.random.default_rng(seed)
    config = changed(
        CLUSTER, lanes=numbers.lanes, array_rows=grid[0], array_columns=grid[1], array_kernel=numbers.kernel[0],
        array_words=numbers.words, array_threshold=int(rng.choice([0, 3, 30])),
    )  # fmt: skip
    for joined in possible_joins(config):
        lines = [parts // each for parts, each in zip(grid, joined, strict=True)]
        shape = tuple(int(rng.integers(each, 19)) for each in lines)
        image = np.where(rng.random((*shape, 3)) < np.linspace(0.05, 0.9, shape[1])[:, None], 1, 0)
        moves = int(rng.choice([0, 2, 256]))
        expected = kernel_partition(image != 0, numbers.kernel, config, moves, joined)
        threshold = imbalance_tolerance(shape[0], shape[1], 3, config, joined)
        found = run_in_kernel("native", number, image, threshold, moves, joined)
        pieces = overlap_add_limits(expected.partition.rectangles(), numbers, len(found), math.prod(joined))
        assert found.tolist() == pieces.tolist()
