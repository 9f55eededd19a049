"""Tables of the commands, and the same content as plain data for `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bfpga.accelerator.estimate import ProgramEstimate, estimate_program
from bfpga.accelerator.loader import Accelerator
from bfpga.accelerator.roofline import estimate_parts, estimate_roofline
from bfpga.cli.output import percent, say, table
from bfpga.cli.work import Job, accuracy
from bfpga.devices.base import DeviceResult
from bfpga.network.cycles import CycleCount, program_cycles
from bfpga.network.listing import host_share
from bfpga.network.program import HostNode, Program


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


def program_estimate(accelerator: Accelerator, program: Program) -> dict[str, Any]:
    """Print what every layer of a program costs and what limits it."""
    estimate = estimate_program(accelerator, program)
    cycles, peak = estimate.cycles, accelerator.systolic.macs_per_clock
    rows = [
        (layer.name, layer.engine, layer.macs, layer.cycles, percent(layer.macs, layer.cycles * peak),
         layer.transfer_cycles, layer.limit)
        for layer in estimate.layers
    ]  # fmt: skip
    headers = ["layer", "engine", "MACs", "cycles", "utilization", "transfer cycles", "limit"]
    table(f"{program.name} on {accelerator.name}, one sample", headers, rows)
    limits: dict[str, int] = {}
    for layer in estimate.layers:
        for name, share in layer.limits.items():
            limits[name] = limits.get(name, 0) + share
    spent = ", ".join(f"{name} {percent(share, cycles.dma_inclusive)}" for name, share in by_size(limits) if share)
    say(f"clocks are spent on: {spent}")
    say(f"array utilization: {100 * cycles.utilization:.1f} % of {peak} MAC a clock, {products_share(estimate, peak)}")
    for what, count, seconds in (
        ("compute-bound", cycles.compute_bound, estimate.compute_seconds),
        ("DMA-inclusive", cycles.dma_inclusive, estimate.seconds),
    ):
        say(f"{what}: {count:,} cycles, {1e3 * seconds:.3f} ms, {rate(seconds)} images/s")
    return {
        "model": program.name,
        "macs": cycles.macs,
        "cycles_compute": cycles.compute_bound,
        "cycles_total": cycles.dma_inclusive,
        "cycles_setup": cycles.setup.total,
        "latency_compute_s": estimate.compute_seconds,
        "latency_s": estimate.seconds,
        "utilization": cycles.utilization,
        "limits": limits,
        "layers": [{**asdict(layer), "limit": layer.limit} for layer in estimate.layers],
    }


def products_share(estimate: ProgramEstimate, peak: int) -> str:
    """Utilization over the layers that multiply: the others (pooling, addition) have no products to give."""
    layers = [layer for layer in estimate.layers if layer.macs and layer.engine != "host"]
    macs, cycles = sum(layer.macs for layer in layers), sum(layer.cycles for layer in layers)
    return f"{percent(macs, cycles * peak)} over layers with products"


def by_size(shares: dict[str, int]) -> list[tuple[str, int]]:
    """Names with their numbers, largest first."""
    return sorted(shares.items(), key=lambda item: -item[1])


def rate(seconds: float) -> str:
    """Images a second of one image after the other; `-` when the array does nothing."""
    return f"{1 / seconds:,.0f}" if seconds else "-"


def program_content(accelerator: Accelerator, program: Program) -> dict[str, Any]:
    """A compiled program for machines: its layers, where they run and their cycles."""
    cycles = program_cycles(program)
    return {
        "model": program.name,
        "accelerator": accelerator.name,
        "digest": program.digest,
        "macs": cycles.macs,
        "cycles_total": cycles.dma_inclusive,
        "cycles_compute": cycles.compute_bound,
        "host_share": host_share(program),
        "layers": [
            {
                "name": node.name,
                "engine": "host" if isinstance(node, HostNode) else "systolic_array",
                "macs": 0 if isinstance(node, HostNode) else node.macs,
                "cycles": cycles.layers.get(node.name, CycleCount()).total,
            }
            for node in program.nodes
        ],
        "notes": program.notes,
    }


def run_report(job: Job, result: DeviceResult, device: str) -> dict[str, Any]:
    """Print what a run gave: a line for every layer, cycles and time of one sample, accuracy where labels are known."""
    rows = layer_rows(job, result)
    print_layers(job, result, device, rows)
    cycles = program_cycles(job.program).dma_inclusive
    latency = estimate_program(job.accelerator, job.program).seconds
    found = accuracy(result.outputs, job.samples.y)
    say(f"one sample: {cycles:,} cycles, {1e3 * latency:.3f} ms at {job.accelerator.clock_mhz:g} MHz, estimated")
    if found is not None:
        say(f"accuracy: {100 * found:.2f} % of {result.samples} samples")
    return {
        "model": job.program.name,
        "accelerator": job.accelerator.name,
        "device": device,
        "samples": result.samples,
        "accuracy": found,
        "cycles_total": cycles,
        "cycles_run": result.cycles,
        "latency_s": latency,
        "layers": rows,
    }


def layer_rows(job: Job, result: DeviceResult, sqnr: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """Layers of a run: MACs and cycles of one sample, signal to noise ratio where it was measured."""
    rows = []
    for layer in result.layers:
        row: dict[str, Any] = {
            "name": layer.name,
            "engine": layer.engine,
            "macs": layer.macs // max(result.samples, 1),
            "cycles": round(layer.cycles / max(result.samples, 1)),
        }
        if sqnr is not None and layer.name in sqnr:
            row["sqnr_db"] = sqnr[layer.name]
        rows.append(row)
    return rows


def print_layers(job: Job, result: DeviceResult, device: str, rows: list[dict[str, Any]]) -> None:
    """The table of ``layer_rows``."""
    peak = job.accelerator.systolic.macs_per_clock
    measured = any("sqnr_db" in row for row in rows)
    headers = ["layer", "engine", "MACs", "cycles", "utilization"] + ["SQNR"] * measured
    cells = [
        [row["name"], row["engine"], row["macs"], row["cycles"], percent(row["macs"], row["cycles"] * peak)]
        + [f"{row['sqnr_db']:.1f} dB" if "sqnr_db" in row else ""] * measured
        for row in rows
    ]
    title = f"{job.program.name} on {job.accelerator.name}, {device}, {result.samples} samples; numbers of one sample"
    table(title, headers, cells)
