"""`bfpga advise`: which ready accelerator, board and recipe to take for a network, and the command to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bfpga.cli import output
from bfpga.cli.options import EngineOptions, ExponentOptions, InputShapes, Json, Model, OutputNames, grouped

if TYPE_CHECKING:
    from bfpga.accelerator.boards import Board
    from bfpga.explore.ready import Advised, Offer, ReadyTask, Recommendation

#: Samples that judge, unless more are asked for, and points of accuracy that may be lost.
SAMPLES, DROP = 512, 0.5
#: Recipes for accelerators that lose more with the usual one.
FINER = ("two_parts",)
#: Columns that fall away on a narrow terminal, in this order.
OPTIONAL = ("MHz", "zeros that take no time", "lost", "board", "LUT")


@grouped
def advise(
    model: Model,
    *,
    board: Annotated[
        str | None, typer.Option("--board", help="Name of a board or its YAML file; default: all ready accelerators.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", help="NPZ with x and, where known, y: judges accuracy and counts zeros."),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration", "-c", help="NPZ with samples to calibrate with; default: the first 64 of the data."
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=1, help="Judge by the first N samples.")] = SAMPLES,
    accuracy_drop: Annotated[
        float, typer.Option("--accuracy-drop", min=0, help="Points of accuracy to lose at most.", metavar="POINTS")
    ] = DROP,
    recipe: Annotated[
        str | None, typer.Option("--recipe", "-r", help="Name of a ready recipe or a YAML file, for all of them.")
    ] = None,
    engines: EngineOptions,
    input_shape: InputShapes = None,
    outputs: OutputNames = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, max=256, help="Compile in N processes (Dask).", metavar="N")
    ] = None,
    json: Json = None,
) -> None:
    """Recommend a ready accelerator for a network: throughput first, then accuracy, then how plain it is.

    Every ready accelerator, of a board or of all, is compiled for the network and scheduled. With samples the emulator
    judges each; what loses too much is tried with a finer recipe. Differences below 5 % are ties.

    \b
    Examples:
      bfpga advise examples/models/lenet_mnist.onnx --board pynq_z2
      bfpga advise net.onnx -d samples.npz --jobs 4
    """
    from bfpga.accelerator.boards import load_board
    from bfpga.api.jobs import CALIBRATION_SAMPLES
    from bfpga.cli import work
    from bfpga.cli.options import ScaleOptions
    from bfpga.data import load_inputs
    from bfpga.explore.ready import ReadyTask, ready_names
    from bfpga.explore.ready import advise as try_all

    output.check_target(json)
    described = None if board is None else load_board(board)
    names = ready_names(described)
    network = work.read(model, input_shape, outputs)
    judging = None if data is None else load_inputs(data, network.inputs, samples)
    sources = None if calibration is None else load_inputs(calibration, network.inputs).inputs
    if sources is None and judging is not None:
        sources = judging.first(CALIBRATION_SAMPLES)
    usual = work.compile_options(engines, ExponentOptions(recipe=recipe))
    finer = {} if recipe or judging is None else {
        name: work.compile_options(engines, ExponentOptions(recipe=name)) for name in FINER
    }  # fmt: skip
    task = ReadyTask(network, {recipe or "": usual, **finer}, sources, judging, accuracy_drop)
    with work.opened_workers(ScaleOptions(workers=jobs)) as workers, output.progress("compiling") as progress:
        found = try_all(task, names, workers, progress)
    show(found, task, described)
    next_command = following(found.recommendation.best, model, calibration or data, input_shape, outputs)
    output.say(f"next: {next_command}")
    output.write_json(json, content(found, task, described) | {"next": next_command})


def show(found: Advised, task: ReadyTask, board: Board | None) -> None:
    """Print what was tried, which one to take and why, and what costs most there."""
    from bfpga.cli.report_host import NO_DRIVER
    from bfpga.explore.candidate import RESTRICTED

    where = f"the ready accelerators of {board.title}" if board else "all ready accelerators"
    judged = None if task.judge is None else {"accuracy": "accuracy", "agreement": "as float"}.get(
        task.judge.metric, "kept"
    )  # fmt: skip
    able = [offer for offer in found.offers if offer.figures is not None]
    headings = ["accelerator", *["board"] * (board is None), "MHz", "images/s", "latency"]
    headings += [judged, "lost"] if judged else []
    headings += ["LUT", "zeros that take no time"]
    rows = [_row(offer, board is None, judged is not None) for offer in able]
    output.table(f"{task.network.name} on {where}", headings, rows, OPTIONAL)
    for offer in found.offers:
        if offer.figures is None:
            output.say(f"{offer.name} cannot run it: {offer.why}")
        elif offer.excess > 0:
            output.say(f"{offer.name} takes more of its board than is wise: {100 * offer.look_up_tables:.0f} % LUT")
        elif offer.is_doubtful:
            bits = offer.accelerator.config.format.mantissa_bits
            output.say(f"{offer.name} has mantissas of {bits} bits: only samples (-d) say whether they suffice")
    inputs = "not known without samples (-d)" if found.input_zeros is None else f"{100 * found.input_zeros:.1f} %"
    zeros = f"zeros of the weights: {100 * found.zero_weights:.1f} %"
    output.say(f"{zeros}; of what layers read, a mean of layers: {inputs}")
    output.say("images/s of a stream of samples, latency of one, both with the host's operators (estimated)")
    output.say(NO_DRIVER)
    output.say(reason(found.recommendation, task.drop))
    if found.recommendation.best.accelerator.config.static_exponents:
        output.say(f"{found.recommendation.best.name}: {RESTRICTED}")
    for one in found.recommendation.best.advice:
        output.say(one.text)


def _row(offer: Offer, with_board: bool, judged: bool) -> tuple[str, ...]:
    from bfpga.cli.report_host import milliseconds, rate

    assert offer.figures is not None
    figures, accelerator = offer.figures, offer.accelerator
    accuracy = (f"{figures.accuracy:.2f} %", f"{figures.loss:.2f}") if judged else ()
    return (
        offer.name, *[accelerator.board.name] * with_board, f"{accelerator.clock_mhz:g}", rate(offer.images_per_second),
        milliseconds(figures.latency), *accuracy, f"{100 * offer.look_up_tables:.0f} %", offer.zeros,
    )  # fmt: skip


def reason(found: Recommendation, drop: float) -> str:
    """What to take and why, in one sentence."""
    from bfpga.cli.report_host import rate

    best = found.best
    text = f"recommended: {best.name} on {best.accelerator.board.title}, {rate(best.images_per_second)} images/s"
    if not found.exact:
        return f"{text}: none loses at most {drop:g} points, this one loses least ({best.loss:.2f})"
    if found.ties:
        return f"{text}, {_ties(best, found.ties)}"
    if found.behind:
        factor = best.images_per_second / found.behind.images_per_second
        return f"{text}, {factor:.2f} times as fast as {found.behind.name}"
    return f"{text}: no other one runs it and loses at most {drop:g} points"


def _ties(best: Offer, ties: Sequence[Offer]) -> str:
    """Why one of several equally fast ones is the plainest."""
    from bfpga.estimate.advice import TIE
    from bfpga.explore.ready import kind_of

    own = f"{kind_of(best.accelerator.config)}, {100 * best.look_up_tables:.0f} % of the LUTs"
    others = ", ".join(one.name for one in ties)
    return f"the plainest of {len(ties) + 1} that tie within {100 * TIE:.0f} % ({own}; the others: {others})"


def following(
    best: Offer, model: Path, samples: Path | None, shapes: Sequence[str] | None, outputs: Sequence[str] | None
) -> str:
    """The command that compiles the network for what is recommended."""
    words = ["bfpga", "compile", str(model), "-a", best.accelerator.name]
    words += ["-r", best.recipe] if best.recipe else []
    words += ["-c", str(samples)] if samples else []
    words += [word for shape in shapes or [] for word in ("--input-shape", shape)]
    words += [word for name in outputs or [] for word in ("--outputs", name)]
    return shlex.join([*words, "-o", f"{model.stem}.bfpga"])


def content(found: Advised, task: ReadyTask, board: Board | None) -> dict[str, Any]:
    """All figures as plain data; accelerators that cannot run the network have a reason and no figures."""
    best = found.recommendation.best
    return {
        "model": task.network.name,
        "board": None if board is None else board.name,
        "recommended": best.accelerator.name,
        "recipe": best.recipe or None,
        "ties": [one.name for one in found.recommendation.ties],
        "metric": None if task.judge is None else task.judge.metric,
        "zero_weights": found.zero_weights,
        "zero_inputs": found.input_zeros,
        "accelerators": [_content(offer) for offer in found.offers],
    }


def _content(offer: Offer) -> dict[str, Any]:
    from dataclasses import asdict

    figures = offer.figures
    return {
        "accelerator": offer.accelerator.name,
        "board": offer.accelerator.board.name,
        "recipe": offer.recipe or None,
        "clock_mhz": offer.accelerator.clock_mhz,
        "runs": figures is not None,
        "why": offer.why,
        "fits": offer.excess <= 0,
        "zeros": offer.zeros,
        "cycles": figures and figures.cycles,
        "latency_s": figures and figures.latency,
        "images_per_second": offer.images_per_second or None,
        "accuracy": figures and figures.accuracy,
        "lost": figures and figures.loss,
        "lut_share": offer.look_up_tables or None,
        "advice": [asdict(one) for one in offer.advice],
    }
