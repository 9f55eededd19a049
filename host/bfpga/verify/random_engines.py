"""Random engines beside an array: builds so small that layers take several tiles, strips and groups of kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.accelerator.constraints import config_findings
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import OPERAND_BITS, SUM_BITS, ClusterBuild, EngineName, ZeroSkipBuild

Generator = np.random.Generator
#: Builds drawn for one array until its numbers fit each other.
ATTEMPTS = 20
#: Most kernels in flight that an engine may have.
MOST_KERNELS: dict[EngineName, int] = {"zero_skip": 255, "sparse_cluster": 64}


def random_kernels(rng: Generator, config: SystolicConfig, most: int) -> int:
    """Kernels in flight: so few that layers take several groups, rarely as many as possible."""
    words = most // config.lanes if rng.random() < 0.1 else int(rng.integers(1, 8))
    return config.lanes * words


def random_zero_skip(rng: Generator, config: SystolicConfig) -> ZeroSkipBuild:
    """Tiles of few outputs, steps shorter and longer than the latency of a sum."""
    packed = config.format.mantissa_bits <= 8
    return ZeroSkipBuild(
        tile_height=int(rng.choice([2, 3, 4, 6, 9])),
        tile_width=int(rng.choice([2, 3, 5, 8, 14])),
        lanes=config.columns + int(rng.choice([0, 0, 1, 2, 5])),
        rows_parallel=int(rng.choice([1, 1, 2])),
        kernels_in_flight=random_kernels(rng, config, MOST_KERNELS["zero_skip"]),
        kernel_height=int(rng.choice([1, 2, 3, 3, 4, 5])),
        kernel_width=int(rng.choice([1, 2, 3, 3, 4, 5])),
        stride=int(rng.choice([1, 2, 2, 3])),
        multiplier=str(rng.choice(["dsp", "dsp_packed", "lut"] if packed else ["dsp", "lut"])),  # type: ignore[arg-type]
        load_pixels=int(rng.choice([1, 2, 4, 8, 16])),
    )


def random_cluster(rng: Generator, config: SystolicConfig) -> ClusterBuild:
    """One unit to a dozen, with room for pieces of a few cells or for whole maps."""
    sides = [side for side in range(1, 6) if side * side <= config.columns]
    return ClusterBuild(
        grid_rows=int(rng.integers(1, 4)),
        grid_columns=int(rng.integers(1, 5)),
        kernel=int(rng.choice(sides[-2:])),
        kernels_in_flight=random_kernels(rng, config, MOST_KERNELS["sparse_cluster"]),
        accumulator_words=int(rng.choice([4, 8, 16, 32, 64])),
        memory_words=int(rng.choice([4, 8, 16, 32, 64])),
        multiplier=str(rng.choice(["dsp", "lut"])),  # type: ignore[arg-type]
        load_pixels=int(rng.choice([1, 2, 4, 8, 16])),
    )


def with_random_engines(rng: Generator, config: SystolicConfig) -> SystolicConfig:
    """The array as it is, or with one or two engines beside it; arrays without linear weights stay as they are."""
    wanted = [bool(rng.random() < 0.5) for _ in range(2)]
    bits = config.format.mantissa_bits
    if not any(wanted) or config.multiplier == "shift" or bits > OPERAND_BITS:
        return config
    sums = min(SUM_BITS[1], max(config.accumulator_bits, SUM_BITS[0]))
    config = replace(config, accumulator_bits=sums, bias_bits=min(config.bias_bits, sums))
    if wanted[1] and rng.random() < 0.7:  # enough ports for blocks of 3 x 3 to 5 x 5 outputs
        config = replace(config, columns=config.shift_columns + int(rng.choice([9, 9, 10, 12, 16, 25])))
    for _ in range(ATTEMPTS):
        found = replace(
            config,
            zero_skip=random_zero_skip(rng, config) if wanted[0] else None,
            sparse_cluster=random_cluster(rng, config) if wanted[1] else None,
        )
        if not config_findings(found):
            return found
    return config
