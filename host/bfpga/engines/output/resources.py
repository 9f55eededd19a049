"""Resources of the collector and of the keep buffer (docs/kernel-positions.md, docs/estimates.md).

Bins and counters as an open-source synthesizer maps them to 6-input tables; the rest by the rules of
``engines.array.resources``. Nothing was measured with the vendor's tools. Only the standard library is imported.
"""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.interface.resource_units import Resources, memory_blocks, scaled, selection

#: Bits of a counter of values, and of an exponent inside the kernel.
COUNTER_BITS, EXPONENT_BITS = 32, 17
#: Tables a bit of a detector of the highest or of the lowest bit: 55 and 62 at 32 bits (FP 7).
HIGHEST_LUT, LOWEST_LUT = 1.75, 1.95
#: Tables of a bin's counter: those of its adder beside the carry chain, and those of one more column.
COUNTER_LUT, COLUMN_COUNT_LUT = 14, 1.6
#: Rules, limits and control.
SELECTOR_LUT = 400


def collector(config: SystolicConfig, results: int) -> Resources:
    """A collector of ``results`` values a clock: their bins, a counter for each bin, one selector. FP R10, R14, R17."""
    bits, bins = config.accumulator_bits, config.position_bins
    if not bins:
        return Resources()
    value = Resources(lut=round(bin_lut(bits, bins)), ff=bins)
    counter = Resources(lut=COUNTER_LUT + round(COLUMN_COUNT_LUT * results), ff=COUNTER_BITS)
    # The bits that values of a row have set or unlike their signs; what a lone bias adds is found a second time.
    joined = round(2 * bits * results / 5)
    ends = round(2 * (HIGHEST_LUT + LOWEST_LUT) * bits + bin_lut(bits, bins))
    scan = round(selection(bins, COUNTER_BITS)) + 2 * COUNTER_BITS
    shared = Resources(lut=joined + ends + scan + SELECTOR_LUT, ff=3 * bits + 8 * EXPONENT_BITS + 2 * COUNTER_BITS)
    return scaled(value, results) + scaled(counter, bins) + shared


def bin_lut(bits: int, bins: int) -> float:
    """Tables of one value's bin: bits unlike the sign, spread downwards, one shift to the bins, the highest one kept.

    A line through counts: 177 (24 bits, 16 bins), 229 (32, 16), 296 (32, 32), 357 (48, 16), 433 (48, 32); within 3 %.
    The distance is that of the row and made once.
    """
    return 7.6 * bits + 4.4 * bins - 80


def kept_words(config: SystolicConfig) -> Resources:
    """What takes accumulators to the activation memory and back: for each column a choice of the sum, one of the word.

    Counted of 8 columns with 24-bit sums in words of 32 bits: 715 LUTs and 204 flip-flops. FP R24.
    """
    word = config.lanes * config.format.mantissa_bits
    return scaled(Resources(lut=config.accumulator_bits + 2 * word, ff=config.accumulator_bits), config.columns)


def keep_buffer(config: SystolicConfig) -> Resources:
    """One memory of accumulators for each column. FP R24."""
    if not config.wide_words:
        return Resources()
    return Resources(bram36=config.columns * memory_blocks(config.wide_words, config.accumulator_bits))
