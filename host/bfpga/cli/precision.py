"""`--accuracy-drop`: which samples a search looks at, which others judge it, what it prints and writes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.api import jobs
from bfpga.cli import output, work
from bfpga.cli.options import PrecisionOptions, RunOptions
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.compiler.recipes import save_recipe
from bfpga.contract.program import Program
from bfpga.data import InputSamples, load_inputs
from bfpga.errors import ConfigurationError
from bfpga.precision.judge import METRICS, Judge, Score
from bfpga.precision.search import Found, check_drop, search

#: Samples that a search looks at, at most: every step runs them all.
SEARCHED = 1024
#: With fewer samples none are kept apart to judge the result.
ENOUGH = 32


@dataclass(frozen=True)
class Searched:
    """A search with what it looked at, and what other samples say of its result (None: there are none)."""

    found: Found
    judge: Judge
    where: str
    held_out: Score | None = None
    held_out_start: Score | None = None

    @property
    def program(self) -> Program:
        return self.found.program


def check(precision: PrecisionOptions) -> None:
    """Refuse what makes no sense before work is spent."""
    if precision.accuracy_drop is not None:
        check_drop(precision.accuracy_drop)
    elif precision.save_recipe is not None:
        raise ConfigurationError("--save-recipe writes the recipe that --accuracy-drop finds; give that too")
    output.check_target(precision.save_recipe)


def for_file(
    precision: PrecisionOptions,
    accelerator: Accelerator,
    network: Network,
    calibration: Path | None,
    options: CompileOptions,
) -> Searched | None:
    """The search of `compile`, on the calibration samples: one half calibrates and is searched on, one judges."""
    if precision.accuracy_drop is None:
        return None
    if calibration is None:
        raise ConfigurationError("--accuracy-drop needs samples to compare with float; give some with --calibration")
    samples = load_inputs(calibration, network.inputs)
    mine, others = _halves(samples)
    return _search(precision.accuracy_drop, accelerator, network, mine, mine, others, options)


def prepare(
    precision: PrecisionOptions, task: RunOptions, options: CompileOptions
) -> tuple[jobs.Job, Searched | None]:
    """What `run` and `evaluate` need; with a search, what it found, and judged samples that it did not look at.

    Calibration samples of their own are those that are searched on. Without, every second sample of the data is, and
    the first of these calibrate; the others are judged.
    """
    if precision.accuracy_drop is None:
        return work.prepare(task, options), None
    accelerator, network, samples = work.load(task)
    if task.calibration is not None:
        mine, judged, origin = load_inputs(task.calibration, network.inputs), samples, jobs.OWN_SAMPLES
        calibration = mine
    else:
        mine, others = _halves(samples)
        judged, origin = (samples, jobs.JUDGED_SAMPLES) if others is None else (others, jobs.OWN_SAMPLES)
        calibration = _part(mine, slice(jobs.CALIBRATION_SAMPLES))
    others = None if origin == jobs.JUDGED_SAMPLES else judged
    found = _search(precision.accuracy_drop, accelerator, network, calibration, mine, others, options)
    return jobs.Job(network, accelerator, found.program, judged, len(calibration), origin), found


def _halves(samples: InputSamples) -> tuple[InputSamples, InputSamples | None]:
    """Every second sample, and the others; all and None where they are few."""
    if len(samples) < ENOUGH:
        return samples, None
    return _part(samples, slice(0, None, 2)), _part(samples, slice(1, None, 2))


def _part(samples: InputSamples, part: slice) -> InputSamples:
    inputs = {name: values[part] for name, values in samples.inputs.items()}
    return InputSamples(inputs, None if samples.y is None else samples.y[part])


def _search(
    drop: float,
    accelerator: Accelerator,
    network: Network,
    calibration: InputSamples,
    mine: InputSamples,
    others: InputSamples | None,
    options: CompileOptions,
) -> Searched:
    mine = _part(mine, slice(SEARCHED))
    judge = _judge(network, mine)
    with output.progress("searching precisions") as show:
        found = search(network, accelerator, calibration.inputs, judge, drop, options, show)
    where = f"{judge.samples} samples"
    if others is None:
        return Searched(found, judge, where)
    from bfpga.compiler.compiler import compile_network

    apart = _judge(network, others)
    start = compile_network(network, accelerator, calibration.inputs, options)
    return Searched(found, judge, where, apart.score(found.program), apart.score(start))


def _judge(network: Network, samples: InputSamples) -> Judge:
    return Judge(network, samples.inputs, samples.y)


def report(searched: Searched | None, precision: PrecisionOptions) -> dict[str, Any]:
    """Print what a search found, write its recipe; the same as data. Nothing without a search."""
    if searched is None:
        return {}
    found, judge = searched.found, searched.judge
    rows = [
        (item.step.layer or "(network)", item.step.text, round(item.gain_db, 2), round(item.score.lost, 2),
         item.score.cycles, item.extra_cycles, "yes" if item.taken else "")
        for item in found.sensitivities
    ]  # fmt: skip
    headings = ["layer", "step, taken alone", "gain in dB", "points lost", "cycles", "cycles more", "in the result"]
    output.table(f"Sensitivities on {searched.where}; points: {METRICS[judge.metric]}", headings, rows)
    _say(searched)
    if precision.save_recipe is not None:
        save_recipe(found.options, precision.save_recipe, f"found by --accuracy-drop {found.allowed:g}")
        output.say(f"recipe in {precision.save_recipe}")
    return {"precision": _content(searched)}


def _say(searched: Searched) -> None:
    found, judge = searched.found, searched.judge
    start, score = found.start, found.score
    output.say(
        f"lost on the samples searched on: {start.lost:.2f} points at {start.cycles:,} cycles before, {score.lost:.2f} "
        f"at {score.cycles:,} now; allowed: {found.allowed:g}"
    )
    if judge.metric == "accuracy":
        output.say(
            f"classes other than float's: {100 * start.changed:.2f} % before, {100 * score.changed:.2f} % now; a "
            "quarter of them counts as lost, however lucky these samples are"
        )
    if judge.metric != "noise" and 100 / judge.samples > found.allowed > 0:
        output.say(f"note: one of these samples is {100 / judge.samples:.2f} points, more than what is allowed")
    if not found.met:
        output.say("warning: no precision that this accelerator offers stays within that; this is the finest found")
    if searched.held_out is None or searched.held_out_start is None:
        output.say("warning: too few samples to keep some apart: on others the loss may be larger")
        return
    apart = searched.held_out
    output.say(
        f"lost on {apart.samples} samples that were not searched on: {searched.held_out_start.lost:.2f} points before, "
        f"{apart.lost:.2f} now (such a figure varies by {apart.spread:.2f})"
    )


def _content(searched: Searched) -> dict[str, Any]:
    found = searched.found
    return {
        "metric": searched.judge.metric,
        "allowed": found.allowed,
        "met": found.met,
        "start": asdict(found.start),
        "result": asdict(found.score),
        "held_out_start": asdict(searched.held_out_start) if searched.held_out_start else None,
        "held_out": asdict(searched.held_out) if searched.held_out else None,
        "layers": {name: dict(values) for name, values in found.options.layers.items()},
        "remainders": found.options.remainders,
        "steps": [
            {
                "layer": item.step.layer,
                "key": item.step.key,
                "value": item.step.value,
                "gain_db": item.gain_db,
                "lost": item.score.lost,
                "cycles": item.score.cycles,
                "extra_cycles": item.extra_cycles,
                "taken": item.taken,
            }
            for item in found.sensitivities
        ],
        "refused": [{"layer": step.layer, "step": step.text, "reason": why} for step, why in found.refused.items()],
    }
