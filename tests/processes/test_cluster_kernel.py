"""A kernel with a sparse cluster in the place of its array, compiled: bits, counters and work of the emulator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cluster_configs import CLUSTER

from bfpga.verify.check import verify


@pytest.mark.parametrize(
    ("target", "changes", "cases"),
    [
        ("csim", {}, 40),
        ("csim:exact", {"cluster_moves": 0, "columns": 3}, 10),
        ("virtual", {"count_registers": 2}, 6),
    ],
)  # fmt: skip
def test_random_networks(target: str, changes: dict[str, int], cases: int) -> None:
    report = verify([replace(CLUSTER, **changes)], [target], cases)
    assert report.mismatch is None, report.mismatch
    assert report.cases == cases
