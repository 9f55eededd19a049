"""Whole networks through the board path: PYNQ on virtual boards, compared bit by bit with the emulator.

    [BFPGA_MODELS=FOLDER] python -m benchmarks.board.path [--samples 100] [--target virtual] [--markdown FILE]

The networks are the shipped LeNet and, where FOLDER has it, ResNet-8, on a Zynq-7000 and on a Zynq UltraScale+. Times
are those of this machine: the kernel is compiled C++, not hardware. Ends with an error if a bit or a clock differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

import bfpga
from benchmarks.common.command import EXAMPLES, command, models_folder
from benchmarks.common.report import write_file
from bfpga.accelerator.loader import load_accelerator
from bfpga.board.load import load
from bfpga.board.overlays import store_overlay
from bfpga.data import load_samples
from bfpga.devices.emulator import Emulator
from bfpga.runtime import input_arrays

ACCELERATORS = ("pynq_z2_dense", "zcu104_dense")
TARGETS = ("virtual", "virtual:remote")
PARTS = ("pack", "transfer", "compute", "unpack")


@dataclass(frozen=True)
class Network:
    """An ONNX file with samples to calibrate with and to run."""

    model: Path
    calibration: Path
    samples: Path
    shape: tuple[int, ...]


def networks() -> list[Network]:
    """LeNet, and ResNet-8 if it is there."""
    mnist = [EXAMPLES / f"mnist_{part}.npz" for part in ("calibration", "test")]
    found = [Network(EXAMPLES / "lenet_mnist.onnx", *mnist, (1, 28, 28))]
    folder = models_folder()
    if folder:
        cifar = [folder / "data" / f"cifar10_{part}.npz" for part in ("train_calib", "test_shared")]
        found.append(Network(folder / "models" / "resnet8_cifar10.onnx", *cifar, (3, 32, 32)))
    return [network for network in found if network.model.exists()]


def measure(network: Network, accelerator: str, target: str, count: int) -> list[str]:
    """One row of the table; an exception if the board's result is not the emulator's."""
    calibration = load_samples(network.calibration, network.shape, 64).x
    program = bfpga.compile(network.model, accelerator, calibration)
    x = input_arrays(program, load_samples(network.samples, network.shape, count).x)
    expected = Emulator(program).run(x)
    with load(store_overlay(load_accelerator(accelerator)), target) as overlay:
        device = overlay.open(program)
        begun = perf_counter()
        result = device.run(x)
        seconds = perf_counter() - begun
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(result.outputs[name], value)
    if result.cycles != expected.cycles:
        raise SystemExit(f"{network.model.stem}: {result.cycles} clocks on {target}, {expected.cycles} in the emulator")
    parts = [f"{1e3 * result.seconds[part] / result.samples:.3f}" for part in PARTS]
    per_sample = [f"{result.cycles // result.samples:,}", f"{1e3 * seconds / result.samples:.2f}"]
    return [network.model.stem, accelerator, target, str(result.samples), *per_sample, *parts]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--samples", type=int, default=100, help="samples of each run (100)")
    parser.add_argument("--target", choices=TARGETS, action="append", help="targets (both)")
    arguments = parser.parse_args(given)
    head = ["network", "accelerator", "target", "samples", "clocks", "ms", *PARTS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    print("bit-equal to the emulator in all outputs and in clocks; clocks and ms a sample", file=sys.stderr)
    print("\n".join(lines), flush=True)
    for network in networks():
        for accelerator in ACCELERATORS:
            for target in arguments.target or TARGETS:
                lines.append("| " + " | ".join(measure(network, accelerator, target, arguments.samples)) + " |")
                print(lines[-1], flush=True)
    write_file(arguments.markdown, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
