"""Random engines beside an array: builds so small that layers take several tiles, strips and groups of kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.accelerator.constraints import config_findings
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import OPERAND_BITS, SUM_BITS
from bfpga.engines.registry import BESIDE

Generator = np.random.Generator
#: Builds drawn for one array until its numbers fit each other.
ATTEMPTS = 20


def with_random_engines(rng: Generator, config: SystolicConfig) -> SystolicConfig:
    """The array as it is, or with some engines beside it; arrays without linear weights stay as they are."""
    wanted = [bool(rng.random() < 0.5) for _ in BESIDE]
    bits = config.format.mantissa_bits
    if not any(wanted) or config.multiplier == "shift" or bits > OPERAND_BITS:
        return config
    sums = min(SUM_BITS[1], max(config.accumulator_bits, SUM_BITS[0]))
    config = replace(config, accumulator_bits=sums, bias_bits=min(config.bias_bits, sums))
    engines = [engine for engine, present in zip(BESIDE, wanted, strict=True) if present]
    for engine in engines:
        config = engine.random.array(rng, config)
    for _ in range(ATTEMPTS):
        found = replace(config, beside=tuple(engine.random.numbers(rng, config) for engine in engines))
        if not config_findings(found):
            return found
    return config
