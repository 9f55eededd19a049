"""Words that the units of a sparse cluster are fed with, and what they send: steps of kernels, pieces, outputs.

Blocks are kernel rows x kernel columns cells of the full grid, counted from the map's origin (E3). Numbers of a word
stand in the order of the fields in ``processes/sparse_cluster/beats.hpp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bfpga.contract.arrays.sparse_cluster import SUM_DISTANCE
from bfpga.engines.sparse_cluster.partition.geometry import Padding, Rectangle
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array, IntArray

#: Steps of a channel, at least: the next value is found meanwhile.
FEWEST_STEPS = 2


@dataclass(frozen=True)
class UnitNumbers:
    """The numbers of a unit: channels of a word, largest kernel, kernels in flight, blocks of a piece, steps."""

    lanes: int
    kernel: tuple[int, int]
    planes: int
    words: int
    steps: int

    @property
    def cells(self) -> int:
        return self.kernel[0] * self.kernel[1]


@dataclass(frozen=True)
class Blocks:
    """The blocks that hold the full grid of a piece: those from ``row``, ``column`` on."""

    row: int
    column: int
    rows: int
    columns: int

    @property
    def count(self) -> int:
        return self.rows * self.columns


def blocks_of(piece: Rectangle, numbers: UnitNumbers) -> Blocks:
    """The blocks of a piece of a map."""
    rows, columns = numbers.kernel
    row, column = piece.row0 // rows, piece.column0 // columns
    return Blocks(
        row,
        column,
        (piece.row1 + rows - 2) // rows - row + 1,
        (piece.column1 + columns - 2) // columns - column + 1,
    )


def kernel_steps(
    weights: IntArray, numbers: UnitNumbers, lanes: int | None = None, distance: int = SUM_DISTANCE
) -> list[IntArray]:
    """Sets of steps, one for each word of channels: (steps, cells + 3) numbers of each.

    weights: (kernels, rows, columns, channels), no more kernels than planes. lanes: weights of a step (R113), all
    those of a kernel if None. Steps without a weight are left out (R19); a kernel is met again ``distance`` steps later
    at the earliest, whichever channels' values follow each other.
    """
    kernels, rows, columns, channels = weights.shape
    if kernels > numbers.planes or rows > numbers.kernel[0] or columns > numbers.kernel[1]:
        raise ConfigurationError(
            f"{kernels} kernels of {rows} x {columns} do not fit a unit with {numbers.planes} of "
            f"{numbers.kernel[0]} x {numbers.kernel[1]}"
        )
    placed = np.zeros((kernels, *numbers.kernel, channels), np.int64)
    placed[:, numbers.kernel[0] - rows :, numbers.kernel[1] - columns :] = weights
    lists = [_channel_steps(placed[..., channel], lanes or numbers.cells, distance) for channel in range(channels)]
    lists += [[] for _ in range(-channels % numbers.lanes)]
    words = [_padded(each, _earliest(lists), numbers, distance) for each in lists]
    return [np.concatenate(words[first : first + numbers.lanes]) for first in range(0, len(words), numbers.lanes)]


#: Position of a step in its list, its kernel, its weights row after row.
_Step = tuple[int, int, Int64Array]


def _channel_steps(kernels: Int64Array, lanes: int, distance: int) -> list[_Step]:
    """Steps of one channel (kernels, rows, columns): ``lanes`` weights of every kernel, then the next ones of each."""
    found: list[_Step] = []
    flat = kernels.reshape(len(kernels), -1)
    places = [np.flatnonzero(each) for each in flat]
    next_free, earliest = 0, [0] * len(flat)
    for first in range(0, max(map(len, places), default=0), lanes):
        for kernel, own in enumerate(places):
            chosen = own[first : first + lanes]
            if len(chosen):
                position = max(next_free, earliest[kernel])
                step = np.zeros(flat.shape[1], np.int64)
                step[chosen] = flat[kernel, chosen]
                found.append((position, kernel, step))
                next_free, earliest[kernel] = position + 1, position + distance
    return found


def _earliest(lists: Sequence[Sequence[_Step]]) -> dict[int, int]:
    """Kernel -> the earliest position that it has in any list."""
    found: dict[int, int] = {}
    for each in lists:
        for position, kernel, _ in each:
            found[kernel] = min(position, found.get(kernel, position))
    return found


def _padded(steps: Sequence[_Step], earliest: dict[int, int], numbers: UnitNumbers, distance: int) -> IntArray:
    """The words of a list, with pauses, so that no kernel is met too early in the list behind it."""
    behind = [position + max(1, distance - earliest[kernel]) for position, kernel, _ in steps]
    length = max([FEWEST_STEPS, *behind])
    if length > numbers.steps:
        raise ConfigurationError(f"a channel takes {length} steps; a unit has {numbers.steps}")
    words = np.zeros((length, numbers.cells + 3), np.int32)
    for position, kernel, step in steps:
        words[position] = [*step, kernel, 1, 0]
    words[-1, -1] = 1
    return words


def piece_words(image: IntArray, piece: Rectangle, numbers: UnitNumbers, kernels: int) -> IntArray:
    """Words (words, lanes + 7) of a piece of ``image`` (rows, columns, channels), from its opening to its sums."""
    blocks = blocks_of(piece, numbers)
    if blocks.count > numbers.words:
        raise ConfigurationError(f"a piece takes {blocks.count} blocks; a unit has {numbers.words}")
    channels = -(-image.shape[2] // numbers.lanes) * numbers.lanes
    padded = np.zeros((*image.shape[:2], channels), np.int32)
    padded[..., : image.shape[2]] = image
    words = [_mark(numbers, 0, blocks.columns)]
    for first in range(0, channels, numbers.lanes):
        values = padded[piece.row0 : piece.row1, piece.column0 : piece.column1, first : first + numbers.lanes]
        rows, columns = np.nonzero(values.any(axis=2))
        places = np.zeros((len(rows), 7), np.int32)
        down, places[:, 1] = np.divmod(rows + piece.row0, numbers.kernel[0])
        across, places[:, 2] = np.divmod(columns + piece.column0, numbers.kernel[1])
        places[:, 0] = (down - blocks.row) * blocks.columns + across - blocks.column
        words += [np.concatenate((values[rows, columns], places), axis=1), _mark(numbers, 1, 0)]
    return np.concatenate([*words, _mark(numbers, 2, blocks.count - 1, kernels - 1)])


def stop_word(numbers: UnitNumbers) -> IntArray:
    """The word (1, lanes + 7) that ends a start."""
    return _mark(numbers, 3, 0)


def _mark(numbers: UnitNumbers, mark: int, place: int, value: int = 0) -> IntArray:
    word = np.zeros((1, numbers.lanes + 7), np.int32)
    word[0, 0], word[0, numbers.lanes], word[0, numbers.lanes + 3 + mark] = value, place, 1
    return word


def grid_of(
    sums: Int64Array, piece: Rectangle, numbers: UnitNumbers, kernels: int, kernel: tuple[int, int]
) -> Int64Array:
    """The full grid (kernels, rows + kernel rows - 1, columns + kernel columns - 1) in what a unit sent of a piece.

    sums: (blocks * kernels, cells). kernel: rows and columns, which may be fewer than the unit's.
    """
    blocks = blocks_of(piece, numbers)
    rows, columns = numbers.kernel
    cells = sums.reshape(blocks.rows, blocks.columns, kernels, rows, columns)
    whole = cells.transpose(2, 0, 3, 1, 4).reshape(kernels, blocks.rows * rows, blocks.columns * columns)
    top, left = piece.row0 - blocks.row * rows, piece.column0 - blocks.column * columns
    full_rows = piece.row1 - piece.row0 + kernel[0] - 1
    full_columns = piece.column1 - piece.column0 + kernel[1] - 1
    return whole[:, top : top + full_rows, left : left + full_columns]


def outputs_of(
    full: Int64Array, kernel: tuple[int, int], padding: Padding, stride: tuple[int, int], shape: tuple[int, int]
) -> Int64Array:
    """Outputs (kernels, rows, columns) of ``shape`` in the full grid (kernels, rows, columns) of a map (E4)."""
    room = [size * step + side for size, step, side in zip(shape, stride, kernel, strict=True)]
    around = np.pad(full, ((0, 0), (padding.top, room[0]), (padding.left, room[1])))
    rows, columns = (slice(side - 1, None, step) for side, step in zip(kernel, stride, strict=True))
    return around[:, rows, columns][:, : shape[0], : shape[1]]
