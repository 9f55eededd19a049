"""DSP, block memory, LUT and flip-flop estimate of one kernel, known before any synthesis.

DSP blocks and memories follow from the structure and are exact up to the tool's freedom; LUTs and flip-flops are a
model that is fitted to counted netlists (``engines.array.counted_resources``). Only the standard library and numpy are
imported.
"""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.array import counted_resources
from bfpga.engines.interface.resource_units import ArrayResources


def estimate_resources(config: SystolicConfig) -> ArrayResources:
    """Resources of every part of the kernel that ``config`` describes, and of what stands beside it."""
    return ArrayResources(counted_resources.resources(config))
