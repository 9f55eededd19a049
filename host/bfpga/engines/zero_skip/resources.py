"""Resources of a zero-skip engine by its parts: multipliers, sums, tile buffer, kernels (ZS 7.1-7.3).

The structure is that of the C++; what a part costs follows from the sizes by the rules of
``interface.resource_units``.
Only the standard library is imported.
"""

from __future__ import annotations

import math

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.beside.resources import engine_ports, multipliers
from bfpga.engines.interface.resource_units import Resources, address_bits, half_blocks, lut_memory, selection
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers

#: Decoder of segments: header, counts, the pool of mask bits.
DECODER_LUT = 400
#: The loop of an image, the walk over a tile, the window.
CONTROL_LUT, CONTROL_FF = 500, 800
#: Of one kernel in flight: key and comparator of the tree that finds the next entry, ranks and waiting time.
KERNEL_LUT = 36
#: Of one position of a kernel: its bit in decoder and walk, set, copied, cleared; its share of finding the first one.
POSITION_LUT, POSITION_FF = 4, 3


def resources(config: SystolicConfig) -> dict[str, Resources]:
    """The parts of the engine."""
    build = config.numbers_of(ZeroSkipNumbers)
    return {
        "zero-skip multipliers": multipliers(config, build.multiplier, build.lanes, build.rows_parallel),
        "zero-skip sums": sums(config, build),
        "zero-skip tile buffer": tile_buffer(config, build),
        "zero-skip kernels": kernels(config, build),
        "zero-skip ports": engine_ports(config, config.columns, build.load_pixels),
    }


def sums(config: SystolicConfig, build: ZeroSkipNumbers) -> Resources:
    """A memory and an adder behind every multiplier, a bit a word that says whether it was used, and the way out."""
    bits, columns, lanes = config.accumulator_bits, config.columns, build.lanes
    words = build.kernels_in_flight * build.plane_words
    halves = build.multipliers * half_blocks(words, bits)
    lane = bits + lut_memory(words, 1) + address_bits(words)
    rows = lanes * selection(build.rows_parallel, bits)
    ports = columns * selection(lanes // math.gcd(lanes, columns), bits)
    return Resources(0, -(-halves // 2), round(build.multipliers * lane + rows + ports), build.multipliers * 2 * bits)


def tile_buffer(config: SystolicConfig, build: ZeroSkipNumbers) -> Resources:
    """A table memory for each column and bank, beats in, rows out, the column shift, every s-th cell."""
    bits, banks, rows = config.format.mantissa_bits, build.row_banks, build.rows_parallel
    height = (build.tile_height - 1) * build.stride + build.kernel_height
    width = (build.tile_width - 1) * build.stride + build.kernel_width
    memory = banks * width * lut_memory(2 * -(-height // banks), bits)
    written = banks * (build.load_pixels * selection(build.load_pixels, bits) + 2 * width)
    read = rows * width * (selection(banks, bits) if banks > 1 else bits)
    shifted = rows * width * bits * shift_stages(build) / 2
    picked = rows * build.lanes * selection(build.stride, bits)
    return Resources(0, 0, round(memory + written + read + shifted + picked), rows * width * bits * 3 + 4 * width)


def shift_stages(build: ZeroSkipNumbers) -> int:
    """Stages of 1, 2, 4, ... columns; a look-up table takes one cell of two stages."""
    return ((build.tile_width - 1) * build.stride + build.kernel_width - 1).bit_length()


def kernels(config: SystolicConfig, build: ZeroSkipNumbers) -> Resources:
    """Masks in registers, coefficients of two images in block memory, the tree that finds the next entry."""
    flight, positions = build.kernels_in_flight, build.kernel_height * build.kernel_width
    halves = half_blocks(2 * flight * positions, config.format.mantissa_bits)
    lut = flight * (KERNEL_LUT + POSITION_LUT * positions) + DECODER_LUT + CONTROL_LUT
    ff = flight * (2 * 16 + POSITION_FF * positions) + CONTROL_FF
    return Resources(0, -(-halves // 2), lut, ff)
