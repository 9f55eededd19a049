"""Small kernels in which tensors become weights, which several tests compile once."""

from __future__ import annotations

from dataclasses import replace

from bfpga.contract.configuration import KernelConfig

#: All of its numbers differ; a weight word has four pieces.
OPERANDS = KernelConfig(
    columns=9, rows=8, lanes=2, multiplier="dsp_packed", accumulator_bits=28, activation_words=512, weight_words=256,
    parameter_rows=64, position_bins=11, operand_weights=True,
)  # fmt: skip
#: The same beside a process of rows: attention as a whole.
WITH_ROWS = replace(OPERANDS, row_columns=3)
