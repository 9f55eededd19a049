"""Memories of a kernel: they follow from its numbers and are exact up to the tool's freedom."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.resource_units import (
    LUTRAM_DEPTH,
    LUTRAM_LUT_PER_BIT,
    Resources,
    memory_blocks,
    ultra_blocks,
)

#: Bits of a row exponent on the weight stream.
ROW_EXPONENT_BITS = 16
def activation_memories(config: KernelConfig) -> Resources:
    """One memory a bank (mantissas are stored in containers)."""
    if "activations" in config.ultra_ram:
        return Resources(uram=config.banks * ultra_blocks(config.activation_words, config.word_bits))
    return Resources(bram36=config.banks * memory_blocks(config.activation_words, config.word_bits))


def weight_memory(config: KernelConfig) -> Resources:
    """One wide word of rows x lanes mantissas a cycle."""
    words, bits = config.weight_words, config.weight_word_bits
    if "weights" in config.ultra_ram:
        return Resources(uram=ultra_blocks(words, bits), ff=2 * bits)
    return Resources(bram36=memory_blocks(words, bits), ff=2 * bits)


def parameter_memory(config: KernelConfig) -> Resources:
    """Biases in block memory; row exponents in look-up tables, because exponents are never in block memory (R39)."""
    columns = -(-config.parameter_rows // LUTRAM_DEPTH)
    lut = round(ROW_EXPONENT_BITS * columns * (LUTRAM_LUT_PER_BIT + 1 / 3))
    return Resources(bram36=memory_blocks(config.parameter_rows, config.bias_bits), lut=lut)
