"""Constraints between the numbers of a kernel with a systolic array."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.finding import Finding

#: Additions the low field of a packed product survives: lanes of one cycle add up inside the DSP blocks (BFP 7).
PACKED_TERMS = {"DSP48E1": 4, "DSP48E2": 8, "DSP58": 8}


def multiplier_findings(config: KernelConfig) -> Iterator[Finding]:
    """What multiplies."""
    if config.multiplier == "shift" and config.shift_columns:
        yield Finding("shift_columns", "complement columns of DSP blocks; with `multiplier: shift` all columns shift")
    if config.multiplier != "dsp_packed":
        return
    terms = PACKED_TERMS[config.dsp]
    if config.rows % 2:
        yield Finding("rows", f"is {config.rows}; must be even for dsp_packed: two rows share a DSP block")
    if config.lanes > terms:
        yield Finding("lanes", f"is {config.lanes}; must be at most {terms} for dsp_packed on {config.dsp}")
    if config.format.mantissa_bits > 8:
        bits = config.format.mantissa_bits
        yield Finding("multiplier", f"is dsp_packed, which needs mantissas of 8 bits or less, not {bits}; must be dsp")


def hop_findings(array: SystolicArray, columns: int) -> Iterator[Finding]:
    """Columns that share a copy of the weights."""
    hop = array.hop_columns
    if hop and columns % hop:
        fitting = ", ".join(str(number) for number in range(1, columns + 1) if columns % number == 0)
        yield Finding("hop_columns", f"is {hop}; must divide the {columns} columns: {fitting}, or 0 for all of them")
