"""Look-up tables of the units that multiply and accumulate, as functions of their widths.

The functions follow the structure: a shifter costs a share of a table for each bit it puts out, an adder one for each
of its bits. The shares are fitted to counts of an open-source synthesizer (`benchmarks/array/lut_estimate.py` says how
far each count is from its function: 15 % at most; tests/data/lut_counts.json has the counts). Tables with one output
are counted; a tool that packs two functions into one table finds fewer. Only the standard library is imported.
"""

from __future__ import annotations

from bfpga.formats.shift_format import ShiftFormat, WeightMode

#: Tables of a two-hot product for each bit of its terms, by the exponents' width: two shifters and an adder, with
#: tables in common.
TWO_HOT_SHARE = {1: 1.65, 2: 2.55, 3: 3.27, 4: 3.76}
#: Tables a bit of one shifter.
BARREL_SHARE = {1: 0.78, 2: 0.91, 3: 1.45, 4: 1.52}
#: Tables of a decoder for each bit of the mantissa.
DECODER_SHARE = {1: 1.8, 2: 3.0, 3: 4.6, 4: 4.4}
#: Tables of the way out for each bit of a row: up to 16 rows, and of more.
WAY_OUT_SHARES = (0.39, 0.47)
#: Further tables of a two-hot product for every place of its extra shift.
PER_EXTRA_SHIFT = 1.5
#: No bit of a product is beyond the accumulator.
WIDEST = 64


def growth(lanes: int) -> int:
    """Bits that the sum of ``lanes`` numbers has more than each."""
    return (lanes - 1).bit_length()


def barrel_lut(fmt: ShiftFormat, kept_bits: int = WIDEST) -> float:
    """One shifter: the product with a power of two. Bits above the lowest ``kept_bits`` are not made."""
    return BARREL_SHARE[fmt.exp_width] * min(fmt.term_bits, kept_bits)


def two_hot_product_lut(fmt: ShiftFormat, kept_bits: int = WIDEST) -> float:
    """Two shifters and an adder with a sign."""
    gates = fmt.x_width if fmt.zero_code_active(WeightMode.TWO_HOT) else 0
    term, product = min(fmt.term_bits, kept_bits), min(fmt.sum_bits, kept_bits)
    raised = min(fmt.d, product - term)
    return TWO_HOT_SHARE[fmt.exp_width] * term + PER_EXTRA_SHIFT * raised + gates


def dual_product_lut(fmt: ShiftFormat, kept_bits: int = WIDEST) -> float:
    """Both terms by themselves and their sum, gated by the mode and routed to two accumulators. SM R17, R18."""
    gates = 0 if fmt.exp_width == 1 else 2 * fmt.x_width
    term, product = min(fmt.term_bits, kept_bits), min(fmt.sum_bits, kept_bits)
    return 2 * barrel_lut(fmt, kept_bits) + gates + 2 * product + term / 2


def lanes_sum_lut(lanes: int, product_bits: int) -> float:
    """The sum of the products of one cycle, with their signs: adders in pairs."""
    inverters = product_bits * (lanes // 2)
    pairs = lanes // 2 * (product_bits + 1)
    return inverters + pairs + (lanes // 4) * (product_bits + 2)


def row_accumulator_lut(bits: int, value_bits: int) -> float:
    """The accumulator of a row: products, and the maxima and sums of pooling and addition, in one adder."""
    return 1.5 * bits + value_bits + 6.5


def way_out_lut(bits: int, rows: int) -> float:
    """One row's share of the selection that sends the ``rows`` rows of a finished pass out one by one."""
    return WAY_OUT_SHARES[rows > 16] * bits


def shift_tile_lut(fmt: ShiftFormat, lanes: int, accumulator_bits: int, both_modes: bool) -> float:
    """A tile of shift units with the accumulator of its row; with both modes those of two rows."""
    bits = accumulator_bits
    term, product = min(fmt.term_bits, bits), min(fmt.sum_bits, bits)
    sums = lanes_sum_lut(lanes, product) + row_accumulator_lut(bits, min(product + growth(lanes), bits))
    if not both_modes:
        return lanes * two_hot_product_lut(fmt, bits) + sums
    second = lanes_sum_lut(lanes, term) + 1.25 * bits
    if lanes <= 2 and fmt.exp_width > 2:
        second += product + term  # the inverters of the signs find no other table to be part of
    return lanes * dual_product_lut(fmt, bits) + sums + second


def decoder_lut(fmt: ShiftFormat, mantissa_bits: int) -> float:
    """A two-hot word as the integer it represents, or a mantissa as it is."""
    return DECODER_SHARE[fmt.exp_width] * mantissa_bits + (1.5 * fmt.d if fmt.exp_width == 2 else 0)


#: Bits of the two sums that one DSP block adds up for a pair of rows, and of the four for those of two columns.
PACKED_FIELD_BITS, QUAD_FIELD_BITS = 18, 10


def packed_row_lut(accumulator_bits: int) -> float:
    """One of two rows that share DSP blocks; the blocks add the lanes up."""
    return row_accumulator_lut(accumulator_bits, PACKED_FIELD_BITS)


def quad_row_lut(accumulator_bits: int) -> float:
    """One of two rows of one of two columns that share DSP blocks; the blocks add the lanes up."""
    return row_accumulator_lut(accumulator_bits, QUAD_FIELD_BITS)


def dsp_row_lut(mantissa_bits: int, lanes: int, accumulator_bits: int) -> float:
    """A row with DSP blocks of its own, which add the lanes up."""
    return row_accumulator_lut(accumulator_bits, 2 * mantissa_bits + growth(lanes))
