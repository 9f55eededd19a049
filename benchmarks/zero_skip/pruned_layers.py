"""Counted clocks of pruned layers on the zero-skip engine against the same engine without skipping.

    python -m benchmarks.zero_skip.pruned_layers [--height N] [--channels N] [--kernels N] [--kernel N]
        [--markdown FILE]

The default layer is that of the specification (section 6.2): 56x56, 16 images, 16 kernels of 3x3, exact shares of zeros
at random places. `with loads`: sum of max(compute, load) over all images, as the C++ counts it. The last speed-ups hold
the first load, the pipeline of every image and an output that nothing hides as well: results of 8 bits, sums of 32.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.common.command import command
from benchmarks.common.report import finish
from bfpga.engines.zero_skip.arithmetic import ZeroSkipConfig, ZeroSkipShape
from bfpga.engines.zero_skip.counters import count_layer
from bfpga.formats.arrays import IntArray

ZEROS = (0, 50, 80, 90, 95)
IN_FLIGHT = (16, 4, 1)


def pruned(shape: ZeroSkipShape, percent: int) -> IntArray:
    """Coefficients with that share of zeros, rounded down to whole coefficients."""
    numbers = np.random.default_rng(1)
    size = shape.images * shape.kernels * shape.kernel_height * shape.kernel_width
    flat = numbers.integers(1, 128, size)
    flat[: size * percent // 100] = 0
    return numbers.permutation(flat).reshape(shape.images, shape.kernels, shape.kernel_height, shape.kernel_width)


def speed_up(config: ZeroSkipConfig, shape: ZeroSkipShape, coefficients: IntArray) -> str:
    """Of all clocks of the layer."""
    dense = count_layer(replace(config, skip_zero=False), shape, coefficients)
    return f"{dense.cycles / count_layer(config, shape, coefficients).cycles:.2f}"


def row(config: ZeroSkipConfig, shape: ZeroSkipShape, percent: int) -> str:
    """One line of the table."""
    coefficients = pruned(shape, percent)
    ideal = coefficients.size / max(1, np.count_nonzero(coefficients))
    sparse = count_layer(config, shape, coefficients)
    dense = count_layer(replace(config, skip_zero=False), shape, coefficients)
    whole = [speed_up(replace(config, output_bytes=size), shape, coefficients) for size in (1, 4)]
    return (
        f"| {config.kernels_in_flight} | {percent} % | {ideal:.2f} | {dense.total_cycles:,} | "
        f"{sparse.total_cycles:,} | {dense.total_cycles / sparse.total_cycles:.2f} | {' | '.join(whole)} | "
        f"{sparse.load_words:,} | {sparse.hazard_stalls:,} |"
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--height", type=int, default=56, help="rows and columns of the images")
    parser.add_argument("--channels", type=int, default=16, help="images")
    parser.add_argument("--kernels", type=int, default=16)
    parser.add_argument("--kernel", type=int, default=3, help="rows and columns of the kernels")
    arguments = parser.parse_args(given)
    side, pad = arguments.kernel, arguments.kernel // 2
    shape = ZeroSkipShape(
        arguments.channels, arguments.kernels, side, side, arguments.height, arguments.height, (pad, pad, pad, pad)
    )
    lines = [
        "| kernels in flight | zeros | ideal | cycles, all coefficients | cycles, skipping | speed-up with loads | "
        "all clocks, 8-bit results | all clocks, 32-bit sums | input cells | stalls |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for in_flight in IN_FLIGHT:
        config = ZeroSkipConfig(kernels_in_flight=in_flight)
        lines += [row(config, shape, percent) for percent in ZEROS]
    text = "\n".join(lines) + "\n"
    return finish(text, arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
