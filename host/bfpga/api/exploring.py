"""`bfpga.explore` and the command: the accelerators for a network on a board that no other one beats."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from bfpga.accelerator.boards import Board, load_board, names
from bfpga.api.jobs import CALIBRATION_SAMPLES
from bfpga.compiler.read.network import Network, read_network
from bfpga.data import Given, InputSamples, given_samples
from bfpga.errors import ConfigurationError
from bfpga.explore.front import Goal
from bfpga.explore.modelled_clock import usual_clock
from bfpga.explore.page import page
from bfpga.explore.picture import picture
from bfpga.explore.results import PAGE, PICTURE, STUDY, Row, write_results
from bfpga.explore.search import Exploration, Search, Show
from bfpga.explore.space import ROUNDED
from bfpga.explore.task import Task
from bfpga.formats.files import replace_file
from bfpga.report.page import check_charts, write_page
from bfpga.scale.choice import open_workers

#: Samples that judge, trials, and points of accuracy that may be lost, unless others are asked for.
SAMPLES, TRIALS, DROP = 512, 250, 0.5


def explore(
    model: str | Path | Network,
    board: str | Path,
    data: Given | None = None,
    *,
    calibration: Given | None = None,
    samples: int = SAMPLES,
    objective: str = "throughput",
    accuracy_drop: float = DROP,
    trials: int = TRIALS,
    time_limit: float | None = None,
    seed: int = 0,
    max_clock: float | None = None,
    synthesize: bool = False,
    static_exponents: bool = True,
    folder: str | Path | None = None,
    resume: bool = False,
    workers: int | None = None,
    progress: Show | None = None,
) -> Exploration:
    """Search for the accelerators of a board that are best for a network; ``front`` of what comes back has them.

    data: samples that judge accuracy, the first ``samples`` of them; None: mantissas keep 8 bits. calibration: samples
    of their own; None: the first 64 of the data. objective: throughput, latency or energy. accuracy_drop: points that
    may be lost. time_limit: seconds. max_clock: MHz. synthesize: of the code of the front's points.
    static_exponents: whether accelerators may do without exponents that are found at run time, where samples calibrate.
    folder: gets accelerators, recipes and pictures, and the study, with which ``resume`` goes on; None: nothing is
    written. workers: processes of this machine. progress(done, all, best point).
    ConfigurationError for what does not fit, ToolError without the packages of the search, OSError for a folder that
    cannot be used.
    """
    check_charts("explore")
    described, target = load_board(board), None if folder is None else Path(folder)
    if target is not None:
        files = [Path(given) for given in (model, board, data, calibration) if isinstance(given, (str, Path))]
        check_folder(target, resume, files)
    network = read_network(model)
    judging = None if data is None else given_samples(data, network.inputs, samples)
    calibrating = None if calibration is None else given_samples(calibration, network.inputs)
    goal = Goal(objective, accuracy_drop)  # type: ignore[arg-type]
    task = search_task(
        network, described, str(board), goal, judging, calibrating, max_clock, synthesize, seed, static_exponents
    )
    if target is not None:
        target.mkdir(parents=True, exist_ok=True)
    search = Search(task, None if target is None else target / STUDY)
    with open_workers(workers) as opened:
        found = search.run(trials, time_limit, progress, opened)
    if synthesize and not found.interrupted:
        found = search.synthesize(lambda point: None)
    if target is not None:
        write_exploration(found, target)
    return found


def search_task(
    network: Network,
    board: Board,
    name: str,
    goal: Goal,
    judging: InputSamples | None,
    calibrating: InputSamples | None,
    max_clock: float | None,
    synthesize: bool,
    seed: int,
    static_exponents: bool = True,
) -> Task:
    """What is searched for. name: of the board or its file. max_clock: MHz; None: the one modelled for the board.

    ConfigurationError for a clock that the board has not, or that needs a synthesis.
    """
    sources = calibrating.inputs if calibrating else judging.first(CALIBRATION_SAMPLES) if judging else None
    return Task(
        network=network,
        board=board,
        board_name=name if name in names("boards") else str(Path(name).absolute()),
        goal=goal,
        max_clock=usual_clock(board) if max_clock is None else _checked_clock(board, max_clock, synthesize),
        calibration=sources,
        samples=judging,
        seed=seed,
        static=static_exponents,
    )


def _checked_clock(board: Board, clock: float, synthesize: bool) -> float:
    if not board.clock_min <= clock <= board.clock_max:
        raise ConfigurationError(
            f"--max-clock is {clock:g}; must be {board.clock_min:g}..{board.clock_max:g} on {board.title}"
        )
    usual = usual_clock(board)
    if clock > usual + ROUNDED and not synthesize:
        raise ConfigurationError(
            f"--max-clock is {clock:g}; above {usual:g} MHz no synthesis has modelled a clock on {board.title}: "
            "add --synthesize, which makes one of every point that is offered"
        )
    return clock


def check_folder(folder: Path, resume: bool, inputs: Sequence[Path | None]) -> None:
    """Whether results may go to a folder: no study of before unless it is resumed, and no input of this command."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is no folder; the results of a search need one", str(folder))
    if not folder.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the directory does not exist", str(folder.absolute().parent))
    for path in inputs:
        if path is not None and path.exists() and path.resolve().parent == folder.resolve():
            raise ConfigurationError(f"{path} is in the folder of the results, {folder}; give another folder")
    if resume and not (folder / STUDY).is_file():
        raise FileNotFoundError(errno.ENOENT, "there is no study to resume; begin one without --resume", str(folder))
    if not resume and (folder / STUDY).exists():
        raise FileExistsError(
            errno.EEXIST, "holds a study; --resume goes on with it, -o names another folder", str(folder)
        )


def write_exploration(found: Exploration, folder: Path) -> list[Row]:
    """Accelerators, recipes, picture, page and list of a search; what was written for the front."""
    written = write_results(found, folder)
    replace_file(folder / PICTURE, picture(found))
    write_page(folder / PAGE, page(found, written))
    return written
