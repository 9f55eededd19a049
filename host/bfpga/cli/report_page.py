"""`bfpga report` and `--report`: what a run or an evaluation found, as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfpga.cli import output
from bfpga.cli.options import ExponentOptions, SampleOptions

if TYPE_CHECKING:
    from bfpga.cli.work import Job
    from bfpga.devices.base import DeviceResult
    from bfpga.devices.measured_clocks import MeasuredClocks
    from bfpga.report.accuracy import Accuracy
    from bfpga.runtime import Evaluation


def check_report(path: Path | None) -> None:
    """Refuse a file that cannot be written, and a machine without the charts, before work is spent on a report."""
    from bfpga.report.page import check_charts

    output.check_target(path)
    if path is not None:
        check_charts()


def sources(task: SampleOptions, exponents: ExponentOptions) -> dict[str, Path | None]:
    """The files that a command was given, by what they are to it."""
    from bfpga.accelerator.boards import resolve

    return {
        "network": task.model,
        "accelerator file": resolve(task.accelerator, "accelerators"),
        "samples": task.data,
        "calibration samples": task.calibration,
        "recipe": None if exponents.recipe is None else resolve(exponents.recipe, "networks"),
    }


def write_evaluation_report(
    path: Path | None, job: Job, files: Mapping[str, Path | None], content: Mapping[str, Any], evaluation: Evaluation
) -> None:
    """Write the report of an evaluation; nothing without a path."""
    from bfpga.cli.work import class_labels
    from bfpga.report.accuracy import accuracy_of

    if path is None:
        return
    name = next(iter(job.program.outputs))
    accuracy = accuracy_of(
        evaluation.outputs[name], class_labels(job), evaluation.float_outputs[name], evaluation.reference,
        evaluation.cosine,
    )  # fmt: skip
    _write(path, job, files, content, accuracy, None)


def write_run_report(
    path: Path | None, job: Job, files: Mapping[str, Path | None], content: Mapping[str, Any], result: DeviceResult
) -> None:
    """Write the report of a run; nothing without a path."""
    from bfpga.cli.work import class_labels
    from bfpga.report.accuracy import accuracy_of

    if path is None:
        return
    accuracy = accuracy_of(result.outputs[next(iter(job.program.outputs))], class_labels(job))
    _write(path, job, files, content, accuracy, result.measured)


def _write(
    path: Path,
    job: Job,
    files: Mapping[str, Path | None],
    content: Mapping[str, Any],
    accuracy: Accuracy,
    measured: MeasuredClocks | None,
) -> None:
    from bfpga.report.collect import collect
    from bfpga.report.page import write_page
    from bfpga.report.sections import report_page

    with output.waiting("writing the report"):
        found = collect(job.accelerator, job.program, job.samples.inputs, content, accuracy, files, measured)
        size = write_page(path, report_page(found))
    output.say(f"report in {path} ({size / 1e6:.1f} MB)")
