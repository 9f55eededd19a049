"""Runs what stands before and behind the units of a kernel's cluster (tests/cpp/cluster_ends.cpp)."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import numpy as np
from cpp_units import library

from bfpga.contract.arrays.skip_array import SparseArray
from bfpga.devices.csim import Integers


@dataclass(frozen=True)
class ClusterKernel:
    """The numbers of a kernel of the library."""

    columns: int
    lanes: int
    rows: int
    grid_rows: int
    grid_columns: int
    kernel: int
    words: int
    blocks: int
    lines: int
    value_bits: int
    weight_bits: int
    accumulator_bits: int
    products: int  # of a unit of variant B to D; 0: units are of variant A or E
    weights: int  # of a step: two of variants C and D
    shifts: int  # 1: units are of variant A

    @property
    def cells(self) -> int:
        """Cells of a block."""
        return self.kernel**2


class ClusterEndError(AssertionError):
    """What stopped a process."""


class _Work(ctypes.Structure):
    _fields_ = (
        ("layer", ctypes.c_void_p), ("layers", ctypes.c_int32), ("word", ctypes.c_void_p), ("words", ctypes.c_int32),
        ("rarely", ctypes.c_int32), ("capacity", ctypes.c_int32), ("made", ctypes.c_void_p), ("count", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    )  # fmt: skip


@functools.cache
def kernels() -> list[ClusterKernel]:
    """The kernels of the library."""
    found: list[ClusterKernel] = []
    values = (ctypes.c_int32 * 15)()
    while _library("native").cluster_ends_numbers(len(found), values) == 0:
        found.append(ClusterKernel(*values))
    return found


def made_steps(integers: Integers, number: int, layers: np.ndarray, words: np.ndarray, rarely: int = 0) -> np.ndarray:
    """Steps (steps, cells + 3) of weight words (words, rows, lanes); layers (layers, 3): words, rows, columns."""
    return _run("steps", integers, number, layers, words, kernels()[number].cells + 3, rarely)


def sent_sums(integers: Integers, number: int, layers: np.ndarray, blocks: np.ndarray, rarely: int = 0) -> np.ndarray:
    """Rows of sums (rows, columns) of blocks (blocks, cells); layers (layers, 9): fields of ``OutputsBeat``."""
    return _run("grids", integers, number, layers, blocks, kernels()[number].columns, rarely)


def _library(integers: Integers) -> ctypes.CDLL:
    return library("cluster_ends", integers, SparseArray())


def _run(
    process: str, integers: Integers, number: int, layers: np.ndarray, words: np.ndarray, width: int, rarely: int
) -> np.ndarray:
    capacity = 1 << 15
    made = np.zeros((capacity, width), np.int32)
    message = ctypes.create_string_buffer(256)
    given = np.ascontiguousarray(layers, np.int32), np.ascontiguousarray(words, np.int32)
    work = _Work(
        given[0].ctypes.data, len(given[0]), given[1].ctypes.data, len(given[1]), rarely, capacity, made.ctypes.data, 0,
        ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    if getattr(_library(integers), f"cluster_ends_{process}")(number, ctypes.byref(work)):
        raise ClusterEndError(message.value.decode())
    assert work.count < capacity
    return made[: work.count]
