"""Clocks of one ZERO_SKIP operation, from its descriptor and coefficients (docs/engines.md, sections 4, 5 and 8).

Coefficients and sizes decide, never the images: a layer is counted once, when it is compiled (ZS R51, R53).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, EntryOrder
from bfpga.contract.engine_numbers import DEPENDENCE_LATENCY, ENGINE_DEPTH
from bfpga.contract.program import KernelOperation
from bfpga.engines.beside.cycles import (
    drain_cycles,
    fixed_cycles,
    group_sizes,
    output_rows,
    pipelined_cycles,
    segment_reads,
)
from bfpga.engines.beside.engine import Completion
from bfpga.engines.zero_skip.arithmetic import KernelOrder
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.engines.zero_skip.order import ordered_entries, stalls
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.compressed.kernels import (
    KernelFormat,
    KernelSegments,
    kernel_bytes,
    kernel_segments,
    possible_kernel_formats,
)

#: Orders of the coefficients by the number that ``entry_order`` of a descriptor holds.
ORDERS: tuple[KernelOrder, ...] = tuple(sorted(get_args(KernelOrder), key=lambda name: EntryOrder[name.upper()]))
#: Of orders with the same clocks: the one that shifts the tile buffer least comes first.
_PREFERRED = tuple(ORDERS.index(order) for order in ("pos_major", "interleaved", "z_major"))


def group_segments(weights: IntArray, steps: int) -> tuple[KernelSegments, KernelFormat]:
    """Segments of the kernels of one group, one for each image that has an entry, ascending; their format.

    ZS R43, R45. weights: (kernels of the group, kernel_height, kernel_width, input channels), not all zero. steps:
    clocks of one entry on the tile. All segments of a group have one format: that whose decoding is waited for least,
    since on a small tile a mask takes longer than its few entries; of equal ones that with the fewest bytes.
    """
    images = np.flatnonzero((weights != 0).any(axis=(0, 1, 2)))
    segments = kernel_segments(weights[..., images].transpose(3, 0, 1, 2))
    segments = replace(segments, kz=images[segments.kz])
    compute = segments.entries * steps

    def cost(fmt: KernelFormat) -> tuple[int, int]:
        waiting = np.maximum(0, decode_cycles(segments, fmt) - compute)
        return int(waiting.sum()), kernel_bytes(segments, fmt)

    return segments, min(possible_kernel_formats(segments), key=cost)


def decode_cycles(segments: KernelSegments, fmt: KernelFormat) -> Int64Array:
    """Clocks in which the decoder takes each segment (docs/zero-skip.md, section 4)."""
    if fmt is KernelFormat.BITMAP:
        return np.asarray(3 + segments.kernels * segments.kernel_size[0] + segments.entries, np.int64)
    return np.asarray(2 + segments.entries, np.int64)


def zero_skip_clocks(config: SystolicConfig, descriptor: Descriptor, weights: IntArray) -> int:
    """Clocks of one operation without the fetch of its descriptor. ZS Z6-Z9, R28, R34, R48.

    weights: (output_rows of the descriptor, kernel_height, kernel_width, input channels), as ``expanded_weights``.
    """
    build = config.numbers_of(ZeroSkipNumbers)
    rows = output_rows(descriptor)
    load = segment_reads(descriptor, build.load_pixels)
    total = fixed_cycles(config, build.load_pixels)
    compute, steps = _compute_cycles(build, descriptor, weights), entry_steps(build, descriptor)
    for group, part in enumerate(_groups(weights, build.kernels_in_flight)):
        if not part.any():
            total += 1
            continue
        segments, fmt = group_segments(part, steps)
        arrival = np.maximum(load, decode_cycles(segments, fmt))
        total += pipelined_cycles(compute[group, segments.kz], arrival, 1, ENGINE_DEPTH)
    kernels = group_sizes(len(weights), build.kernels_in_flight)
    return total + drain_cycles(config, descriptor, kernels, rows * -(-descriptor.output_width // config.columns))


def best_order(config: SystolicConfig, descriptor: Descriptor, weights: IntArray) -> int:
    """The number of the order with the fewest clocks on a descriptor's tile (ZS R48); see ``zero_skip_clocks``."""
    if entry_steps(config.numbers_of(ZeroSkipNumbers), descriptor) >= DEPENDENCE_LATENCY:
        return _PREFERRED[0]
    return min(_PREFERRED, key=lambda order: zero_skip_clocks(config, replace(descriptor, entry_order=order), weights))


def complete(config: SystolicConfig, descriptor: Descriptor, weights: IntArray, density: float) -> Completion:
    """The order of the entries, and the clocks with it; the input does not matter."""
    order = best_order(config, descriptor, weights)
    clocks = zero_skip_clocks(config, replace(descriptor, entry_order=order), weights)
    return Completion({"entry_order": order}, clocks)


def cycle_shares(config: SystolicConfig, operation: KernelOperation, weights: IntArray) -> dict[str, int]:
    """Clocks of one operation by what they are spent on; the sum is ``operation.clocks``.

    `entries`: coefficients applied to the tile; `loading`: the clocks that would be saved if the tile were there at
    once; `drain`: sums that leave; `pipeline`: the rest, with headers and decoding.
    """
    build, descriptor = config.numbers_of(ZeroSkipNumbers), operation.descriptor
    groups = output_rows(descriptor) * -(-descriptor.output_width // config.columns)
    kernels = group_sizes(len(weights), build.kernels_in_flight)
    shares = {
        "entries": int(np.count_nonzero(weights)) * entry_steps(build, descriptor),
        "loading": operation.clocks - zero_skip_clocks(config, replace(descriptor, input_height=0), weights),
        "drain": drain_cycles(config, descriptor, kernels, groups),
    }
    return {**shares, "pipeline": operation.clocks - sum(shares.values())}


def entry_steps(build: ZeroSkipNumbers, descriptor: Descriptor) -> int:
    """Clocks of one coefficient on the tile. ZS Z6."""
    return -(-output_rows(descriptor) // build.rows_parallel) * -(-descriptor.output_width // build.lanes)


def _compute_cycles(build: ZeroSkipNumbers, descriptor: Descriptor, weights: IntArray) -> Int64Array:
    """Clocks in which the entries of each group and image are applied: (groups, images)."""
    steps = entry_steps(build, descriptor)
    if steps >= DEPENDENCE_LATENCY:
        entries = np.count_nonzero(weights, axis=(1, 2))
        starts = np.arange(0, len(weights), build.kernels_in_flight)
        return np.add.reduceat(entries, starts, axis=0) * steps
    ordered = ordered_entries(weights.transpose(3, 0, 1, 2), build.kernels_in_flight, ORDERS[descriptor.entry_order])
    return ordered.counts * steps + stalls(ordered, steps, DEPENDENCE_LATENCY)


def _groups(weights: IntArray, in_flight: int) -> Iterator[IntArray]:
    return (weights[first : first + in_flight] for first in range(0, len(weights), in_flight))
