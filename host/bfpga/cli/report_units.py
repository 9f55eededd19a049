"""What a run says of the units of a kernel's sparse cluster."""

from __future__ import annotations

from typing import Any

from bfpga.cli.output import percent, table
from bfpga.cli.work import Job
from bfpga.report.unit_shares import LayerShares, spread, unit_shares
from bfpga.runtime import input_arrays

HEADERS = (
    "layer", "pieces", "slowest / mean, equal pieces", "balanced", "moves", "threshold met", "idlest unit",
    "mean unit",
)  # fmt: skip


def unit_report(job: Job) -> list[dict[str, Any]]:
    """Print how units share the layers of the first samples, and give it for JSON; nothing without a cluster."""
    if not job.program.config.cuts_maps or job.program.side_by_side > 1:
        return []
    shares = unit_shares(job.program, input_arrays(job.program, job.samples.inputs))
    if shares:
        table(f"Units of the cluster, {len(shares[0].moves)} samples", HEADERS, [_row(share) for share in shares])
    return [share.content() for share in shares]


def _row(share: LayerShares) -> tuple[str, ...]:
    """Occupancy is of the time that the slowest unit of each map takes."""
    moves, occupancy = share.moves.sum(axis=1).mean(), share.occupancy
    pieces = ", ".join(dict.fromkeys(f"{down} x {across}" for down, across in share.pieces))
    return (
        share.layer, pieces, f"{spread(share.equal):.2f}", f"{spread(share.balanced):.2f}", f"{moves:.1f}",
        percent(float(share.reached.mean()), 1), percent(float(occupancy.min()), 1),
        percent(float(occupancy.mean()), 1),
    )  # fmt: skip
