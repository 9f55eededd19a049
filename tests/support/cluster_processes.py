"""Runs maps on a cluster of processes (tests/cpp/cluster_processes.cpp)."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, field

import numpy as np
from cpp_units import library
from map_words import stop_map
from unit_words import UnitNumbers

from bfpga.devices.csim import Integers


@dataclass(frozen=True)
class ClusterBuild:
    """A build of the library, with the bits of its numbers."""

    numbers: UnitNumbers
    value_bits: int
    weight_bits: int
    accumulator_bits: int
    units: int


@dataclass
class ClusterWork:
    """What goes into a cluster, map after map: words of the streams as lists of arrays."""

    maps: list[np.ndarray] = field(default_factory=list)
    limits: list[np.ndarray] = field(default_factory=list)
    cells: list[np.ndarray] = field(default_factory=list)
    steps: list[np.ndarray] = field(default_factory=list)


class ClusterError(AssertionError):
    """What stopped a cluster."""


class _Layer(ctypes.Structure):
    _fields_ = (
        ("map", ctypes.c_void_p), ("maps", ctypes.c_int32), ("limit", ctypes.c_void_p), ("limits", ctypes.c_int32),
        ("cell", ctypes.c_void_p), ("cells", ctypes.c_int32), ("step", ctypes.c_void_p), ("steps", ctypes.c_int32),
        ("queue", ctypes.c_int32), ("ahead", ctypes.c_int32), ("seed", ctypes.c_uint64), ("capacity", ctypes.c_int32),
        ("sum", ctypes.c_void_p), ("blocks", ctypes.c_int32), ("report", ctypes.c_void_p), ("message", ctypes.c_char_p),
    )  # fmt: skip


@functools.cache
def builds(variant: str = "E") -> list[ClusterBuild]:
    """The builds of a variant, of E the ZCU104's last; those of C have one of D among them."""
    found: list[ClusterBuild] = []
    values = (ctypes.c_int32 * 10)()
    while library("cluster_processes", "native").cluster_numbers(ord(variant), len(found), values) == 0:
        lanes, rows, columns, value, weight, accumulator, planes, words, steps, pieces = values
        numbers = UnitNumbers(lanes, (rows, columns), planes, words, steps)
        found.append(ClusterBuild(numbers, value, weight, accumulator, pieces))
    return found


def run_cluster(
    integers: Integers, number: int, work: ClusterWork, queue: int = 8, ahead: int = 4, seed: int = 0,
    variant: str = "E",
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Blocks (blocks, cells) as they left, and what each unit counted (units, 2): values and steps.

    ``ClusterError`` with what a check says, or with who waits for whom.
    """
    build = builds(variant)[number]
    capacity = 1 << 14
    sums = np.zeros((capacity, build.numbers.cells), np.int64)
    report = np.zeros((build.units, 2), np.int32)
    message = ctypes.create_string_buffer(256)
    streams = ([*work.maps, stop_map()], work.limits, work.cells, work.steps)
    arrays = [np.ascontiguousarray(np.concatenate(stream), np.int32) for stream in streams]
    sizes = [number for array in arrays for number in (array.ctypes.data, len(array))]
    layer = _Layer(
        *sizes, queue, ahead, seed, capacity, sums.ctypes.data, 0, report.ctypes.data,
        ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    if library("cluster_processes", integers).cluster_run(ord(variant), number, ctypes.byref(layer)):
        raise ClusterError(message.value.decode())
    assert layer.blocks <= capacity
    return sums[: layer.blocks], report
