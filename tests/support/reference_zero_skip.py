"""The zero-skip engine step by step in Python integers: what numpy and C++ must equal, and a trace of what it does.

Written from sections 2.1, 4.1, 4.2, 4.4 and 6.1 of the specification, one cell at a time, without numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from bfpga.engines.zero_skip.arithmetic import ZeroSkipConfig, ZeroSkipShape

Entry = tuple[int, int, int, int]  # kernel of the group, ky, kx, coefficient


@dataclass
class Run:
    """Result of a layer. sums: [kernel][row][column]. trace: (what, details...) in order of time."""

    sums: list[list[list[int]]]
    counters: dict[str, int]
    trace: list[tuple[Any, ...]] = field(default_factory=list)


def entries_in_order(kernels: list[list[list[int]]], order: str, skip_zero: bool) -> list[Entry]:
    """Entries of the kernels of one group and image."""
    of_kernel = [
        [(z, ky, kx, c) for ky, row in enumerate(kernel) for kx, c in enumerate(row) if c != 0 or not skip_zero]
        for z, kernel in enumerate(kernels)
    ]
    flat = [entry for entries in of_kernel for entry in entries]
    if order == "pos_major":
        return sorted(flat, key=lambda entry: (entry[1], entry[2], entry[0]))
    if order == "z_major":
        return flat
    rounds = max((len(entries) for entries in of_kernel), default=0)
    return [entries[i] for i in range(rounds) for entries in of_kernel if i < len(entries)]


class ReferenceEngine:
    """One layer, in the nest of section 4.1."""

    def __init__(
        self,
        config: ZeroSkipConfig,
        shape: ZeroSkipShape,
        images: list[list[list[int]]],
        coefficients: list[list[list[list[int]]]],
        bias: list[int] | None = None,
    ) -> None:
        self.config, self.shape = config, shape
        self.images, self.coefficients = images, coefficients
        self.bias = bias or [0] * shape.kernels
        self.trace: list[tuple[Any, ...]] = []
        names = (
            "tiles tile_loads load_words coef_entries coef_skipped mac_rows macs compute_cycles load_cycles out_cycles "
            "total_cycles hazard_stalls shift_changes"
        )
        self.count = dict.fromkeys(names.split(), 0)

    def run(self) -> Run:
        shape, flight = self.shape, self.config.kernels_in_flight
        blank = [[[0] * shape.output_width for _ in range(shape.output_height)] for _ in range(shape.kernels)]
        for z0 in range(0, shape.kernels, flight):
            group = range(z0, min(z0 + flight, shape.kernels))
            positions = [
                (row, column)
                for row in range(0, shape.output_height, self.config.tile_height)
                for column in range(0, shape.output_width, self.config.tile_width)
            ]
            sums: dict[tuple[int, int, int], int] = {}
            self.count["tiles"] += len(positions)
            visits = [(position, image) for position in positions for image in range(shape.images)]
            if self.config.nest == "image_outer":
                visits.sort(key=lambda visit: visit[1])
            for position, image in visits:
                self._image(group, position, image, sums)
                if image == shape.images - 1:
                    self._emit(group, position, sums, blank)
        return Run(blank, self.count, self.trace)

    def _tile(self, position: tuple[int, int]) -> tuple[int, int]:
        height = min(self.config.tile_height, self.shape.output_height - position[0])
        return height, min(self.config.tile_width, self.shape.output_width - position[1])

    def _load(self, position: tuple[int, int], image: int) -> tuple[list[list[int]], int]:
        """The tile buffer with its halo, and the clocks of the load: cells come in beats."""
        shape, (height, width) = self.shape, self._tile(position)
        top = position[0] * shape.stride[0] - shape.padding[0]
        left = position[1] * shape.stride[1] - shape.padding[2]
        rows = (height - 1) * shape.stride[0] + shape.kernel_height
        columns = (width - 1) * shape.stride[1] + shape.kernel_width
        buffer, row_of_cell = [], []
        for i in range(rows):
            line = []
            for j in range(columns):
                inside = 0 <= top + i < shape.height and 0 <= left + j < shape.width
                line.append(self.images[image][top + i][left + j] if inside else 0)
                if inside:
                    row_of_cell.append(i)
            buffer.append(line)
        clocks = 0
        for start in range(0, len(row_of_cell), self.config.beat_cells):
            touched = len(set(row_of_cell[start : start + self.config.beat_cells]))
            clocks += math.ceil(touched / self.config.row_banks)
        self.count["tile_loads"] += 1
        self.count["load_words"] += len(row_of_cell)
        self.count["load_cycles"] += clocks
        self.trace.append(("load", position, image))
        return buffer, clocks

    def _image(
        self, group: range, position: tuple[int, int], image: int, sums: dict[tuple[int, int, int], int]
    ) -> None:
        config, shape = self.config, self.shape
        kernels = [self.coefficients[image][z] for z in group]
        entries = entries_in_order(kernels, config.order, config.skip_zero)
        self.count["coef_skipped"] += len(group) * shape.kernel_height * shape.kernel_width - len(entries)
        if not entries and config.skip_empty:
            return
        buffer, load = self._load(position, image)
        untouched = [list(row) for row in buffer]
        clock, last_start, last_shift = 0, {}, None
        height, width = self._tile(position)
        steps = math.ceil(height / config.rows_parallel) * math.ceil(width / config.lanes)
        for z, ky, kx, c in entries:
            start = max(clock, last_start.get(z, -config.dependence_latency) + config.dependence_latency)
            self.count["hazard_stalls"] += start - clock
            self.count["shift_changes"] += (ky, kx) != last_shift
            last_start[z], last_shift, clock = start, (ky, kx), start + steps
            self.trace.append(("entry", group.start + z, image, ky, kx, c))
            for y in range(height):
                row = buffer[ky + y * shape.stride[0]]
                for x in range(width):
                    key = (group.start + z, position[0] + y, position[1] + x)
                    product = c * row[kx + x * shape.stride[1]]
                    sums[key] = self._wrapped(sums.get(key, self.bias[key[0]]) + product)
            self.count["coef_entries"] += 1
            self.count["mac_rows"] += height
            self.count["macs"] += height * width
        assert buffer == untouched
        self.count["compute_cycles"] += clock
        self.count["total_cycles"] += max(clock, load) if config.double_buffer else clock + load

    def _wrapped(self, value: int) -> int:
        half = 1 << (self.config.accumulator_bits - 1)
        return (value + half) % (2 * half) - half

    def _emit(
        self,
        group: range,
        position: tuple[int, int],
        sums: dict[tuple[int, int, int], int],
        result: list[list[list[int]]],
    ) -> None:
        height, width = self._tile(position)
        self.trace.append(("emit", position))
        self.count["out_cycles"] += math.ceil(
            len(group) * height * width * self.config.output_bytes / self.config.bus_bytes
        )
        for z in group:
            for y in range(position[0], position[0] + height):
                for x in range(position[1], position[1] + width):
                    result[z][y][x] = sums.get((z, y, x), self._wrapped(self.bias[z]))
