"""Gates of Vivado's runs: what does not fit ends after synthesis, what is too slow or too full after routing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from bfpga.estimate.hardware import ROUTED_LIMITS
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.reports import Timing, Usage
from bfpga.vendor.block_design import BlockDesign

TITLES = {"lut": "LUT", "ff": "FF", "bram36": "BRAM36", "uram": "URAM", "dsp": "DSP"}
#: What to change in the accelerator's file when a resource is short.
REMEDIES = {
    "lut": "fewer columns or rows, or fewer functions",
    "ff": "fewer columns or rows",
    "bram36": "smaller activation_words, weight_words or parameter_rows",
    "uram": "smaller activation_words or weight_words",
    "dsp": "fewer columns, rows or lanes, or multiplier: dsp_packed, or dsp_quad",
}


def utilization_table(usage: Mapping[str, Usage]) -> str:
    """Used and available as text, a line a resource."""
    rows = [
        f"  {TITLES[name]:7}{item.used:>10,g} of {item.available:>10,g}   {100 * item.share:6.1f} %"
        for name, item in usage.items()
        if item.used or item.available
    ]
    return "\n".join(rows)


def utilization_gate(design: BlockDesign, usage: Mapping[str, Usage], report: Path) -> None:
    """BuildError with the table and what to reduce if a resource is used beyond what the device has."""
    over = [name for name, item in usage.items() if item.share > 1]
    if not over:
        return
    accelerator = design.accelerator
    advice = "; ".join(f"{TITLES[name]}: {REMEDIES[name]}" for name in over)
    raise BuildError(
        "utilization",
        f"{accelerator.name} does not fit into {accelerator.board.part}:\n{utilization_table(usage)}\n"
        f"reduce in {accelerator.path}: {advice}\nreport: {report}",
        report,
    )


def routed_gate(design: BlockDesign, usage: Mapping[str, Usage], report: Path, accepted: Collection[str]) -> list[str]:
    """Remarks on what is accepted; BuildError if a routed design uses more of a resource than ``ROUTED_LIMITS``."""
    over = {name: item for name, item in usage.items() if item.share > ROUTED_LIMITS[name]}
    sentences = {
        name: f"{TITLES[name]}: {100 * item.share:.1f} % of {item.available:,g}, at most "
        f"{100 * ROUTED_LIMITS[name]:g} % of a routed design"
        for name, item in over.items()
    }
    refused = [name for name in over if name not in accepted]
    if refused:
        accelerator = design.accelerator
        listed = "; ".join(sentences[name] for name in refused)
        advice = "; ".join(f"{TITLES[name]}: {REMEDIES[name]}" for name in refused)
        raise BuildError(
            "utilization",
            f"{accelerator.name} is routed, but {listed}\nreduce in {accelerator.path}: {advice}; or "
            f"`--accept {refused[0]}` packages it as it is\nreport: {report}",
            report,
        )
    return [f"accepted: {sentence}" for sentence in sentences.values()]


def reachable_mhz(period_ns: float, wns: float) -> float:
    """The clock at which the slowest path would have no slack left."""
    return 1000.0 / (period_ns - wns)


def timing_gate(design: BlockDesign, timing: Timing, report: Path) -> None:
    """BuildError with the slack and the clock that would be met if any slack is negative."""
    if timing.met:
        return
    clock, accelerator = design.clock, design.accelerator
    lines = [
        f"{accelerator.name} misses its timing at {clock.actual_mhz:.3f} MHz (asked: {clock.requested_mhz:g} MHz): "
        f"worst negative slack {timing.wns:.3f} ns, total {timing.tns:.3f} ns at {timing.failing} endpoints"
    ]
    if timing.wns < 0:
        reachable = reachable_mhz(1000 / clock.actual_mhz, timing.wns)
        lines.append(
            f"{reachable:.1f} MHz would be met; set clock_mhz in {accelerator.path} to {int(reachable)} or less"
        )
    if timing.whs < 0:
        lines.append(f"worst hold slack {timing.whs:.3f} ns: no clock mends this; try another version of Vivado")
    if timing.wpws < 0:
        lines.append(f"worst pulse width slack {timing.wpws:.3f} ns: the clock is too fast for the device's cells")
    raise BuildError("timing", "\n".join([*lines, f"report: {report}"]), report)
