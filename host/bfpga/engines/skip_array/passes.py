"""Passes of a GEMM on a skip array: how many, how often weights are read, and when the first one begins."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag
from bfpga.engines.kernel.cycles import column_groups
from bfpga.engines.skip_array.shape import SkipShape

_LANES_APART = int(Flag.LANES_APART)


def first_window(config: KernelConfig, descriptor: Descriptor) -> int:
    """Cycles in which the first chunk of a GEMM of a skip array is written, before its first pass."""
    single = column_groups(config, descriptor) == 1
    apart = bool(descriptor.flags & _LANES_APART)
    return descriptor.chunk_steps * SkipShape.of(config).step_clocks(1, apart, single)


def shared_passes(config: KernelConfig, descriptor: Descriptor) -> int:
    """Passes of a GEMM of a skip array, each of several groups of pixels: how often it reads stored entries."""
    return -(-column_groups(config, descriptor) // config.array.halves)


def runs(config: KernelConfig, descriptor: Descriptor) -> int:
    """Runs of passes of a GEMM of a skip array that skips activations: how often it reads its weights."""
    return -(-shared_passes(config, descriptor) // config.array.run_passes(config))
