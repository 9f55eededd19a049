"""Runs layers on the C++ zero-skip engine of tests/cpp/zero_skip.cpp."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from cpp_units import library
from zero_skip_cases import NESTS, ORDERS, Array, Case

from bfpga.devices.csim import Integers
from bfpga.formats.compressed.kernels import KernelFormat, encode_kernels, kernel_segments, segment_words


@dataclass(frozen=True)
class Build:
    """The numbers of one build, in the order in which the library tells them."""

    tile_height: int
    tile_width: int
    lanes: int
    rows_parallel: int
    kernels_in_flight: int
    kernel_height: int
    kernel_width: int
    stride: int
    operand_bits: int
    coefficient_bits: int
    accumulator_bits: int
    dependence_latency: int
    beat_cells: int
    row_banks: int
    accumulator_words: int
    plane_words: int

    @property
    def fixed(self) -> dict[str, Any]:
        """What the numpy engine must be told for the same clocks."""
        operand_bytes = 1 if self.operand_bits <= 8 else 2
        names = (
            "lanes rows_parallel kernel_height kernel_width stride operand_bits coefficient_bits accumulator_bits "
            "dependence_latency row_banks"
        )
        numbers = {name: getattr(self, name) for name in names.split()}
        multiplier = "dsp_packed" if operand_bytes == 1 else "dsp"
        return {**numbers, "bus_bytes": self.beat_cells * operand_bytes, "multiplier": multiplier}


@functools.cache
def builds(integers: Integers) -> list[Build]:
    found: list[Build] = []
    values = (ctypes.c_int32 * len(fields(Build)))()
    while library("zero_skip", integers).unit_zero_skip_build(len(found), values) == 0:
        found.append(Build(*values))
    return found


def find(integers: Integers, **wanted: int) -> int:
    """Number of the first build with these numbers."""
    for number, build in enumerate(builds(integers)):
        if all(getattr(build, name) == value for name, value in wanted.items()):
            return number
    raise AssertionError(f"tests/cpp/zero_skip.cpp has no build with {wanted}")


@dataclass(frozen=True)
class CppRun:
    """Sums [kernel][row][column] and what the loops counted."""

    sums: Array
    counters: dict[str, int]


#: Counters in the order of the library.
COUNTERS = [
    "coef_entries", "mac_rows", "macs", "compute_cycles", "load_cycles", "decode_cycles", "hazard_stalls",
    "shift_changes", "loop_cycles", "tiles", "tile_loads", "load_words", "total_cycles", "out_words",
]  # fmt: skip


class SimulationError(AssertionError):
    """What a check of the simulation says."""


def kernel_words(case: Case, fmt: KernelFormat) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], int]:
    """The stream of all groups, the first word of each group and image (and the end), segments of an image."""
    flight = case.config.kernels_in_flight
    words, sizes, segments = [], [], 1
    for first in range(0, case.shape.kernels, flight):
        group = case.coefficients[:, first : first + flight]
        each = 1 if fmt == KernelFormat.ENTRY16 else flight
        packed = kernel_segments(group, each)
        segments = -(-group.shape[1] // each)
        words.append(encode_kernels(packed, fmt))
        sizes.append(segment_words(packed, fmt).reshape(case.shape.images, segments).sum(axis=1))
    starts = np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(np.int64)
    return np.concatenate(words).astype(np.uint32), starts, segments


def run_words(
    integers: Integers,
    number: int,
    case: Case,
    stream: tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], int],
    word_cells: int = 1,
) -> CppRun:
    """A layer whose kernels are given as words; ``SimulationError`` with what a check says."""
    words, starts, segments = stream
    shape, config = case.shape, case.config
    layer = np.array([
        shape.images, shape.kernels, shape.kernel_height, shape.kernel_width, shape.height, shape.width,
        shape.pad_top, shape.pad_left, shape.stride_y, shape.stride_x, shape.output_height, shape.output_width,
        config.tile_height, config.tile_width, config.kernels_in_flight, ORDERS.index(config.order), config.skip_zero,
        NESTS.index(config.nest), word_cells, segments,
    ], np.int32)  # fmt: skip
    image = np.ascontiguousarray(case.images, np.int32)
    preset = np.zeros(shape.kernels, np.int64) if case.bias is None else np.ascontiguousarray(case.bias, np.int64)
    sums = np.zeros((shape.kernels, shape.output_height, shape.output_width), np.int64)
    counters, text = np.zeros(len(COUNTERS), np.int64), ctypes.create_string_buffer(200)
    arrays = (layer, image, np.ascontiguousarray(words), starts, preset, sums, counters)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    if library("zero_skip", integers).unit_zero_skip_layer(number, *pointers, text):
        raise SimulationError(text.value.decode())
    return CppRun(sums, dict(zip(COUNTERS, counters.tolist(), strict=True)))


def run_layer(
    integers: Integers, number: int, case: Case, fmt: KernelFormat = KernelFormat.BITMAP, word_cells: int = 1
) -> CppRun:
    """A layer with its kernels in a format; several segments an image are possible where all groups are full."""
    if fmt == KernelFormat.ENTRY16:
        return _run_groups(integers, number, case, word_cells)
    return run_words(integers, number, case, kernel_words(case, fmt), word_cells)


def _run_groups(integers: Integers, number: int, case: Case, word_cells: int) -> CppRun:
    """Group by group, because the last one has fewer segments."""
    runs = []
    flight = case.config.kernels_in_flight
    for first in range(0, case.shape.kernels, flight):
        part = case.kernels(first, first + flight)
        runs.append(run_words(integers, number, part, kernel_words(part, KernelFormat.ENTRY16), word_cells))
    counters = {name: sum(run.counters[name] for run in runs) for name in COUNTERS}
    return CppRun(np.concatenate([run.sums for run in runs]), counters)
