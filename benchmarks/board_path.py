"""Whole networks through the board path: PYNQ on virtual boards, compared bit by bit with the emulator.

    [BFPGA_MODELS=FOLDER] python benchmarks/board_path.py [--samples 100] [--target virtual] [--markdown FILE]

The networks are the shipped LeNet and, where FOLDER has it, ResNet-8, on a Zynq-7000 and on a Zynq UltraScale+. Times
are those of this machine: the kernel is compiled C++, not hardware. Ends with an error if a bit or a clock differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.board.load import load
from bfpga.board.overlays import store_overlay
from bfpga.data import load_samples
from bfpga.devices.emulator import Emulator
from bfpga.runtime import input_arrays

EXAMPLES = Path(__file__).parent.parent / "examples" / "models"
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
    folder = os.environ.get("BFPGA_MODELS")
    if folder:
        cifar = [Path(folder) / "data" / f"cifar10_{part}.npz" for part in ("train_calib", "test_shared")]
        found.append(Network(Path(folder) / "models" / "resnet8_cifar10.onnx", *cifar, (3, 32, 32)))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100, help="samples of each run (100)")
    parser.add_argument("--target", choices=TARGETS, action="append", help="targets (both)")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    head = ["network", "accelerator", "target", "samples", "clocks", "ms", *PARTS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    print("bit-equal to the emulator in all outputs and in clocks; clocks and ms a sample", file=sys.stderr)
    print("\n".join(lines), flush=True)
    for network in networks():
        for accelerator in ACCELERATORS:
            for target in options.target or TARGETS:
                lines.append("| " + " | ".join(measure(network, accelerator, target, options.samples)) + " |")
                print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
