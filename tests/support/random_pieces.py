"""Pieces of random maps for the units of a cluster of processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from cluster_units import UnitBuild
from reference_sparse_cluster import full_grid
from unit_words import UnitNumbers, grid_of, piece_words

from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.formats.rounding import wrap


def random_numbers(generator: np.random.Generator, shape: tuple[int, ...], density: float, bits: int) -> np.ndarray:
    values = generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(generator.random(shape) < density, values, 0)


def largest_piece(numbers: UnitNumbers, generator: np.random.Generator, offset: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a piece at an offset that takes no more blocks than a unit has."""
    rows = int(generator.integers(1, 14))
    kernel_rows, kernel_columns = numbers.kernel
    down = (offset[0] + rows + kernel_rows - 2) // kernel_rows - offset[0] // kernel_rows + 1
    across = numbers.words // down
    most = (across - 1) * kernel_columns - kernel_columns + 2 - offset[1] % kernel_columns
    return rows, int(generator.integers(1, max(2, min(14, most + 1))))


def values_of_tiles(image: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """Values that are not zero of each tile (tile rows, tile columns, channels) of an image from a corner of one on."""
    padded = np.pad(image != 0, ((0, -image.shape[0] % tile[0]), (0, -image.shape[1] % tile[1]), (0, 0)))
    rows, columns, channels = padded.shape
    return padded.reshape(rows // tile[0], tile[0], columns // tile[1], tile[1], channels).sum(axis=(1, 3))


def piece_blocks(piece: Rectangle, numbers: UnitNumbers) -> list[tuple[int, int]]:
    """Blocks that hold a cell to which a value of the piece may add, one by one."""
    rows, columns = numbers.kernel
    return [
        (row, column)
        for row in range(piece.row0 // rows, (piece.row1 + rows - 2) // rows + 1)
        for column in range(piece.column0 // columns, (piece.column1 + columns - 2) // columns + 1)
    ]


@dataclass
class RandomPieces:
    """Pieces of up to three layers with kernels of one size, for a unit of ``build``; densities of maps and kernels.

    words: of each piece, as the unit is fed; expected: their full grids; both are there when the layers were drawn.
    """

    build: UnitBuild
    generator: np.random.Generator
    density: float
    kept: float
    pieces: list[Rectangle] = field(default_factory=list)
    words: list[np.ndarray] = field(default_factory=list)
    expected: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbers = self.build.numbers
        self.kernels = int(self.generator.integers(1, numbers.planes + 1))
        self.kernel = tuple(int(self.generator.integers(1, side + 1)) for side in numbers.kernel)
        self.channels = int(self.generator.integers(1, 2 * numbers.lanes + 2))

    def layers(self) -> Iterator[tuple[np.ndarray, np.ndarray, Rectangle]]:
        """Image (rows, columns, channels) that is zero above and left of the piece, weights (kernels, rows, columns,
        channels), the piece."""
        for _ in range(int(self.generator.integers(1, 4))):
            yield self._layer()

    def _layer(self) -> tuple[np.ndarray, np.ndarray, Rectangle]:
        build, generator = self.build, self.generator
        offset = int(generator.integers(0, 7)), int(generator.integers(0, 7))
        rows, columns = largest_piece(build.numbers, generator, offset)
        size = offset[0] + rows, offset[1] + columns
        image = random_numbers(generator, (*size, self.channels), self.density, build.value_bits)
        image[: offset[0]], image[:, : offset[1]] = 0, 0
        weights = random_numbers(generator, (self.kernels, *self.kernel, self.channels), self.kept, build.weight_bits)
        piece = Rectangle(*offset, *size)
        inside = image[piece.row0 :, piece.column0 :]
        sums = [
            sum(
                np.array(full_grid(inside[..., c].tolist(), weights[z, :, :, c].tolist())) for c in range(self.channels)
            )
            for z in range(self.kernels)
        ]
        self.expected.append(wrap(np.array(sums), build.accumulator_bits))
        self.pieces.append(piece)
        self.words.append(piece_words(image, piece, build.numbers, self.kernels))
        return image, weights, piece

    def check(self, found: np.ndarray) -> None:
        """Whether sums (blocks, cells), as they left, are those that were expected, and no more."""
        start = 0
        for piece, sums in zip(self.pieces, self.expected, strict=True):
            count = len(piece_blocks(piece, self.build.numbers)) * self.kernels
            got = grid_of(found[start : start + count], piece, self.build.numbers, self.kernels, self.kernel)
            np.testing.assert_array_equal(got, sums)
            start += count
        assert start == len(found)
