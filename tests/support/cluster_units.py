"""Runs words of pieces and steps on a unit of a cluster of processes (tests/cpp/cluster_units.hpp)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cpp_units import library
from unit_words import UnitNumbers, stop_word

from bfpga.contract.arrays.sparse_cluster import MERGE_DISTANCE, SUM_DISTANCE, WINDOW_DISTANCE
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


#: Of each variant: weights of a step, None: all of a kernel; steps from one of a kernel to its next one.
STEPS: dict[str, tuple[int | None, int]] = {
    "A": (None, WINDOW_DISTANCE), "B": (1, SUM_DISTANCE), "C": (2, MERGE_DISTANCE), "D": (2, MERGE_DISTANCE),
    "E": (None, SUM_DISTANCE),
}  # fmt: skip


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
def builds(variant: str) -> list[UnitBuild]:
    """The builds of a variant, the ZCU104's first."""
    found: list[UnitBuild] = []
    values = (ctypes.c_int32 * 9)()
    while library("cluster_units", "native").cluster_unit_numbers(ord(variant), len(found), values) == 0:
        lanes, rows, columns, value, weight, accumulator, planes, words, steps = values
        found.append(UnitBuild(UnitNumbers(lanes, (rows, columns), planes, words, steps), value, weight, accumulator))
    return found


def run_unit(
    integers: Integers, variant: str, number: int, words: Sequence[np.ndarray], steps: Sequence[np.ndarray],
    rarely: int = 2, room: int = 3,
) -> UnitRun:  # fmt: skip
    """words: of pieces (words, lanes + 7), without the stop; steps: sets (steps, cells + 3).

    ``UnitError`` with what a check says.
    """
    numbers = builds(variant)[number].numbers
    capacity = 4096
    sums = np.zeros((capacity, numbers.cells), np.int64)
    message = ctypes.create_string_buffer(256)
    pieces = np.ascontiguousarray(np.concatenate([*words, stop_word(numbers)]), np.int32)
    lists = np.ascontiguousarray(np.concatenate(steps), np.int32)
    layer = UnitLayer(
        pieces.ctypes.data, len(pieces), lists.ctypes.data, len(lists), rarely, room, capacity, sums.ctypes.data,
        0, 0, 0, 0, 0, 0, ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    if library("cluster_units", integers).cluster_unit_run(ord(variant), number, ctypes.byref(layer)):
        raise UnitError(message.value.decode())
    assert layer.blocks <= capacity
    return UnitRun(sums[: layer.blocks], layer.issued, layer.rounds, layer.clocks, layer.held, layer.stalls)
