"""Pruned networks on accelerators with sparse engines against the dense array: clocks of layers, bits, emulation.

    BFPGA_MODELS=FOLDER python -m benchmarks.compiler.sparse_networks [--network NAME ...] [--accelerator NAME ...]
        [--baseline NAME] [--samples N] [--layers] [--markdown FILE]

Clocks are those of one sample with everything a kernel does, counted by the emulator's model on N real samples; the
first sample runs on compiled C++, which must count the same for every layer and give the same bits. Accelerators whose
clock differs are compared in milliseconds. ``emulation``: images a second of the emulator over those on the baseline,
interleaved in one run. Ends with an error if outputs differ between accelerators.
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
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.emulator import Emulator
from bfpga.program.cycles import program_cycles

#: The emulator's speed is measured on samples of about this many multiply-accumulates, so often.
SPEED_MACS, REPEATS = 2e9, 5


@dataclass
class Measured:
    """A network on one accelerator.

    layers, computing: clocks of one sample by layer name, mean of the samples, and those of them that compute. alone:
    clocks of one sample if the array of the same kernel computes everything.
    """

    accelerator: str
    program: Program
    result: DeviceResult
    layers: dict[str, float]
    computing: dict[str, float]
    alone: int
    work: dict[str, Callable[[], object]]

    @property
    def cycles(self) -> float:
        return sum(self.layers.values())

    @property
    def milliseconds(self) -> float:
        return self.cycles / self.program.clock_mhz / 1e3

    def nodes(self) -> dict[str, ArrayNode]:
        return {node.name: node for node in self.program.nodes if isinstance(node, ArrayNode)}


def measure(model: Path, accelerator: str, engine: str, x: Float32Array, calibration: Float32Array) -> Measured:
    """Compile, run on the emulator, and run the first sample on compiled C++."""
    program = bfpga.compile(model, accelerator, calibration, CompileOptions(engine=engine))  # type: ignore[arg-type]
    name = next(iter(program.inputs))
    emulator = Emulator(program)
    result = emulator.run({name: x})
    layers = {layer.name: layer.cycles / len(x) for layer in result.layers if layer.engine != "host"}
    # Only computing depends on the data.
    moves = {key: count.total - count.compute for key, count in emulator.cycles.layers.items()}
    computing = {key: clocks - moves[key] for key, clocks in layers.items()}
    of_array = bfpga.compile(model, accelerator, calibration, CompileOptions(engine="systolic_array"))
    check_kernel(program, {name: x[:1]})
    macs = sum(layer.macs for layer in result.layers) / len(x)
    data = {name: x[: max(1, int(SPEED_MACS / macs))]}
    work: dict[str, Callable[[], object]] = {"emulator": partial(emulator.run, data)}
    return Measured(
        accelerator + ("" if engine == "auto" else f", {engine}"),
        program,
        result,
        layers,
        computing,
        program_cycles(of_array).dma_inclusive,
        work,
    )


def layer_table(name: str, baseline: Measured, others: list[Measured]) -> list[str]:
    """Layers that another engine than the array computes somewhere, and the sum of all others."""
    title = "| layer | zeros |" + f" {baseline.accelerator} |"
    lines = [title + "".join(f" {other.accelerator} | engine | times |" for other in others),
             "|---|---|---|" + "---|---|---|" * len(others)]  # fmt: skip
    rest = [0.0] * (1 + len(others))
    for layer, clocks in baseline.layers.items():
        nodes = [other.nodes().get(layer) for other in others]
        if not any(node is not None and node.engine != "systolic_array" for node in nodes):
            rest = [sum(pair) for pair in zip(rest, [clocks, *(other.layers[layer] for other in others)], strict=True)]
            continue
        weights = baseline.nodes()[layer].weights
        assert weights is not None
        line = f"| {layer} | {100 * (1 - np.count_nonzero(weights) / weights.size):.0f} % | "
        line += f"{clocks:,.0f} ({baseline.computing[layer]:,.0f}) |"
        for other, node in zip(others, nodes, strict=True):
            assert node is not None
            ratios = clocks / other.layers[layer], baseline.computing[layer] / other.computing[layer]
            line += f" {other.layers[layer]:,.0f} ({other.computing[layer]:,.0f}) | {node.engine} | "
            line += f"{ratios[0]:.2f} ({ratios[1]:.2f}) |"
        lines.append(line)
    shown = [f" {clocks:,.0f} | | {rest[0] / max(clocks, 1):.2f} |" for clocks in rest[1:]]
    return [
        f"{name}: clocks of layers (of them computing)",
        "",
        *lines,
        f"| all other layers | | {rest[0]:,.0f} |" + "".join(shown),
        "",
    ]


def totals(name: str, baseline: Measured, others: list[Measured]) -> list[str]:
    """One line for each accelerator."""
    lines = []
    found = {
        kind: medians({item.accelerator: item.work[kind] for item in (baseline, *others)}, REPEATS)
        for kind in baseline.work
    }
    for item in (baseline, *others):
        beside = sum(node.engine != "systolic_array" for node in item.nodes().values())
        speeds = [times[baseline.accelerator] / times[item.accelerator] for times in found.values()]
        lines.append(
            f"| {name} | {item.accelerator} | {item.program.clock_mhz:.0f} | {beside} | {item.cycles:,.0f} | "
            f"{baseline.cycles / item.cycles:.2f} | {item.milliseconds:.3f} | "
            f"{baseline.milliseconds / item.milliseconds:.2f} | {item.alone:,} | {agreement(baseline, item)} | "
            f"{speeds[0]:.2f} |"
        )
    return lines


def agreement(baseline: Measured, item: Measured) -> str:
    """Whether the outputs are the same bits; a difference is an error where all integers of the layers agree."""
    same = all(np.array_equal(values, item.result.outputs[name]) for name, values in baseline.result.outputs.items())
    if same:
        return "same bits"
    ours, theirs = baseline.nodes(), item.nodes()
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
    parser.add_argument("--network", nargs="+", default=["lenet_mnist_pruned90", "squeezenet_dc_sparse"])
    parser.add_argument("--accelerator", nargs="+", default=["zcu104_hetero_loop", "pynq_z2_zero_skip_loop"])
    parser.add_argument("--baseline", default="pynq_z2_dense")
    parser.add_argument("--engine", default="auto", help="engine that layers ask for on the other accelerators")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--layers", action="store_true", help="print layers too")
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    lines = [
        "| network | accelerator | MHz | layers beside the array | clocks | times fewer | ms | times faster | "
        "its array alone, clocks | outputs | emulation |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    details = []
    for network in (network for network in NETWORKS if network.name in arguments.network):
        model = folder / "models" / f"{network.name}.onnx"
        x, calibration = network_samples(network, folder, model)
        run = partial(measure, model, x=x[: arguments.samples], calibration=calibration)
        baseline = run(arguments.baseline, "auto")
        others = [run(accelerator, arguments.engine) for accelerator in arguments.accelerator]
        lines += totals(network.name, baseline, others)
        details += layer_table(network.name, baseline, others) if arguments.layers else []
    text = "\n".join([*lines, "", *details]) + "\n"
    return finish(text, arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
