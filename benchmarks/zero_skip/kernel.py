"""Clocks that compiled C++ counts of pruned layers on the zero-skip engine, against the same engine without skipping.

    python -m benchmarks.zero_skip.kernel [--columns N ...] [--markdown FILE]

The layer of the specification (section 6.2): 56x56, 16 images, 16 kernels of 3x3, tiles of 32x32, 32 lanes, 8 cells a
clock, exact shares of zeros at random places. First the core alone (tests/cpp/zero_skip.cpp): the clocks of its entries
with their stalls, and the sum of max(compute, load). Then the operations of a whole kernel that has the engine beside
an array of N columns, which are the ports of the output: with first loads, pipelines that empty, and the results, 8
bits each. Ends with 1 if the core misses a goal, or if a model counts otherwise than the C++.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.kernels import recorded_device
from benchmarks.common.layers import layer_program
from benchmarks.common.report import finish
from benchmarks.zero_skip.pruned_layers import pruned
from bfpga.contract.configuration import SystolicConfig
from bfpga.devices.emulator import Emulator
from bfpga.engines.zero_skip.arithmetic import ZeroSkipConfig, ZeroSkipShape
from bfpga.engines.zero_skip.counters import count_layer
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.formats.arrays import IntArray

sys.path.insert(0, str(TEST_SUPPORT))
from zero_skip_cases import Case
from zero_skip_cpp import find, run_layer

#: Speed-up that the core must reach at a share of zeros.
GOALS = {50: 1.95, 80: 4.8, 90: 9.5, 95: 18.0}
SHAPE = ZeroSkipShape(16, 16, 3, 3, 56, 56, (1, 1, 1, 1))
CORE = ZeroSkipConfig(row_banks=2)
BUILD = ZeroSkipNumbers(stride=1)


@dataclass(frozen=True)
class Clocks:
    """Of the core: entries with their stalls, the longer of that and the loads. Of the operations: all."""

    compute: int
    with_loads: int


def counted_core(images: IntArray, coefficients: IntArray, skip_zero: bool) -> Clocks:
    """What the loops of the C++ core count; ends the program if the numpy model counts otherwise."""
    config = replace(CORE, skip_zero=skip_zero)
    number = find("native", lanes=CORE.lanes, tile_height=CORE.tile_height, kernels_in_flight=CORE.kernels_in_flight)
    counters = run_layer("native", number, Case(config, SHAPE, images, coefficients)).counters
    model = count_layer(config, SHAPE, coefficients)
    for name in ("compute_cycles", "total_cycles", "hazard_stalls"):
        if counters[name] != getattr(model, name):
            raise SystemExit(f"{name}: the C++ core counts {counters[name]}, the model {getattr(model, name)}")
    return Clocks(counters["compute_cycles"], counters["total_cycles"])


def counted_operations(config: SystolicConfig, coefficients: IntArray, x: np.ndarray) -> int:
    """Clocks of the layer's operations on the compiled kernel; ends the program if the emulator counts otherwise."""
    program = layer_program(config, "zero_skip", coefficients.transpose(1, 0, 2, 3), x)
    device, kernel = recorded_device(program)
    emulator = Emulator(program)
    found, expected = device.run({"x": x}), emulator.run({"x": x})
    device.close()
    model = emulator.cycles.layers["layer"].compute
    if kernel.computing["layer"] != model or found.cycles != expected.cycles:
        raise SystemExit(f"the kernel counts {kernel.computing['layer']} clocks, the emulator {model}")
    if not np.array_equal(found.outputs["y"], expected.outputs["y"]):
        raise SystemExit("the kernel and the emulator differ")
    return kernel.computing["layer"]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--columns", type=int, nargs="+", default=[12, 32], help="ports of the output")
    arguments = parser.parse_args(given)
    generator = np.random.default_rng(2)
    x = generator.uniform(-1, 1, (1, SHAPE.images, SHAPE.height, SHAPE.width)).astype(np.float32)
    images = generator.integers(-128, 128, (SHAPE.images, SHAPE.height, SHAPE.width))
    configs = [
        SystolicConfig(columns=columns, rows=4, activation_words=8192, beside=(BUILD,)) for columns in arguments.columns
    ]
    full = np.where(pruned(SHAPE, 0) < 64, 127, pruned(SHAPE, 0))
    dense_core = counted_core(images, full, skip_zero=False)
    dense_operations = [counted_operations(config, full, x) for config in configs]
    lines = [
        "| zeros | goal | core, entries and stalls | speed-up | with loads | speed-up |"
        + "".join(f" whole operations, {columns} ports | speed-up |" for columns in arguments.columns),
        "|---|---|---|---|---|---|" + "---|---|" * len(configs),
        f"| not skipped | | {dense_core.compute:,} | | {dense_core.with_loads:,} | |"
        + "".join(f" {clocks:,} | |" for clocks in dense_operations),
    ]
    missed = []
    for percent, goal in GOALS.items():
        coefficients = np.where(pruned(SHAPE, percent) != 0, full, 0)
        core = counted_core(images, coefficients, skip_zero=True)
        speedups = dense_core.compute / core.compute, dense_core.with_loads / core.with_loads
        missed += [f"{percent} %: {speedups[1]:.2f}, at least {goal}"] if speedups[1] < goal else []
        line = (
            f"| {percent} % | {goal} | {core.compute:,} | {speedups[0]:.2f} | {core.with_loads:,} | {speedups[1]:.2f} |"
        )
        for config, dense in zip(configs, dense_operations, strict=True):
            clocks = counted_operations(config, coefficients, x)
            line += f" {clocks:,} | {dense / clocks:.2f} |"
        lines.append(line)
    text = "\n".join(lines) + "\n"
    return finish(text, arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
