"""Figures of programs, runs and evaluations as plain data: what tables, reports and ``--json`` show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from bfpga.accelerator.loader import Accelerator
from bfpga.api.host_rows import operator_rows
from bfpga.api.jobs import Job
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, HostNode, Node, Program
from bfpga.devices.base import LayerResult
from bfpga.devices.host_time import HostTime, measure_host
from bfpga.errors import ProgramError
from bfpga.estimate.cores import cores_used, shared_rate
from bfpga.estimate.driver import driver_seconds, driver_time
from bfpga.estimate.host import host_seconds, time_in_stream
from bfpga.estimate.program import ProgramEstimate, estimate_program
from bfpga.program.cycles import CycleCount, program_cycles
from bfpga.program.host import host_nodes, host_share
from bfpga.program.layout import channel_factors, together
from bfpga.program.places import place_of
from bfpga.runtime import Evaluation, input_arrays

#: Gets a remark.
Say = Callable[[str], None]
#: Mantissas up to this many bits saturate a few values on purpose: the others are rounded more finely.
NARROW_BITS = 11
#: Shares of a layer's values that may saturate there: of all samples, and of one sample.
ALL_SAMPLES, ONE_SAMPLE = 1 / 1000, 1 / 100


def silent(text: str) -> None:
    """No remarks are wanted."""


def summary(
    job: Job, device: str, samples: int, estimate: ProgramEstimate, note: Say = silent
) -> dict[str, Any]:
    """What every report on a network holds; cycles and latency are those of one sample (or of those that travel side
    by side), weights resident. estimate: of the program."""
    return {
        "model": job.program.name,
        "accelerator": job.accelerator.name,
        "device": device,
        "samples": samples,
        "side_by_side": job.program.side_by_side,
        **calibration_content(job),
        "accuracy": None,
        "cycles_total": estimate.cycles.dma_inclusive,
        "cycles_compute": estimate.cycles.compute_bound,
        "cycles_schedule": estimate.cycles.schedule,
        **host_content(job.accelerator, job.program, estimate, note),
        "weight_formats": weight_formats(job.program),
    }


def evaluation_content(job: Job, evaluation: Evaluation, note: Say = silent) -> dict[str, Any]:
    """How far a network on the accelerator is from float, layer by layer and in accuracy."""
    estimate = estimate_program(job.accelerator, job.program)
    content = summary(job, "emulator", evaluation.samples, estimate, note)
    content["layers"] = layer_rows(job.program, evaluation.sqnr_db, evaluation.worst_sqnr_db)
    add_saturation(content["layers"], job.program, evaluation.layers, evaluation.traced)
    for key in ("accuracy", "float_accuracy", "agreement", "cosine", "reference"):
        content[key] = getattr(evaluation, key)
    content["traced_samples"] = evaluation.traced
    return content


def layer_rows(
    program: Program, sqnr: Mapping[str, float] | None = None, worst: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """Layers of a program: MACs and cycles of one sample, signal to noise ratio where it was measured.

    sqnr, worst: by tensor name, over all samples and of the worst one.
    """
    cycles = program_cycles(program)
    rows = []
    for node in program.nodes:
        row: dict[str, Any] = {
            "name": node.name,
            "engine": place_of(node),
            "macs": 0 if isinstance(node, HostNode) else node.macs,
            "cycles": cycles.layers.get(node.name, CycleCount()).total,
        }
        if isinstance(node, ArrayNode) and node.input_density is not None:
            row["input_density"] = node.input_density
        if sqnr and not isinstance(node, HostNode) and node.output in sqnr:
            row["sqnr_db"] = sqnr[node.output]
            row["worst_sqnr_db"] = (worst or sqnr)[node.output]
        rows.append(row)
    return rows


def weight_formats(program: Program) -> list[dict[str, Any]]:
    """Layers whose weights had a choice of formats: the figures of each, the chosen one and why (SM R37)."""
    return [
        {
            "layer": node.name,
            "chosen": node.weight_format,
            "because": node.weight_reason,
            "formats": [asdict(item) for item in node.weight_choices],
        }
        for node in program.nodes
        if isinstance(node, ArrayNode) and node.weight_choices
    ]


# The host


def host_content(
    accelerator: Accelerator, program: Program, estimate: ProgramEstimate, note: Say = silent
) -> dict[str, Any]:
    """Work and time of the host and the latency of one sample (or of those side by side), for every report.

    estimate: of the array alone. Array and host work one after the other for a sample alone, and beside each other in
    a stream. The host's part of ``latency_s`` is the estimate for a core of the board; ``host_seconds`` is measured on
    this machine; ``note``: gets why it is not. ``stream_images_per_second``: of samples that follow each other,
    ``images_per_second``: of each by itself. ``stream_cores``, ``stream_limit``: of several cores, how many share the
    stream, and what limits it.
    """
    nodes, cores = host_nodes(program), accelerator.board.arm_cores
    measured = _measured(program, note) if nodes else None
    arm = [cores.node_seconds(node) for node in nodes] if cores else []
    board_seconds = host_seconds(program, cores)
    driver = driver_seconds(program, estimate, cores)
    latency = estimate.seconds + (board_seconds or 0.0)
    moved = sum(layer.bytes for layer in estimate.layers)
    shared = shared_rate(accelerator, program, time_in_stream(program, estimate, cores), moved)
    stream, known, count = shared.seconds, board_seconds is not None, cores_used(accelerator, program)
    return {
        "host_share": host_share(program),
        "host_operations": sum(node.flops for node in nodes),
        "host_seconds": measured.seconds if measured else None if nodes else 0.0,
        "host_cpu": measured.cpu if measured else None,
        "host_library": measured.library if measured else None,
        "host_board_seconds": board_seconds,
        "host_board_cpu": cores.title if cores else None,
        "host_nodes": [
            {
                "name": node.name,
                "operators": list(node.operators),
                "operations": node.flops,
                "seconds": measured.nodes[node.name] if measured else None,
                "board_seconds": arm[index] if arm else None,
                "each": [asdict(row) for row in operator_rows(node, cores)],
            }
            for index, node in enumerate(nodes)
        ],
        "driver_board_seconds": driver,
        "driver_samples_per_second": program.side_by_side / driver if driver else None,
        "driver_seconds": driver_time().sample_seconds(program, estimate),
        "driver_cpu": driver_time().cpu,
        "latency_s": latency,
        "latency_array_s": estimate.seconds,
        "latency_includes_host": known,
        "images_per_second": program.side_by_side / latency if latency and known else None,
        "stream_images_per_second": program.side_by_side / stream if stream and known else None,
    } | ({"stream_cores": count, "stream_limit": shared.limit} if accelerator.cores > 1 else {})


def _measured(program: Program, note: Say) -> HostTime | None:
    try:
        return measure_host(program)
    except ProgramError as error:
        note(f"the time of the host is not measured: {error}")
        return None


# Saturation, calibration


def add_saturation(rows: Sequence[dict[str, Any]], program: Program, layers: Sequence[LayerResult], count: int) -> None:
    """Enter what layers counted on ``count`` samples into their rows; nothing where values alone were counted."""
    counted = {layer.name: layer.counters for layer in layers}
    nodes = {node.name: node for node in program.nodes}
    groups = -(-count // program.side_by_side)
    for row in rows:
        counters, node = counted.get(row["name"]), nodes[row["name"]]
        if counters is None or counters.saturated_samples is None or isinstance(node, HostNode):
            continue
        row["saturated_samples"], row["counted_samples"] = counters.saturated_samples, groups
        row["saturated_values"] = counters.overflows
        row["saturation_warning"] = _harms(node, program, counters.overflows, counters.most_saturated or 0, groups)


def _harms(node: Node, program: Program, values: int, most: int, samples: int) -> bool:
    """Whether a layer with a static exponent saturates more than its mantissas are meant to."""
    assert not isinstance(node, HostNode)
    if not values or not (node.policy.inherit or node.policy.policy == Policy.STATIC):
        return False
    return too_many(program.config.format.mantissa_bits, values, most, node_values(node, program), samples)


def too_many(mantissa_bits: int, values: int, most: int, size: int, samples: int) -> bool:
    """Whether saturated values are worth a warning; most: of one sample; size: values of a sample.

    A single value of a sample is not, however few the layer has.
    """
    if mantissa_bits > NARROW_BITS:
        return True
    return values > ALL_SAMPLES * size * samples or most > max(1, ONE_SAMPLE * size)


def node_values(node: Node, program: Program) -> int:
    """Values of a layer's result for one sample."""
    assert not isinstance(node, HostNode)
    spec = program.tensors[node.output]
    return spec.height * spec.width * getattr(node, "channels", spec.channels)


def saturated_inputs(job: Job) -> list[dict[str, Any]]:
    """Samples and values of the network's inputs that the host saturates when it converts them, where there are any."""
    program, found = job.program, []
    for name, x in input_arrays(program, job.samples.inputs).items():
        spec = program.tensors.get(name)
        if spec is None or spec.input_exponent is None:
            continue
        values = together(x, program.side_by_side) if program.side_by_side > 1 else x
        form = program.config.format
        magnitude = np.abs(values * channel_factors(spec) if spec.channel_shift else values)
        beyond = magnitude >= (form.mantissa_max + 1) * 2.0**spec.input_exponent  # more than rounding
        if beyond.any():
            by_sample = np.count_nonzero(beyond.reshape(len(beyond), -1), axis=1)
            found.append(
                {
                    "name": name,
                    "saturated_samples": int(np.count_nonzero(by_sample)),
                    "saturated_values": int(by_sample.sum()),
                    "counted_samples": len(beyond),
                    "saturation_warning": too_many(
                        form.mantissa_bits, int(by_sample.sum()), int(by_sample.max()), beyond[0].size, len(beyond)
                    ),
                }
            )
    return found


def calibration_content(job: Job) -> dict[str, Any]:
    """What calibrated the program, and what of the judged inputs it did not expect."""
    return {
        "calibrated_on": job.calibrated_on,
        "calibration_samples": job.calibration_samples,
        "inputs": saturated_inputs(job),
    }
