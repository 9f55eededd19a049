"""Random zero-skip engines, layers that they take, and choices that change their clocks and no bit."""

from __future__ import annotations

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import KernelOperation
from bfpga.engines.beside.engine import RandomCases, WindowLimits
from bfpga.engines.beside.random_cases import LOAD_PIXELS, random_kernels
from bfpga.engines.zero_skip.cycles import ORDERS, zero_skip_clocks
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.formats.arrays import IntArray

#: Most kernels in flight.
MOST_KERNELS = 255


def random_numbers(rng: np.random.Generator, config: SystolicConfig) -> ZeroSkipNumbers:
    """Tiles of few outputs, steps shorter and longer than the latency of a sum."""
    packed = config.format.mantissa_bits <= 8
    return ZeroSkipNumbers(
        tile_height=int(rng.choice([2, 3, 4, 6, 9])),
        tile_width=int(rng.choice([2, 3, 5, 8, 14])),
        lanes=config.columns + int(rng.choice([0, 0, 1, 2, 5])),
        rows_parallel=int(rng.choice([1, 1, 2])),
        kernels_in_flight=random_kernels(rng, config, MOST_KERNELS),
        kernel_height=int(rng.choice([1, 2, 3, 3, 4, 5])),
        kernel_width=int(rng.choice([1, 2, 3, 3, 4, 5])),
        stride=int(rng.choice([1, 2, 2, 3])),
        multiplier=str(rng.choice(["dsp", "dsp_packed", "lut"] if packed else ["dsp", "lut"])),  # type: ignore[arg-type]
        load_pixels=int(rng.choice(LOAD_PIXELS)),
    )


def windows(config: SystolicConfig) -> WindowLimits:
    """Kernels and strides that the engine takes."""
    build = config.numbers_of(ZeroSkipNumbers)
    strides = tuple(stride for stride in (1, 2, 3) if stride <= build.stride)
    return WindowLimits(build.kernel_height, build.kernel_width, strides)


def vary(config: SystolicConfig, operation: KernelOperation, weights: IntArray, density: float, draw: int) -> None:
    """Another order of the entries."""
    operation.descriptor.entry_order = draw % len(ORDERS)
    operation.clocks = zero_skip_clocks(config, operation.descriptor, weights)


RANDOM = RandomCases(random_numbers, windows, vary)
