"""Networks on accelerators that skip zeros against the dense array: clocks, bits, emulation.

    BFPGA_MODELS=FOLDER python -m benchmarks.compiler.sparse_networks [--network NAME ...] [--accelerator NAME ...]
        [--baseline NAME] [--samples N] [--markdown FILE]

Clocks are those of one sample by the schedule; accelerators whose clock differs are compared in milliseconds. Compiled
C++ must count the emulator's work of every layer and give the same bits for the first sample.
``emulation``: images a second of the emulator over those on the baseline, interleaved in one run. Ends with an error if
outputs differ between accelerators that compute with the same integers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.kernels import check_kernel
from benchmarks.common.networks import NETWORKS, Float32Array, network_samples
from benchmarks.common.report import finish
from benchmarks.common.timing import medians
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.emulator import Emulator
from bfpga.program.cycles import program_cycles

#: The emulator's speed is measured on samples of about this many multiply-accumulates, so often.
SPEED_MACS, REPEATS = 2e9, 5


@dataclass
class Measured:
    """A network on one accelerator."""

    accelerator: str
    program: Program
    result: DeviceResult
    emulate: Callable[[], object]

    @property
    def cycles(self) -> int:
        return program_cycles(self.program).scheduled()

    @property
    def milliseconds(self) -> float:
        return self.cycles / self.program.clock_mhz / 1e3

    def nodes(self) -> dict[str, ArrayNode]:
        return {node.name: node for node in self.program.nodes if isinstance(node, ArrayNode)}


def measure(model: Path, accelerator: str, x: Float32Array, calibration: Float32Array) -> Measured:
    """Compile, run on the emulator, and run the first sample on compiled C++."""
    program = bfpga.compile(model, accelerator, calibration)
    name = next(iter(program.inputs))
    emulator = Emulator(program)
    result = emulator.run({name: x})
    check_kernel(program, {name: x[:1]})
    macs = sum(layer.macs for layer in result.layers) / len(x)
    some = {name: x[: max(1, int(SPEED_MACS / macs))]}
    return Measured(accelerator, program, result, partial(emulator.run, some))


def totals(name: str, baseline: Measured, others: list[Measured]) -> list[str]:
    """One line for each accelerator."""
    lines = []
    times = medians({item.accelerator: item.emulate for item in (baseline, *others)}, REPEATS)
    for item in (baseline, *others):
        lines.append(
            f"| {name} | {item.accelerator} | {item.program.clock_mhz:.0f} | {item.cycles:,} | "
            f"{baseline.cycles / item.cycles:.2f} | {item.milliseconds:.3f} | "
            f"{baseline.milliseconds / item.milliseconds:.2f} | {agreement(baseline, item)} | "
            f"{times[baseline.accelerator] / times[item.accelerator]:.2f} |"
        )
    return lines


def agreement(baseline: Measured, item: Measured) -> str:
    """Whether the outputs are the same bits; a difference is an error where all integers of the layers agree."""
    same = all(np.array_equal(values, item.result.outputs[name]) for name, values in baseline.result.outputs.items())
    if same:
        return "same bits"
    ours, theirs = baseline.nodes(), item.nodes()
    if ours.keys() != theirs.keys():
        return f"{len(ours.keys() ^ theirs.keys())} layers on the host of one of them"
    parts = ("weights", "weight_exponents", "bias", "bias_exponent", "policy")
    differing = [
        name for name in ours
        if any(not np.array_equal(getattr(ours[name], part), getattr(theirs[name], part)) for part in parts)
    ]  # fmt: skip
    if not differing:
        raise SystemExit(f"{item.accelerator}: other outputs than {baseline.accelerator} with the same integers")
    return f"other integers in {len(differing)} layers"


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--network", nargs="+", default=["lenet_mnist_pruned90", "resnet8_cifar10"])
    parser.add_argument("--accelerator", nargs="+", default=["pynq_z2_zero_skip", "pynq_z2_sparse"])
    parser.add_argument("--baseline", default="pynq_z2_dense")
    parser.add_argument("--samples", type=int, default=16)
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    lines = [
        "| network | accelerator | MHz | clocks | times fewer | ms | times faster | outputs | emulation |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for network in (network for network in NETWORKS if network.name in arguments.network):
        model = folder / "models" / f"{network.name}.onnx"
        x, calibration = network_samples(network, folder, model)
        run = partial(measure, model, x=x[: arguments.samples], calibration=calibration)
        baseline = run(arguments.baseline)
        others = [run(accelerator) for accelerator in arguments.accelerator]
        lines += totals(network.name, baseline, others)
    text = "\n".join(lines) + "\n"
    return finish(text, arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
