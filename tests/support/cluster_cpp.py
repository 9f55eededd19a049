"""Runs pieces on the C++ comparison units of the sparse cluster (tests/cpp/cluster.cpp)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from cpp_units import library

from bfpga.devices.csim import Integers

#: Variants of the library, in its order; C and D clash by word or by bank, B works on
#: banks or has a window, A may be turned before it is read.
VARIANTS = ("A", "A_turned", "B", "B_window", "C", "C_bank", "D", "D_bank", "E")
#: Counters in the order of ``TileUnitCounters``.
COUNTERS = (
    "rounds", "iterations", "issued", "idle", "conflicts", "merged", "fifo_peak", "tiles", "tiles_skipped", "loads",
    "transfers", "moves", "waits",
)  # fmt: skip
Weight = tuple[int, int, int]


@dataclass(frozen=True)
class Build:
    """The numbers of one build, in the order in which the library tells them; transfer: clocks to load a window."""

    lanes: int
    tile_rows: int
    tile_columns: int
    kernel_rows: int
    kernel_columns: int
    piece_rows: int
    piece_columns: int
    input_bits: int
    weight_bits: int
    accumulator_bits: int
    weights_per_round: int
    kernels_in_flight: int
    dependence_latency: int
    transfer: int

    @property
    def tile(self) -> tuple[int, int]:
        return self.tile_rows, self.tile_columns


@functools.cache
def builds(integers: Integers) -> list[Build]:
    found: list[Build] = []
    values = (ctypes.c_int32 * len(fields(Build)))()
    while library("cluster", integers).unit_cluster_build(len(found), values) == 0:
        found.append(Build(*values))
    return found


def find(integers: Integers, lanes: int, tile: tuple[int, int]) -> int:
    """Number of the build with these lanes and this tile."""
    for number, build in enumerate(builds(integers)):
        if (build.lanes, build.tile) == (lanes, tile):
            return number
    raise AssertionError(f"tests/cpp/cluster.cpp has no build with {lanes} lanes and tiles of {tile}")


@dataclass(frozen=True)
class PieceRun:
    """Full grids (kernels, rows, columns) and what the loops counted."""

    full: np.ndarray
    counters: dict[str, int]


class SimulationError(AssertionError):
    """What a check of the simulation says."""


@dataclass(frozen=True)
class PieceCase:
    """A piece and its weights.

    values: (channels, rows, columns). weights: those issued of each channel and kernel, (value, row, column) in order.
    """

    values: np.ndarray
    weights: Sequence[Sequence[Sequence[Weight]]]
    kernel: tuple[int, int]
    keep_zeros: bool = False
    tiles_by_column: bool = False
    values_by_column: bool = False
    cap: int = 1
    defer_earlier: bool = False
    turn: tuple[int, int] = (0, 0)


def run_piece(integers: Integers, number: int, variant: str, case: PieceCase) -> PieceRun:
    """A piece on a build; ``SimulationError`` with what a check says."""
    channels, rows, columns = case.values.shape
    kernels = len(case.weights[0])
    numbers = np.array([
        VARIANTS.index(variant), channels, kernels, rows, columns, *case.kernel, case.keep_zeros, case.tiles_by_column,
        case.values_by_column, case.cap, case.defer_earlier, *case.turn,
    ], np.int32)  # fmt: skip
    flat = [number for channel in case.weights for kernel in channel for number in (len(kernel), *sum(kernel, ()))]
    full = np.zeros((kernels, rows + case.kernel[0] - 1, columns + case.kernel[1] - 1), np.int64)
    counters, text = np.zeros(len(COUNTERS), np.int64), ctypes.create_string_buffer(200)
    arrays = (numbers, np.ascontiguousarray(case.values, np.int32), np.array(flat, np.int32), full, counters)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    if library("cluster", integers).unit_cluster_piece(number, *pointers, text):
        raise SimulationError(text.value.decode())
    return PieceRun(full, dict(zip(COUNTERS, counters.tolist(), strict=True)))


def issued_weights(kernel: np.ndarray, order: Sequence[tuple[int, int]], *, zeros: bool = False) -> list[Weight]:
    """The weights (value, row, column) of a kernel in an order; without zeros unless they are wanted (SC R85)."""
    return [(int(kernel[place]), *place) for place in order if zeros or kernel[place]]
