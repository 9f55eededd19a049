"""Accuracy of block floating point against float on real networks: one table, one command.

    BFPGA_MODELS=FOLDER python benchmarks/accuracy.py [--accelerator NAME[:FORMATS] ...] [--shift] [--markdown FILE]

FORMATS is how the array holds weights, where it has a choice: linear, two_hot, power_of_two or auto (the default).
``--shift`` measures arrays with shift units in every format and ends with 1 if two-hot weights miss their goals.
FOLDER has models/ and data/; networks it does not have are left out. Float values are measured here too, by ONNX
Runtime, on the same samples. Ranges are calibrated on training samples where the folder has them (MNIST, CIFAR-10,
digits); otherwise on every second sample of the file itself, without its labels, and the whole file is judged.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import Program
from bfpga.runtime import BATCH, run

Array = npt.NDArray[Any]
Judge = Callable[[Array, Array, Array], tuple[str, float, float]]
#: Columns of ``--shift``.
SHIFT_COLUMNS = (
    "pynq_z2_shift:two_hot", "pynq_z2_shift:power_of_two", "pynq_z2_shift:auto", "pynq_z2_mixed:two_hot",
    "pynq_z2_mixed:auto",
)  # fmt: skip
#: Points that 8-bit two-hot weights may cost.
TWO_HOT_GOALS = {"lenet_mnist": 1.0, "mlp_mnist": 1.0, "resnet8_cifar10": 2.0, "dscnn_kws": 2.0}
#: Calibration samples that are used at most.
CALIBRATION_SAMPLES = 256


@dataclass(frozen=True)
class Network:
    """A network, its samples, and how its outputs are judged."""

    name: str
    data: str
    judge: Judge
    calibration: str = ""


def scaled(file: Any) -> Array:
    """Samples as the model takes them."""
    x = file["x"].astype(np.float32)
    if "x_offset" in file:
        x = x - np.asarray(file["x_offset"], np.float32)
    if "x_scale" in file:
        x = x * np.asarray(file["x_scale"], np.float32)
    return x.astype(np.float32)


def top1(float_output: Array, output: Array, y: Array) -> tuple[str, float, float]:
    """Accuracy in percent."""
    return "top-1 %", *(100 * float((values.argmax(1) == y).mean()) for values in (float_output, output))


def agreement(float_output: Array, output: Array, y: Array) -> tuple[str, float, float]:
    """How often the class is that of the float network, in percent."""
    return "agreement %", 100.0, 100 * float((float_output.argmax(1) == output.argmax(1)).mean())


def windows(x: Array) -> Array:
    """Five frames in a row of every file: (files, 200, 128) -> (files * 196, 640)."""
    return np.concatenate([x[:, start : start + 196] for start in range(5)], axis=2).reshape(-1, 640)


def area_under_curve(scores: Array, y: Array) -> float:
    """Probability that a positive sample scores above a negative one, ties half."""
    positive, negative = scores[y == 1], scores[y == 0]
    difference = positive[:, None] - negative[None, :]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def anomaly_score(x: Array, output: Array, files: int) -> Array:
    """Mean squared error of reconstruction, by file."""
    return ((x - output) ** 2).reshape(files, -1).mean(1)


def cosine(float_output: Array, output: Array, y: Array) -> tuple[str, float, float]:
    """Smallest cosine of a sample's output to the reference."""
    a, b = float_output.reshape(len(float_output), -1), output.reshape(len(output), -1)
    cosines = (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return "smallest cosine", 1.0, float(cosines.min())


NETWORKS = (
    Network("mlp_digits", "digits_test_a", top1, "digits_train"),
    Network("mlp_mnist", "mnist_test_even", top1, "mnist_train_calib"),
    Network("lenet_mnist", "mnist_test_even", top1, "mnist_train_calib"),
    Network("lenet_mnist_pruned90", "mnist_test_even", top1, "mnist_train_calib"),
    Network("resnet8_cifar10", "cifar10_test_shared", top1, "cifar10_train_calib"),
    Network("dscnn_kws", "kws_mfcc_shared", top1),
    Network("ad01_autoencoder", "ad01_shared", top1),
    Network("mobilenetv1_025_vww", "vww_shared", agreement),
    Network("squeezenet_dc_sparse", "imagenet227_shared", top1),
    Network("minilm_layer0", "minilm_layer0_hidden", cosine),
)


def float_run(model: Path, x: Array) -> Array:
    """Output of the float network by ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: x[i : i + BATCH]})[0] for i in range(0, len(x), BATCH)])


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
    result = run(program, x, "emulator", statistics=False)
    output = next(iter(result.outputs.values()))
    if files:
        values = [area_under_curve(anomaly_score(x, out, files), y) for out in (expected, output)]
        return "AUC", values[0], values[1], files
    metric, reference, value = network.judge(expected, output, y)
    return metric, reference, value, len(x)


def input_shape(model: Path) -> tuple[int, ...]:
    """Shape of the model's input without the batch axis."""
    import onnx

    value = onnx.load(str(model), load_external_data=False).graph.input[0]
    return tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)[1:]


def table_row(network: Network, columns: list[str], folder: Path) -> tuple[list[str], list[str]]:
    """Cells of a network's row, and the goals that it misses."""
    cells: list[str] = []
    missed = []
    for column in columns:
        accelerator, _, formats = column.partition(":")
        start = time.perf_counter()
        options = CompileOptions(formats=formats or "auto")  # type: ignore[arg-type]
        metric, reference, value, samples = measure(network, accelerator, folder, options)
        digits = 2 if reference > 1 else 4
        if not cells:
            cells = [network.name, metric, str(samples), f"{reference:.{digits}f}"]
        cells.append(f"{value:.{digits}f} ({value - reference:+.{digits}f})")
        seconds = time.perf_counter() - start
        print(f"{network.name} on {column}: {metric} {value:.{digits}f}, {seconds:.1f} s", file=sys.stderr)
        goal = TWO_HOT_GOALS.get(network.name)
        if formats == "two_hot" and goal is not None and value < reference - goal:
            missed.append(f"{network.name} on {column}: {reference - value:.2f} points below float, at most {goal:g}")
    return cells, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--accelerator", nargs="+", default=["pynq_z2_dense", "pynq_z2_bfp16"], metavar="NAME[:FORMATS]"
    )
    parser.add_argument("--shift", action="store_true", help=f"the same as --accelerator {' '.join(SHIFT_COLUMNS)}")
    parser.add_argument("--network", nargs="+", default=[network.name for network in NETWORKS])
    parser.add_argument("--markdown", type=Path, help="write the table to this file too")
    arguments = parser.parse_args()
    folder = os.environ.get("BFPGA_MODELS")
    if not folder:
        print("set BFPGA_MODELS to the folder that has models/ and data/", file=sys.stderr)
        return 2
    columns = list(SHIFT_COLUMNS) if arguments.shift else arguments.accelerator
    lines = ["| network | metric | samples | float |", "|---|---|---|---|"]
    lines[0] += "".join(f" {column.replace(':', ', ')} |" for column in columns)
    lines[1] += "---|" * len(columns)
    missed: list[str] = []
    for network in NETWORKS:
        if network.name not in arguments.network:
            continue
        if not (Path(folder) / "models" / f"{network.name}.onnx").exists():
            print(f"{network.name}: not in {folder}, left out", file=sys.stderr)
            continue
        cells, found = table_row(network, columns, Path(folder))
        lines.append("| " + " | ".join(cells) + " |")
        missed += found
    text = "\n".join(lines) + "\n"
    print(text)
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    if arguments.markdown:
        temporary = arguments.markdown.with_suffix(".partial")
        temporary.write_text(text)
        temporary.replace(arguments.markdown)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
