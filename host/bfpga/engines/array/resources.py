"""DSP, block memory, LUT and flip-flop estimate of the array, and of a kernel of one loop.

Of a kernel of processes only DSP blocks, memories and shift tiles are taken from here; its other look-up tables and
flip-flops are counted or fitted to counts (`counted_resources.py`).

DSP blocks and memories follow from the structure and are exact up to the tool's freedom. LUTs and flip-flops are a
model, built from the sizes of single units as mapped to 6-input LUTs by an open-source synthesizer:

* requantizer 32 -> 8 bits 157 LUT, 48 -> 16 bits 291 LUT (round to nearest even, saturation); linear in between
* leading-one detector 32 bits 55 LUT, 48 bits 83 LUT
* statistics unit: sums 46 LUT, square root 133 LUT

The rest is reasoned: an n-to-1 selection costs n / 3 LUT a bit, an adder one LUT a bit, a shifter half a LUT a bit and
stage. Tiles and their accumulators are functions of their widths (`shift_resources.py`). No figure was measured with
the vendor's tools; expect the LUT count to be off by a third.
Only the standard library and numpy are imported.
"""

from __future__ import annotations

import math

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.functions import INTERPOLATION_LUT, Function
from bfpga.contract.limits import POLICY_FACTOR_BITS, STATISTICS_WINDOW_BITS
from bfpga.engines.array.shift_resources import (
    decoder_lut,
    dsp_row_lut,
    growth,
    packed_row_lut,
    shift_tile_lut,
    way_out_lut,
)
from bfpga.engines.interface.resource_units import (
    LUTRAM_DEPTH,
    LUTRAM_LUT_PER_BIT,
    Resources,
    bank_access,
    memory_blocks,
    scaled,
    ultra_blocks,
)
from bfpga.engines.output.resources import collector, keep_buffer, kept_words

#: The part of the columns with DSP blocks.
DOT_TILES = "dot tiles"
#: Bits of a row exponent on the weight stream.
ROW_EXPONENT_BITS = 16
#: Largest window of the statistics unit, log2, and bits of a policy's factor (BFP R26).
#: Unsigned operands of one DSP block (25 x 18 signed on DSP48E1; the wider operand of DSP48E2 saves nothing here).
DSP_OPERANDS = (24, 17)
#: Address generators, group and tap counters of one column.
ADDRESS_LUT = 120
#: Bank and word of one pixel of a transfer: its distance from the first, and whether that leaves the last bank.
TRANSFER_ADDRESS_LUT = 40
#: Sequencer, descriptor decoder, stream adapters, control registers.
CONTROL_LUT = 3500
CONTROL_FF = 6000
#: A LUT counts as used when its flip-flops are: registers of pipelined operands beside each DSP block.
FF_PER_DSP = 35


def resources(config: SystolicConfig) -> dict[str, Resources]:
    """Resources of every part of the kernel that ``config`` describes."""
    columns = config.columns
    return {
        **tiles(config),
        "activation memories": activation_memories(config),
        "weight memory": weight_memory(config),
        "parameter memory": parameter_memory(config),
        "crossbars and addresses": scaled(crossbar(config), columns)
        + scaled(transfer_port(config), config.transfer_pixels),
        "output stages": scaled(output_stage(config), columns),
        "statistics": Resources(statistics_dsp(config), 0, 46 + 133 + 250, 600),
        "control and streams": Resources(0, 2, CONTROL_LUT, CONTROL_FF),
        **positions(config),
    }


def positions(config: SystolicConfig) -> dict[str, Resources]:
    """Parts that find exponents from a preceding operation (docs/kernel-positions.md)."""
    parts = {"collector": collector(config, config.columns)} if config.position_bins else {}
    parts |= {"keep buffer": keep_buffer(config)} if config.wide_words else {}
    return parts | ({"kept words": kept_words(config)} if config.wide_memory else {})


def dsp_columns(config: SystolicConfig) -> int:
    """Columns that multiply with DSP blocks; the others shift."""
    return 0 if config.multiplier == "shift" else config.columns - config.shift_columns


def array_dsp(config: SystolicConfig) -> int:
    """DSP blocks of the dot tiles: one a product, or one for the products of two rows when packed (BFP 7)."""
    if config.skip_groups and not config.dense_beside:
        return config.skip_macs // 2
    products = dsp_columns(config) * config.rows * config.lanes
    return products // 2 if config.multiplier == "dsp_packed" else products


def tiles(config: SystolicConfig) -> dict[str, Resources]:
    """Tiles of each kind with their accumulators, and the decoder of two-hot words that columns of DSP blocks need.

    A finished row leaves through a second register set while the next pass runs. Accumulators are counted in the
    fabric; a tool that finds room for them in the DSP blocks saves them.
    """
    parts = {}
    multiplying = dsp_columns(config)
    if multiplying:
        parts[DOT_TILES] = dot_tiles(config, multiplying)
    if multiplying < config.columns:
        parts["shift tiles"] = shift_tiles(config, config.columns - multiplying)
    if 0 < multiplying < config.columns:
        parts["decoder of two-hot words"] = decoder(config)
    return parts


def dot_tiles(config: SystolicConfig, columns: int) -> Resources:
    """Tiles of columns with DSP blocks."""
    bits, cells = config.accumulator_bits, columns * config.rows
    if config.multiplier == "dsp_packed":
        row, registers = packed_row_lut(bits), 2 * bits + 18
    else:
        row, registers = dsp_row_lut(config.format.mantissa_bits, config.lanes, bits), 2 * bits + 16
    dsp, lut = array_dsp(config), row + way_out_lut(bits, config.rows)
    return Resources(dsp, 0, round(cells * lut), cells * registers + FF_PER_DSP * dsp // 2)


def shift_tiles(config: SystolicConfig, columns: int) -> Resources:
    """Tiles of columns that shift: no DSP block. Power-of-two mode takes a second accumulator."""
    assert config.shift is not None
    bits, cells, words = config.accumulator_bits, columns * config.rows, config.shift
    both = config.accumulator_rows > config.rows
    sets = config.accumulator_rows // config.rows
    lut = shift_tile_lut(words, config.lanes, bits, both) + sets * way_out_lut(bits, config.accumulator_rows)
    product_registers = words.sum_bits + 1 + (words.term_bits + 1 if both else 0)
    ff = 2 * sets * bits + config.lanes * (product_registers + config.format.mantissa_bits + growth(config.lanes))
    return Resources(0, 0, round(cells * lut), cells * ff)


def decoder(config: SystolicConfig) -> Resources:
    """Two-hot words of one weight word as mantissas, once for all columns with DSP blocks."""
    assert config.shift is not None
    words, bits = config.rows * config.lanes, config.format.mantissa_bits
    return Resources(0, 0, round(words * decoder_lut(config.shift, bits)), words * bits)


def activation_memories(config: SystolicConfig) -> Resources:
    """One memory a bank (mantissas are stored in containers)."""
    if "activations" in config.ultra_ram:
        return Resources(uram=config.banks * ultra_blocks(config.activation_words, config.word_bits))
    return Resources(bram36=config.banks * memory_blocks(config.activation_words, config.word_bits))


def weight_memory(config: SystolicConfig) -> Resources:
    """One wide word of rows x lanes mantissas a clock."""
    words, bits = config.weight_words, config.weight_word_bits
    if "weights" in config.ultra_ram:
        return Resources(uram=ultra_blocks(words, bits), ff=2 * bits)
    return Resources(bram36=memory_blocks(words, bits), ff=2 * bits)


def parameter_memory(config: SystolicConfig) -> Resources:
    """Biases in block memory; row exponents in look-up tables, because exponents are never in block memory (R39)."""
    columns = -(-config.parameter_rows // LUTRAM_DEPTH)
    lut = round(ROW_EXPONENT_BITS * columns * (LUTRAM_LUT_PER_BIT + 1 / 3))
    return Resources(bram36=memory_blocks(config.parameter_rows, config.bias_bits), lut=lut)


def statistics_dsp(config: SystolicConfig) -> int:
    """DSP blocks of the statistics unit: value^2, sum^2, factor^2 and factor^2 x variance (BFP R26, R27)."""
    value = config.format.mantissa_bits + 2
    total = value + STATISTICS_WINDOW_BITS
    factor = POLICY_FACTOR_BITS
    products = [(value, value), (total, total), (factor, factor), (2 * total, 2 * factor)]
    return sum(-(-wide // DSP_OPERANDS[0]) * -(-narrow // DSP_OPERANDS[1]) for wide, narrow in products)


def crossbar(config: SystolicConfig) -> Resources:
    """One column's share of reading and writing the banks: data and address selection, address generation."""
    return bank_port(config) + Resources(lut=2 * ADDRESS_LUT, ff=4 * 32)


def transfer_port(config: SystolicConfig) -> Resources:
    """The same for one of the pixels that LOAD and STORE move together."""
    return bank_port(config) + Resources(lut=2 * TRANSFER_ADDRESS_LUT)


def bank_port(config: SystolicConfig) -> Resources:
    """Data and address of one read and one write, selected among the banks."""
    return scaled(bank_access(config), 2)


def output_stage(config: SystolicConfig) -> Resources:
    """One column's bias adder, function unit, leading-one detector and requantizer."""
    bits, mantissa = config.accumulator_bits, config.format.mantissa_bits
    stages = max(1, math.ceil(math.log2(bits)))
    requantizer = round(1.4375 * bits + 13.875 * mantissa)
    bias = bits + bits * stages // 2
    leading_one = round(1.75 * bits)
    lut = requantizer + bias + leading_one + function_lut(config, stages)
    return Resources(lut=lut, ff=6 * bits + 4 * 16)


def function_lut(config: SystolicConfig, stages: int) -> int:
    """LUTs of one column's function unit.

    Tables share the shifter and the product of their argument; those below max(x, 0) the way into one unit, with the
    comparison that ends it, and the subtraction.
    """
    bits = config.accumulator_bits
    rows = [Function.named(name).row for name in config.functions]
    lut = sum(row.lut(bits, stages) for row in rows)
    if any(row.on_grid for row in rows):
        lut += bits * stages // 2 + INTERPOLATION_LUT
    if any(row.below_relu for row in rows):
        lut += bits * stages // 2 + 2 * bits
    return lut
