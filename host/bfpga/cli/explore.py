"""`bfpga explore`: the accelerators for a network on a board that no other one beats."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bfpga.cli import output
from bfpga.cli.completion import complete_board
from bfpga.cli.options import InputShapes, Json, Model, OutputNames, ScaleOptions, grouped
from bfpga.errors import ConfigurationError

if TYPE_CHECKING:
    from bfpga.accelerator.boards import Board
    from bfpga.explore.figures import Point
    from bfpga.explore.results import Row
    from bfpga.explore.search import Exploration, Search, Show
    from bfpga.explore.task import Task

#: Samples that judge, and points of accuracy that may be lost, unless others are asked for (``api.exploring``).
SAMPLES, DROP = 512, 0.5
#: Exit code after Ctrl-C, as shells give it.
INTERRUPTED = 130


@grouped
def explore(
    model: Model,
    board: Annotated[
        str,
        typer.Option(
            "--board", help="Name of a board or its YAML file.", show_default=False, autocompletion=complete_board
        ),
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", "-d", help="NPZ with x and, where known, y: judges accuracy. Without, numbers keep 8 bits."
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration", "-c", help="NPZ with samples to calibrate with; default: the first 64 of the data."
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=1, help="Use the first N samples only.")] = SAMPLES,
    input_shape: InputShapes = None,
    outputs: OutputNames = None,
    objective: Annotated[
        str, typer.Option("--objective", help="What the best point has the best of: throughput, latency or energy.")
    ] = "throughput",
    accuracy_drop: Annotated[
        float | None,
        typer.Option("--accuracy-drop", help=f"Points of accuracy to lose at most; default: {DROP}.", metavar="POINTS"),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1, max=100000, help="What is tried, before plainer forms of the best point.")
    ] = 250,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", min=1, help="Seconds after which it ends.", metavar="SECONDS")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="The same seed finds the same.")] = 0,
    max_clock: Annotated[
        float | None,
        typer.Option(
            "--max-clock",
            help="Fastest clock that is tried; default: the one modelled for the board; faster needs --synthesize.",
            metavar="MHZ",
        ),
    ] = None,
    synthesize: Annotated[
        bool,
        typer.Option(
            "--synthesize",
            help="Synthesise the code of the front's points; what misses its clock leaves the front or gets slower.",
        ),
    ] = False,
    static_exponents: Annotated[
        bool,
        typer.Option(
            "--static-exponents/--no-static-exponents",
            help="Whether accelerators may do without exponents found at run time, which makes them smaller.",
        ),
    ] = True,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the results; default: explore_MODEL_BOARD.",
            metavar="FOLDER",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the study in the folder.")] = False,
    json: Json = None,
    scale: ScaleOptions,
) -> None:
    """Search for the accelerators of a board that are best for a network, and write them ready to build.

    The search begins with the ready accelerators of the board. What does not fit is dropped before anything is
    compiled; a compiled program gives cycles and energy, and the emulator the accuracy of what could be of use. The
    folder gets the front (YAML of accelerators and recipes, SVG, HTML, JSON) and the study, which --resume continues.

    \b
    Examples:
      bfpga explore lenet_mnist.onnx --board pynq_z2 -d mnist_test.npz --time-limit 300
      bfpga explore lenet_mnist.onnx --board kv260 -d mnist_test.npz --objective energy --accuracy-drop 1 -o found
      bfpga explore lenet_mnist.onnx --board kv260 -d mnist_test.npz --objective energy --accuracy-drop 1 -o found \\
        --trials 500 --resume
      bfpga explore lenet_mnist.onnx --board zcu104 -d mnist_test.npz --workers 4
    """
    from bfpga.accelerator.boards import load_board
    from bfpga.api.exploring import check_folder, search_task, write_exploration
    from bfpga.cli import work
    from bfpga.data import load_inputs
    from bfpga.explore.front import Goal
    from bfpga.explore.results import STUDY
    from bfpga.explore.search import Search
    from bfpga.report.page import check_charts
    from bfpga.scale.choice import check_choice

    output.check_target(json)
    check_charts("explore")
    check_choice(scale.workers, scale.scheduler)
    if accuracy_drop is not None and data is None:
        raise ConfigurationError("--accuracy-drop needs samples that judge accuracy: give them with --data")
    goal = Goal(objective, DROP if accuracy_drop is None else accuracy_drop)  # type: ignore[arg-type]
    described = load_board(board)
    target = folder or Path(f"explore_{model.stem}_{described.name}")
    check_folder(target, resume, [model, data, calibration, Path(board), json])
    network = work.read(model, input_shape, outputs)
    judging = load_inputs(data, network.inputs, samples) if data else None
    calibrating = load_inputs(calibration, network.inputs) if calibration else None
    task = search_task(
        network, described, board, goal, judging, calibrating, max_clock, synthesize, seed, static_exponents
    )
    _note_samples(task)
    with output.waiting("preparing the search"):
        target.mkdir(parents=True, exist_ok=True)
        search = Search(task, target / STUDY)
    with work.opened_workers(scale) as workers, _progress(len(search.study)) as report:
        found = search.run(trials, time_limit, report, workers)
    if synthesize and not found.interrupted:
        found = _synthesized(search)
    rows = write_exploration(found, target)
    _show(found, rows, target, calibration or data)
    from bfpga.explore.results import content

    output.write_json(json, content(found))
    if found.interrupted:
        output.note(f"bfpga explore: interrupted; what was found is in {target}. Go on with\n  {_again()}")
        raise typer.Exit(INTERRUPTED)


def _note_samples(task: Task) -> None:
    if task.judge is None:
        output.note("no samples (--data): accuracy is not judged, mantissas keep 8 bits")
    elif task.judge.step > task.goal.drop:
        count, worth = task.judge.samples, task.judge.step
        output.note(f"{count} samples: each is worth {worth:.2f} points, more than the accuracy drop")


def _synthesized(search: Search) -> Exploration:
    def report(point: Point) -> None:
        output.note(f"synthesis of {point.name}")

    return search.synthesize(report)


def _show(found: Exploration, written: list[Row], folder: Path, samples: Path | None) -> None:
    """Print the front and the ready accelerators. samples: file that calibrated."""
    from bfpga.explore.candidate import RESTRICTED
    from bfpga.explore.results import PAGE
    from bfpga.explore.tables import HEADINGS, OPTIONAL, table_row

    network, board = found.task.network.name, found.task.board.title
    ready = [table_row(found, point, point.name) for point in sorted(found.ready, key=found.task.goal.first)]
    if ready:
        output.table(f"{network} on {board}: ready accelerators", HEADINGS, ready, OPTIONAL)
    title = f"front of {found.trials} trials ({found.refused} refused before they were compiled), the best first"
    output.table(title, HEADINGS, [table_row(found, row.point, row.name) for row in written], OPTIONAL)
    _say_chance(found)
    if not written:
        output.say(f"nothing fits {board} and loses at most {found.task.goal.drop:g} points")
        return
    if any(row.point.clock == "not modelled" for row in written):
        output.say("a clock is modelled where a synthesis of the code finds every loop in time:")
        output.say("--resume --synthesize asks for it")
    best = _best(found, written)
    if "static_exponents" in best.point.candidate.extras:
        output.say(f"{best.name}: {RESTRICTED}; --no-static-exponents searches without such accelerators")
    _say_costs(found, best.point)
    if best.accelerator is not None:
        chosen = f"-a {folder / best.accelerator} -r {folder / str(best.recipe)}"
        output.say(f"the best: bfpga compile {found.task.network.path} {chosen} -c {samples or 'SAMPLES.npz'}")
    output.say(f"accelerators, recipes, picture and table in {folder}: {folder / PAGE}")


def _say_chance(found: Exploration) -> None:
    """Name the ready accelerator that would be the best if other samples judged, perhaps."""
    from bfpga.explore.front import by_chance
    from bfpga.explore.results import summary

    point, judge = by_chance(found.ready, found.front, found.task.goal), found.task.judge
    if point is not None and judge is not None:
        figures = point.figures
        output.say(
            f"{point.name} would be the best ({summary(found, point)}), but loses {figures.loss:.2f} points: by chance "
            f"perhaps, the standard deviation with {judge.samples} samples is {figures.spread:.2f}; more of them tell"
        )


def _best(found: Exploration, written: list[Row]) -> Row:
    """The point to take: the plainest of those as good within a tie; says so."""
    from bfpga.estimate.advice import TIE
    from bfpga.explore.results import recommended

    best, *others = tied = recommended(written, found.task.goal)
    if others:
        names = ", ".join(row.name for row in written if row in others)
        why = _plainest([row.point for row in tied], found.task.board)
        output.say(f"ties within {100 * TIE:.0f} %: {best.name} with {why}; {names}")
    return best


def _plainest(tied: list[Point], board: Board) -> str:
    """What makes the first of points that tie the plainest."""
    from bfpga.explore.candidate import EXTRAS

    best, others = tied[0], [point.candidate for point in tied[1:]]
    own, tables = best.candidate, best.figures.used["lut"]
    left_out = [key for key in EXTRAS if key not in own.extras and any(key in other.extras for other in others)]
    reasons = [f"no {key}" for key in left_out]
    if any(other.cores > own.cores for other in others):
        fewest = ", the fewest" * all(other.cores >= own.cores for other in others)
        reasons.append(f"{own.cores} core{'s' * (own.cores > 1)}{fewest}")
    fewest = ", the fewest" * all(point.figures.used["lut"] >= tables for point in tied)
    reasons.append(f"{100 * tables / board.lut:.0f} % of the LUTs{fewest}")
    return ", and ".join(filter(None, (", ".join(reasons[:-1]), reasons[-1])))


def _say_costs(found: Exploration, point: Point) -> None:
    """What costs most at a point, as `estimate` says it."""
    from bfpga.estimate.advice import advice
    from bfpga.estimate.program import estimate_program

    accelerator = point.candidate.loaded()
    program = found.task.compiled(point.candidate, accelerator)
    for one in advice(accelerator, program, estimate_program(accelerator, program)):
        output.say(one.text)


def _again() -> str:
    """The command that goes on with this study."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    return shlex.join(["bfpga", *words, "--resume"])


@contextmanager
def _progress(done: int) -> Iterator[Show | None]:
    """A bar with the best point so far; nothing without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("exploring"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", completed=done)

        def report(done: int, whole: int, best: Point | None) -> None:
            bar.update(task, completed=done, total=whole, description=best_words(best))

        yield report


def best_words(best: Point | None) -> str:
    """`best 250.1 us, 0.78 mJ (trial 34)`."""
    if best is None:
        return "nothing fits yet"
    figures = best.figures
    return f"best {1e6 * figures.seconds:.1f} us, {1e3 * figures.joules:.3f} mJ ({best.name})"
