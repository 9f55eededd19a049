"""The coefficients that the zero-skip engine applies, in the order in which it does (docs/zero-skip.md, section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.engines.zero_skip.arithmetic import KernelOrder, ZeroSkipConfig
from bfpga.formats.arrays import Int64Array, IntArray


@dataclass(frozen=True)
class OrderedEntries:
    """Entries of a layer, one after the other as a tile position sees them: group, image, then the order's own key.

    Each array: (entries,). ``kernel`` counts from the first kernel of its group. ``rank``: index of the entry among
    those of its group and image.
    """

    groups: int
    images: int
    group: Int64Array
    image: Int64Array
    kernel: Int64Array
    ky: Int64Array
    kx: Int64Array
    coefficient: Int64Array
    rank: Int64Array

    @property
    def bundle(self) -> Int64Array:
        """Number of the (group, image) pair of each entry."""
        return self.group * self.images + self.image

    @property
    def counts(self) -> Int64Array:
        """Entries of each group and image: (groups, images)."""
        counts = np.bincount(self.bundle, minlength=self.groups * self.images)
        return counts.reshape(self.groups, self.images).astype(np.int64)


def _index_in_runs(keys: Int64Array) -> Int64Array:
    """Index of each element inside its run of equal keys."""
    if keys.size == 0:
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    lengths = np.diff(np.concatenate((starts, [keys.size])))
    result: Int64Array = np.arange(keys.size) - np.repeat(starts, lengths)
    return result


def ordered_entries(
    coefficients: IntArray, kernels_in_flight: int, order: KernelOrder, skip_zero: bool = True
) -> OrderedEntries:
    """Entries of C[image][kernel][ky][kx] in the hardware's order; all positions without ``skip_zero``. ZS R22, R48."""
    images, kernels, _, kernel_width = coefficients.shape
    groups = -(-kernels // kernels_in_flight)
    selected = coefficients != 0 if skip_zero else np.ones(coefficients.shape, bool)
    image, z, ky, kx = (axis.astype(np.int64) for axis in np.nonzero(selected))
    value = coefficients[image, z, ky, kx].astype(np.int64)
    group, kernel = z // kernels_in_flight, z % kernels_in_flight
    position = ky * kernel_width + kx
    bundle = group * images + image
    # np.nonzero gives raster order, so the entries of one kernel follow each other: their index is that of the round.
    if order == "z_major":
        by = (position, kernel, bundle)
    elif order == "pos_major":
        by = (kernel, position, bundle)
    else:
        by = (kernel, _index_in_runs(image * kernels + z), bundle)
    sorting = np.lexsort(by)
    group, image, kernel, ky, kx, value = (array[sorting] for array in (group, image, kernel, ky, kx, value))
    return OrderedEntries(groups, images, group, image, kernel, ky, kx, value, _index_in_runs(bundle[sorting]))


def stalls(entries: OrderedEntries, steps: int, latency: int) -> Int64Array:
    """Clocks of every group and image in which an entry waits for the sums of its kernel: (groups, images). ZS 4.4.

    steps: clocks of an entry. An entry may start ``latency`` clocks after the start of the last one of its kernel.
    """
    waiting = np.zeros((entries.groups, entries.images), np.int64)
    longest = int(entries.counts.max(initial=0))
    if steps >= latency or longest == 0:
        return waiting
    kernel = np.full((waiting.size, longest), -1)
    kernel[entries.bundle, entries.rank] = entries.kernel
    # One entry of every group and image at a time, in step: they do not depend on each other.
    clock, flat, rows = np.zeros(waiting.size, np.int64), waiting.reshape(-1), np.arange(waiting.size)
    earliest = np.zeros((waiting.size, int(entries.kernel.max()) + 1), np.int64)
    for rank in range(longest):
        present = rows[kernel[:, rank] >= 0]
        z = kernel[present, rank]
        start = np.maximum(clock[present], earliest[present, z])
        flat[present] += start - clock[present]
        earliest[present, z] = start + latency
        clock[present] = start + steps
    return waiting


def shift_changes(entries: OrderedEntries) -> int:
    """How often the shift of one tile position changes, the first one of each image included."""
    if entries.rank.size == 0:
        return 0
    same = (entries.ky[1:] == entries.ky[:-1]) & (entries.kx[1:] == entries.kx[:-1]) & (entries.rank[1:] != 0)
    return int(entries.rank.size - same.sum())


def choose_order(config: ZeroSkipConfig, coefficients: IntArray, smallest_steps: int) -> KernelOrder:
    """The configured order, or the one with the fewest stalls where ``smallest_steps`` clocks let it stall. ZS 4.4."""

    def waiting(order: KernelOrder) -> int:
        entries = ordered_entries(coefficients, config.kernels_in_flight, order, config.skip_zero)
        return int(stalls(entries, smallest_steps, config.dependence_latency).sum())

    others: tuple[KernelOrder, ...] = ("pos_major", "interleaved", "z_major")
    return min((config.order, *others), key=waiting)
