"""Look-up tables of the units that multiply and accumulate, as functions of their widths.

The functions follow the structure: a shifter costs a share of a table for each bit it puts out, an adder one for each
of its bits. The shares are fitted to counts of an open-source synthesizer (`benchmarks/lut_estimate.py`, which says how
far each count is from its function: 15 % at most; tests/data/lut_counts.json has the counts). Tables with one output
are counted; a tool that packs two functions into one table finds fewer. Only the standard library is imported.
"""

from __future__ import annotations

from bfpga.formats.shift_format import ShiftFormat, WeightMode

#: Tables of a two-hot product for each bit of its terms, by the exponents' width: two shifters and an adder, which share
#: some.
TWO_HOT_SHARE = {1: 1.33, 2: 2.55, 3: 3.27, 4: 3.76}
#: Tables a bit of one shifter.
BARREL_SHARE = {1: 0.78, 2: 0.91, 3: 1.45, 4: 1.52}
#: Further tables of a two-hot product for every place of its extra shift.
PER_EXTRA_SHIFT = 1.5


def growth(lanes: int) -> int:
    """Bits that the sum of ``lanes`` numbers has more than each."""
    return (lanes - 1).bit_length()


def barrel_lut(fmt: ShiftFormat) -> float:
    """One shifter: the product with a power of two."""
    return BARREL_SHARE[fmt.exp_width] * fmt.term_bits


def two_hot_product_lut(fmt: ShiftFormat) -> float:
    """Two shifters and an adder with a sign."""
    gates = fmt.x_width if fmt.zero_code_active(WeightMode.TWO_HOT) else 0
    return TWO_HOT_SHARE[fmt.exp_width] * fmt.term_bits + PER_EXTRA_SHIFT * fmt.d + gates


def dual_product_lut(fmt: ShiftFormat) -> float:
    """Both terms by themselves and their sum, gated by the mode and routed to two accumulators. SM R17, R18."""
    shifters = 2 * (barrel_lut(fmt) + fmt.x_width)
    return shifters + 2 * fmt.sum_bits + fmt.term_bits / 2


def lanes_sum_lut(lanes: int, product_bits: int) -> float:
    """The sum of the products of one clock, with their signs: adders in pairs."""
    inverters = product_bits * (lanes // 2)
    pairs = lanes // 2 * (product_bits + 1)
    return inverters + pairs + (lanes // 4) * (product_bits + 2)


def row_accumulator_lut(bits: int, value_bits: int) -> float:
    """The accumulator of a row: products, and the maxima and sums of pooling and addition, in one adder."""
    return 1.5 * bits + value_bits + 6.5


def way_out_lut(bits: int) -> float:
    """One row's share of the selection that sends the rows of a finished pass out one by one."""
    return 0.42 * bits


def shift_tile_lut(fmt: ShiftFormat, lanes: int, accumulator_bits: int, both_modes: bool) -> float:
    """A tile of shift units with the accumulator of its row; with both modes those of two rows."""
    product = fmt.sum_bits
    sums = lanes_sum_lut(lanes, product) + row_accumulator_lut(accumulator_bits, product + growth(lanes))
    if not both_modes:
        return lanes * two_hot_product_lut(fmt) + sums
    second = lanes_sum_lut(lanes, fmt.term_bits) + 1.25 * accumulator_bits
    return lanes * dual_product_lut(fmt) + sums + second


def shift_unit_lut(fmt: ShiftFormat, accumulator_bits: int, both_modes: bool) -> float:
    """The unit of the specification: one lane, no pooling."""
    if not both_modes:
        return two_hot_product_lut(fmt) + fmt.sum_bits + accumulator_bits
    return dual_product_lut(fmt) + fmt.sum_bits + fmt.term_bits + 2 * accumulator_bits


def decoder_lut(fmt: ShiftFormat, mantissa_bits: int) -> float:
    """A two-hot word as the integer it stands for, or a mantissa as it is."""
    return 2 * fmt.sum_bits + mantissa_bits


#: Bits of the two sums that one DSP block adds up for a pair of rows.
PACKED_FIELD_BITS = 18


def packed_row_lut(accumulator_bits: int) -> float:
    """One of two rows that share DSP blocks; the blocks add the lanes up."""
    return row_accumulator_lut(accumulator_bits, PACKED_FIELD_BITS)


def dsp_row_lut(mantissa_bits: int, lanes: int, accumulator_bits: int) -> float:
    """A row with DSP blocks of its own, which add the lanes up."""
    return row_accumulator_lut(accumulator_bits, 2 * mantissa_bits + growth(lanes))
