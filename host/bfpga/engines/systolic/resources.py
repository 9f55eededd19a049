"""DSP blocks and tiles of a systolic array.

Tiles and their accumulators are functions of their widths, built from the sizes of single units as an open-source
synthesizer maps them to 6-input tables (`shift_resources.py`). Only the standard library is imported.
"""

from __future__ import annotations

from collections.abc import Mapping

from bfpga.contract.configuration import KernelConfig, Multiplier
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.systolic.shift_resources import (
    decoder_lut,
    dsp_row_lut,
    growth,
    packed_row_lut,
    quad_row_lut,
    shift_tile_lut,
    way_out_lut,
)

#: The part of the columns with DSP blocks.
DOT_TILES = "dot tiles"
#: Products of a DSP block, of arrays that have any.
PRODUCTS_PER_DSP: Mapping[Multiplier, int] = {"dsp": 1, "dsp_packed": 2, "dsp_quad": 4, "shift": 1}
#: A LUT counts as used when its flip-flops are: registers of pipelined operands at each DSP block.
FF_PER_DSP = 35


def dsp_columns(config: KernelConfig) -> int:
    """Columns that multiply with DSP blocks; the others shift."""
    return 0 if config.multiplier == "shift" else config.columns - config.shift_columns


def array_dsp(config: KernelConfig) -> int:
    """DSP blocks of the dot tiles: one a product, or one for the products of two rows (BFP 7), of two columns too."""
    products = dsp_columns(config) * config.rows * config.lanes
    return products // PRODUCTS_PER_DSP[config.multiplier]


def tiles(config: KernelConfig) -> dict[str, Resources]:
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


def dot_tiles(config: KernelConfig, columns: int) -> Resources:
    """Tiles of columns with DSP blocks."""
    bits, cells = config.accumulator_bits, columns * config.rows
    if config.multiplier == "dsp_packed":
        row, registers = packed_row_lut(bits), 2 * bits + 18
    elif config.multiplier == "dsp_quad":
        row, registers = quad_row_lut(bits), 2 * bits + 10
    else:
        row, registers = dsp_row_lut(config.format.mantissa_bits, config.lanes, bits), 2 * bits + 16
    dsp, lut = array_dsp(config), row + way_out_lut(bits, config.rows)
    return Resources(dsp, 0, round(cells * lut), cells * registers + FF_PER_DSP * dsp // 2)


def shift_tiles(config: KernelConfig, columns: int) -> Resources:
    """Tiles of columns that shift: no DSP block. Power-of-two mode takes a second accumulator."""
    assert config.shift is not None
    bits, cells, words = config.accumulator_bits, columns * config.rows, config.shift
    both = config.accumulator_rows > config.rows
    sets = config.accumulator_rows // config.rows
    lut = shift_tile_lut(words, config.lanes, bits, both) + sets * way_out_lut(bits, config.accumulator_rows)
    product_registers = words.sum_bits + 1 + (words.term_bits + 1 if both else 0)
    ff = 2 * sets * bits + config.lanes * (product_registers + config.format.mantissa_bits + growth(config.lanes))
    return Resources(0, 0, round(cells * lut), cells * ff)


def decoder(config: KernelConfig) -> Resources:
    """Two-hot words of one weight word as mantissas, once for all columns with DSP blocks."""
    assert config.shift is not None
    words, bits = config.rows * config.lanes, config.format.mantissa_bits
    return Resources(0, 0, round(words * decoder_lut(config.shift, bits)), words * bits)
