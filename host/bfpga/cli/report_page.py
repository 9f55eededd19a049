"""`bfpga report` and `--report`: what a run or an evaluation found, as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfpga.cli import output
from bfpga.cli.options import ExponentOptions, SampleOptions

if TYPE_CHECKING:
    from bfpga.api.jobs import Job
    from bfpga.devices.base import DeviceResult
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
    from bfpga.compiler.read.named import model_path

    return {
        "network": model_path(task.model),
        "accelerator file": resolve(task.accelerator, "accelerators"),
        "samples": task.sample_file,
        "calibration samples": task.calibration,
        "recipe": None if exponents.recipe is None else resolve(exponents.recipe, "networks"),
    }


def write_evaluation_report(
    path: Path | None, job: Job, files: Mapping[str, Path | None], content: Mapping[str, Any], evaluation: Evaluation
) -> None:
    """Write the report of an evaluation; nothing without a path."""
    from bfpga.api.reports import write_evaluation

    if path is not None:
        with output.waiting("writing the report"):
            size = write_evaluation(path, job, files, content, evaluation)
        output.say(f"report in {path} ({size / 1e6:.1f} MB)")


def write_run_report(
    path: Path | None, job: Job, files: Mapping[str, Path | None], content: Mapping[str, Any], result: DeviceResult
) -> None:
    """Write the report of a run; nothing without a path."""
    from bfpga.api.reports import write_run

    if path is not None:
        with output.waiting("writing the report"):
            size = write_run(path, job, files, content, result)
        output.say(f"report in {path} ({size / 1e6:.1f} MB)")
