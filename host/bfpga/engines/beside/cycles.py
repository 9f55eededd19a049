"""Clocks that both engines beside the array spend alike (docs/engines.md, section 8)."""

from __future__ import annotations

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.formats.arrays import Int64Array


def output_rows(descriptor: Descriptor) -> int:
    """Rows of the tile or strip."""
    return descriptor.output_pixels // descriptor.output_width


def segment_reads(descriptor: Descriptor, load_pixels: int) -> int:
    """Clocks in which the segments of the rectangle are read once."""
    return descriptor.input_height * -(-descriptor.input_width // load_pixels)


def fixed_cycles(config: SystolicConfig, load_pixels: int) -> int:
    """Clocks of an operation before its first group and after its last one."""
    return max(config.columns, load_pixels) + config.operation_depth


def group_sizes(kernels: int, in_flight: int) -> Int64Array:
    """Kernels of each group: (groups,)."""
    return np.minimum(in_flight, kernels - np.arange(0, kernels, in_flight))


def drain_cycles(config: SystolicConfig, descriptor: Descriptor, kernels: Int64Array, port_groups: int) -> int:
    """Clocks in which the sums of all groups leave.

    kernels: of each group (groups,). port_groups: groups of pixels that leave through the ports together.
    """
    window = max(config.lanes, descriptor.write_slots)
    words = int((-(-kernels // config.lanes)).sum())
    return (port_groups * words + len(kernels)) * window


def pipelined_cycles(compute: Int64Array, arrival: Int64Array, header: int, depth: int) -> int:
    """Clocks of one group whose parts arrive while the part before is computed.

    compute, arrival: clocks of each part, the first one's first (parts,). header: clocks before each arrival.
    """
    parts = len(compute)
    both = np.maximum(np.append(0, compute), np.append(arrival, 0))
    return int(both.sum()) + parts * header + (parts + 1) * depth
