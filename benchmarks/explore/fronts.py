"""Fronts of `bfpga explore` for four networks on three boards: against the ready accelerators, and as pictures.

    python -m benchmarks.explore.fronts                       the table
    python -m benchmarks.explore.fronts --pictures docs/pictures
    python -m benchmarks.explore.fronts --network resnet8_cifar10 --board pynq_z2 --trials 300 --json found.json
    python -m benchmarks.explore.fronts --kept found.json --pictures docs/pictures

Each network has a time that it may take; the first 64 of its samples calibrate, 512 judge. A board without a ready
accelerator that fits has nothing to be compared with.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import NETWORKS, Network
from bfpga.accelerator.boards import load_board
from bfpga.compiler.read.network import read_network
from bfpga.data import load_inputs
from bfpga.explore.figures import Point, point_of
from bfpga.explore.front import Goal
from bfpga.explore.modelled_clock import usual_clock
from bfpga.explore.picture import picture
from bfpga.explore.search import Exploration, Search
from bfpga.explore.task import Task
from bfpga.formats.files import replace_file

WANTED = ("resnet8_cifar10", "mobilenetv1_025_vww", "dscnn_kws", "mlp_mnist")
BOARDS = ("pynq_z2", "zcu104", "kv260")
SAMPLES, CALIBRATION = 512, 64
HEADINGS = ("network", "board", "ready, us", "found, us", "faster", "lost", "ready lost", "mJ", "LUT", "s", "trials")


@dataclass(frozen=True)
class Found:
    """A search and the seconds that it took."""

    exploration: Exploration
    seconds: float

    @property
    def ready(self) -> Point | None:
        """The fastest ready accelerator that keeps the accuracy, whether it is small enough or not."""
        goal = self.exploration.task.goal
        exact = [point for point in self.exploration.ready if (point.figures.loss or 0.0) <= goal.drop]
        return min(exact, key=goal.first, default=None)

    def row(self) -> tuple[str, ...]:
        """The cells of `HEADINGS`."""
        task, best, ready = self.exploration.task, self.exploration.front[0], self.ready
        lut = 100 * best.figures.used["lut"] / task.board.lut
        return (
            task.network.name,
            task.board.name,
            "-" if ready is None else f"{1e6 * ready.figures.seconds:.1f} ({ready.name})",
            f"{1e6 * best.figures.seconds:.1f}",
            "-" if ready is None else f"{ready.figures.seconds / best.figures.seconds:.2f}x",
            f"{best.figures.loss:.2f}",
            "-" if ready is None else f"{ready.figures.loss:.2f}",
            f"{1e3 * best.figures.joules:.3f}",
            f"{lut:.0f} %",
            f"{self.seconds:.0f}",
            str(self.exploration.trials),
        )


def explore(
    network: Network, folder: Path, board_name: str, trials: int, limit: float, seed: int, drop: float
) -> Found:
    """One search in memory."""
    begin = time.monotonic()
    read = read_network(folder / "models" / f"{network.name}.onnx")
    samples = load_inputs(folder / "data" / f"{network.data}.npz", read.inputs, SAMPLES)
    board = load_board(board_name)
    task = Task(read, board, board_name, Goal(drop=drop), usual_clock(board), samples.first(CALIBRATION), samples, seed)
    found = Search(task).run(trials, limit - (time.monotonic() - begin))
    return Found(found, time.monotonic() - begin)


def kept(path: Path, folder: Path) -> list[Found]:
    """Searches of before, as `--json` wrote them."""
    found = []
    for entry in json.loads(path.read_text()):
        read = read_network(folder / "models" / f"{entry['network']}.onnx")
        board = load_board(entry["board"])
        goal = Goal(entry["objective"], entry["accuracy_drop"])
        task = Task(read, board, board.name, goal, usual_clock(board), seed=entry["seed"])
        points = [point_of(point) for point in entry["points"]]
        found.append(Found(Exploration(task, points, entry["refused"]), entry["seconds"]))
    return found


def draw(found: list[Found], folder: Path) -> None:
    """A picture of each network, its boards beside each other."""
    for name in dict.fromkeys(one.exploration.task.network.name for one in found):
        boards = [one.exploration for one in found if one.exploration.task.network.name == name]
        replace_file(folder / f"explore_{name}.svg", picture(*boards))


def markdown(rows: list[tuple[str, ...]]) -> str:
    """The table as documents have it."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def content(found: Found) -> dict[str, Any]:
    """What is written as JSON."""
    from bfpga.explore.results import content as searched

    return {"seconds": found.seconds, **searched(found.exploration)}


def main(arguments: list[str] | None = None) -> None:
    """Run the searches and print the table."""
    parser = command(__doc__, "--json")
    parser.add_argument("--network", action="append", choices=WANTED)
    parser.add_argument("--board", action="append", choices=BOARDS)
    parser.add_argument("--trials", type=int, default=250)
    parser.add_argument("--limit", type=float, default=300, help="seconds of one search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drop", type=float, default=0.5, help="points of accuracy that may be lost")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="a picture of each network there")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="searches that --json wrote, instead of new ones")
    given = parser.parse_args(arguments)
    folder = required_models_folder()
    known = {network.name: network for network in NETWORKS}
    all_found: list[Found] = kept(given.kept, folder) if given.kept else []
    for name in [] if given.kept else given.network or WANTED:
        for board in given.board or BOARDS:
            all_found.append(explore(known[name], folder, board, given.trials, given.limit, given.seed, given.drop))
            print(" ".join(all_found[-1].row()), file=sys.stderr, flush=True)
    print(markdown([found.row() for found in all_found]))
    if given.pictures:
        draw(all_found, given.pictures)
    if given.json:
        replace_file(given.json, json.dumps([content(found) for found in all_found], indent=1).encode())


if __name__ == "__main__":
    main()
