"""`bfpga.compare_accelerators` and `bfpga compare`: a network on several accelerators, with several recipes."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from bfpga import runtime
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.api.jobs import class_labels, compile_job
from bfpga.compiler.compiler import Calibration
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.recipes import chosen_options
from bfpga.contract.program import Program
from bfpga.data import Given, InputSamples, given_samples
from bfpga.devices.reference import cosines, float_outputs
from bfpga.errors import BfpgaError, ModelError
from bfpga.explore.figures import compile_for_figures
from bfpga.formats.files import check_target, replace_file
from bfpga.report import comparison_page
from bfpga.report.accuracy import Accuracy, accuracy_of
from bfpga.report.comparison import Comparison, Entry, entry
from bfpga.report.page import check_charts, svg, write_page

#: Endings of a page and of a picture.
SUFFIXES = (".html", ".svg")
#: Samples computed at once.
_BATCH = 64
#: What shows that something takes time, by its words.
Waiting = Callable[[str], AbstractContextManager[Any]]


def compare_accelerators(
    model: str | Path | Network,
    accelerators: Sequence[str | Path | Accelerator],
    data: Given | None = None,
    *,
    calibration: Given | None = None,
    recipes: Sequence[str | Path] = (),
    path: str | Path | None = None,
) -> Comparison:
    """Accuracy, cycles, latency, resources and energy of a network on several accelerators; ``entries`` has each.

    data: samples that judge, with labels where accuracy is wanted; None: no accuracy. calibration: samples of their
    own; None: the first 64 of the data. recipes: names or files; every accelerator is tried with each. path: gets the
    same as a page (.html) or a picture (.svg). What cannot be compiled is in ``refused`` with its reason.
    ModelError if nothing can, ConfigurationError or DataError for files that are wrong, OSError for a path that cannot
    be written, ToolError if there is one without the charts' package.
    """
    target = None if path is None else Path(path)
    check_comparison_target(target)
    network = read_network(model)
    judged = None if data is None else given_samples(data, network.inputs)
    own = None if calibration is None else given_samples(calibration, network.inputs)
    options: dict[str | None, CompileOptions] = {str(name): chosen_options(name) for name in recipes}
    found = compared(network, accelerators, options or {None: CompileOptions()}, judged, own)
    if target is not None:
        write_comparison(target, found)
    return found


def check_comparison_target(path: Path | None) -> None:
    """Refuse a file that cannot be written or has another ending, before work is spent on it."""
    check_target(path)
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise OSError(errno.EINVAL, f"is no page or picture; its name must end with {' or '.join(SUFFIXES)}", str(path))
    check_charts()


def write_comparison(path: Path, found: Comparison) -> None:
    """The same as a page, or as one picture, by the name's ending."""
    if path.suffix.lower() == ".html":
        write_page(path, comparison_page.page(found))
    else:
        replace_file(path, svg(comparison_page.picture(found)).encode())


def compared(
    network: Network,
    accelerators: Sequence[str | Path | Accelerator],
    options: Mapping[str | None, CompileOptions],
    judged: InputSamples | None,
    calibration: InputSamples | None,
    waiting: Waiting = nullcontext,
) -> Comparison:
    """Every accelerator with every recipe, given by name; ModelError if none works."""
    described = [load_accelerator(one) for one in accelerators]
    judge = None if judged is None else _Judge(network, judged, calibration)
    sources = None if calibration is None else calibration.inputs
    entries: list[Entry] = []
    refused: list[tuple[str, str]] = []
    for accelerator in described:
        for recipe, chosen in options.items():
            name = None if recipe is None else Path(recipe).stem
            try:
                with waiting(f"{network.name} on {accelerator.name}"):
                    entries.append(_entry(network, accelerator, name, chosen, judge, sources))
            except BfpgaError as error:
                refused.append((accelerator.name if name is None else f"{accelerator.name}, {name}", str(error)))
    if not entries:
        raise ModelError("; ".join(f"{name}: {reason}" for name, reason in refused))
    known = next((item.accuracy for item in entries if item.accuracy is not None), None)
    return Comparison(
        network.name,
        len(judged) if judged is not None else 0,
        entries,
        refused,
        None if known is None else known.reference_correct,
        "float" if known is None else known.reference,
    )


def _entry(
    network: Network,
    accelerator: Accelerator,
    recipe: str | None,
    options: CompileOptions,
    judge: _Judge | None,
    sources: Calibration | None,
) -> Entry:
    if judge is not None:
        return entry(accelerator, recipe, *judge(accelerator, options))
    if sources is None:
        return entry(accelerator, recipe, compile_for_figures(network, accelerator, None, options), None)
    return entry(accelerator, recipe, runtime.compile(network, accelerator, sources, options), None)


class _Judge:
    """Gives a program with its accuracy on the emulator; the float network runs once."""

    def __init__(self, network: Network, samples: InputSamples, calibration: InputSamples | None) -> None:
        self.network, self.samples, self.calibration = network, samples, calibration
        self.floats, self.kind = float_outputs(network, samples.inputs, _BATCH)

    def __call__(self, accelerator: Accelerator, options: CompileOptions) -> tuple[Program, Accuracy]:
        job = compile_job(self.network, accelerator, self.samples, self.calibration, options)
        outputs = runtime.run(job.program, self.samples.inputs, "emulator", batch=_BATCH).outputs
        name = next(iter(job.program.outputs))
        found, wanted = outputs[name], self.floats[name]
        cosine = float(cosines(wanted.reshape(len(wanted), -1), found.reshape(len(found), -1)).mean())
        return job.program, accuracy_of(found, class_labels(job), wanted, self.kind, cosine)
