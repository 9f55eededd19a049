"""A report from what `run` and `evaluate` have computed; what they lack of it is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import Program
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.estimate.roofline import estimate_roofline
from bfpga.estimate.sample import estimate_sample
from bfpga.formats.cache import cache_directory
from bfpga.program.layout import together
from bfpga.report.accuracy import Accuracy
from bfpga.report.environment import environment
from bfpga.report.memory import memory_map
from bfpga.report.model import Calibration, Report, host_work, layer_figures
from bfpga.report.partition import partitions
from bfpga.report.timeline import cores_timeline, overlap_timeline, sample_timeline
from bfpga.report.timing import sample_times
from bfpga.runtime import input_arrays
from bfpga.synthesis.kept import kept_figures
from bfpga.synthesis.resources import board_use


def collect(
    accelerator: Accelerator,
    program: Program,
    inputs: Mapping[str, npt.NDArray[np.floating[Any]]],
    content: Mapping[str, Any],
    accuracy: Accuracy,
    files: Mapping[str, Path | None],
    measured: MeasuredClocks | None = None,
) -> Report:
    """The report of a run.

    inputs: its samples by name. content: what `run` or `evaluate` reports as JSON. files: what was read, by role.
    """
    kept = cache_directory("synthesis")
    use = board_use(accelerator, kept)
    found = estimate_sample(accelerator, program, use.total)
    work, cycles = sample_times(accelerator, program)
    samples = {name: values[: program.side_by_side] for name, values in input_arrays(program, inputs).items()}
    if program.side_by_side > 1:
        samples = {name: together(values, program.side_by_side) for name, values in samples.items()}
    return Report(
        model=program.name,
        device=content["device"],
        samples=content["samples"],
        traced=content.get("traced_samples", 0),
        accelerator=accelerator,
        program=program,
        accuracy=accuracy,
        layers=layer_figures(program, found.program, content["layers"]),
        estimate=found.program,
        roofline=estimate_roofline(accelerator),
        parts=use.with_total,
        parts_basis=use.basis,
        hardware=kept_figures(accelerator, kept),
        timeline=sample_timeline(work, cycles),
        overlap=overlap_timeline(accelerator, program),
        cores=cores_timeline(accelerator, program, found),
        memory=memory_map(program, work),
        partitions=partitions(program, samples),
        host=host_work(content["host_nodes"]),
        calibration=Calibration(content["calibration_samples"], content["calibrated_on"]),
        environment=environment(dict(files)),
        latency_s=content["latency_s"],
        latency_includes_host=content["latency_includes_host"],
        images_per_second=content["images_per_second"],
        watts=found.watts,
        joules=found.joules_alone(content["latency_s"]),
        measured=measured,
        remarks=list(program.notes),
        histograms={name: value for name, value in content.items() if name.startswith("histogram")},
    )
