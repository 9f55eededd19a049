"""Resources of a sparse cluster by its parts: multipliers, sums, pieces, kernels, partition, drain (SC 7.1-7.4).

The structure is that of variant E; what a part costs follows from the sizes by the rules of ``engines.resource_units``.
Only the standard library is imported.
"""

from __future__ import annotations

from bfpga.engines.configuration import SystolicConfig
from bfpga.engines.resource_units import Resources, address_bits, half_blocks, lut_memory, scaled, selection
from bfpga.engines.sparse_engines import ClusterBuild
from bfpga.engines.zero_skip_resources import multipliers

#: Rows, segments and columns of a map are counted in so many bits.
PLACE_BITS = 10
#: The walk of a unit over its piece: segment, element, kernel, the limits of the piece.
UNIT_LUT, UNIT_FF = 150, 200
#: Header, mask and list of the active kernels.
KERNELS_LUT = 500
#: Shares of the partition: products of a count with a number of pieces, and comparisons; of each piece its limits.
PARTITION_LUT, LIMIT_LUT = 500, 40
#: Counts of lines: most lines and the bits of a sum.
COUNTED_LINES, COUNT_BITS = 512, 24
#: The loops of a word and of a group.
CONTROL_LUT, CONTROL_FF = 500, 800


def cluster_parts(config: SystolicConfig, build: ClusterBuild) -> dict[str, Resources]:
    """The cluster without its ports to memory and output stage."""
    return {
        "cluster multipliers": multipliers(config, build.multiplier, build.lanes, build.units),
        "cluster sums": scaled(unit_sums(config, build), build.units) + odd_half(config, build),
        "cluster pieces": scaled(piece(config, build), build.units) + feed(config, build),
        "cluster kernels": kernels(config, build),
        "cluster partition": partition(build),
        "cluster drain": drain(config, build),
    }


def unit_sums(config: SystolicConfig, build: ClusterBuild) -> Resources:
    """One unit's banks with their adders and addresses, and the rotation that brings each product to its bank."""
    bits, banks, side = config.accumulator_bits, build.lanes, build.kernel
    words = build.kernels_in_flight * build.accumulator_words
    rotation = 2 * banks * selection(side, 2 * config.format.mantissa_bits)
    addresses = banks * 2 * address_bits(words) + 2 * side * PLACE_BITS
    halves = banks * half_blocks(words, bits)
    return Resources(0, halves // 2, round(banks * bits + rotation + addresses), banks * (2 * bits + PLACE_BITS))


def odd_half(config: SystolicConfig, build: ClusterBuild) -> Resources:
    """Halves of block memories that single units leave over."""
    halves = build.lanes * half_blocks(build.kernels_in_flight * build.accumulator_words, config.accumulator_bits)
    return Resources(bram36=-(-(halves % 2) * build.units // 2))


def piece(config: SystolicConfig, build: ClusterBuild) -> Resources:
    """One unit's segments in two sets, and the selection of the next value that is not zero."""
    bits, values = config.format.mantissa_bits, build.load_pixels * config.lanes
    halves = half_blocks(2 * build.memory_words, values * bits + 2 * PLACE_BITS)
    found = 3 * values + selection(values, bits)
    inside = 4 * build.load_pixels + 2 * PLACE_BITS
    return Resources(0, -(-halves // 2), round(found + inside + UNIT_LUT), values * (bits + 2) + UNIT_FF)


def feed(config: SystolicConfig, build: ClusterBuild) -> Resources:
    """Which values of the segment that comes are zero, once for all units."""
    values = build.load_pixels * config.lanes
    return Resources(lut=values * -(-config.format.mantissa_bits // 6), ff=values * config.format.mantissa_bits)


def kernels(config: SystolicConfig, build: ClusterBuild) -> Resources:
    """Weights of two channel words in look-up tables, all of a kernel and channel side by side."""
    bits = build.lanes * config.format.mantissa_bits
    memory = lut_memory(2 * build.kernels_in_flight * config.lanes, bits)
    return Resources(lut=round(memory) + KERNELS_LUT + CONTROL_LUT, ff=2 * bits + CONTROL_FF)


def partition(build: ClusterBuild) -> Resources:
    """Counts of lines in block memory, the comparison of shares, the limits of bands and pieces."""
    halves = half_blocks(COUNTED_LINES, COUNT_BITS)
    limits = build.grid_rows + build.units
    return Resources(0, -(-halves // 2), PARTITION_LUT + limits * LIMIT_LUT, limits * PLACE_BITS + 4 * COUNT_BITS)


def drain(config: SystolicConfig, build: ClusterBuild) -> Resources:
    """The sum over the units in every bank, then the way from the banks to the pixels of the block."""
    bits, ports = config.accumulator_bits, build.lanes
    tree = ports * bits * (build.units - 1)
    return Resources(0, 0, round(tree + 2 * ports * selection(build.kernel, bits)), tree + ports * bits)
