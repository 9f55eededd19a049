"""How much the choice of calibration samples costs: many random draws of few samples, one table, one command.

    BFPGA_MODELS=FOLDER python -m benchmarks.compiler.calibration [--accelerator NAME ...] [--network NAME ...]
        [--size N ...] [--draws N] [--remainders auto|always|never] [--recipe RECIPE] [--markdown FILE] [--json FILE]

Every draw calibrates a network on N random samples and judges it on others: the draws come from the training samples
where the folder has them (MNIST, CIFAR-10), and all test samples are judged. The keyword network comes without training
samples, and its file is so short that one sample is 0.2 points: there a draw comes from the file itself, and what was
not drawn is judged, every recording also up to four frames earlier and later, which the float network takes as well. A
loss is the float network's accuracy minus the program's, on the same samples, in points. Ends with 1 if fewer than 95 %
of the draws of a network and size stay within 0.3 points.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import NETWORKS, Array, Float32Array, Network, float_run, input_shape, scaled
from benchmarks.common.report import finish, table, write_json
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.compiler.recipes import load_recipe
from bfpga.runtime import run

DEFAULT_NETWORKS = ("mlp_mnist", "lenet_mnist", "resnet8_cifar10", "dscnn_kws")
SIZES = (16, 64, 256)
#: Points that a draw may lose, and the share of the draws that must not lose more.
ALLOWED_POINTS = 0.3
WANTED_SHARE = 0.95
#: Frames that recordings are moved by when they are judged, of networks whose files are short; 0 comes first.
MOVES = {"dscnn_kws": (0, *range(-4, 0), *range(1, 5))}
HEADINGS = (
    "network", "accelerator", "calibrated on", "draws", "judged", f"{ALLOWED_POINTS} points are", "mean loss",
    "95 of 100 lose at most", "worst", f"within {ALLOWED_POINTS} points",
)  # fmt: skip


@dataclass
class Judged:
    """A network with the samples that calibrate and those that judge it.

    x, scores, y: judged samples, the float network's outputs for them, their labels. pool: calibration samples are
    drawn from it; None: from ``x``, and what is drawn is not judged. copies: of all samples that ``x`` holds one after
    the other, the first ones as they are.
    """

    model: Path
    x: Float32Array
    scores: Array
    y: Array
    pool: Float32Array | None
    copies: int = 1

    def draw(self, size: int, generator: np.random.Generator) -> tuple[Float32Array, npt.NDArray[np.intp]]:
        """Samples to calibrate with, and the indices of the samples that are judged."""
        own = len(self.x) // self.copies
        pool = self.x[:own] if self.pool is None else self.pool
        drawn = generator.permutation(len(pool))[:size]
        judged = np.arange(len(self.x)).reshape(self.copies, own)
        return pool[drawn], (judged if self.pool is not None else np.delete(judged, drawn, axis=1)).ravel()


@dataclass
class Losses:
    """What the draws of one network, accelerator and size lose, in points."""

    network: str
    accelerator: str
    size: int
    judged: int = 0
    points: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the draws that lose what is allowed, or less; points come from counts, 1e-9 is for their rounding."""
        return float(np.mean(np.asarray(self.points) <= ALLOWED_POINTS + 1e-9))

    def cells(self) -> list[str]:
        """The row of the table."""
        ordered = np.sort(self.points)
        most = ordered[int(np.ceil(WANTED_SHARE * len(ordered))) - 1]
        return [
            self.network, self.accelerator, str(self.size), str(len(ordered)), str(self.judged),
            f"{int(ALLOWED_POINTS / 100 * self.judged + 1e-9)} samples", f"{ordered.mean():+.2f}", f"{most:+.2f}",
            f"{ordered[-1]:+.2f}", f"{100 * self.share:.0f} %",
        ]  # fmt: skip


def load(network: Network, folder: Path) -> Judged:
    """A network's samples; the float network is run once."""
    model = folder / "models" / f"{network.name}.onnx"
    shape = input_shape(model)
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        x, y = scaled(file).reshape(-1, *shape), np.asarray(file["y"])
    pool = None
    if network.calibration:
        with np.load(folder / "data" / f"{network.calibration}.npz", allow_pickle=False) as file:
            pool = scaled(file).reshape(-1, *shape)
    moves = MOVES.get(network.name, (0,))
    x, y = np.concatenate([_moved(x, frames) for frames in moves]), np.tile(y, len(moves))
    return Judged(model, x, float_run(model, x), y, pool, len(moves))


def _moved(x: Float32Array, frames: int) -> Float32Array:
    """Recordings (samples, 1, time, features) so many frames later; the frame at the end is repeated."""
    return x if not frames else x[:, :, np.clip(np.arange(x.shape[2]) - frames, 0, x.shape[2] - 1)]


def losses(
    judged: Judged, accelerator: Accelerator, size: int, draws: int, options: CompileOptions
) -> Iterator[tuple[int, float]]:
    """Judged samples and loss in points, draw by draw; the same draws at every call."""
    network = read_network(judged.model)
    right = judged.scores.argmax(1) == judged.y
    generator = np.random.default_rng(size)
    for _ in range(draws):
        calibration, indices = judged.draw(size, generator)
        program = bfpga.compile(network, accelerator, calibration, options)
        result = run(program, judged.x[indices], "emulator")
        found = next(iter(result.outputs.values())).argmax(1) == judged.y[indices]
        yield len(indices), 100 * float(right[indices].mean() - found.mean())


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the loss of every draw to FILE")
    parser.add_argument("--accelerator", nargs="+", default=["pynq_z2_dense"], metavar="NAME")
    parser.add_argument("--network", nargs="+", default=list(DEFAULT_NETWORKS), metavar="NAME")
    parser.add_argument("--size", nargs="+", type=int, default=list(SIZES), metavar="N")
    parser.add_argument("--draws", type=int, default=100, metavar="N")
    parser.add_argument("--remainders", choices=("auto", "always", "never"), default="auto", help="of input images")
    parser.add_argument("--recipe", metavar="RECIPE", help="name or file of a recipe, such as --accuracy-drop finds")
    arguments = parser.parse_args(given)
    recipe = load_recipe(arguments.recipe) if arguments.recipe else CompileOptions()
    options = replace(recipe, remainders=arguments.remainders) if arguments.remainders != "auto" else recipe
    folder = required_models_folder()
    found, missed = [], []
    for network in (item for item in NETWORKS if item.name in arguments.network):
        judged = load(network, folder)
        for name in arguments.accelerator:
            for size in arguments.size:
                item = Losses(network.name, name, size)
                for item.judged, points in losses(judged, load_accelerator(name), size, arguments.draws, options):
                    item.points.append(points)
                print(" | ".join(item.cells()), file=sys.stderr, flush=True)
                found.append(item)
                if item.share < WANTED_SHARE:
                    missed.append(f"{item.network} on {name}, {size} samples: {100 * item.share:.0f} % of the draws")
    write_json(arguments.json, [asdict(item) for item in found])
    return finish(table(HEADINGS, [item.cells() for item in found]) + "\n", arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
