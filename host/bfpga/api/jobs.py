"""A network compiled for an accelerator with the samples it runs on, and what is asked of both more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga import runtime
from bfpga.accelerator.loader import Accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.contract.program import Program
from bfpga.data import InputSamples
from bfpga.data import class_labels as labels_of
from bfpga.devices.base import DeviceResult

#: Samples of the data that calibrate when no others are given.
CALIBRATION_SAMPLES = 64
#: Where these are from: a file of their own, or the data that is judged.
OWN_SAMPLES, JUDGED_SAMPLES = "own samples", "judged samples"


@dataclass(frozen=True)
class Job:
    """A network compiled for an accelerator, with the samples it shall run on."""

    network: Network
    accelerator: Accelerator
    program: Program
    samples: InputSamples
    #: Samples that calibrated, and where they are from.
    calibration_samples: int = 0
    calibrated_on: str = JUDGED_SAMPLES


def compile_job(
    network: Network,
    accelerator: Accelerator,
    samples: InputSamples,
    calibration: InputSamples | None,
    options: CompileOptions,
) -> Job:
    """Compile with samples of their own, or with the first of those that are judged; errors are the compiler's."""
    sources = calibrating(samples, calibration)
    origin = JUDGED_SAMPLES if calibration is None else OWN_SAMPLES
    program = runtime.compile(network, accelerator, sources, options)
    return Job(network, accelerator, program, samples, min(map(len, sources.values())), origin)


def calibrating(samples: InputSamples, calibration: InputSamples | None) -> dict[str, npt.NDArray[np.float32]]:
    """What calibrates: samples of their own, or the first of those that are judged."""
    return samples.first(CALIBRATION_SAMPLES) if calibration is None else calibration.inputs


def provide_overlay(program: Program, accelerator: Accelerator, device_name: str) -> None:
    """The virtual board needs an overlay, which an accelerator file of the user's own has nowhere yet."""
    if "virtual" in device_name:
        from bfpga.board import overlays

        overlays.provide_overlay(program, accelerator)


def class_labels(job: Job) -> npt.NDArray[Any] | None:
    """The samples' labels where the network's first output holds a score for each of them, else None."""
    return labels_of(job.samples.y, int(np.prod(next(iter(job.program.outputs.values())))))


def accuracy(job: Job, result: DeviceResult) -> float | None:
    """Share of samples whose largest output is the label's; None without labels."""
    labels = class_labels(job)
    scores = next(iter(result.outputs.values()))
    return None if labels is None else float(np.mean(scores.reshape(len(scores), -1).argmax(1) == labels))
