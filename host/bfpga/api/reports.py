"""`bfpga.report` and the command: what a run or an evaluation found, as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bfpga.accelerator.boards import resolve
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.api.figures import evaluation_content
from bfpga.api.jobs import Job, class_labels, compile_job
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.recipes import chosen_options
from bfpga.data import Given, given_samples
from bfpga.devices.base import DeviceResult
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.formats.files import check_target
from bfpga.report.accuracy import Accuracy, accuracy_of
from bfpga.report.collect import collect
from bfpga.report.page import check_charts, write_page
from bfpga.report.sections import report_page
from bfpga.runtime import Evaluation, evaluate


def report(
    model: str | Path | Network,
    accelerator: str | Path | Accelerator,
    data: Given,
    path: str | Path,
    *,
    calibration: Given | None = None,
    options: CompileOptions | str | Path | None = None,
) -> Path:
    """Compile and evaluate a network, and write all there is to know about it as one HTML file; its path.

    data: samples that judge, with labels where accuracy is wanted. calibration: samples of their own; None: the first
    64 of the data. options: as such, or a recipe by name or file. OSError for a file that cannot be written, ToolError
    without the charts' package; errors of the compiler.
    """
    target = Path(path)
    check_target(target)
    check_charts()
    described = load_accelerator(accelerator)
    network = read_network(model)
    chosen = chosen_options(options)
    samples = given_samples(data, network.inputs)
    own = None if calibration is None else given_samples(calibration, network.inputs)
    job = compile_job(network, described, samples, own, chosen)
    files = {
        "network": network.path,
        "accelerator file": described.path,
        "samples": _file(data),
        "calibration samples": _file(calibration),
        "recipe": resolve(options, "networks") if isinstance(options, (str, Path)) else None,
    }
    evaluation = evaluate(job.program, network, samples.inputs, class_labels(job))
    write_evaluation(target, job, files, evaluation_content(job, evaluation), evaluation)
    return target


def _file(given: Given | None) -> Path | None:
    return Path(given) if isinstance(given, (str, Path)) else None


def write_evaluation(
    path: Path, job: Job, files: Mapping[str, Path | None], content: Mapping[str, Any], evaluation: Evaluation
) -> int:
    """Write the report of an evaluation; the bytes of the file. files: what was read, by role. content: as JSON."""
    name = next(iter(job.program.outputs))
    accuracy = accuracy_of(
        evaluation.outputs[name], class_labels(job), evaluation.float_outputs[name], evaluation.reference,
        evaluation.cosine,
    )  # fmt: skip
    return _write(path, job, files, content, accuracy, None)


def write_run(
    path: Path, job: Job, files: Mapping[str, Path | None], content: Mapping[str, Any], result: DeviceResult
) -> int:
    """Write the report of a run; the bytes of the file."""
    accuracy = accuracy_of(result.outputs[next(iter(job.program.outputs))], class_labels(job))
    return _write(path, job, files, content, accuracy, result.measured)


def _write(
    path: Path,
    job: Job,
    files: Mapping[str, Path | None],
    content: Mapping[str, Any],
    accuracy: Accuracy,
    measured: MeasuredClocks | None,
) -> int:
    found = collect(job.accelerator, job.program, job.samples.inputs, content, accuracy, files, measured)
    return write_page(path, report_page(found))
