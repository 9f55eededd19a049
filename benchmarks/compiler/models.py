"""Accuracy and images/s of the named networks on every board: the figures of `bfpga models`, one command.

    python -m benchmarks.compiler.models [--network [NAME ...]] [--write]

On each board the ready accelerator is taken that holds the network's stream of samples fastest, of those that fit the
board and lose at most a point. Accuracy is the emulator's on all samples of the network. `--write` renews
examples/models/figures.json and the tables of docs/models.md. Networks that do not ship are trained first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.common.command import EXAMPLES, ROOT, command
from benchmarks.common.networks import anomaly_score, area_under_curve, float_run
from benchmarks.common.report import table, write_file, write_json
from benchmarks.synthesis.figure_tables import renewed
from bfpga import runtime
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.accelerator.variants import fitting_boards, on_board
from bfpga.cli.models import FIGURES, HEADINGS, board_rows, network_rows, packaged_figures
from bfpga.compiler.read.named import NAMED, NamedNetwork
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import Program
from bfpga.data import load_inputs
from bfpga.errors import BfpgaError
from bfpga.estimate.sample import estimate_sample
from bfpga.synthesis.resources import resources_of
from bfpga.training.from_nothing import COURSES, train

PAGE = ROOT / "docs" / "models.md"
#: Significant digits of a figure that is kept.
DIGITS = 5
#: What an accelerator may lose against float, by metric.
LOST = {"accuracy": 1.0, "AUC": 0.01}


@dataclass(frozen=True)
class Figure:
    """A network on a board. value: accuracy in percent, or the area under the curve of an autoencoder."""

    accelerator: str
    value: float
    images_per_second: float


class Judge:
    """A network with its samples."""

    def __init__(self, named: NamedNetwork) -> None:
        self.name = named.name
        self.network: Network = read_network(train(named.name) if named.trained else named.model_path)
        shapes = self.network.inputs
        samples = load_inputs(named.samples_path, shapes)
        self.x, self.labels = next(iter(samples.inputs.values())), samples.y
        self.calibration = load_inputs(named.calibration_path, shapes).inputs
        self.metric = "accuracy"
        if self.labels is None:
            self.metric = "AUC"
            with np.load(named.samples_path, allow_pickle=False) as file:
                self.labels = np.asarray(file[COURSES[named.name].labels])

    def compiled(self, accelerator: Accelerator) -> Program:
        """The network for an accelerator, calibrated by training samples."""
        return runtime.compile(self.network, accelerator, self.calibration)

    def value(self, output: np.ndarray) -> float:
        """What the results of all samples are worth."""
        assert self.labels is not None
        scores = output.reshape(len(output), -1)
        if self.metric == "AUC":
            x = self.x.reshape(len(self.x), -1)
            return rounded(area_under_curve(anomaly_score(x, scores, len(x)), self.labels))
        return rounded(100 * float(np.mean(scores.argmax(axis=1) == self.labels)))

    def in_float(self) -> float:
        """The float network's, by ONNX Runtime."""
        return self.value(float_run(self.network.path, self.x))

    def on_emulator(self, program: Program) -> float:
        """The program's."""
        return self.value(next(iter(runtime.run(program, self.x).outputs.values())))


def rounded(value: float) -> float:
    """As it is kept."""
    return float(f"{value:.{DIGITS}g}")


def images_per_second(program: Program, accelerator: Accelerator) -> float:
    """Of a stream of samples, the host's operators included."""
    return rounded(1 / estimate_sample(accelerator, program, resources_of(accelerator).total).seconds)


def able(judge: Judge, accelerators: Sequence[str]) -> Iterator[tuple[Accelerator, Program]]:
    """The accelerators that can run the network, with its program."""
    for name in accelerators:
        accelerator = load_accelerator(name)
        try:
            yield accelerator, judge.compiled(accelerator)
        except BfpgaError as error:
            print(f"{judge.name} on {name}: {error}", file=sys.stderr)


def figures_of(judge: Judge, accelerators: Sequence[str]) -> dict[str, Any]:
    """A network's entry in the file: on each board the fastest accelerator that loses little, or the most exact one."""
    speeds: dict[str, list[tuple[float, str]]] = {}
    programs: dict[str, Program] = {}
    for accelerator, program in able(judge, accelerators):
        programs[accelerator.name] = program
        for board in fitting_boards(accelerator):
            speed = images_per_second(program, on_board(accelerator, board))
            speeds.setdefault(board.name, []).append((speed, accelerator.name))
    in_float, most = judge.in_float(), LOST[judge.metric]
    value = cache(lambda name: judge.on_emulator(programs[name]))
    boards = {}
    for board_name, found in sorted(speeds.items()):
        fast = sorted(found, key=lambda item: -item[0])
        speed, name = next((one for one in fast if in_float - value(one[1]) <= most), None) or max(
            fast, key=lambda item: value(item[1])
        )
        boards[board_name] = asdict(Figure(name, value(name), speed))
    return {"metric": judge.metric, "samples": len(judge.x), "float": in_float, "boards": boards}


def markdown(figures: dict[str, Any]) -> tuple[str, str]:
    """The two tables of the page."""
    return table(HEADINGS, network_rows(figures)), table(["board", *figures], board_rows(figures))


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--network", nargs="*", default=[network.name for network in NAMED])
    parser.add_argument("--write", action="store_true", help="renew the file of figures and the page")
    arguments = parser.parse_args(given)
    target = EXAMPLES / FIGURES
    figures: dict[str, Any] = packaged_figures() if target.exists() else {}
    for network in NAMED:
        if network.name in arguments.network:
            figures[network.name] = figures_of(Judge(network), accelerator_names())
            print(f"{network.name}: {figures[network.name]}", file=sys.stderr)
    figures = {network.name: figures[network.name] for network in NAMED}
    tables = markdown(figures)
    print("\n\n".join(tables))
    if arguments.write:
        write_json(target, figures)
        text = PAGE.read_text(encoding="utf-8")
        for lines in (item.split("\n") for item in tables):
            text = renewed(text, lines[0], lines[2:])
        write_file(PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
