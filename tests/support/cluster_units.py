"""Runs words of pieces and steps on a unit of a cluster of processes (tests/cpp/cluster_units.hpp)."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import numpy as np
from cpp_units import library
from unit_words import UnitNumbers

from bfpga.devices.csim import Integers


@dataclass(frozen=True)
class UnitBuild:
    """A build of the library, with the bits of its numbers."""

    numbers: UnitNumbers
    value_bits: int
    weight_bits: int
    accumulator_bits: int


@dataclass(frozen=True)
class UnitRun:
    """sums: (blocks, cells) in the order in which they left; what the unit counted. clocks: 0 where nobody counts.

    held: products that waited; stalls: clocks in which a round did.
    """

    sums: np.ndarray
    issued: int
    rounds: int
    clocks: int
    held: int
    stalls: int


#: Library of the units of variant E; that of variant B; of C and D; of A.
DATA_STATIONARY, INDEXED, PACKED = "cluster_units", "cluster_indexed", "cluster_packed"
SHIFT_WINDOW = "cluster_shift_window"


class UnitError(AssertionError):
    """What stopped a unit."""


class UnitLayer(ctypes.Structure):
    _fields_ = (
        ("piece", ctypes.c_void_p), ("words", ctypes.c_int32), ("step", ctypes.c_void_p), ("steps", ctypes.c_int32),
        ("rarely", ctypes.c_int32), ("room", ctypes.c_int32), ("capacity", ctypes.c_int32), ("sum", ctypes.c_void_p),
        ("blocks", ctypes.c_int32), ("issued", ctypes.c_int32), ("rounds", ctypes.c_int32),
        ("held", ctypes.c_int32), ("stalls", ctypes.c_int32), ("clocks", ctypes.c_int64), ("message", ctypes.c_char_p),
    )  # fmt: skip


@functools.cache
def builds(units: str = DATA_STATIONARY) -> list[UnitBuild]:
    """The builds of a library, the ZCU104's first."""
    found: list[UnitBuild] = []
    values = (ctypes.c_int32 * 9)()
    while library(units, "native").cluster_unit_numbers(len(found), values) == 0:
        lanes, rows, columns, value, weight, accumulator, planes, words, steps = values
        found.append(UnitBuild(UnitNumbers(lanes, (rows, columns), planes, words, steps), value, weight, accumulator))
    return found


def run_unit(
    integers: Integers, number: int, pieces: np.ndarray, steps: np.ndarray, rarely: int = 2, room: int = 3,
    units: str = DATA_STATIONARY,
) -> UnitRun:  # fmt: skip
    """pieces: (words, lanes + 7), the stop last; steps: (steps, cells + 3); ``UnitError`` with what a check says."""
    numbers = builds(units)[number].numbers
    capacity = 4096
    sums = np.zeros((capacity, numbers.cells), np.int64)
    message = ctypes.create_string_buffer(256)
    words, lists = np.ascontiguousarray(pieces, np.int32), np.ascontiguousarray(steps, np.int32)
    layer = UnitLayer(
        words.ctypes.data, len(words), lists.ctypes.data, len(lists), rarely, room, capacity, sums.ctypes.data,
        0, 0, 0, 0, 0, 0, ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    if library(units, integers).cluster_unit_run(number, ctypes.byref(layer)):
        raise UnitError(message.value.decode())
    assert layer.blocks <= capacity
    return UnitRun(sums[: layer.blocks], layer.issued, layer.rounds, layer.clocks, layer.held, layer.stalls)
