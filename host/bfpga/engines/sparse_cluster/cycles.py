"""Clocks of one SPARSE operation: what its descriptor and weights fix, and what its data decides (docs/engines.md).

Only the non-zero elements that the busiest unit holds of each channel word depend on the data (section 8). They are
counted for many samples at once: pieces are rows and columns of zeros and ones, so products with them count (SC R131).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.engine_numbers import DEPENDENCE_LATENCY, ENGINE_DEPTH
from bfpga.contract.program import KernelOperation
from bfpga.engines.beside.cycles import drain_cycles, fixed_cycles, group_sizes, output_rows, segment_reads
from bfpga.engines.beside.engine import Completion, UnitShares
from bfpga.engines.sparse_cluster.limits import limits, piece_limits
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.formats.arrays import Float32Array, Float64Array, Int64Array, IntArray

#: Samples are counted in chunks whose marks of non-zero elements, and whose steps, take about this many bytes.
CHUNK_BYTES = 2 << 20


@dataclass(frozen=True)
class _Steps:
    """Channel words of all groups, each with what arrives while it is computed; equal ones once. (steps,) each.

    word: channel word. slots: clocks of one non-zero element. next: clocks in which the next word arrives. times: how
    often there is such a step.
    """

    word: Int64Array
    slots: Int64Array
    next: Int64Array
    times: Int64Array


class ClusterOperation:
    """One strip on the sparse cluster. SC R22, R36, R113-R116.

    weights: (output_rows of the descriptor, kernel_height, kernel_width, input channels), as ``expanded_weights``.
    """

    def __init__(self, config: SystolicConfig, descriptor: Descriptor, weights: IntArray) -> None:
        self.config = config
        self.build = config.numbers_of(ClusterNumbers)
        self.descriptor = descriptor
        self.channels = weights.shape[3]
        self._starts = np.arange(0, self.channels, config.lanes)
        self._counted = self._counted_channels()
        self._fixed, self._steps = self._schedule(weights)

    # Clocks

    def clocks(self, x: IntArray) -> Int64Array:
        """Clocks of each sample without the fetch of the descriptor: (samples,).

        x: (samples, input_height, input_width, input channels) mantissas of the strip's rectangle.
        """
        return np.concatenate([self.clocks_of(held.max(axis=1)) for held in self._held(x)])

    def expected(self, density: float) -> int:
        """Clocks with a share of ``density`` non-zero elements, spread evenly over the rectangle; 1.0: none is zero."""
        return int(self.clocks_of(np.ceil(density * self._largest_piece()).astype(np.int64))[0])

    def balance(self, x: IntArray) -> Float64Array:
        """Non-zero elements of the busiest unit over the mean of all units, 1.0 without any: (samples,). SC R131."""
        loads = np.concatenate([held.sum(axis=2) for held in self._held(x)])
        mean = loads.mean(axis=1)
        result: Float64Array = np.divide(loads.max(axis=1), mean, out=np.ones(len(loads)), where=mean > 0)
        return result

    def shares(self, x: IntArray) -> UnitShares:
        """What the units get of one sample: (1, input_height, input_width, input channels) mantissas."""
        loads = next(self._held(x)).sum(axis=2)[0]
        lines = (x != 0).astype(np.float32)
        samples, rows, columns, channels = lines.shape
        row_limits = self._row_limits(lines.reshape(samples, rows, columns * channels))
        members = _members(row_limits, rows) @ lines.reshape(samples, rows, columns * channels)
        bands = members.reshape(samples, self.build.grid_rows, columns, channels)
        shape = samples, self.build.grid_rows, self.build.grid_columns + 1
        column_limits = np.broadcast_to(self._column_limits(bands), shape)
        pieces = [
            (int(top), int(bottom), int(left), int(right))
            for (top, bottom), limit in zip(pairwise(row_limits[0]), column_limits[0], strict=True)
            for left, right in pairwise(limit)
        ]
        return UnitShares(pieces, loads.tolist(), int(self.clocks(x)[0]))

    def clocks_of(self, most: Int64Array) -> Int64Array:
        """Clocks of each sample for any partition: (samples,).

        most: non-zero elements that the busiest unit holds of each channel word (samples, words).
        """
        steps = self._steps
        compute = most[:, steps.word] * steps.slots
        result: Int64Array = np.maximum(compute, steps.next) @ steps.times + self._fixed
        return result

    # What the data does not change

    def _schedule(self, weights: IntArray) -> tuple[int, _Steps]:
        """Clocks that do not depend on the data, and the steps that do."""
        fixed = fixed_clocks(self.config, self.descriptor)
        feed, beats = segment_reads(self.descriptor, self.build.load_pixels), kernel_beats(self.config)
        steps: list[tuple[Int64Array, Int64Array, Int64Array]] = []
        for active in self._active_kernels(weights):
            words = np.flatnonzero(active)
            if not words.size:
                fixed += 2
                continue
            arrival = np.maximum(feed, active[words] * beats)
            fixed += int(arrival[0]) + 2 * words.size + (words.size + 1) * ENGINE_DEPTH
            steps.append((words, np.maximum(DEPENDENCE_LATENCY, active[words]), np.append(arrival[1:], 0)))
        table = np.concatenate([np.stack(step, axis=1) for step in steps] or [np.zeros((0, 3), np.int64)])
        rows, times = np.unique(table, axis=0, return_counts=True)
        return fixed, _Steps(rows[:, 0], rows[:, 1], rows[:, 2], times)

    def _active_kernels(self, weights: IntArray) -> Int64Array:
        """Kernels of each group that have a weight in each channel word: (groups, words)."""
        present = np.add.reduceat((weights != 0).any(axis=(1, 2)), self._starts, axis=1, dtype=np.int64) > 0
        groups = np.arange(0, len(weights), self.build.kernels_in_flight)
        return np.add.reduceat(present, groups, axis=0, dtype=np.int64)

    def _largest_piece(self) -> Int64Array:
        """Elements of each channel word in the largest piece of equal size: (1, words)."""
        rows, columns = self._equal_limits
        cells = int(np.diff(rows).max()) * int(np.diff(columns).max())
        return cells * np.diff(np.append(self._starts, self.channels))[None]

    # The partition, and what the units hold of it

    def _held(self, x: IntArray) -> Iterator[Int64Array]:
        """Non-zero elements of each unit and channel word, in chunks of samples: (samples, units, words)."""
        descriptor = self.descriptor
        if x.shape[1:] != (descriptor.input_height, descriptor.input_width, self.channels):
            raise ValueError(f"the strip's rectangle is {x.shape[1:]}, not what its descriptor says")
        size = max(1, CHUNK_BYTES // max(4 * math.prod(x.shape[1:]), 8 * len(self._steps.word)))
        for start in range(0, max(len(x), 1), size):
            yield self._units((x[start : start + size] != 0).astype(np.float32))

    def _units(self, marks: Float32Array) -> Int64Array:
        """marks: 1.0 for every non-zero element (samples, rows, columns, channels)."""
        samples, rows, columns, channels = marks.shape
        lines = marks.reshape(samples, rows, columns * channels)
        bands = _members(self._row_limits(lines), rows) @ lines
        bands = bands.reshape(samples, self.build.grid_rows, columns, channels)
        pieces = _members(self._column_limits(bands), columns) @ bands
        words = np.add.reduceat(pieces, self._starts, axis=3)
        return words.reshape(samples, self.build.units, len(self._starts)).astype(np.int64)

    def _row_limits(self, lines: Float32Array) -> Int64Array:
        """lines: (samples, rows, columns * channels) -> (samples or 1, grid_rows + 1)."""
        if self._counted is None:
            return self._equal_limits[0][None]
        counts = lines @ np.tile(self._counted, self.descriptor.input_width)
        return limits(counts.astype(np.int64), self.build.grid_rows, self.descriptor.piece_rows)

    def _column_limits(self, bands: Float32Array) -> Int64Array:
        """bands: (samples, grid_rows, columns, channels) -> (samples or 1, grid_rows or 1, grid_columns + 1)."""
        if self._counted is None:
            return self._equal_limits[1][None, None]
        counts = (bands @ self._counted).astype(np.int64)
        return limits(counts, self.build.grid_columns, self.descriptor.piece_columns)

    @cached_property
    def _equal_limits(self) -> tuple[Int64Array, Int64Array]:
        """Limits of rows and of columns if all lines count alike."""
        descriptor, build = self.descriptor, self.build
        return (
            limits(np.ones(descriptor.input_height, np.int64), build.grid_rows, descriptor.piece_rows),
            limits(np.ones(descriptor.input_width, np.int64), build.grid_columns, descriptor.piece_columns),
        )

    def _counted_channels(self) -> Float32Array | None:
        """1.0 for every channel that is counted for the partition (channels,); None if lines count alike."""
        step = self.descriptor.count_step
        if not step:
            return None
        word = np.arange(self.channels) // self.config.lanes
        counted: Float32Array = (word % step == 0).astype(np.float32)
        return counted


def complete(config: SystolicConfig, descriptor: Descriptor, weights: IntArray, density: float) -> Completion:
    """The limits of the pieces, and the clocks that an input of a density lets expect."""
    kernel = descriptor.kernel_height, descriptor.kernel_width
    build = config.numbers_of(ClusterNumbers)
    most = piece_limits(build, descriptor.input_height, descriptor.input_width, kernel)
    assert most is not None, "strips are cut so that their pieces fit"
    fields = {"piece_rows": most[0], "piece_columns": most[1]}
    operation = ClusterOperation(config, replace(descriptor, **fields), weights)
    return Completion(fields, operation.expected(density))


def counter(config: SystolicConfig, descriptor: Descriptor, weights: IntArray) -> Callable[[IntArray], Int64Array]:
    """What gives the clocks of each sample of the strip's rectangle."""
    return ClusterOperation(config, descriptor, weights).clocks


def measure(config: SystolicConfig, operation: KernelOperation, weights: IntArray, x: IntArray) -> None:
    """Give a strip its mean clocks on samples of its rectangle (samples, rows, columns, channels).

    If the pieces take no fewer clocks for being balanced, they get equal sizes: zeros that lie everywhere are not worth
    the counting (SC R22).
    """
    found = {}
    for step in sorted({0, operation.descriptor.count_step}):
        strip = ClusterOperation(config, replace(operation.descriptor, count_step=step), weights)
        found[step] = round(float(np.mean(strip.clocks(x))))
    operation.descriptor.count_step = min(found, key=lambda step: found[step])
    operation.clocks = found[operation.descriptor.count_step]


def unit_shares(
    config: SystolicConfig, descriptor: Descriptor, weights: IntArray, x: IntArray
) -> tuple[UnitShares, UnitShares]:
    """What the units get of one sample in pieces of equal size, and in pieces of equal work (``InputCycles``).

    A strip that keeps equal pieces is told what counting every channel word would give.
    """
    steps = 0, descriptor.count_step or 1
    equal, balanced = (
        ClusterOperation(config, replace(descriptor, count_step=step), weights).shares(x) for step in steps
    )
    return equal, balanced


def cycle_shares(config: SystolicConfig, operation: KernelOperation, weights: IntArray) -> dict[str, int]:
    """Clocks of one operation by what they are spent on; the sum is ``operation.clocks``.

    `densest unit`: non-zero elements that the busiest unit has beyond what hides behind loading; `loading`: input and
    kernels that come in; `drain`: sums that leave; `pipeline`: the rest. Without non-zero elements nothing is left but
    what comes in and goes out.
    """
    build, descriptor = config.numbers_of(ClusterNumbers), operation.descriptor
    idle = ClusterOperation(config, descriptor, weights).expected(0.0)
    blocks = -(-output_rows(descriptor) // build.kernel) * -(-descriptor.output_width // build.kernel)
    drain = drain_cycles(config, descriptor, group_sizes(len(weights), build.kernels_in_flight), blocks)
    fixed = fixed_cycles(config, build.load_pixels)
    return {
        "densest unit": operation.clocks - idle, "loading": idle - drain - fixed, "drain": drain, "pipeline": fixed,
    }  # fmt: skip


def most_clocks(config: SystolicConfig, descriptor: Descriptor) -> int:
    """No fewer clocks than a SPARSE operation may take, whatever its weights and its data.

    A piece that is as large as it may be holds no zero, and all kernels have a weight in every channel word.
    """
    build = config.numbers_of(ClusterNumbers)
    rows, columns = descriptor.input_height, descriptor.input_width
    elements = min(descriptor.piece_rows, rows) * min(descriptor.piece_columns, columns) * config.lanes
    compute = elements * max(DEPENDENCE_LATENCY, build.kernels_in_flight)
    feed, kernels = segment_reads(descriptor, build.load_pixels), build.kernels_in_flight * kernel_beats(config)
    word = max(compute, feed, kernels) + 2 + ENGINE_DEPTH
    groups = descriptor.blocks * (descriptor.channel_words + 1) * word
    return fixed_clocks(config, descriptor) + groups


def fixed_clocks(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks of an operation beside the channel words of its groups: partition, drain, what is around them."""
    build = config.numbers_of(ClusterNumbers)
    blocks = -(-output_rows(descriptor) // build.kernel) * -(-descriptor.output_width // build.kernel)
    kernels = group_sizes(descriptor.output_rows, build.kernels_in_flight)
    around = fixed_cycles(config, build.load_pixels) + partition_cycles(build, descriptor)
    return around + drain_cycles(config, descriptor, kernels, blocks)


def partition_cycles(build: ClusterNumbers, descriptor: Descriptor) -> int:
    """Clocks in which lines are counted and limits found (docs/engines.md, section 8)."""
    scan = descriptor.input_height + build.grid_rows * descriptor.input_width
    if not descriptor.count_step:
        return scan
    counted = -(-descriptor.channel_words // descriptor.count_step)
    reads = 2 * segment_reads(descriptor, build.load_pixels) * counted
    return scan + reads + (1 + build.grid_rows) * ENGINE_DEPTH


def kernel_beats(config: SystolicConfig) -> int:
    """Beats of the weight stream that one kernel takes of one channel word (docs/engines.md, section 4)."""
    bits = config.lanes * config.numbers_of(ClusterNumbers).lanes * config.format.container_bits
    return -(-bits // config.weight_stream_bits)


def _members(bounds: Int64Array, lines: int) -> Float32Array:
    """1.0 where a piece holds a line: bounds (..., pieces + 1) -> (..., pieces, lines)."""
    line = np.arange(lines)
    inside = (bounds[..., :-1, None] <= line) & (line < bounds[..., 1:, None])
    return inside.astype(np.float32)
