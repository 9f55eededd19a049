"""Runs operations on the whole cluster of a kernel (tests/cpp/cluster_array.cpp)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cluster_ends import ClusterKernel
from cpp_units import library

from bfpga.contract.arrays.sparse_cluster import SparseCluster
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.devices.csim import Integers
from bfpga.formats.rounding import wrap


class ClusterArrayError(AssertionError):
    """What stopped a cluster."""


@dataclass(frozen=True)
class ClusterLayer:
    """A convolution: map (rows, columns, channels), weights (kernels, rows, columns, channels), stride, padding.

    padding: top, bottom, left, right. moves: of limits of pieces at most, until their work differs by ``difference``.
    joined: pieces of the grid, down and across, that are one.
    """

    image: np.ndarray
    weights: np.ndarray
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    moves: int = 0
    difference: int = 0
    joined: tuple[int, int] = (1, 1)

    def outputs(self) -> np.ndarray:
        """The sums (rows, columns, kernels)."""
        top, bottom, left, right = self.padding
        image = np.pad(self.image, ((top, bottom), (left, right), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(image, self.weights.shape[1:3], (0, 1))
        strided = windows[:: self.stride[0], :: self.stride[1]]
        return np.asarray(np.einsum("yxchw,khwc->yxk", strided, self.weights))

    def descriptor(self, kernel: ClusterKernel) -> Descriptor:
        rows, columns, channels = self.image.shape
        height, width, kernels = self.outputs().shape
        return Descriptor(
            operation=Operation.GEMM, flags=Flag.CLUSTER, input_height=rows, input_width=columns,
            map_cells=rows * columns, map_groups=-(-rows * columns // kernel.columns), group_columns=kernel.columns,
            channel_words=-(-channels // kernel.lanes), blocks=-(-kernels // kernel.rows), output_rows=kernels,
            kernel_height=self.weights.shape[1], kernel_width=self.weights.shape[2], stride_y=self.stride[0],
            stride_x=self.stride[1], pad_top=self.padding[0], pad_left=self.padding[2], output_width=width,
            output_pixels=height * width, most_moves=self.moves, work_difference=self.difference,
            joined_rows=self.joined[0], joined_columns=self.joined[1], parts_down=1, parts_across=1,
        )  # fmt: skip

    def cells(self, kernel: ClusterKernel) -> np.ndarray:
        """Words (words of channels, cells, lanes) of the map."""
        padded = _whole(self.image, 2, kernel.lanes)
        cells = padded.reshape(-1, padded.shape[2] // kernel.lanes, kernel.lanes)
        return cells.transpose(1, 0, 2).astype(np.int32)

    def words(self, kernel: ClusterKernel) -> np.ndarray:
        """Weight words (words, rows, lanes): block, word of channels, tap."""
        padded = _whole(_whole(self.weights, 0, kernel.rows), 3, kernel.lanes)
        count, rows, columns, channels = padded.shape
        words = padded.reshape(-1, kernel.rows, rows * columns, channels // kernel.lanes, kernel.lanes)
        assert len(words) * kernel.rows == count
        return words.transpose(0, 3, 2, 1, 4).reshape(-1, kernel.rows, kernel.lanes).astype(np.int32)

    def expected(self, kernel: ClusterKernel) -> list[np.ndarray]:
        """Rows of sums as they leave: block, group of pixels, row; each as long as it has pixels."""
        sums = wrap(_whole(self.outputs(), 2, kernel.rows), kernel.accumulator_bits)
        flat = sums.reshape(-1, sums.shape[2]).T
        return [
            flat[block + row, first : first + kernel.columns]
            for block in range(0, len(flat), kernel.rows)
            for first in range(0, flat.shape[1], kernel.columns)
            for row in range(kernel.rows)
        ]


def _whole(values: np.ndarray, axis: int, size: int) -> np.ndarray:
    """``values`` with zeros behind, so that an axis is whole pieces of ``size``."""
    behind = [(0, 0)] * values.ndim
    behind[axis] = (0, -values.shape[axis] % size)
    return np.pad(values, behind)


class _Start(ctypes.Structure):
    _fields_ = (
        ("descriptor", ctypes.c_void_p), ("operations", ctypes.c_int32), ("cell", ctypes.c_void_p),
        ("word", ctypes.c_void_p), ("words", ctypes.c_int32), ("slots", ctypes.c_int32), ("seed", ctypes.c_uint64),
        ("capacity", ctypes.c_int32), ("sum", ctypes.c_void_p), ("rows", ctypes.c_int32), ("credits", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    )  # fmt: skip


def _library(integers: Integers) -> ctypes.CDLL:
    return library("cluster_array", integers, SparseCluster())


@functools.cache
def kernels() -> list[ClusterKernel]:
    """The kernels of the library."""
    found: list[ClusterKernel] = []
    values = (ctypes.c_int32 * 15)()
    while _library("native").cluster_array_numbers(len(found), values) == 0:
        found.append(ClusterKernel(*values))
    return found


def run_layers(
    integers: Integers, number: int, layers: Sequence[ClusterLayer], slots: int = 1, seed: int = 0
) -> np.ndarray:
    """Rows of sums (rows, columns) as they left, of operations one after the other in one start."""
    kernel = kernels()[number]
    descriptors = np.stack([layer.descriptor(kernel).to_words() for layer in layers])
    cells = np.concatenate([layer.cells(kernel).ravel() for layer in layers])
    words = np.ascontiguousarray(np.concatenate([layer.words(kernel) for layer in layers]))
    capacity = 1 << 15
    sums = np.zeros((capacity, kernel.columns), np.int32)
    message = ctypes.create_string_buffer(256)
    start = _Start(
        descriptors.ctypes.data, len(layers), cells.ctypes.data, words.ctypes.data, len(words), slots, seed, capacity,
        sums.ctypes.data, 0, 0, ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    if _library(integers).cluster_array_run(number, ctypes.byref(start)):
        raise ClusterArrayError(message.value.decode())
    assert start.rows < capacity
    return sums[: start.rows]
