"""A kernel with a sparse cluster in the place of its array, compiled: bits, counters and work of the emulator."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cluster_configs import CLUSTER, VARIANTS
from cluster_partitions import BUILDS, run_in_kernel, run_partition
from effort import drawn
from map_words import overlap_add_limits

from bfpga.contract.configuration import ClusterVariant
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition
from bfpga.engines.sparse_cluster.unit_maps import imbalance_tolerance, possible_joins
from bfpga.verify.check import verify

SLOW = pytest.mark.slow
#: Small units of each variant.
SMALL: dict[str, Any] = {"cluster_kernel": 2, "cluster_queue": 16, "lanes": 2}


@pytest.mark.parametrize(
    ("target", "variant", "changes", "cases"),
    [
        *(("csim", variant, {}, 20) for variant in VARIANTS),
        *(("virtual", variant, {}, 6) for variant in VARIANTS),
        ("csim", "A", {**SMALL, "count_registers": 2}, 12),
        ("csim", "B", {**SMALL, "cluster_products": 3}, 12),
        ("csim:exact", "D", {**SMALL, "cluster_products": 4, "cluster_moves": 0, "columns": 3}, 8),
        ("csim", "D", {"cluster_form": "halo"}, 15),
        ("csim", "E", {"cluster_form": "halo"}, 30),
        ("virtual", "E", {"cluster_form": "halo"}, 6),
        *(
            pytest.param(*case, 8, marks=SLOW)
            for case in (
                ("csim:exact", "E", {"cluster_moves": 0, "columns": 3}),
                ("csim:exact", "B", {"cluster_products": 9, "rows": 8, "columns": 3}),
                ("csim:exact", "C", {"cluster_products": 8, "rows": 8, "columns": 3}),
                ("csim", "C", {**SMALL, "cluster_products": 2}),
                ("csim:ap_int", "D", {"cluster_products": 8, "rows": 8, "columns": 3}),
                ("csim:exact", "A", {"rows": 8, "columns": 3}),
                ("csim:ap_int", "A", {"cluster_queue": 16, "lanes": 1}),
                ("csim", "B", {"cluster_form": "halo"}),
                ("csim", "C", {"cluster_form": "halo"}),
                ("virtual", "D", {"cluster_form": "halo"}),
                ("csim:exact", "B", {**SMALL, "cluster_form": "halo", "cluster_products": 3}),
                ("csim:exact", "D", {"cluster_form": "halo", "cluster_products": 8, "rows": 8, "columns": 3}),
                ("csim:exact", "E", {"cluster_form": "halo", "cluster_moves": 0, "columns": 3}),
                (
                    "csim:ap_int", "E",
                    {"cluster_form": "halo", "cluster_rows": 1, "cluster_columns": 3, "skip_groups": 3},
                ),
            )
        ),
    ],
)  # fmt: skip
def test_random_networks(target: str, variant: ClusterVariant, changes: dict[str, Any], cases: int) -> None:
    """SC R1, SC R5, SC R15, SC R34, SC R62, SC R152: no other array is in the kernel, and units go on by themselves.
    SC R61, SC R91, SC R92, SC R93, SC R96, SC R97: units of variant B give the same bits, a weight a step with several
    values. SC R98, SC R105, SC R112: so do those of C and D, two weights a step. SC R83-R87: and those of A.
    SC R29, SC R128: in pieces that own outputs too."""
    report = verify([replace(VARIANTS[variant], **changes)], [target], drawn(cases))
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
    config = replace(
        CLUSTER, lanes=numbers.lanes, cluster_rows=grid[0], cluster_columns=grid[1], cluster_kernel=numbers.kernel[0],
        cluster_words=numbers.words, cluster_threshold=int(rng.choice([0, 3, 30])),
    )  # fmt: skip
    expected = kernel_partition(image != 0, numbers.kernel, config, config.cluster_moves)
    threshold = imbalance_tolerance(shape[0], shape[1], 3, config)
    run = run_partition("native", number, image, expected.start, threshold, config.cluster_moves)
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
    config = replace(
        CLUSTER, lanes=numbers.lanes, cluster_rows=grid[0], cluster_columns=grid[1], cluster_kernel=numbers.kernel[0],
        cluster_words=numbers.words, cluster_threshold=int(rng.choice([0, 3, 30])),
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
