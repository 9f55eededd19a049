"""Tables of the commands, and the same content as plain data for `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bfpga.accelerator.loader import Accelerator
from bfpga.api.figures import (
    add_saturation,
    evaluation_content,
    host_content,
    layer_rows,
    summary,
    weight_formats,
)
from bfpga.api.jobs import Job, accuracy
from bfpga.cli import work
from bfpga.cli.device_choice import DeviceChoice
from bfpga.cli.output import note, percent, say, table
from bfpga.cli.report_host import milliseconds, print_host, rate
from bfpga.cli.report_saturation import print_calibration, saturation_cell, warn_saturation
from bfpga.cli.report_units import EMULATOR, unit_report
from bfpga.contract.configuration import ARRAY, KernelConfig
from bfpga.contract.program import Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import Comparison
from bfpga.devices.health import BoardHealth
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.engines.kernel.supported import supported
from bfpga.estimate.advice import TIE, advice
from bfpga.estimate.hardware import kinds_of
from bfpga.estimate.program import ProgramEstimate, estimate_program
from bfpga.estimate.roofline import estimate_roofline
from bfpga.formats.cache import cache_directory
from bfpga.program.cycles import STREAM, tile_clocks
from bfpga.program.flow_listing import flow_choices
from bfpga.program.host import array_alone
from bfpga.program.kept_programs import kept_text
from bfpga.program.listing import FORMATS_TITLE, format_headings, format_rows
from bfpga.report.histograms import HISTOGRAM_DROPPED, HISTOGRAM_HEADINGS, histogram_cells
from bfpga.runtime import Evaluation
from bfpga.synthesis.kept import kept_figures
from bfpga.synthesis.resources import resources_of

if TYPE_CHECKING:
    from bfpga.explore.faster import Faster
    from bfpga.vendor.lint import Finding
    from bfpga.verify.check import VerifyReport

#: Columns of tables of layers that fall away on a narrow terminal, in this order; names, cycles and what decides stay.
OPTIONAL = (
    "engine", "MACs", "saturated samples / values", "worst sample", "input zeros", "transfer cycles", "utilization",
)  # fmt: skip


def array_text(config: KernelConfig) -> str:
    """`12 x 8 x 4`: columns, rows and lanes; `16 x 24`: groups of a skip array and the lanes of each.

    Of a tile rows and columns at once.
    """
    return config.array.size_text(config)


def columns_text(config: KernelConfig) -> str:
    """`12 columns`, `6 shift columns`, `12 + 5 shift columns`."""
    if config.multiplier == "shift":
        return f"{config.columns} shift columns"
    if config.shift_columns:
        return f"{config.columns - config.shift_columns} + {config.shift_columns} shift columns"
    return f"{config.columns} columns"


def kernels_text(accelerator: Accelerator) -> str:
    """The array, with how many cores have one."""
    text = array_text(accelerator.config)
    return f"{accelerator.cores} cores of {text}" if accelerator.cores > 1 else text


def engine_operations(config: KernelConfig) -> dict[str, list[str]]:
    """What the kernel of an accelerator computes, by the name of its array (SC R14)."""
    return {ARRAY: list(supported(config))}


def accelerator_estimate(accelerator: Accelerator) -> dict[str, Any]:
    """Print an accelerator's resources and roofline."""
    board, config = accelerator.board, accelerator.config
    use = resources_of(accelerator)
    parts, origin = use.with_total, use.origin
    limits = board.resources
    rows: list[tuple[object, ...]] = [(name, *(asdict(r)[kind] for kind in limits)) for name, r in parts.items()]
    rows.append((board.title, *limits.values()))
    used = asdict(parts["total"])
    rows.append(("used", *(percent(used[kind], limit) for kind, limit in limits.items())))
    title = f"{accelerator.name}: {columns_text(config)} x {config.rows} rows x {config.lanes} lanes"
    if config.array.has_both:
        title += f", in parallel with a skip array of {config.array.skip_groups(config)} x {config.rows}"
    elif config.array.skip_groups(config):
        kind = "tile" if config.array.stores_blocks else "sparse cluster" if config.array.reads_maps else "skip array"
        title = f"{accelerator.name}: a {kind} of {array_text(config)}"
    if accelerator.cores > 1:
        title = f"{title}, {accelerator.cores} cores"
    table(f"{title} at {accelerator.clock_mhz:g} MHz", ["part", *kinds_of(limits).values()], rows)
    if origin:
        say(origin)
    roofline = estimate_roofline(accelerator)
    table(
        "Roofline",
        ["ceiling", "bytes/cycle", "GB/s", "the full array needs, bytes/cycle"],
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
    say(f"array: {roofline.macs_per_clock} MAC/cycle = {roofline.gmac_s:.1f} GMAC/s")
    if accelerator.cores > 1:
        whole = f"{accelerator.cores * roofline.macs_per_clock} MAC/cycle"
        say(f"{accelerator.cores} cores, each with such an array, on one memory: {whole}; resources are of all of them")
    if len(roofline.format_macs) > 1:
        listed = (f"{macs} {name.replace('_', '-')}" for name, macs in roofline.format_macs.items())
        say("MAC/cycle by the format of a layer's weights: " + ", ".join(listed))
    say(f"streamed weights keep it busy when each byte serves {roofline.ridge_macs_per_byte:.0f} MAC or more")
    if use.basis == "estimated":
        say("LUT and FF are a model without the vendor's tools; docs/estimates.md says what it is built from.")
    hardware = hardware_content(accelerator)
    return {
        "accelerator": accelerator.name,
        "board": board.name,
        "digest": accelerator.digest,
        "clock_mhz": accelerator.clock_mhz,
        "resources": {name: asdict(part) for name, part in parts.items()},
        "board_resources": limits,
        "roofline": {**asdict(roofline), "ridge_macs_per_byte": roofline.ridge_macs_per_byte},
        "hardware": hardware,
    }


def hardware_content(accelerator: Accelerator) -> dict[str, Any] | None:
    """Print what a synthesis of the kernel's code says against the figures above; None where none has been made."""
    figures = kept_figures(accelerator, cache_directory("synthesis"))
    if figures is None:
        say(f"no synthesis of this kernel confirms its cycles, clock and size: bfpga synthesize {accelerator.name}")
        return None
    slow = [loop for loop in figures.loops if loop.is_slow]
    if slow:
        pairs = dict.fromkeys(f"{loop.name} {loop.interval} instead of {loop.stated_interval}" for loop in slow)
        listed = ", ".join(pairs)
        say(f"the synthesis of the code does not confirm these cycles; its intervals of loops are longer: {listed}")
    return {**asdict(figures), "slow_loops": [loop.name for loop in slow]}


def program_estimate(accelerator: Accelerator, program: Program) -> dict[str, Any]:
    """Print what every layer of a program costs and what limits it."""
    estimate = estimate_program(accelerator, program)
    cycles, peak = estimate.cycles, accelerator.config.macs_per_clock
    rows = [
        (layer.name, layer.engine, layer.macs, layer.cycles,
         utilization(layer.engine, layer.tile_clocks, layer.cycles * peak), layer.transfer_cycles, layer.limit)
        for layer in estimate.layers
    ]  # fmt: skip
    headers = ["layer", "engine", "MACs", "cycles", "utilization", "transfer cycles", "limit"]
    table(f"{program.name} on {accelerator.name}, one sample", headers, rows, dropped=OPTIONAL)
    print_formats(program)
    limits: dict[str, int] = {}
    for layer in estimate.layers:
        for name, share in layer.limits.items():
            limits[name] = limits.get(name, 0) + share
    spent = ", ".join(f"{name} {percent(share, cycles.dma_inclusive)}" for name, share in by_size(limits) if share)
    say(f"cycles go to: {spent}")
    say(f"array utilization: {100 * cycles.utilization:.1f} % of {peak} MAC/cycle, {products_share(estimate, peak)}")
    for what, count, seconds in cycle_figures(estimate):
        images = rate(1 / seconds if seconds else None)
        say(f"{what}: {count:,} cycles, {milliseconds(seconds)}, {images} images/s{array_alone(program)}")
    if program.config.program_descriptors:
        say(kept_text(program))
    host = host_content(accelerator, program, estimate, note)
    print_host(accelerator, host)
    found = print_advice(accelerator, program, estimate)
    return {
        "model": program.name,
        "macs": cycles.macs,
        "advice": found,
        "cycles_compute": cycles.compute_bound,
        "cycles_total": cycles.dma_inclusive,
        "cycles_schedule": cycles.schedule,
        "cycles_setup": cycles.setup.total,
        "latency_compute_s": estimate.compute_seconds,
        **host,
        "utilization": cycles.utilization,
        "limits": limits,
        "layers": [{**asdict(layer), "limit": layer.limit} for layer in estimate.layers],
        "weight_formats": weight_formats(program),
    }


def faster_report(accelerator: Accelerator, found: Faster | None) -> dict[str, Any] | None:
    """Print which ready accelerator is faster, or that none is; the same as data."""
    if found is None:
        say(f"no other ready accelerator of {accelerator.board.title} is more than {100 * TIE:.0f} % faster")
        return None
    say(found.text)
    return asdict(found)


def print_advice(accelerator: Accelerator, program: Program, estimate: ProgramEstimate) -> list[dict[str, Any]]:
    """Print what costs most and what to change; the same as data. Nothing where all is worth its time."""
    found = advice(accelerator, program, estimate)
    for one in found:
        say(one.text)
    return [asdict(one) for one in found]


def cycle_figures(estimate: ProgramEstimate) -> list[tuple[str, int, float]]:
    """What cycles are those of, their number, seconds: of one sample alone and of one among many."""
    cycles = estimate.cycles
    each = -(-cycles.scheduled(STREAM) // STREAM)
    return [
        ("work, computing alone", cycles.compute_bound, estimate.compute_seconds),
        ("work, with transfers", cycles.dma_inclusive, cycles.latency_s(cycles.dma_inclusive)),
        ("schedule of one sample", cycles.schedule, estimate.seconds),
        (f"schedule of {STREAM} samples, each", each, cycles.latency_s(each)),
    ]


def print_formats(program: Program) -> None:
    """The formats of weights that layers had a choice of, where the array offers one."""
    rows = format_rows(program)
    if rows:
        table(FORMATS_TITLE, list(format_headings(program)), rows)


def products_share(estimate: ProgramEstimate, peak: int) -> str:
    """Utilization over the layers that multiply: the others (pooling, addition) have no products to give."""
    layers = [layer for layer in estimate.layers if layer.macs and layer.engine == ARRAY]
    busy, cycles = sum(layer.tile_clocks for layer in layers), sum(layer.cycles for layer in layers)
    return f"{percent(busy, cycles * peak)} over layers with products"


def utilization(engine: str, busy: int, clocks: int) -> str:
    """Share of the array's lanes that a layer keeps busy; of the host nothing is said."""
    return percent(busy, clocks) if engine == ARRAY else "-"


def by_size(shares: dict[str, int]) -> list[tuple[str, int]]:
    """Names with their numbers, largest first."""
    return sorted(shares.items(), key=lambda item: -item[1])


def program_content(accelerator: Accelerator, program: Program) -> dict[str, Any]:
    """A compiled program for machines: its layers, where they run and their cycles; prints what the host takes."""
    estimate = estimate_program(accelerator, program)
    cycles, host = estimate.cycles, host_content(accelerator, program, estimate, note)
    print_host(accelerator, host)
    return {
        "model": program.name,
        "accelerator": accelerator.name,
        "digest": program.digest,
        "macs": cycles.macs,
        "cycles_total": cycles.dma_inclusive,
        "cycles_compute": cycles.compute_bound,
        "cycles_schedule": cycles.schedule,
        **host,
        "layers": layer_rows(program),
        "weight_formats": weight_formats(program),
        "flow_choices": flow_choices(program),
        "notes": program.notes,
    }


def run_report(job: Job, result: DeviceResult, device: str, counted: DeviceResult | None = None) -> dict[str, Any]:
    """Print what a run gave: a line for every layer, cycles and time of one sample, accuracy where labels are known.

    counted: a run of the same samples that counted saturated ones, where the device counts values alone.
    """
    estimate = estimate_program(job.accelerator, job.program)
    content = summary(job, device, result.samples, estimate, note)
    content["layers"] = layer_rows(job.program)
    add_saturation(content["layers"], job.program, (counted or result).layers, result.samples)
    content["cycles_run"] = result.cycles
    content["measured"] = result.measured.to_dict() if result.measured else None
    content["boards"] = [board.to_dict() for board in result.boards]
    content |= {"cores": [core.to_dict() for core in result.cores]} if result.cores else {}
    content["accuracy"] = accuracy(job, result)
    print_layers(job, content)
    content["advice"] = print_advice(job.accelerator, job.program, estimate)
    content["units"] = unit_report(job, result, device)
    print_boards(result)
    if result.measured is not None:
        print_measured(result.measured)
    if content["accuracy"] is not None:
        say(f"accuracy: {100 * content['accuracy']:.2f} %")
    print_calibration(job)
    warn_saturation(content)
    return content


def histogram_report(job: Job, samples: int | None, choice: DeviceChoice) -> dict[str, Any]:
    """Print what the operations before layers counted of the first samples; nothing where it was not asked for."""
    if samples is None:
        return {}
    found, difference = work.histograms(job, choice, samples)
    layers, count = [layer.to_dict() for layer in found], min(samples, len(job.samples))
    if layers:
        title = f"Highest bits of what preceded each layer, {count} samples, {choice.name}"
        table(title, list(HISTOGRAM_HEADINGS), [histogram_cells(layer) for layer in layers], dropped=HISTOGRAM_DROPPED)
    else:
        say("no layer has a histogram: exponents are found by rules on one with --policy dynamic and position_bins")
    if difference:
        say(f"histograms differ: {difference}")
    elif layers and choice.name != EMULATOR:
        say("the emulator counts the same, bin by bin")
    return {
        "histogram_samples": count, "histogram_device": choice.name, "histograms": layers,
        "histogram_difference": difference,
    }  # fmt: skip


def print_boards(result: DeviceResult) -> None:
    """Throughput and health of each of several boards, and of each of several cores."""
    for title, parts in (("Boards", result.boards), ("Cores", result.cores)):
        if parts:
            print_health(title, parts)


def print_health(title: str, boards: Sequence[BoardHealth]) -> None:
    """Throughput and health of what shared the samples of a run."""
    rows = [
        (board.name, board.samples, board.samples_per_second, board.taken_out, board.returned,
         "in service" if board.in_service else "out", board.failures[-1] if board.failures else "")
        for board in boards
    ]  # fmt: skip
    headers = [title.lower().removesuffix("s"), "samples", "samples/s", "taken out", "returned", "now", "last failure"]
    table(title, headers, rows, dropped=["taken out", "returned", "samples", "last failure"])


def print_measured(measured: MeasuredClocks) -> None:
    """Clocks that the hardware took and those that its schedule counts, and a warning where they contradict."""
    say(f"this run: {measured}")
    if measured.warning:
        say(f"warning: {measured.warning}")


def comparison_report(job: Job, comparison: Comparison, device: str) -> dict[str, Any]:
    """Print a run and whether the emulator agrees with it in every bit, or where they first differ."""
    content = run_report(job, comparison.got, device, comparison.expected)
    content["bit_exact"] = comparison.bit_exact
    content["comparison"] = comparison.to_dict()
    if comparison.mismatch is None:
        maps = f", {comparison.maps} maps that were cut" if comparison.maps else ""
        counted = f"{comparison.tensors} tensors of {comparison.samples} samples{maps}"
        say(f"bit-exact: {device} and {comparison.reference} agree in {counted}, outputs, counters and cycles")
    else:
        say(f"NOT bit-exact: {device} differs from {comparison.reference}: {comparison.mismatch}")
    return content


def evaluation_report(job: Job, evaluation: Evaluation) -> dict[str, Any]:
    """Print how far a network on the accelerator is from float, layer by layer and in accuracy."""
    content = evaluation_content(job, evaluation, note)
    print_layers(job, content)
    if evaluation.traced < evaluation.samples:
        say(f"SQNR and saturated samples: of {evaluation.traced} samples, spread over all")
    if evaluation.accuracy is not None and evaluation.float_accuracy is not None:
        points = 100 * (evaluation.accuracy - evaluation.float_accuracy)
        share = f"{100 * evaluation.accuracy:.2f} %, {evaluation.reference} {100 * evaluation.float_accuracy:.2f} %"
        say(f"accuracy: {share} ({points:+.2f} points)")
    same = f"same largest output as {evaluation.reference}: {100 * evaluation.agreement:.2f} %"
    say(f"{same}; mean cosine {evaluation.cosine:.6f}")
    print_calibration(job)
    warn_saturation(content)
    return content


def print_layers(job: Job, content: dict[str, Any]) -> None:
    """The table of ``layer_rows`` with the cycles and the time of one sample."""
    rows, peak, busy = content["layers"], job.accelerator.config.macs_per_clock, tile_clocks(job.program)
    measured, counted = any("sqnr_db" in row for row in rows), any("input_density" in row for row in rows)
    saturating = any("saturated_samples" in row for row in rows)
    headers = ["layer", "engine", "MACs", "cycles", "utilization"] + ["input zeros"] * counted
    headers += ["SQNR", "worst sample"] * measured + ["saturated samples / values"] * saturating
    cells = [
        [row["name"], row["engine"], row["macs"], row["cycles"]]
        + [utilization(row["engine"], busy.get(row["name"], 0), row["cycles"] * peak)]
        + [percent(1 - row["input_density"], 1) if "input_density" in row else ""] * counted
        + [f"{row[key]:.1f} dB" if key in row else "" for key in ("sqnr_db", "worst_sqnr_db")] * measured
        + [saturation_cell(row)] * saturating
        for row in rows
    ]
    samples = f"{content['samples']} samples"
    title = f"{content['model']} on {content['accelerator']}, {content['device']}, {samples}"
    table(title, headers, cells, dropped=OPTIONAL)
    clock = f"{job.accelerator.clock_mhz:g} MHz"
    count = job.program.side_by_side
    what = "one sample" if count == 1 else f"{count} samples side by side"
    time = f"{milliseconds(content['latency_array_s'])} at {clock} (estimated{array_alone(job.program)})"
    spent = f"{content['cycles_total']:,} cycles"
    if content["cycles_schedule"] is not None:
        spent = f"work {spent}, schedule {content['cycles_schedule']:,}"
    say(f"{what}: {spent} = {time}")
    print_host(job.accelerator, content)
    use, board = resources_of(job.accelerator), job.accelerator.board
    total = use.total
    ultra = f"{total.uram} of {board.uram} URAM, " if total.uram else ""
    say(
        f"{board.title}: {total.dsp} of {board.dsp} DSP, {total.bram36} of {board.bram36} BRAM36, {ultra}"
        f"{percent(total.lut, board.lut)} of the LUTs, {percent(total.ff, board.ff)} of the FFs ({use.basis})"
    )
    for remark in job.program.notes:
        say(f"note: {remark}")


def verification_report(name: str, report: VerifyReport) -> dict[str, Any]:
    """Print what was verified, or the first difference and how to repeat it."""
    work = f"{report.cases} random networks, {report.layers} layers, {report.values:,} values"
    arrays = f" on {report.accelerators} random arrays" if name == "random" else ""
    say(f"{name}: {work}{arrays} in {report.seconds:.1f} s")
    if report.mismatch is None:
        say(f"bit-exact: the emulator and {', '.join(report.targets)} agree in every value, counter and cycle count")
    else:
        say(f"NOT bit-exact on {report.target}, case {report.seed}: {report.mismatch}")
    return {
        "accelerator": name,
        "arrays": report.accelerators,
        "against": report.targets,
        "cases": report.cases,
        "layers": report.layers,
        "values": report.values,
        "seconds": report.seconds,
        "bit_exact": report.mismatch is None,
        "mismatch": None if report.mismatch is None else str(report.mismatch),
        "seed": report.seed,
    }


def lint_report(findings: Sequence[Finding]) -> dict[str, Any]:
    """Print findings, one a line, and their number."""
    from bfpga.vendor.lint.rules import format_findings

    say(format_findings(findings))
    return {"findings": [asdict(finding) for finding in findings]}
