"""A kernel with a sparse cluster in the place of its array, compiled: bits, counters and work of the emulator."""

from __future__ import annotations

from typing import Any

import pytest
from changed_kernels import changed
from cluster_configs import VARIANTS
from effort import drawn

from bfpga.contract.arrays.sparse_cluster import ClusterVariant
from bfpga.verify.check import verify

SLOW = pytest.mark.slow
#: Small units of each variant.
SMALL: dict[str, Any] = {"array_kernel": 2, "array_queue": 16, "lanes": 2}


@pytest.mark.parametrize(
    ("target", "variant", "changes", "cases"),
    [
        *(("csim", variant, {}, 12) for variant in "AC"),
        ("virtual", "B", {}, 6),
        ("csim:exact", "D", {**SMALL, "array_lanes": 4, "array_moves": 0, "columns": 3}, 8),
        ("csim", "E", {"array_form": "halo"}, 15),
        *(
            pytest.param(*case, 8, marks=SLOW)
            for case in (
                *(("csim", variant, {}) for variant in "BDE"),
                *(("virtual", variant, {}) for variant in "ACE"),
                ("csim", "A", {**SMALL, "count_registers": 2}),
                ("csim", "B", {**SMALL, "array_lanes": 3}),
                ("csim", "D", {"array_form": "halo"}),
                ("csim:exact", "E", {"array_moves": 0, "columns": 3}),
                ("csim:exact", "B", {"array_lanes": 9, "rows": 8, "columns": 3}),
                ("csim:exact", "C", {"array_lanes": 8, "rows": 8, "columns": 3}),
                ("csim", "C", {**SMALL, "array_lanes": 2}),
                ("csim:exact", "A", {"rows": 8, "columns": 3}),
                ("csim:ap_int", "A", {"array_queue": 16, "lanes": 1}),
                ("csim", "B", {"array_form": "halo"}),
                ("csim", "C", {"array_form": "halo"}),
                ("virtual", "D", {"array_form": "halo"}),
                ("csim:exact", "B", {**SMALL, "array_form": "halo", "array_lanes": 3}),
                (
                    "csim:ap_int", "E",
                    {"array_form": "halo", "array_rows": 1, "array_columns": 3},
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
    report = verify([changed(VARIANTS[variant], **changes)], [target], drawn(cases))
    assert report.mismatch is None, report.mismatch
    assert report.cases == drawn(cases)
