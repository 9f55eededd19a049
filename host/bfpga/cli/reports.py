"""Tables of the commands, and the same content as plain data for `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.accelerator.roofline import estimate_parts, estimate_roofline
from bfpga.cli.output import percent, say, table


def accelerator_estimate(accelerator: Accelerator) -> dict[str, Any]:
    """Print an accelerator's resources and roofline."""
    board, config = accelerator.board, accelerator.systolic
    parts = estimate_parts(accelerator)
    limits = {"dsp": board.dsp, "bram36": board.bram36, "lut": board.lut, "ff": board.ff}
    rows: list[tuple[object, ...]] = [(name, r.dsp, r.bram36, r.lut, r.ff) for name, r in parts.items()]
    rows.append((board.title, *limits.values()))
    used = asdict(parts["total"])
    rows.append(("used", *(percent(used[kind], limit) for kind, limit in limits.items())))
    title = f"{accelerator.name}: {config.columns} columns x {config.rows} rows x {config.lanes} lanes"
    table(f"{title} at {accelerator.clock_mhz:g} MHz", ["part", "DSP", "BRAM36", "LUT", "FF"], rows)
    roofline = estimate_roofline(accelerator)
    table(
        "Roofline",
        ["ceiling", "bytes a clock", "GB/s", "the full array needs, bytes a clock"],
        [
            ("weight stream", roofline.weight_stream, roofline.weight_stream_gb_s, roofline.weight_need),
            (
                "activation stream",
                roofline.activation_stream,
                roofline.activation_stream_gb_s,
                roofline.activation_need,
            ),
            (f"memory of {board.title} (assumed)", "", roofline.memory_gb_s, ""),
        ],
    )
    say(f"array: {roofline.macs_per_clock} MAC a clock = {roofline.gmac_s:.1f} GMAC/s")
    say(f"streamed weights keep it busy when each byte serves {roofline.ridge_macs_per_byte:.0f} MAC or more")
    say("LUT and FF are a model without the vendor's tools; docs/estimates.md says what it is built from.")
    return {
        "accelerator": accelerator.name,
        "board": board.name,
        "digest": accelerator.digest,
        "clock_mhz": accelerator.clock_mhz,
        "resources": {name: asdict(part) for name, part in parts.items()},
        "board_resources": limits,
        "roofline": {**asdict(roofline), "ridge_macs_per_byte": roofline.ridge_macs_per_byte},
    }
