"""Kernels with a process of rows, which several tests compile once."""

from __future__ import annotations

from dataclasses import replace

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import FUNCTION_NAMES

#: All of its numbers differ; its process has fewer columns than the array.
ROWS = KernelConfig(
    columns=5, rows=8, lanes=2, multiplier="dsp_packed", accumulator_bits=28, activation_words=256, weight_words=128,
    parameter_rows=64, position_bins=11, row_columns=3,
)  # fmt: skip
#: With room for layers of networks, every function, and weights from activations: all of attention is on the chip.
WHOLE = replace(
    ROWS, columns=10, lanes=4, activation_words=2048, weight_words=2048, parameter_rows=512,
    functions=FUNCTION_NAMES, operand_weights=True,
)  # fmt: skip
