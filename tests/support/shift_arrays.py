"""Two arrays with shift units for tests of the compiler: all columns shift, and two of six."""

from __future__ import annotations

from dataclasses import replace

from bfpga.contract.configuration import KernelConfig
from bfpga.engines.systolic.shift_words import with_zero
from bfpga.formats.shift_format import ShiftFormat

SHIFT = KernelConfig(
    columns=5, rows=8, lanes=2, multiplier="shift", shift=with_zero(ShiftFormat()), activation_words=4096,
    weight_words=4096, parameter_rows=512,
)  # fmt: skip
MIXED = replace(SHIFT, multiplier="dsp", columns=6, shift_columns=2)
