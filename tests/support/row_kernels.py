"""A small kernel with a process of rows, which several tests compile once."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig

#: All of its numbers differ; its process has fewer columns than the array.
ROWS = KernelConfig(
    columns=5, rows=8, lanes=2, multiplier="dsp_packed", accumulator_bits=28, activation_words=256, weight_words=128,
    parameter_rows=64, position_bins=11, row_columns=3,
)  # fmt: skip
