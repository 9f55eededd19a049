"""What a run says of the units of a kernel's sparse cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bfpga.api.jobs import Job
from bfpga.cli.output import percent, table
from bfpga.devices.base import DeviceResult
from bfpga.report.unit_shares import KERNEL, MODEL, LayerShares, spread, unit_shares
from bfpga.runtime import input_arrays

EMULATOR = "emulator"
HEADERS = (
    "layer", "pieces", "slowest / mean, equal pieces", "balanced", "moves", "threshold met", "idlest unit",
    "mean unit",
)  # fmt: skip


def unit_report(job: Job, result: DeviceResult, device: str) -> list[dict[str, Any]]:
    """Print how units share the layers of the first samples, and give it for JSON; nothing without a cluster.

    Records that a kernel has sent of the run are shown, and its model for layers without any.
    """
    if not job.program.config.array.cuts_maps or job.program.side_by_side > 1:
        return []
    reported = result.layers if device != EMULATOR else []
    shares = unit_shares(job.program, input_arrays(job.program, job.samples.inputs), reported)
    if shares:
        mixed = len({share.source for share in shares}) > 1
        title = f"Units of the cluster, {len(shares[0].moves)} samples, {_sources(shares, device)}"
        table(title, HEADERS, [_row(share, mixed and share.source == MODEL) for share in shares])
    return [share.content() for share in shares]


def _sources(shares: Sequence[LayerShares], device: str) -> str:
    """The source of the figures; what equal pieces would have is of the model in any case."""
    sources = {share.source for share in shares}
    reported = f"reported by the kernel of {device}" if KERNEL in sources else "after the model of the kernel"
    return f"{reported}, layers in brackets after its model" if len(sources) > 1 else reported


def _row(share: LayerShares, brackets: bool) -> tuple[str, ...]:
    """Occupancy is of the time that the slowest unit of each map takes; brackets: around what others are not."""
    moves, occupancy = share.moves.sum(axis=1).mean(), share.occupancy
    layer = f"({share.layer})" if brackets else share.layer
    pieces = ", ".join(dict.fromkeys(f"{down} x {across}" for down, across in share.pieces))
    return (
        layer, pieces, f"{spread(share.equal):.2f}", f"{spread(share.balanced):.2f}", f"{moves:.1f}",
        "-" if share.met is None else percent(share.met, 1), percent(float(occupancy.min()), 1),
        percent(float(occupancy.mean()), 1),
    )  # fmt: skip
