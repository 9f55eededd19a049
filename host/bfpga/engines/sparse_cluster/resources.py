"""Resources of a sparse cluster by its parts: multipliers, sums, pieces, kernels, partition, drain (SC 7.1-7.4).

The structure is that of variant E; what a part costs follows from the sizes by the rules of
``interface.resource_units``.
Only the standard library is imported.
"""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.beside.resources import engine_ports, multipliers
from bfpga.engines.interface.resource_units import Resources, address_bits, half_blocks, lut_memory, scaled, selection
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers

#: Rows, segments and columns of a map are counted in so many bits.
PLACE_BITS = 10
#: The walk of a unit over its piece: segment, element, kernel, the limits of the piece.
UNIT_LUT, UNIT_FF = 150, 200
#: Header, mask and list of the active kernels.
KERNELS_LUT = 500
#: Shares of the partition: products of a count with a number of pieces, and comparisons; of each piece its limits.
PARTITION_LUT, LIMIT_LUT = 500, 40
#: The loops of a word and of a group.
CONTROL_LUT, CONTROL_FF = 500, 800


def resources(config: SystolicConfig) -> dict[str, Resources]:
    """The parts of the cluster."""
    build = config.numbers_of(ClusterNumbers)
    return {
        "cluster multipliers": multipliers(config, build.multiplier, build.lanes, build.units),
        "cluster sums": scaled(unit_sums(config, build), build.units) + odd_half(config, build),
        "cluster pieces": pieces(config, build) + feed(config, build),
        "cluster kernels": kernels(config, build),
        "cluster partition": partition(config, build),
        "cluster drain": drain(config, build),
        "cluster ports": engine_ports(config, build.lanes, build.load_pixels),
    }


def unit_sums(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """One unit's banks with their adders and addresses, and the rotation that brings each weight to its bank.

    Weights are chosen by the lane of the element, then by rows, then by columns.
    """
    bits, banks, side = config.accumulator_bits, build.lanes, build.kernel
    words = build.kernels_in_flight * build.accumulator_words
    weight_bits = config.format.mantissa_bits
    rotation = banks * (selection(config.lanes, weight_bits) + 2 * selection(side, weight_bits))
    addresses = banks * 2 * address_bits(words) + 2 * side * PLACE_BITS
    halves = banks * half_blocks(words, bits)
    return Resources(0, halves // 2, round(banks * bits + rotation + addresses), banks * (2 * bits + PLACE_BITS))


def odd_half(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """Halves of block memories that single units leave over."""
    halves = build.lanes * half_blocks(build.kernels_in_flight * build.accumulator_words, config.accumulator_bits)
    return Resources(bram36=-(-(halves % 2) * build.units // 2))


def pieces(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """Segments of all units in two sets; units share the blocks of which they need a half."""
    values = build.load_pixels * config.lanes
    halves = half_blocks(2 * build.memory_words, values * config.format.mantissa_bits + index_bits(config, build))
    return scaled(piece(config, build), build.units) + Resources(bram36=-(-halves * build.units // 2))


def piece(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """One unit's way of a segment: what is not the piece's becomes zero, marks of values, the value that comes next.

    Two segments are registers: the one in use and the one behind it. Between memory and marks there are two more, which
    are the output latch and the output register of the block memories.
    """
    bits, values = config.format.mantissa_bits, build.load_pixels * config.lanes
    inside = 4 * build.load_pixels + 2 * PLACE_BITS + values * bits / 2
    found = values * -(-bits // 6) + 2 * (build.load_pixels + config.lanes) + selection(values, bits)
    registers = 2 * (values * (bits + 1) + build.load_pixels + index_bits(config, build))
    return Resources(0, 0, round(inside + found + UNIT_LUT), registers + UNIT_FF)


def index_bits(config: SystolicConfig, build: ClusterNumbers) -> int:
    """The place of a segment, stored beside its values: `SegmentIndex` of sparse_grid.hpp."""
    address = ((build.grid_rows + build.grid_columns + 2) * build.accumulator_words + build.load_pixels).bit_length()
    coordinate = (config.banks * config.activation_words * config.lanes).bit_length() + 3
    return address + 1 + 2 * (build.kernel.bit_length() + 1) + build.kernel + 2 * coordinate


def feed(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """Which values of the segment that comes are zero, once for all units."""
    values = build.load_pixels * config.lanes
    return Resources(lut=values * -(-config.format.mantissa_bits // 6), ff=values * config.format.mantissa_bits)


def kernels(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """Weights of two channel words in look-up tables, all of a kernel side by side: units are at different channels."""
    bits = config.lanes * build.lanes * config.format.mantissa_bits
    memory = 2 * lut_memory(build.kernels_in_flight, bits) + selection(2, bits)
    return Resources(lut=round(memory) + KERNELS_LUT + CONTROL_LUT, ff=bits + CONTROL_FF)


def partition(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """Counts of lines in look-up tables, one memory a pixel of a segment; shares; limits of pieces."""
    lines = build.kernel * build.accumulator_words
    rows = build.grid_rows * min(build.memory_words, lines)
    segments = build.grid_columns * min(build.memory_words, -(-lines // build.load_pixels))
    elements = config.banks * config.activation_words * config.lanes
    bits, share_bits = elements.bit_length(), (2 * elements * max(build.grid_rows, build.grid_columns)).bit_length() + 1
    counts = lut_memory(rows, bits) + build.load_pixels * (lut_memory(segments, bits) + bits + config.lanes)
    limits = build.grid_rows + build.units
    registers = limits * PLACE_BITS + 4 * share_bits + (1 + build.load_pixels) * bits
    return Resources(0, 0, round(counts) + PARTITION_LUT + limits * LIMIT_LUT, registers)


def drain(config: SystolicConfig, build: ClusterNumbers) -> Resources:
    """The sum over the units in every bank, then the way from the banks to the pixels of the block."""
    bits, ports = config.accumulator_bits, build.lanes
    tree = ports * bits * (build.units - 1)
    return Resources(0, 0, round(tree + 2 * ports * selection(build.kernel, bits)), tree + ports * bits)
