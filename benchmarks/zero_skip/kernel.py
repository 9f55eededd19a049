"""Clocks that compiled C++ counts of pruned layers on the zero-skip engine, against the same engine without skipping.

    python -m benchmarks.zero_skip.kernel [--markdown FILE]

The layer of the specification (section 6.2): 56x56, 16 images, 16 kernels of 3x3, tiles of 32x32, 32 lanes, 8 cells a
clock, exact shares of zeros at random places. Of the core alone (tests/cpp/zero_skip.cpp): the clocks of its entries
with their stalls, and the sum of max(compute, load). Ends with 1 if the core misses a goal, or if its model counts
otherwise than the C++.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.report import finish
from benchmarks.zero_skip.pruned_layers import pruned
from bfpga.engines.zero_skip.arithmetic import ZeroSkipConfig, ZeroSkipShape
from bfpga.engines.zero_skip.counters import count_layer
from bfpga.formats.arrays import IntArray

sys.path.insert(0, str(TEST_SUPPORT))
from zero_skip_cases import Case
from zero_skip_cpp import find, run_layer

#: Speed-up that the core must reach at a share of zeros.
GOALS = {50: 1.95, 80: 4.8, 90: 9.5, 95: 18.0}
SHAPE = ZeroSkipShape(16, 16, 3, 3, 56, 56, (1, 1, 1, 1))
CORE = ZeroSkipConfig(row_banks=2)


@dataclass(frozen=True)
class Clocks:
    """Entries with their stalls; the longer of that and the loads, all loads together."""

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


def main(given: Sequence[str] | None = None) -> int:
    arguments = command(__doc__, "--markdown").parse_args(given)
    images = np.random.default_rng(2).integers(-128, 128, (SHAPE.images, SHAPE.height, SHAPE.width))
    full = np.where(pruned(SHAPE, 0) < 64, 127, pruned(SHAPE, 0))
    dense = counted_core(images, full, skip_zero=False)
    lines = [
        "| zeros | goal | entries and stalls | speed-up | with loads | speed-up |",
        "|---|---|---|---|---|---|",
        f"| not skipped | | {dense.compute:,} | | {dense.with_loads:,} | |",
    ]
    missed = []
    for percent, goal in GOALS.items():
        core = counted_core(images, np.where(pruned(SHAPE, percent) != 0, full, 0), skip_zero=True)
        speedups = dense.compute / core.compute, dense.with_loads / core.with_loads
        missed += [f"{percent} %: {speedups[1]:.2f}, at least {goal}"] if speedups[1] < goal else []
        lines.append(
            f"| {percent} % | {goal} | {core.compute:,} | {speedups[0]:.2f} | {core.with_loads:,} | {speedups[1]:.2f} |"
        )
    text = "\n".join(lines) + "\n"
    return finish(text, arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
