"""A small array that multiplies by stored entries, which several tests compile once."""

from __future__ import annotations

from bfpga.accelerator.variants import accelerator_around
from bfpga.contract.arrays.skip_array import SkipArray
from bfpga.contract.configuration import KernelConfig

#: All of its numbers differ.
SKIPS = KernelConfig(
    columns=4, rows=8, lanes=2, multiplier="dsp_packed", accumulator_bits=24, activation_words=512, weight_words=512,
    parameter_rows=256, array=SkipArray(3, chunk=64, queue=16), count_registers=4,
)
#: Around it, as random verification names its arrays.
SKIPPING = accelerator_around(SKIPS, "random", "0" * 64)
