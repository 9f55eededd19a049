"""What the commands do between reading their arguments and printing: load, compile, run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bfpga import runtime
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.api.jobs import CALIBRATION_SAMPLES, Job, calibrating, class_labels, compile_job, provide_overlay
from bfpga.api.position_histograms import LayerHistogram, first_difference, position_histograms
from bfpga.cli.device_choice import DeviceChoice, attach_progress
from bfpga.cli.options import EngineOptions, ExponentOptions, SampleOptions, ScaleOptions
from bfpga.cli.output import progress, say, waiting
from bfpga.compiler.compiler import Calibration
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.recipes import load_recipe
from bfpga.contract.program import Program
from bfpga.data import InputSamples, load_inputs
from bfpga.devices.base import Device, DeviceResult
from bfpga.devices.comparison import Comparison
from bfpga.devices.emulator import Emulator
from bfpga.errors import ConfigurationError
from bfpga.explore.faster import Faster, rivals, tried
from bfpga.explore.faster import find_faster as faster_of
from bfpga.explore.figures import compile_for_figures
from bfpga.program.learning import learns
from bfpga.scale.work import IN_PROCESS, Workers

if TYPE_CHECKING:
    from bfpga.vendor.lint import Finding
    from bfpga.verify.check import VerifyReport



def prepare(task: SampleOptions, options: CompileOptions) -> Job:
    """Load everything a run needs and compile; what is wrong is found before any work is spent."""
    described, network, samples = load(task)
    calibration = _calibration(task, network)
    with waiting(f"compiling {network.path.name}"):
        return compile_job(network, described, samples, calibration, options)


def load_calibrated(
    task: SampleOptions,
) -> tuple[Network, Accelerator, InputSamples, dict[str, npt.NDArray[np.float32]]]:
    """The network, the accelerator, the samples of a run and those that calibrate, as ``prepare`` takes them."""
    described, network, samples = load(task)
    return network, described, samples, calibrating(samples, _calibration(task, network))


def _calibration(task: SampleOptions, network: Network) -> InputSamples | None:
    return None if task.calibration is None else load_inputs(task.calibration, network.inputs)


def load(task: SampleOptions) -> tuple[Accelerator, Network, InputSamples]:
    """The accelerator, the network and the samples of a run."""
    described = load_accelerator(task.accelerator)
    network = read(task.model, task.input_shape, task.outputs)
    return described, network, load_inputs(task.sample_file, network.inputs, task.samples)


def read(model: Path, shapes: list[str] | None, outputs: list[str] | None = None) -> Network:
    """The network of a file. shapes: of ``--input-shape``; outputs: of ``--outputs``, with commas between names.

    ConfigurationError for what is no shape, and for an empty name.
    """
    given: dict[str, list[int]] = {}
    for text in shapes or []:
        name, _, sizes = text.rpartition("=")
        numbers = sizes.split(",")
        if not all(number.strip().isdecimal() for number in numbers):
            raise ConfigurationError(f"--input-shape is {text!r}; sizes like image=1,3,224,224 are needed")
        if name in given:
            raise ConfigurationError(f"--input-shape is given twice for {name or 'the only input'}")
        given[name] = [int(number) for number in numbers]
    return read_network(model, given, _names(outputs))


def _names(outputs: list[str] | None) -> list[str] | None:
    """Names of ``--outputs``; None without any."""
    names: list[str] = []
    for text in outputs or []:
        names += [name.strip() for name in text.split(",")]
        if not all(names):
            raise ConfigurationError(f"--outputs is {text!r}; names of values with commas between them are needed")
    return names or None


def compile_options(engines: EngineOptions, exponents: ExponentOptions | None = None) -> CompileOptions:
    """Options of a recipe with those that are given on top; ConfigurationError for what there is not."""
    given = asdict(engines) | asdict(exponents or ExponentOptions())
    recipe = given.pop("recipe")
    options = load_recipe(recipe) if recipe else CompileOptions()
    return replace(options, **{name: value for name, value in given.items() if value is not None})


def compile_program(
    accelerator: Accelerator, network: Network, calibration: Calibration | None, options: CompileOptions
) -> Program:
    """Compile ``network`` for ``accelerator``; errors are those of the compiler."""
    with waiting(f"compiling {network.path.name}"):
        return runtime.compile(network, accelerator, calibration, options)


def compile_for_file(
    accelerator: Accelerator, network: Network, calibration: Path | None, options: CompileOptions
) -> Program:
    """Compile for a program file; without samples every layer measures its own range, or quantizers give it."""
    sources = load_inputs(calibration, network.inputs).inputs if calibration else None
    return compile_program(accelerator, network, sources, options)


def estimate_samples(network: Network, calibration: Path | None, data: Path | None) -> Calibration | None:
    """Samples for figures: all of ``calibration``, or the first of ``data``; None without files."""
    if calibration is not None and data is not None:
        raise ConfigurationError("--calibration and --data both give samples; one of them is enough")
    if calibration is not None:
        return load_inputs(calibration, network.inputs).inputs
    return None if data is None else load_inputs(data, network.inputs, CALIBRATION_SAMPLES).inputs


def compile_for_estimate(
    accelerator: Accelerator, network: Network, samples: Calibration | None, options: CompileOptions
) -> Program:
    """``compile_for_figures``, with a line that says so."""
    with waiting(f"compiling {network.path.name}"):
        return compile_for_figures(network, accelerator, samples, options)


def find_faster(
    accelerator: Accelerator, program: Program, network: Network, samples: Calibration | None, options: CompileOptions
) -> Faster | None:
    """``explore.faster.find_faster`` among the ready accelerators that may take this one's place."""
    others = rivals(accelerator)
    with progress("compiling for the others") as show:
        return faster_of(tried(accelerator, program), others, network, samples, options, show)


@contextmanager
def opened(choice: DeviceChoice, program: Program) -> Iterator[Device]:
    """A device that is closed at the end; opening one may compile a kernel."""
    with ExitStack() as undo:
        with waiting(f"opening {choice.name}"):
            device = choice.open(program, undo)
        undo.callback(device.close)
        if isinstance(device, Emulator) and device.note:
            say(f"emulator: {device.note}")
        yield device


def run(job: Job, device: str | DeviceChoice, batch: int) -> DeviceResult:
    """All samples on a device, given by name or chosen with what several boards need."""
    choice = DeviceChoice(device) if isinstance(device, str) else device
    provide_overlay(job.program, job.accelerator, choice.name)
    with opened(choice, job.program) as opening, progress(f"running on {choice.name}") as show:
        attach_progress(opening, show)
        return runtime.run(job.program, job.samples.inputs, opening, batch=batch, progress=show)


def compare(job: Job, device: str | DeviceChoice, batch: int) -> Comparison:
    """All samples on a device, as for ``run``, and on the emulator, with every tensor."""
    choice = DeviceChoice(device) if isinstance(device, str) else device
    provide_overlay(job.program, job.accelerator, choice.name)
    with opened(choice, job.program) as opening, progress(f"comparing {choice.name} with the emulator") as show:
        attach_progress(opening, show)
        return runtime.compare(job.program, job.samples.inputs, opening, batch=batch, progress=show)


def histograms(job: Job, choice: DeviceChoice, samples: int) -> tuple[list[LayerHistogram], str]:
    """What a device counts of the first samples, and how that differs from the emulator: empty if it does not."""
    expected = position_histograms(job.program, job.samples.inputs, samples)
    if choice.name == Emulator.name or not expected:
        return expected, ""
    with opened(choice, job.program) as device, waiting(f"reading what {choice.name} counts"):
        told = position_histograms(job.program, job.samples.inputs, samples, device)
    return told, first_difference(expected, told)


@contextmanager
def opened_workers(scale: ScaleOptions) -> Iterator[Workers]:
    """The workers that were asked for, started and ended with the block; this process if none were."""
    from bfpga.scale.choice import open_workers

    with ExitStack() as opened:
        with waiting("starting workers"):
            workers = opened.enter_context(open_workers(scale.workers, scale.scheduler))
        yield workers


def evaluate(job: Job, batch: int, workers: Workers = IN_PROCESS) -> runtime.Evaluation:
    """All samples on the emulator and in float."""
    if workers is not IN_PROCESS and learns(job.program):
        say("note: exponents of this program follow the samples in their order, so one process computes all of them")
    with progress("evaluating") as show:
        labels = class_labels(job)
        found = runtime.evaluate(
            job.program, job.network, job.samples.inputs, labels, batch=batch, progress=show, workers=workers
        )
    if found.note:
        say(f"emulator: {found.note}")
    return found


def verify(
    accelerator: Accelerator | None,
    arrays: int,
    against: list[str],
    cases: int,
    seed: int,
    workers: Workers = IN_PROCESS,
) -> VerifyReport:
    """Random networks on the emulator and on every device of ``against``; without an accelerator, on random arrays."""
    from bfpga.verify.check import random_configs
    from bfpga.verify.check import verify as verify_cases
    from bfpga.verify.parts import verify_spread

    configs = random_configs(min(arrays, cases), seed) if accelerator is None else [accelerator.config]
    name = f"{len(configs)} random arrays" if accelerator is None else accelerator.name
    with progress(f"verifying {name} against {', '.join(against)}") as show:
        if workers is not IN_PROCESS:
            return verify_spread(workers, configs, against, cases, seed, show)
        move = None if show is None else lambda report: show(report.cases, cases * len(report.targets))
        return verify_cases(configs, against, cases, seed, move)


def lint(sources: list[str]) -> list[Finding]:
    """Findings in files and folders, and in the rendered kernels of accelerators that are given by name or YAML."""
    from bfpga.vendor.lint import lint_paths, lint_sources
    from bfpga.vendor.render import library_directory, render_kernel

    findings: list[Finding] = []
    for source in sources:
        if Path(source).exists() and not source.endswith((".yaml", ".yml")):
            findings += lint_paths([Path(source)])
            continue
        described = load_accelerator(source)
        kernel = render_kernel(described.name, described.digest, described.config)
        findings += lint_sources(kernel, [library_directory()], described.board)
    return findings
