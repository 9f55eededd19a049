"""What `run` and `evaluate` say of values beyond the largest number of their layer, and of what calibrated it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bfpga.cli.output import say
from bfpga.cli.work import JUDGED_SAMPLES, Job
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import HostNode, Node, Program
from bfpga.devices.base import LayerResult
from bfpga.program.layout import channel_factors, together
from bfpga.runtime import input_arrays

#: Mantissas up to this many bits saturate a few values on purpose: the others are rounded more finely.
NARROW_BITS = 11
#: Shares of a layer's values that may saturate there: of all samples, and of one sample.
ALL_SAMPLES, ONE_SAMPLE = 1 / 1000, 1 / 100


def add_saturation(rows: Sequence[dict[str, Any]], program: Program, layers: Sequence[LayerResult], count: int) -> None:
    """Enter what layers counted on ``count`` samples into their rows; nothing where values alone were counted."""
    counted = {layer.name: layer.counters for layer in layers}
    nodes = {node.name: node for node in program.nodes}
    groups = -(-count // program.side_by_side)
    for row in rows:
        counters, node = counted.get(row["name"]), nodes[row["name"]]
        if counters is None or counters.saturated_samples is None or isinstance(node, HostNode):
            continue
        row["saturated_samples"] = counters.saturated_samples
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
                    "saturation_warning": too_many(
                        form.mantissa_bits, int(by_sample.sum()), int(by_sample.max()), beyond[0].size, len(beyond)
                    ),
                }
            )
    return found


def saturation_cell(row: dict[str, Any]) -> str:
    """`12 / 34`: samples and values."""
    if "saturated_samples" not in row:
        return ""
    return f"{row['saturated_samples']:,} / {row['saturated_values']:,}"


def warn_saturation(content: dict[str, Any], count: int) -> None:
    """One line for the layers that saturate too much, with what helps."""
    for row in content["inputs"]:
        samples, values = row["saturated_samples"], row["saturated_values"]
        say(f"input {row['name']}: {values:,} values of {samples:,} samples saturate")
    found = [row for row in (*content["inputs"], *content["layers"]) if row.get("saturation_warning")]
    if not found:
        return
    worst = max(found, key=lambda row: int(row["saturated_samples"]))
    others = f" (and {len(found) - 1} more layers)" if len(found) > 1 else ""
    say(
        f"warning: {worst['name']}{others} saturates in {worst['saturated_samples']} of {count} samples: their values "
        "exceed what calibration expected. Calibrate with more samples (--calibration), or let the exponents follow "
        "the data (--policy dynamic, or --recipe adaptive)"
    )


def calibration_content(job: Job) -> dict[str, Any]:
    """What calibrated the program, and what of the judged inputs it did not expect."""
    return {
        "calibrated_on": job.calibrated_on,
        "calibration_samples": job.calibration_samples,
        "inputs": saturated_inputs(job),
    }


def print_calibration(job: Job) -> None:
    """Say when the judged samples calibrated too: accuracy on others may be lower."""
    if job.calibrated_on == JUDGED_SAMPLES:
        say(
            f"calibrated on the first {job.calibration_samples} samples of those judged here, so accuracy on other "
            "data may be lower; --calibration gives samples of their own"
        )
