"""Constraints between the numbers of a kernel with a systolic array."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.finding import Finding

#: Additions the low field of a packed product survives: lanes of one cycle add up inside the DSP blocks (BFP 7).
PACKED_TERMS = {"DSP48E1": 4, "DSP48E2": 8, "DSP58": 8}
#: Bits of mantissas of which four products share a DSP block, with weights of 4 bits; its fields of 10 bits hold the
#: sum over four lanes of 7 times 16.
QUAD_BITS = (4, 5)


def multiplier_findings(config: KernelConfig) -> Iterator[Finding]:
    """What multiplies."""
    if config.multiplier == "shift" and config.shift_columns:
        yield Finding("shift_columns", "complement columns of DSP blocks; with `multiplier: shift` all columns shift")
    if config.multiplier == "dsp_quad":
        yield from quad_findings(config)
    if config.multiplier == "dsp_packed":
        yield from packed_findings(config)


def packed_findings(config: KernelConfig) -> Iterator[Finding]:
    """Two products in a DSP block."""
    terms = PACKED_TERMS[config.dsp]
    if config.rows % 2:
        yield Finding("rows", f"is {config.rows}; must be even for dsp_packed: two rows share a DSP block")
    if config.lanes > terms:
        yield Finding("lanes", f"is {config.lanes}; must be at most {terms} for dsp_packed on {config.dsp}")
    if config.format.mantissa_bits > 8:
        bits = config.format.mantissa_bits
        yield Finding("multiplier", f"is dsp_packed, which needs mantissas of 8 bits or less, not {bits}; must be dsp")


def quad_findings(config: KernelConfig) -> Iterator[Finding]:
    """Four products in a DSP block."""
    bits = config.format.mantissa_bits
    if bits not in QUAD_BITS:
        other = "dsp_packed" if bits <= 8 else "dsp"
        text = f"is dsp_quad, which needs mantissas of 4 or 5 bits, not {bits}; must be {other}"
        yield Finding("multiplier", text)
    if config.shift_columns:
        yield Finding("shift_columns", f"is {config.shift_columns}; must be 0 for dsp_quad")
    for name, number in (("rows", config.rows), ("columns", config.columns - config.shift_columns)):
        if number % 2:
            text = f"is {number}; must be even for dsp_quad: two rows and two columns share a DSP block"
            yield Finding(name, text)


def hop_findings(array: SystolicArray, config: KernelConfig) -> Iterator[Finding]:
    """Columns that share a copy of the weights."""
    hop, columns = array.hop_columns, config.columns
    step = config.shared_columns
    if hop and (columns % hop or hop % step):
        fitting = ", ".join(str(number) for number in range(step, columns + 1, step) if columns % number == 0)
        even = "be even and " if step > 1 else ""
        text = f"is {hop}; must {even}divide the {columns} columns: {fitting}, or 0 for all of them"
        yield Finding("hop_columns", text)
