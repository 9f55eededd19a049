"""Random sparse clusters, layers that they take, and choices that change their clocks and no bit."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import KernelOperation
from bfpga.engines.beside.engine import RandomCases, WindowLimits
from bfpga.engines.beside.random_cases import LOAD_PIXELS, random_kernels
from bfpga.engines.sparse_cluster.cycles import ClusterOperation
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.formats.arrays import IntArray

#: Most kernels in flight.
MOST_KERNELS = 64


def random_numbers(rng: np.random.Generator, config: SystolicConfig) -> ClusterNumbers:
    """One unit to a dozen, with room for pieces of a few cells or for whole maps."""
    sides = [side for side in range(1, 6) if side * side <= config.columns]
    return ClusterNumbers(
        grid_rows=int(rng.integers(1, 4)),
        grid_columns=int(rng.integers(1, 5)),
        kernel=int(rng.choice(sides[-2:])),
        kernels_in_flight=random_kernels(rng, config, MOST_KERNELS),
        accumulator_words=int(rng.choice([4, 8, 16, 32, 64])),
        memory_words=int(rng.choice([4, 8, 16, 32, 64])),
        multiplier=str(rng.choice(["dsp", "lut"])),  # type: ignore[arg-type]
        load_pixels=int(rng.choice(LOAD_PIXELS)),
    )


def wide_array(rng: np.random.Generator, config: SystolicConfig) -> SystolicConfig:
    """Mostly with enough ports for blocks of 3 x 3 to 5 x 5 outputs."""
    if rng.random() < 0.7:
        return replace(config, columns=config.shift_columns + int(rng.choice([9, 9, 10, 12, 16, 25])))
    return config


def windows(config: SystolicConfig) -> WindowLimits:
    """Kernels and strides that the engine takes."""
    kernel = config.numbers_of(ClusterNumbers).kernel
    return WindowLimits(kernel, kernel, tuple(stride for stride in (1, 2, 3, 4) if gcd(stride, kernel) == 1))


def vary(config: SystolicConfig, operation: KernelOperation, weights: IntArray, density: float, draw: int) -> None:
    """Another number of channel words that are counted."""
    descriptor = operation.descriptor
    descriptor.count_step = draw % (descriptor.channel_words + 1)
    operation.clocks = ClusterOperation(config, descriptor, weights).expected(density)


RANDOM = RandomCases(random_numbers, windows, vary, wide_array)
