"""The sparse cluster of a kernel on the maps of table 6.4: its own partition beside the host's exchange.

    python -m benchmarks.sparse_cluster.kernel [--accumulator-words N ...] [--lanes N] [--samples N] [--markdown FILE]

Object maps of 56 x 56, 8 units of 9 multipliers, kernels of 3 x 3 without zeros. First one map: rounds of a dense array
with as many multipliers over those of the busiest unit, which ``speedups.py`` counts too. Then a layer of 16 channels
to 16 kernels on compiled C++: the clocks in which as many multipliers compute all products without a pause, over all
clocks of its operation with partition, feed and drain. A piece of nominal size takes 66 accumulator words; units meet
after every word of N lanes. Ends with an error if the C++ counts otherwise than the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.common.command import command
from benchmarks.common.kernels import recorded_device
from benchmarks.common.layers import layer_program
from benchmarks.common.maps import map_of
from benchmarks.common.report import finish
from benchmarks.sparse_cluster.balance import WAYS, clocks_by_way, exchanged_loads
from benchmarks.sparse_cluster.speedups import CLUSTER_TABLE
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import KernelOperation, LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.values import Values
from bfpga.engines.sparse_cluster.cycles import ClusterOperation
from bfpga.engines.sparse_cluster.descriptors import count_step
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.formats.arrays import Int64Array, IntArray

SIDE, CHANNELS, KERNELS = 56, 16, 16


def object_maps(density: float, channels: int, samples: int, seed: int = 5) -> IntArray:
    """1 where a map is not zero (samples, channels, rows, columns); the first one is that of ``speedups.py``."""
    generator = np.random.default_rng(seed)
    maps = [map_of("object", SIDE, SIDE, density, generator) for _ in range(samples * channels)]
    return np.stack(maps).reshape(samples, channels, SIDE, SIDE).astype(np.int64)


def weights_of(channels: int, kernels: int) -> IntArray:
    return np.random.default_rng(1).integers(64, 128, (kernels, channels, 3, 3))


def strips(program: Program) -> list[KernelOperation]:
    """Operations of the sparse cluster."""
    operations = [item for step in program.steps if isinstance(step, LaunchStep) for item in step.operations]
    return [item for item in operations if item.descriptor.operation == Operation.SPARSE]


def counted_by_kernel(program: Program, x: IntArray, count_step: int) -> Int64Array:
    """Clocks that compiled C++ counts of each sample with this ``count_step``; ends if the emulator differs."""
    for operation in strips(program):
        operation.descriptor.count_step = count_step
    device, kernel = recorded_device(program)
    emulator, clocks = Emulator(program), []
    for number in range(len(x)):
        kernel.computing.clear()
        sample = {"x": x[number : number + 1].astype(np.float32)}
        found, expected = device.run(sample), emulator.run(sample)
        if found.cycles != expected.cycles:
            raise SystemExit(f"the kernel counts {found.cycles} clocks, the emulator {expected.cycles}")
        if not np.array_equal(found.outputs["y"], expected.outputs["y"]):
            raise SystemExit("the kernel and the emulator differ")
        clocks.append(kernel.computing["layer"])
    device.close()
    return np.array(clocks)


def single_maps(config: SystolicConfig) -> list[str]:
    """Rounds of one map: dense over the busiest unit's, with every partition."""
    build = config.numbers_of(ClusterNumbers)
    dense = -(-9 * SIDE * SIDE // build.multipliers)
    lines = []
    for zeros, _, equal, balanced in CLUSTER_TABLE:
        x = object_maps(1 - zeros, 1, 1)
        program = layer_program(config, "sparse_cluster", weights_of(1, 8), x.astype(np.float32))
        descriptor = strips(program)[0].descriptor
        marks, count = x.transpose(0, 2, 3, 1), int(x.sum())
        weights = weights_of(1, 8).transpose(0, 2, 3, 1)
        busiest = {
            step: float(ClusterOperation(config, replace(descriptor, count_step=step), weights).balance(marks)[0])
            for step in (0, 1)
        }
        exchange = exchanged_loads(build, marks[0], (3, 3), np.array([0])).max()
        speedups = [dense * build.units / (count * value) for value in busiest.values()] + [dense / exchange]
        lines.append(
            f"| {build.accumulator_words} | {x.mean():.3f} |" + "".join(f" {speedup:.2f} |" for speedup in speedups)
            + f" {1 / x.mean():.2f} | {equal:.2f}, {balanced:.2f} |"
        )  # fmt: skip
    return lines


def layers(config: SystolicConfig, samples: int) -> list[str]:
    """All clocks of a layer: speed-up over as many multipliers that never pause."""
    build = config.numbers_of(ClusterNumbers)
    dense = 9 * SIDE * SIDE * CHANNELS * KERNELS / build.multipliers
    lines = []
    for zeros, *_ in CLUSTER_TABLE:
        x = object_maps(1 - zeros, CHANNELS, samples)
        program = layer_program(config, "sparse_cluster", weights_of(CHANNELS, KERNELS), x.astype(np.float32))
        operations = strips(program)
        if len(operations) != 1:
            raise SystemExit(f"the layer takes {len(operations)} strips; its clocks are compared for one")
        descriptor = replace(operations[0].descriptor)
        mantissas = Values(program, {"x": x.astype(np.float32)}).on_array(program.nodes[0].inputs[0]).mantissa
        weights = weights_of(CHANNELS, KERNELS).transpose(0, 2, 3, 1)
        clocks = clocks_by_way(config, descriptor, weights, mantissas)
        for way, step in (("equal", 0), ("counted", count_step(build, descriptor.channel_words))):
            if not np.array_equal(counted_by_kernel(program, x, step), clocks[way]):
                raise SystemExit(f"{way}: compiled C++ counts other clocks than the model")
        lines.append(
            f"| {build.accumulator_words} | {x.mean():.3f} |"
            + "".join(f" {dense / clocks[way].mean():.2f} |" for way in WAYS) + f" {1 / x.mean():.2f} |"
        )  # fmt: skip
    return lines


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--accumulator-words", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--samples", type=int, default=4)
    arguments = parser.parse_args(given)
    configs = [
        SystolicConfig(
            columns=9, rows=8, lanes=arguments.lanes, activation_words=8192,
            beside=(ClusterNumbers(accumulator_words=words, memory_words=2 * words),),
        )
        for words in arguments.accumulator_words
    ]  # fmt: skip
    lines = [
        "| words | density | equal pieces | limits in the kernel | host's exchange | ideal | specified |",
        "|---|---|---|---|---|---|---|",
        *(line for config in configs for line in single_maps(config)),
        "",
        "| words | density |" + "".join(f" {way} |" for way in WAYS) + " 1 / density |",
        "|---|---|" + "---|" * (len(WAYS) + 1),
        *(line for config in configs for line in layers(config, arguments.samples)),
    ]
    text = "\n".join(lines) + "\n"
    return finish(text, arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
