"""Constraints between the numbers of a kernel with a sparse cluster; those of units are a tile's too."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.arrays.sparse_cluster import cluster_array, map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.limits import largest_coordinate
from bfpga.engines.interface.finding import Finding
from bfpga.engines.skip_array.constraints import MOST_LANES, SKIP_MANTISSA_BITS, is_power
from bfpga.engines.sparse_cluster.unit_maps import cluster_fits

#: Fewest and most units of a cluster (SC 2.2), fewest kernels in flight, most rows and columns of a kernel.
LEAST_UNITS, MOST_UNITS, LEAST_KERNELS, MOST_KERNEL = 2, 32, 4, 5


def cluster_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a sparse cluster in the place of the array."""
    array = cluster_array(config.array)
    kernel, lanes = array.kernel, array.lanes
    if not LEAST_UNITS <= array.units <= MOST_UNITS:
        yield Finding("grid", f"has {array.units} units; must have {LEAST_UNITS}..{MOST_UNITS}")
    yield from unit_findings(config, "a sparse cluster")
    if not 1 <= kernel <= MOST_KERNEL:
        return
    if not 1 <= lanes <= kernel**2 and array.lists_taps:
        yield Finding("products", f"is {lanes}; must be 1..{kernel**2}: values of a block of the map")
    if array.merges_products and lanes % 2:
        text = f"is {lanes}; must be even: half of the lanes are for the second weight of a round"
        yield Finding("products", text)
    if array.merges_products and kernel < 2:
        yield Finding("kernel", f"is {kernel}; must be 2 at least: a round has two weights of a kernel")
    sizes = {"unit_words": array.words, "map_lines": array.map_lines, "map_blocks": array.map_blocks}
    for key, number in sizes.items():
        if not is_power(number):
            yield Finding(key, f"is {number}; must be a power of two")
    yield from run_findings(config, "map_lines", array.map_lines)
    if not cluster_fits(kernel, kernel, (kernel, kernel), config):
        text = f"is {array.words}; sums of a map of {kernel} x {kernel} cells must have room in a unit"
        yield Finding("unit_words", text)


def unit_findings(config: KernelConfig, name: str) -> Iterator[Finding]:
    """Numbers of a unit with kernels in flight. name: of what it is part of."""
    kernel = map_array(config.array).kernel
    if not LEAST_KERNELS <= config.rows <= MOST_LANES or not is_power(config.rows):
        text = f"is {config.rows}; must be a power of two, {LEAST_KERNELS}..{MOST_LANES}: kernels in flight of a unit"
        yield Finding("rows", text)
    if config.format.mantissa_bits > SKIP_MANTISSA_BITS:
        text = f"has mantissas of {config.format.mantissa_bits} bits; a unit takes {SKIP_MANTISSA_BITS} at most"
        yield Finding("format", text)
    if not 1 <= kernel <= MOST_KERNEL:
        yield Finding("kernel", f"is {kernel}; must be 1..{MOST_KERNEL}")
    least = 2 * config.format.mantissa_bits + (kernel * kernel - 1).bit_length()
    if config.accumulator_bits < least:
        text = f"is {config.accumulator_bits}; must be {least} at least for products of {kernel} x {kernel} weights"
        yield Finding("accumulator_bits", text)
    if config.wide_memory or config.wide_words:
        yield Finding("wide_words", f"is {config.wide_words}; must be 0: {name} keeps no accumulators")


def run_findings(config: KernelConfig, key: str, lines: object) -> Iterator[Finding]:
    """Whether memories hold a map of the largest size; key, lines: what the file says of that size."""
    if 2 * config.array.run_passes(config) > largest_coordinate(config):
        text = f"is {lines}; activation memories of {config.activation_words} words hold no such map"
        yield Finding(key, text)
