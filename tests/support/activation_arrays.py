"""A small array that multiplies by activations that are not zero, which several tests compile once."""

from __future__ import annotations

from bfpga.contract.arrays.skip_array import SparseArray
from bfpga.contract.configuration import KernelConfig

#: Most of its numbers differ; windows have several chunks, and operations several runs.
ACTIVATIONS = KernelConfig(
    columns=3, rows=8, lanes=2, multiplier="dsp_packed", accumulator_bits=24, activation_words=512, weight_words=512,
    parameter_rows=256, array=SparseArray(chunk=16, queue=16, passes=2), count_registers=4,
    wide_words=512, position_bins=32,
)  # fmt: skip
