"""Accuracy of block floating point against float on real networks: one table, one command.

    BFPGA_MODELS=FOLDER python -m benchmarks.compiler.accuracy [--accelerator NAME[:FORMATS] ...] [--shift]
        [--workers N | --scheduler ADDRESS] [--markdown FILE]

FORMATS is how the array holds weights, where it has a choice: linear, two_hot, power_of_two or auto (the default).
``--shift`` measures arrays with shift units in every format and ends with 1 if two-hot weights miss their goals.
FOLDER has models/ and data/; networks it does not have are left out. Float values are measured here too, by ONNX
Runtime, on the same samples. Ranges are calibrated on training samples where the folder has them (MNIST, CIFAR-10,
digits); otherwise on every second sample of the file itself, without its labels, and the whole file is judged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import bfpga
from benchmarks.common.command import add_workers, command, required_models_folder
from benchmarks.common.networks import (
    CALIBRATION_SAMPLES,
    NETWORKS,
    Array,
    Network,
    anomaly_score,
    area_under_curve,
    float_run,
    input_shape,
    scaled,
    windows,
)
from benchmarks.common.report import finish
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import Program
from bfpga.runtime import run
from bfpga.scale.choice import open_workers
from bfpga.scale.work import Work

#: Columns of ``--shift``.
SHIFT_COLUMNS = (
    "pynq_z2_shift:two_hot", "pynq_z2_shift:power_of_two", "pynq_z2_shift:auto", "pynq_z2_mixed:two_hot",
    "pynq_z2_mixed:auto",
)  # fmt: skip
#: Points that 8-bit two-hot weights may cost.
TWO_HOT_GOALS = {"lenet_mnist": 1.0, "mlp_mnist": 1.0, "resnet8_cifar10": 2.0, "dscnn_kws": 2.0}


def shaped(program: Program, x: Array) -> Array:
    """Samples in the shape of the program's input."""
    return x.reshape(len(x), *next(iter(program.inputs.values())))


def measure(network: Network, accelerator: str, folder: Path, options: CompileOptions) -> tuple[str, float, float, int]:
    """Metric, float value, value on the accelerator, judged samples."""
    model = folder / "models" / f"{network.name}.onnx"
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        x, y = scaled(file), np.asarray(file["y"]) if "y" in file else np.zeros(0)
    if network.calibration:
        with np.load(folder / "data" / f"{network.calibration}.npz", allow_pickle=False) as file:
            calibration = scaled(file)[:CALIBRATION_SAMPLES]
    else:
        calibration = x[::2][:CALIBRATION_SAMPLES]
    files = 0
    if network.name == "ad01_autoencoder":
        files = len(x)
        x, calibration = windows(x), windows(calibration)[::24]
    chosen = load_accelerator(accelerator)
    program = bfpga.compile(model, chosen, calibration.reshape(-1, *input_shape(model)), options)
    x = shaped(program, x)
    expected = float_run(model, x)
    result = run(program, x, "emulator")
    output = next(iter(result.outputs.values()))
    if files:
        values = [area_under_curve(anomaly_score(x, out, files), y) for out in (expected, output)]
        return "AUC", values[0], values[1], files
    metric, reference, value = network.judge(expected, output, y)
    return metric, reference, value, len(x)


def measured(folder: Path, part: tuple[Network, str]) -> tuple[str, float, float, int, float]:
    """What ``measure`` finds for a network and a column of the table, and the seconds that it took."""
    network, column = part
    accelerator, _, formats = column.partition(":")
    start = time.perf_counter()
    options = CompileOptions(formats=formats or "auto")  # type: ignore[arg-type]
    found = measure(network, accelerator, folder, options)
    return *found, time.perf_counter() - start


#: A cell of the table: figures do not depend on who measured them.
MEASURE: Work[Path, tuple[Network, str], tuple[str, float, float, int, float]] = Work(lambda folder: folder, measured)


def table_row(
    network: Network, columns: list[str], results: Iterator[tuple[str, float, float, int, float]]
) -> tuple[list[str], list[str]]:
    """Cells of a network's row, and the goals that it misses; the next of ``results`` are its columns'."""
    cells: list[str] = []
    missed = []
    for column in columns:
        metric, reference, value, samples, seconds = next(results)
        digits = 2 if reference > 1 else 4
        if not cells:
            cells = [network.name, metric, str(samples), f"{reference:.{digits}f}"]
        cells.append(f"{value:.{digits}f} ({value - reference:+.{digits}f})")
        print(f"{network.name} on {column}: {metric} {value:.{digits}f}, {seconds:.1f} s", file=sys.stderr)
        goal = TWO_HOT_GOALS.get(network.name)
        if column.endswith(":two_hot") and goal is not None and value < reference - goal:
            missed.append(f"{network.name} on {column}: {reference - value:.2f} points below float, at most {goal:g}")
    return cells, missed


def _is_there(network: Network, folder: Path) -> bool:
    there = (folder / "models" / f"{network.name}.onnx").exists()
    if not there:
        print(f"{network.name}: not in {folder}, left out", file=sys.stderr)
    return there


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument(
        "--accelerator", nargs="+", default=["pynq_z2_dense", "pynq_z2_bfp16"], metavar="NAME[:FORMATS]"
    )
    parser.add_argument("--shift", action="store_true", help=f"the same as --accelerator {' '.join(SHIFT_COLUMNS)}")
    parser.add_argument("--network", nargs="+", default=[network.name for network in NETWORKS])
    add_workers(parser)
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    columns = list(SHIFT_COLUMNS) if arguments.shift else arguments.accelerator
    lines = ["| network | metric | samples | float |", "|---|---|---|---|"]
    lines[0] += "".join(f" {column.replace(':', ', ')} |" for column in columns)
    lines[1] += "---|" * len(columns)
    missed: list[str] = []
    chosen = [network for network in NETWORKS if network.name in arguments.network and _is_there(network, folder)]
    parts = [(network, column) for network in chosen for column in columns]
    with open_workers(arguments.workers, arguments.scheduler) as workers:
        results = workers.map(MEASURE, parts, shared={"folder": folder})
        for network in chosen:
            cells, found = table_row(network, columns, results)
            lines.append("| " + " | ".join(cells) + " |")
            missed += found
    text = "\n".join(lines) + "\n"
    return finish(text, arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
