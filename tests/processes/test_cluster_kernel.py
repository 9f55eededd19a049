"""A kernel with a sparse cluster in the place of its array, compiled: bits, counters and work of the emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cluster_configs import VARIANTS
from effort import drawn

from bfpga.contract.configuration import ClusterVariant
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
