"""Resources of the keep buffer (docs/kernel-positions.md). Only the standard library is imported."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.resource_units import Resources, memory_blocks


def keep_buffer(config: KernelConfig) -> Resources:
    """One memory of accumulators for each column. FP R24."""
    if not config.wide_words:
        return Resources()
    return Resources(bram36=config.columns * memory_blocks(config.wide_words, config.accumulator_bits))
