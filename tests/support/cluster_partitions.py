"""Cuts maps by the partition process of a cluster (tests/cpp/cluster_partition.cpp)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from cpp_units import library
from map_words import LIMITS
from unit_words import UnitNumbers

from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.exchange import Partition

#: Numbers of the units and grid of each build, in the order of the library.
BUILDS = (
    (UnitNumbers(2, (3, 3), 8, 64, 16), (2, 2)),
    (UnitNumbers(3, (2, 3), 8, 128, 16), (2, 3)),
    (UnitNumbers(4, (3, 3), 8, 64, 16), (4, 4)),
    (UnitNumbers(1, (1, 1), 8, 256, 16), (3, 1)),
    (UnitNumbers(1, (3, 3), 8, 1024, 16), (2, 4)),
    (UnitNumbers(1, (3, 3), 8, 1024, 16), (1, 2)),
    (UnitNumbers(1, (3, 3), 8, 1024, 16), (2, 2)),
    (UnitNumbers(2, (3, 3), 8, 64, 16), (2, 2)),
    (UnitNumbers(3, (2, 3), 8, 128, 16), (2, 3)),
    (UnitNumbers(4, (3, 3), 8, 64, 16), (4, 4)),
    (UnitNumbers(1, (1, 1), 8, 256, 16), (3, 1)),
    (UnitNumbers(1, (5, 5), 8, 64, 16), (2, 4)),
)
#: The first build whose pieces own outputs.
FIRST_HALO = 7


@dataclass(frozen=True)
class PartitionRun:
    """limits: (units, 16) as the distributor and the collector get them; and what is reported."""

    limits: np.ndarray
    moves: int
    reached: bool
    largest: int
    smallest: int


class _Map(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_void_p), ("numbers", ctypes.c_int32), ("cell", ctypes.c_void_p), ("cells", ctypes.c_int32),
        ("limit", ctypes.c_void_p), ("report", ctypes.c_void_p), ("message", ctypes.c_char_p),
    )  # fmt: skip


def stream_bits(number: int) -> tuple[int, int]:
    """Bits of the words that go to the partition of a build, and of those that leave it."""
    bits = (ctypes.c_int32 * 2)()
    assert library("cluster_partition", "native").cluster_partition_bits(number, bits) == 0
    return bits[0], bits[1]


def run_partition(
    integers: Integers, number: int, image: np.ndarray, start: Partition, threshold: int, moves: int,
    kernel: tuple[int, int] = (1, 1),
) -> PartitionRun:  # fmt: skip
    """image: (rows, columns, channels); threshold: largest difference of work; kernel: that a halo is for."""
    numbers, grid = BUILDS[number]
    rows, columns, channels = image.shape
    words = -(-channels // numbers.lanes)
    padded = np.zeros((rows, columns, words * numbers.lanes), np.int32)
    padded[..., :channels] = image
    limits_of_start = [*start.row_limits, *(limit for band in start.column_limits for limit in band)]
    halo = kernel if number >= FIRST_HALO else ()
    given = np.array([rows, columns, words, threshold, moves, *halo, *limits_of_start], np.int32)
    limits, report = np.zeros((grid[0] * grid[1], LIMITS), np.int32), np.zeros(4, np.int32)
    message = ctypes.create_string_buffer(256)
    described = _Map(
        given.ctypes.data, len(given), padded.ctypes.data, rows * columns * words, limits.ctypes.data,
        report.ctypes.data, ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    if library("cluster_partition", integers).cluster_partition_run(number, ctypes.byref(described)):
        raise AssertionError(message.value.decode())
    made, met, largest, smallest = report.tolist()
    return PartitionRun(limits, made, bool(met), largest, smallest)


def run_in_kernel(
    integers: Integers, number: int, image: np.ndarray, threshold: int, moves: int, joined: tuple[int, int] = (1, 1),
    kernel: tuple[int, int] = (1, 1),
) -> np.ndarray:  # fmt: skip
    """Limits (units, 16) of the process as a kernel has it: equal pieces at first, words of channels one by one.

    joined: pieces of the grid, down and across, that are one. kernel: that a halo is for.
    """
    numbers, grid = BUILDS[number]
    rows, columns, channels = image.shape
    words = -(-channels // numbers.lanes)
    padded = np.zeros((rows, columns, words, numbers.lanes), np.int32)
    padded.reshape(rows, columns, -1)[..., :channels] = image
    cells = np.ascontiguousarray(padded.transpose(2, 0, 1, 3))
    given = np.array([rows, columns, words, threshold, moves, *joined, *kernel], np.int32)
    limits, report = np.zeros((grid[0] * grid[1], LIMITS), np.int32), np.zeros(4, np.int32)
    message = ctypes.create_string_buffer(256)
    described = _Map(
        given.ctypes.data, len(given), cells.ctypes.data, rows * columns * words, limits.ctypes.data,
        report.ctypes.data, ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    if library("cluster_partition", integers).cluster_partition_in_kernel(number, ctypes.byref(described)):
        raise AssertionError(message.value.decode())
    return limits
