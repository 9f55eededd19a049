"""Runs maps on a tile in the place of the array (tests/cpp/tile_process.cpp)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cluster_units import UnitError, UnitLayer
from cpp_units import library
from map_words import map_cells, map_word, stop_map
from unit_words import UnitNumbers

from bfpga.devices.csim import Integers
from bfpga.engines.zero_skip_tile.tile_words import TOGETHER, EntryShape, TileWords, tile_words

LIBRARY = "tile_process"
BUILDS = range(4)


class _Maps(ctypes.Structure):
    _fields_ = (
        ("map", ctypes.c_void_p), ("maps", ctypes.c_int32), ("cell", ctypes.c_void_p), ("cells", ctypes.c_int32),
        ("kernel", ctypes.c_void_p), ("adding", ctypes.c_int64), ("others", ctypes.c_int64),
    )  # fmt: skip


@dataclass(frozen=True)
class TileSizes:
    """The numbers of a tile: as a unit has them, bits of a weight, rows and columns of sums, rows at once."""

    unit: UnitNumbers
    weight_bits: int
    rows: int
    columns: int
    parallel: int

    @property
    def largest(self) -> tuple[int, int]:
        """Rows and columns of cells of the largest map."""
        halo = self.unit.kernel[0] - 1
        return self.rows - halo, self.columns - halo

    def groups(self, rows: int) -> int:
        """Clocks of a weight on a map of so many rows of cells."""
        kernel = self.unit.kernel[0]
        return -(-(-(-(rows + kernel - 1) // kernel) * kernel) // self.parallel)

    @property
    def entries(self) -> EntryShape:
        """Sizes of its entries."""
        kernel, planes = self.unit.kernel[0], self.unit.planes
        return EntryShape(
            self.weight_bits, (kernel - 1).bit_length(), (planes - 1).bit_length(), min(planes, TOGETHER),
            planes * self.unit.lanes,
        )  # fmt: skip

    def stored(self, weights: np.ndarray) -> TileWords:
        """Weights (kernels, rows, columns, channels) of a block as stored words."""
        missing = self.unit.planes - len(weights), 0, 0, -weights.shape[3] % self.unit.lanes
        return tile_words(np.pad(weights, [(0, more) for more in missing])[None], self.entries)


@dataclass(frozen=True)
class TileRun:
    """sums: (blocks, cells) in the order in which they left. clocks: until the last but one; 0 where nobody counts.

    adding, others: steps that were read.
    """

    sums: np.ndarray
    clocks: int
    adding: int
    others: int


def sizes(number: int) -> TileSizes:
    """Those of a build."""
    values = (ctypes.c_int32 * 7)()
    assert library(LIBRARY, "native").tile_sizes(number, values) == 0
    lanes, kernel, planes, rows, columns, parallel, weight_bits = values
    unit = UnitNumbers(lanes, (kernel, kernel), planes, 4096, kernel * kernel * max(planes, 8))
    return TileSizes(unit, weight_bits, rows, columns, parallel)


def run_tile(
    integers: Integers, number: int, layers: list[tuple[np.ndarray, np.ndarray]], rarely: int = 0, room: int = 4,
    stored: Callable[[np.ndarray], np.ndarray] | None = None,
) -> TileRun:
    """Each layer: an image (rows, columns, channels) and weights (kernels, rows, columns, channels); ``UnitError``.

    stored: the words (words, cells) of the weights of a layer, if they are not those of the compiler.
    """  # fmt: skip
    unit = sizes(number).unit
    stored = stored or (lambda weights: sizes(number).stored(weights).words[0])
    maps, cells, kernels, words = [], [], [], []
    for image, weights in layers:
        rows, columns, channels = image.shape
        maps.append(map_word(rows, columns, channels, len(weights), unit))
        cells.append(map_cells(image, unit))
        kernels.append([-(-channels // unit.lanes), *weights.shape[1:3]])
        words.append(stored(weights))
    given_maps = np.ascontiguousarray(np.concatenate([*maps, stop_map()]), np.int32)
    values = np.ascontiguousarray(np.concatenate(cells), np.int32)
    of_kernels = np.ascontiguousarray(kernels, np.int32)
    lists = np.ascontiguousarray(np.concatenate(words), np.int32)
    capacity = 1 << 13
    sums, message = np.zeros((capacity, unit.cells), np.int64), ctypes.create_string_buffer(256)
    layer = UnitLayer(
        0, 0, lists.ctypes.data, len(lists), rarely, room, capacity, sums.ctypes.data, 0, 0, 0, 0, 0, 0,
        ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    given = _Maps(
        given_maps.ctypes.data, len(given_maps), values.ctypes.data, len(values), of_kernels.ctypes.data, 0, 0
    )
    if library(LIBRARY, integers).tile_run(number, ctypes.byref(layer), ctypes.byref(given)):
        raise UnitError(message.value.decode())
    assert layer.blocks <= capacity
    return TileRun(sums[: layer.blocks], layer.clocks, given.adding, given.others)
