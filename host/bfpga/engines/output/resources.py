"""Resources of what only some output stages have. Only the standard library is imported."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import TABLE_STEPS
from bfpga.contract.loaded_tables import COLUMNS_OF_A_UNIT
from bfpga.engines.interface.resource_units import Resources, half_blocks, memory_blocks

#: Bits of a word of a loaded table.
_WORD_BITS = 32
#: Look-up tables and flip-flops of a unit, and for each bit of the accumulator: counted with 24 and with 32 bits.
_UNIT_CELLS = ((67.0, 25.3), (51.0, 17.4))


def keep_buffer(config: KernelConfig) -> Resources:
    """One memory of accumulators for each column that the stage computes at once. FP R24."""
    if not config.wide_words:
        return Resources()
    words = config.wide_words * config.row_turns
    return Resources(bram36=config.stage_columns * memory_blocks(words, config.accumulator_bits))


def loaded_tables(config: KernelConfig) -> Resources:
    """Units with copies of loaded tables: of the columns, and of a bias that stands alone (BFP R11)."""
    if not config.function_tables:
        return Resources()
    units = -(-config.stage_columns // COLUMNS_OF_A_UNIT) + 1
    halves = units * half_blocks(config.function_tables * TABLE_STEPS, _WORD_BITS)
    lut, ff = (round(units * (one + each * config.accumulator_bits)) for one, each in _UNIT_CELLS)
    return Resources(dsp=units, bram36=-(-halves // 2), lut=lut, ff=ff)
